//! The report as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use bench::markdown::{ratios, table};
use stats::figures::{bytes, count, figure, maybe, ms};
use stats::{as_f64, as_ms};

use crate::report::Report;
use crate::results::Row;
use crate::waiters::{RECIPE, Waiters};

const HOW_TO_READ: &str = "\
- A closed loop: every contender acquires, releases and does so again at once. `raw` creates and deletes a node of its own \
and excludes nobody: the limit.
- **ops/s**: cycles that finished in the window, a second; with more than one contender each is a hand-off. Median over the \
repetitions.
- **p50**, **p99**: from the call of acquire to the confirmed release, of the cycles of all repetitions merged. Left out \
where fewer than ten values lie above, or where the loop did not come to its steady state in time.
- **requests**, **notifications**: packets that the server received and watch events that it sent, by its own counters just \
before and after the window, for each cycle in between. Median over the repetitions. A server notifies a session once for \
all of its waiters.
- **bytes**: in both directions for each cycle. The server does not count what it sends, so these come from one more \
repetition, not timed, through a proxy that counts.
";

/// The whole text.
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
        "ops/s",
        "p50 ms",
        "p99 ms",
        "requests / hand-off",
        "bytes / hand-off",
        "notifications / release",
    ];
    table(&mut text, header, &[0], report.rows.iter().map(row));
    for row in &report.rows {
        if let Some(missing) = &row.missing {
            let what = if missing.is_failure { "failed" } else { "not measured" };
            let _ = writeln!(text, "\n`{}` at {}: {what}: {}", row.implementation, row.contenders, missing.reason);
        }
    }
    let _ = writeln!(text, "\n{HOW_TO_READ}");
    text.push_str("## Ratios\n\nEach the median of what it is within every repetition.\n\n");
    ratios(&mut text, &report.ratios);
    if let Some(waiters) = &report.waiters {
        let _ = writeln!(text, "\n{}", served(waiters));
    }
    text
}

fn row(row: &Row) -> [String; 8] {
    [
        format!("`{}`", row.implementation),
        count(row.contenders.into()),
        maybe(row.ops_per_s),
        maybe(row.p50_ms),
        maybe(row.p99_ms),
        maybe(row.requests_per_handoff),
        maybe(row.bytes_per_handoff),
        maybe(row.notifications_per_release),
    ]
}

/// How the waiters were served, in a sentence.
fn served(waiters: &Waiters) -> String {
    let Waiters { waiters: all, sessions, outcome } = waiters;
    let who = format!("{} waiters of one `{}` over {sessions} sessions", count((*all).into()), RECIPE.name());
    match outcome {
        Ok((queued, drained)) => {
            let each = |total: u64| as_f64(total) / f64::from((*all).max(1));
            format!(
                "{} of {who}, all in the queue after {}, were served in one go within {}. Each hand-off took {} requests, \
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
        Report { conditions: vec!["2 cores".to_owned()], rows, ratios, waiters: Some(waiters) }
    }

    /// A line without the spaces that align it.
    fn squeezed(line: &str) -> String {
        line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_header() {
        let text = render(&report());
        let widths: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches(" | ").count()).collect();
        assert_eq!(widths, [7, 7, 7, 7, 4, 4, 4, 4]);
    }

    #[test]
    fn figures_stand_in_their_rows() {
        let text = render(&report());
        for line in [
            "- 2 cores",
            "| `mutex` | 30 | 1230 | 0.100 | 0.100 | – | – | – |",
            "| `kazoo` | 30 | – | – | – | – | – | – |",
            "`kazoo` at 30: not measured: too slow",
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
                "within 1500\u{202f}ms. Each hand-off took 2.00 requests, 1.00 notifications and 800\u{202f}B"
            )
        );
        let failed = Waiters { outcome: Err("session lost".to_owned()), ..waiters };
        assert!(served(&failed).ends_with("were not served: session lost"));
    }
}
