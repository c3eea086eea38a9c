//! The tables for programs.

use bench::{Error, Spread};
use serde::Serialize;

use crate::open_load::SESSIONS;
use crate::report::Report;
use crate::results::ClosedLoopRow;
use crate::waits::WaitRow;

/// One row. Absent figures were not measured.
#[derive(Debug, Serialize)]
struct JsonRow {
    r#impl: &'static str,
    sessions: u32,
    contenders: u32,
    cycles_per_s: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    requests_per_release: Option<f64>,
    bytes_per_release: Option<f64>,
    notifications_per_release: Option<f64>,
}

/// One row of the open load.
#[derive(Debug, Serialize)]
struct JsonWaits {
    r#impl: &'static str,
    sessions: u32,
    rate_per_s: u32,
    arrived: u64,
    granted: u64,
    dropped: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p50_by_curator: Option<JsonSpread>,
    p99_by_curator: Option<JsonSpread>,
}

/// A ratio over the repetitions.
#[derive(Debug, Serialize)]
struct JsonSpread {
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Debug, Serialize)]
struct JsonReport {
    closed_loop: Vec<JsonRow>,
    open_load: Vec<JsonWaits>,
}

/// Returns an object with an array for each of the two tables.
pub(crate) fn render(report: &Report) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(&JsonReport {
        closed_loop: report.rows.iter().map(JsonRow::of).collect(),
        open_load: report.waits.iter().map(JsonWaits::of).collect(),
    });
    text.map(|text| text + "\n").map_err(Error::refused("write bench-peers.json"))
}

impl JsonRow {
    fn of(row: &ClosedLoopRow) -> Self {
        Self {
            r#impl: row.implementation,
            sessions: row.sessions,
            contenders: row.contenders,
            cycles_per_s: rounded(row.cycles_per_s),
            p50_ms: rounded(row.p50_ms),
            p99_ms: rounded(row.p99_ms),
            requests_per_release: rounded(row.requests_per_release),
            bytes_per_release: rounded(row.bytes_per_release),
            notifications_per_release: rounded(row.notifications_per_release),
        }
    }
}

impl JsonWaits {
    fn of(row: &WaitRow) -> Self {
        Self {
            r#impl: row.implementation,
            sessions: SESSIONS,
            rate_per_s: row.rate_per_s,
            arrived: row.arrived,
            granted: row.granted,
            dropped: row.dropped,
            p50_ms: rounded(row.p50_ms),
            p99_ms: rounded(row.p99_ms),
            p50_by_curator: row.p50_ratio.map(JsonSpread::of),
            p99_by_curator: row.p99_ratio.map(JsonSpread::of),
        }
    }
}

impl JsonSpread {
    fn of(spread: Spread) -> Self {
        let [median, min, max] = [spread.median, spread.min, spread.max].map(|figure| rounded(Some(figure)));
        Self { median, min, max }
    }
}

/// Rounds to three decimals, beyond which every figure is noise.
fn rounded(figure: Option<f64>) -> Option<f64> {
    figure.map(|figure| (figure * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::results::tests::results;
    use crate::waits::tests::waited;
    use crate::waits::waits;

    /// Returns the parsed JSON of a report that has these tables only.
    fn json_of(rows: Vec<ClosedLoopRow>, waits: Vec<WaitRow>) -> Value {
        let report = Report { conditions: Vec::new(), rows, waits, ratios: Vec::new(), waiters: None };
        serde_json::from_str(&render(&report).unwrap()).unwrap()
    }

    #[test]
    fn a_row_has_its_fields_and_null_where_nothing_was_measured() {
        let rows = results(&[("mutex", 30, &[(1000, 100), (1001, 100)]), ("kazoo", 30, &[])]).rows();
        let expected = json!({ "open_load": [], "closed_loop": [
            {
                "impl": "kazoo", "sessions": 3, "contenders": 30, "cycles_per_s": null, "p50_ms": null, "p99_ms": null,
                "requests_per_release": null, "bytes_per_release": null, "notifications_per_release": null
            },
            {
                "impl": "mutex", "sessions": 3, "contenders": 30, "cycles_per_s": 1000.5, "p50_ms": 0.1, "p99_ms": 0.1,
                "requests_per_release": null, "bytes_per_release": null, "notifications_per_release": null
            },
        ]});
        assert_eq!(json_of(rows, Vec::new()), expected);
    }

    #[test]
    fn the_waits_have_rows_of_their_own_with_ratios_by_curator() {
        let waits = waits(&waited(&[("curator", &[2000]), ("mutex", &[1000])], 4));
        let half = json!({ "median": 0.5, "min": 0.5, "max": 0.5 });
        let expected = json!({ "closed_loop": [], "open_load": [
            {
                "impl": "curator", "sessions": 3, "rate_per_s": 500, "arrived": 1010, "granted": 1000, "dropped": 4,
                "p50_ms": 2.0, "p99_ms": 2.0, "p50_by_curator": null, "p99_by_curator": null
            },
            {
                "impl": "mutex", "sessions": 3, "rate_per_s": 500, "arrived": 1010, "granted": 1000, "dropped": 4,
                "p50_ms": 1.0, "p99_ms": 1.0, "p50_by_curator": half, "p99_by_curator": half
            },
        ]});
        assert_eq!(json_of(Vec::new(), waits), expected);
    }
}
