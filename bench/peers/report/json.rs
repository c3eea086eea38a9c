//! The rows for programs.

use serde::Serialize;

use crate::error::Error;
use crate::results::Row;

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

/// An array with an object for each row.
///
/// # Errors
///
/// [`Error::Report`] when a figure is none that JSON knows.
pub(crate) fn render(rows: &[Row]) -> Result<String, Error> {
    let rows: Vec<JsonRow> = rows.iter().map(JsonRow::of).collect();
    let text = serde_json::to_string_pretty(&rows);
    text.map(|text| text + "\n").map_err(|error| Error::Report { what: "bench-peers.json", reason: error.to_string() })
}

impl JsonRow {
    fn of(row: &Row) -> Self {
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

/// To three decimals, beyond which every figure is noise.
fn rounded(figure: Option<f64>) -> Option<f64> {
    figure.map(|figure| (figure * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::results::tests::results;

    #[test]
    fn a_row_has_its_fields_and_null_where_nothing_was_measured() {
        let rows = results(&[("mutex", 30, &[(1000, 100), (1001, 100)]), ("kazoo", 30, &[])]).rows();
        let found: Value = serde_json::from_str(&render(&rows).unwrap()).unwrap();
        let expected = json!([
            {
                "impl": "kazoo", "sessions": 3, "contenders": 30, "cycles_per_s": null, "p50_ms": null, "p99_ms": null,
                "requests_per_release": null, "bytes_per_release": null, "notifications_per_release": null
            },
            {
                "impl": "mutex", "sessions": 3, "contenders": 30, "cycles_per_s": 1000.5, "p50_ms": 0.1, "p99_ms": 0.1,
                "requests_per_release": null, "bytes_per_release": null, "notifications_per_release": null
            },
        ]);
        assert_eq!(found, expected);
    }
}
