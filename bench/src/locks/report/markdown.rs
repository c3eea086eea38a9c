//! The report as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use bench::markdown::{ratios, table};
use stats::figures::{bytes, count, figure, maybe, ms};
use stats::glossary::{self, Term};
use stats::{as_f64, as_ms};

use crate::report::{Report, waits};
use crate::results::ClosedLoopRow;
use crate::waiters::{RECIPE, Waiters};

/// What these words mean in this report. The glossary says what they mean in all reports.
const HOW_TO_READ: &str = "\
- **Cycle**: every contender acquires the lock, releases it, and does so again at once. With more than one contender, each cycle \
is one hand-over. `raw` creates and deletes a node of its own and excludes nobody. In `raw-write` \
each cycle is one durable write, sent when the last one was answered.
- **cycles/s**: cycles that finished in the window, per second. Median over the repetitions.
- **p50**, **p99**: from the call of `acquire` to the confirmed release, of the cycles of all repetitions together. They are \
absent where the loop did not reach its steady state in time.
- **requests**, **notifications**: what the server's own counters grew by in the window, per cycle. Median over the repetitions.
- **bytes**: per cycle, in one more repetition through a proxy that counts, which is not timed. The server does not count what it \
sends.
";

/// The words of the table whose meaning all reports share.
const WORDS: [Term; 6] = [
    glossary::QUANTILES,
    glossary::RELEASE,
    glossary::HANDOVER,
    glossary::NOTIFICATIONS,
    glossary::REQUESTS,
    glossary::BYTES,
];

/// Writes the whole text.
pub(crate) fn render(report: &Report) -> String {
    let mut text = String::from("# Locks side by side\n\n");
    for condition in &report.conditions {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "- {condition}");
    }
    text.push('\n');
    let header = [
        "implementation",
        "contenders",
        "cycles/s",
        "p50 ms",
        "p99 ms",
        "requests per release",
        "bytes per release",
        "notifications per release",
    ];
    table(&mut text, header, &[0], report.rows.iter().map(row));
    for row in &report.rows {
        if let Some(missing) = &row.missing {
            let what = if missing.is_failure { "failed" } else { "not measured" };
            let _ = writeln!(text, "\n`{}` at {}: {what}: {}", row.implementation, row.contenders, missing.reason);
        }
    }
    text.push_str("\n## How to read it\n\n");
    text.push_str(HOW_TO_READ);
    for Term { name, text: meaning } in WORDS {
        let _ = writeln!(text, "- **{name}**: {meaning}");
    }
    waits::append(&mut text, &report.waits);
    text.push_str("\n## Ratios\n\nEach the median of what it is within every repetition.\n\n");
    ratios(&mut text, &report.ratios);
    if let Some(waiters) = &report.waiters {
        let _ = writeln!(text, "\n{}", served(waiters));
    }
    text
}

fn row(row: &ClosedLoopRow) -> [String; 8] {
    [
        format!("`{}`", row.implementation),
        count(row.contenders.into()),
        maybe(row.cycles_per_s),
        maybe(row.p50_ms),
        maybe(row.p99_ms),
        maybe(row.requests_per_release),
        maybe(row.bytes_per_release),
        maybe(row.notifications_per_release),
    ]
}

/// Writes in a sentence how the waiters were served.
fn served(waiters: &Waiters) -> String {
    let Waiters { waiters: all, sessions, outcome } = waiters;
    let who = format!("{} waiters of one `{}` over {sessions} sessions", count((*all).into()), RECIPE.name());
    match outcome {
        Ok((queued, drained)) => {
            let each = |total: u64| as_f64(total) / f64::from((*all).max(1));
            format!(
                "{} of {who}, all in the queue after {}, were served in one go within {}. Each hand-over took {} requests, \
                 {} notifications and {} by the sessions' own count; the requests of queueing came before.",
                count(drained.served.min(drained.tokens).into()),
                ms(as_ms(*queued)),
                ms(as_f64(drained.elapsed_us) / 1e3),
                figure(each(drained.requests)),
                figure(each(drained.notifications)),
                bytes(each(drained.bytes)),
            )
        }
        Err(reason) => format!("{who} were not served: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bench::{Goal, Ratio, Spread};

    use super::*;
    use crate::protocol::Drained;
    use crate::results::Missing;
    use crate::results::tests::results;
    use crate::waits::tests::waited;
    use crate::waits::waits;

    fn report() -> Report {
        let mut rows = results(&[("mutex", 30, &[(1234, 100)]), ("kazoo", 30, &[])]).rows();
        rows[0].missing = Some(Missing { reason: "too slow".to_owned(), is_failure: false });
        let ratios = vec![
            Ratio {
                name: "mutex ÷ curator".to_owned(),
                goal: Goal::AtLeast(2.5),
                spread: Spread::of(&[2.0, 2.6, 3.0]),
            },
            Ratio { name: "handoff ÷ curator".to_owned(), goal: Goal::AtLeast(7.0), spread: None },
        ];
        let drained =
            Drained { served: 50, tokens: 50, elapsed_us: 1_500_000, requests: 100, notifications: 50, bytes: 40_000 };
        let waiters = Waiters { waiters: 50, sessions: 1, outcome: Ok((Duration::from_millis(300), drained)) };
        let waits = waits(&waited(&[("curator", &[2000]), ("mutex", &[1000])], 0));
        Report { conditions: vec!["2 cores".to_owned()], rows, waits, ratios, waiters: Some(waiters) }
    }

    /// Returns a line without the spaces that align it.
    fn squeezed(line: &str) -> String {
        line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_header() {
        let text = render(&report());
        let widths: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count()).collect();
        assert_eq!(widths, [7, 7, 7, 7, 8, 8, 8, 8, 4, 4, 4, 4]);
    }

    #[test]
    fn figures_stand_in_their_rows() {
        let text = render(&report());
        for line in [
            "- 2 cores",
            "| `mutex` | 30 | 1230 | 0.100 | 0.100 | – | – | – |",
            "| `kazoo` | 30 | – | – | – | – | – | – |",
            "`kazoo` at 30: not measured: too slow",
            "| `mutex` | 500 | 1010 | 1000 | 1.00 | 1.00 | 0.500 (0.500..0.500) | 0.500 (0.500..0.500) | 0 |",
            "| mutex ÷ curator | ≥ 2.5 | 2.60 | 2.00..3.00 | yes |",
            "| handoff ÷ curator | ≥ 7 | – | – | – |",
        ] {
            assert!(text.lines().any(|found| squeezed(found) == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_waiters_are_told_in_a_sentence() {
        let served = |waiters: &Waiters| super::served(waiters);
        let waiters = report().waiters.unwrap();
        assert!(served(&waiters).starts_with("50 of 50 waiters of one `"), "{}", served(&waiters));
        assert!(
            served(&waiters).contains(
                "within 1500\u{202f}ms. Each hand-over took 2.00 requests, 1.00 notifications and 800\u{202f}B"
            )
        );
        let failed = Waiters { outcome: Err("session lost".to_owned()), ..waiters };
        assert!(served(&failed).ends_with("were not served: session lost"));
    }
}
