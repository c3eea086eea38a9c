//! The comparison as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use stats::figures as format;

use crate::judge::metrics::{Better, Column, Metric};
use crate::report::diff::Diff;
use crate::report::diff::rows::{Conclusion, Row};
use crate::report::table::{self, TextTable};
use crate::report::{Report, glossary};

/// The whole file.
pub(crate) fn render(report: &Report, metrics: &[&Metric]) -> String {
    let mut text = format!("# seckill lab: comparison\n\n{}\n\n", report.verdict.sentence);
    for detail in &report.verdict.details {
        let _ = writeln!(text, "- {detail}");
    }
    let _ = writeln!(text, "\n{}.\n", table::conditions(report));
    for reason in &report.verdict.reasons {
        let _ = writeln!(text, "**Verdict: {reason}.**\n");
    }
    table_lines(&mut text, &TextTable::of(report, metrics, Column::Wide));
    text.push('\n');
    for line in table::generator(report).iter().chain(&report.caveats) {
        let _ = writeln!(text, "- {line}");
    }
    let _ = writeln!(text, "\n## How to read it\n");
    for term in glossary::terms(metrics, Column::Wide) {
        let _ = writeln!(text, "- **{}**: {}", term.name, term.text);
    }
    text.push('\n');
    environment(&mut text, report);
    text
}

fn table_lines(text: &mut String, table: &TextTable<'_>) {
    let title = |(title, unit): (&str, &str)| format!("{title} {unit}").trim_end().replace('\u{ad}', "");
    let header: Vec<String> = table.header().into_iter().map(title).collect();
    let rules = (0..header.len()).map(|column| if column < table::TEXT_COLUMNS { "---" } else { "---:" });
    let rules: Vec<String> = rules.map(str::to_owned).collect();
    for row in [header, rules].into_iter().chain(table.rows()) {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
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
         | measured | {} |\n\
         | system | {} {}, kernel {}, {} × {} |\n\
         | Postgres | {} |\n\
         | ZooKeeper | {} |\n\
         | servers | {} |\n\
         | lock wait | {} |",
        report.generated_at,
        environment.loadgen_version,
        environment.code(),
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

/// What every figure means.
pub(crate) fn figures(metrics: &[&Metric]) -> String {
    let mut text = String::from("| key | figure | better | meaning |\n|---|---|---|---|\n");
    for metric in metrics {
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Zero => "zero",
            Better::Neither => "",
        };
        let _ = writeln!(text, "| `{}` | {} | {better} | {} |", metric.key, metric.name(), metric.definition);
    }
    text
}

/// What came of comparing runs, as a comment for a pull request: the verdict, what changed, how much did not, and what makes
/// the runs hard to compare.
pub(crate) fn diff(diff: &Diff, metrics: &[&Metric]) -> String {
    let of = |conclusion| diff.rows.iter().filter(move |row| row.conclusion == conclusion);
    let [worse, better, same, untold] =
        [Conclusion::Worse, Conclusion::Better, Conclusion::Same, Conclusion::CannotTell]
            .map(|of_rows| of(of_rows).count());
    let mut text =
        format!("### seckill lab: {worse} figures worse, {better} better, {same} the same, {untold} cannot tell\n\n");
    for reason in &diff.reasons {
        let _ = writeln!(text, "- **{reason}**");
    }
    let changed: Vec<&Row> = of(Conclusion::Worse).chain(of(Conclusion::Better)).collect();
    if !changed.is_empty() {
        text += "\n| strategy | users | figure | before | after | after ÷ before | p | |\n|---|--:|---|--:|--:|--:|--:|---|\n";
    }
    for row in changed {
        let metric = row.metric(metrics);
        let write = |value| metric.map_or_else(|| format::maybe(value), |metric| metric.write(value));
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            row.strategy,
            row.users,
            metric.map_or_else(|| row.figure.clone(), Metric::name),
            write(row.old),
            write(row.new),
            row.ratio(),
            format::p_value(row.p),
            if row.conclusion == Conclusion::Worse { "**worse**" } else { "better" }
        );
    }
    let _ = writeln!(text, "\nBefore: {}.\nAfter: {}.", diff.old.described(), diff.new.described());
    if !diff.caveats.is_empty() {
        text += "\n<details><summary>Differences of the runs</summary>\n\n";
        for caveat in &diff.caveats {
            let _ = writeln!(text, "- {caveat}");
        }
        text += "\n</details>\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::metrics::METRICS;
    use crate::report::fixture;

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report(), METRICS));
    }

    #[test]
    fn the_guide_to_the_report_has_every_figure() {
        let guide = include_str!("../../../docs/reports.md");
        let figures = figures(METRICS);
        assert!(guide.contains(&figures), "put this into docs/reports.md: loadgen report --figures\n{figures}");
    }

    #[test]
    fn every_row_of_the_table_has_as_many_cells() {
        let text = render(&fixture::report(), METRICS);
        let table =
            text.lines().skip_while(|line| !line.starts_with("| Strategy")).take_while(|line| line.starts_with('|'));
        let widths: Vec<usize> = table.map(|line| line.matches(" | ").count()).collect();
        assert_eq!(widths, [METRICS.iter().filter(|metric| metric.column <= Column::Wide).count() + 1; 6]);
    }
}
