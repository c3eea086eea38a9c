//! The table of the open load as Markdown.

use std::fmt::Write as _;

use bench::Spread;
use bench::markdown::{spread, table};
use stats::figures::{ABSENT, count, maybe};

use crate::open_load::SERVED_WITHIN;
use crate::waits::WaitRow;

const HOW_TO_READ: &str = "
- **Open load**: acquires arrive at this mean rate with random gaps, whether or not earlier ones were granted. Each is released as \
soon as it is granted. Within a repetition the gaps are the same for all implementations.
- **p50**, **p99**: from the intended arrival to the grant, of all repetitions together.
- **p50 ÷ curator**, **p99 ÷ curator**: the median of the ratios within each repetition, and their range.
";

/// Appends the section, unless there are no rows.
pub(super) fn append(text: &mut String, rows: &[WaitRow]) {
    if rows.is_empty() {
        return;
    }
    text.push_str("\n## Waits in an open load\n\n");
    let header = [
        "implementation",
        "arrivals/s",
        "arrived",
        "granted",
        "p50 ms",
        "p99 ms",
        "p50 ÷ curator",
        "p99 ÷ curator",
        "dropped",
    ];
    table(text, header, &[0], rows.iter().map(row));
    for remark in rows.iter().flat_map(remarks) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{remark}");
    }
    text.push_str(HOW_TO_READ);
}

fn row(row: &WaitRow) -> [String; 9] {
    [
        format!("`{}`", row.implementation),
        count(row.rate_per_s.into()),
        count(row.arrived),
        count(row.granted),
        maybe(row.p50_ms),
        maybe(row.p99_ms),
        ratio(row.p50_ratio),
        ratio(row.p99_ratio),
        count(row.dropped),
    ]
}

fn ratio(ratio: Option<Spread>) -> String {
    ratio.map_or(ABSENT.to_owned(), |ratio| {
        let [median, range] = spread(Some(ratio));
        format!("{median} ({range})")
    })
}

/// Writes what qualifies a row.
fn remarks(row: &WaitRow) -> Vec<String> {
    let which = format!("`{}` at {}/s", row.implementation, count(row.rate_per_s.into()));
    let mut remarks = Vec::new();
    if let Some(missing) = &row.missing {
        let what = if missing.is_failure { "failed" } else { "not measured" };
        remarks.push(format!("{which}: {what}: {}", missing.reason));
    }
    if row.dropped + row.cut_off() > 0 {
        remarks.push(format!(
            "{which}: {} acquires were dropped, and {} were not granted within {} of the last arrival. The quantiles are \
             without them, so they are too low.",
            count(row.dropped),
            count(row.cut_off()),
            humantime::format_duration(SERVED_WITHIN),
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Missing;
    use crate::waits::tests::waited;
    use crate::waits::waits;

    fn rendered(rows: &[WaitRow]) -> String {
        let mut text = String::new();
        append(&mut text, rows);
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
    }

    #[test]
    fn a_row_has_the_waits_and_their_ratios_by_curator() {
        let text = rendered(&waits(&waited(&[("curator", &[2000, 1000]), ("mutex", &[1000, 1000])], 0)));
        for line in [
            "| `curator` | 500 | 2020 | 2000 | 1.00 | 2.00 | – | – | 0 |",
            "| `mutex` | 500 | 2020 | 2000 | 1.00 | 1.00 | 0.750 (0.500..1.00) | 0.750 (0.500..1.00) | 0 |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_row_that_lacks_waits_says_so() {
        let mut rows = waits(&waited(&[("mutex", &[1000])], 4));
        rows[0].missing = Some(Missing { reason: "session lost".to_owned(), is_failure: true });
        let text = rendered(&rows);
        assert!(text.contains("\n`mutex` at 500/s: failed: session lost\n"), "{text}");
        let remark =
            "\n`mutex` at 500/s: 4 acquires were dropped, and 6 were not granted within 10s of the last arrival.";
        assert!(text.contains(remark), "{text}");
    }

    #[test]
    fn without_an_open_load_there_is_no_section() {
        assert_eq!(rendered(&[]), "");
    }
}
