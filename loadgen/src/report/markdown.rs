//! The comparison as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use crate::report::{Report, table};

const HOW_TO_READ: &str = "\
- **kept**: whether the strategy did what it promises. A control is expected to oversell: if it does not, the load \
was too weak to prove anything. \"Refused or failed\": so many buyers got no decision that units were left, or the \
books of a trial that had not come to rest do not balance, which proves nothing either way.
- **bad trials**: trials that sold a unit too many or too few, lost an update, sold a unit twice, or told a buyer \
something that the database denies; the warm-up is judged, too. In brackets the exact one-sided 95 % upper bound of \
their rate among the trials that prove anything: a few good trials prove little.
- **oversold**, **undersold**: units, in the worst trial. Undersold are units that buyers wanted and did not get, \
although one of them was told \"sold out\".
- **overlaps**: critical sections that were entered while as many others were inside as the lock permits, by the \
instances' own clocks; – where sections may overlap.
- **times**: of the buyers who got a unit, all trials merged, from the instant at which the request was meant to start \
to the last byte of the answer. A quantile that the sample cannot carry (fewer than ten values above it) is left out.
- **ratio**: of the median times, paired within blocks, with its 95 % bootstrap interval over the blocks. ~: an exact \
signed-rank test with Holm's correction finds no difference, or it is within 5 %. ?: too few trials to find any. \
Strategies that sold wrongly, or that were not decided, are shown, and never ranked or related to the reference.
- **notifications/release**: watch events that ZooKeeper sent for each lock release, and in brackets what is to be \
expected when all users wait at once. Left out when buyers got no decision, as nobody knows what they released.
- **requests/sale**: requests to ZooKeeper for each unit sold.
";

/// The whole file.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!("# Flash-sale comparison\n\n{}\n\n", report.verdict.sentence);
    let _ = writeln!(text, "{}.\n", table::conditions(report));
    for reason in &report.verdict.reasons {
        let _ = writeln!(text, "**Verdict: {reason}.**\n");
    }
    table_lines(&mut text, report);
    text.push('\n');
    for line in table::generator(report).iter().chain(&report.caveats) {
        let _ = writeln!(text, "- {line}");
    }
    let _ = writeln!(text, "\n## How to read it\n\n{HOW_TO_READ}");
    environment(&mut text, report);
    text
}

fn table_lines(text: &mut String, report: &Report) {
    let header = table::header(report);
    let rules = (0..header.len()).map(|column| if column < table::TEXT_COLUMNS { "---" } else { "---:" });
    let rules: Vec<String> = rules.map(str::to_owned).collect();
    for row in [header, rules].into_iter().chain(table::rows(report)) {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn environment(text: &mut String, report: &Report) {
    let environment = &report.environment;
    let unknown = || "unknown".to_owned();
    let _ = writeln!(
        text,
        "## Environment\n\n\
         | | |\n|---|---|\n\
         | ended | {} |\n\
         | loadgen | {} |\n\
         | system | {} {}, kernel {}, {} × {} |\n\
         | Postgres | {} |\n\
         | ZooKeeper | {} |\n\
         | servers | {} |\n\
         | lock wait | {} |",
        report.generated_at,
        environment.loadgen_version,
        environment.os,
        environment.arch,
        environment.kernel.clone().unwrap_or_else(unknown),
        environment.cpu_count,
        environment.cpu_model.as_deref().unwrap_or("core"),
        environment.postgres_version,
        environment.zookeeper_version.clone().unwrap_or_else(unknown),
        if environment.servers_throwaway { "started for this comparison" } else { "given" },
        report.plan.lock_wait_ms.map_or_else(unknown, |wait| format!("{wait} ms")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report()));
    }

    #[test]
    fn every_row_of_the_table_has_as_many_cells() {
        let text = render(&fixture::report());
        let table =
            text.lines().skip_while(|line| !line.starts_with("| strategy")).take_while(|line| line.starts_with('|'));
        let widths: Vec<usize> = table.map(|line| line.matches(" | ").count()).collect();
        assert_eq!(widths, [14; 6]);
    }
}
