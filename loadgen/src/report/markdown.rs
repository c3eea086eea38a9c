//! The comparison as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use crate::judge::diff::Diff;
use crate::judge::diff::rows::{Conclusion, Row};
use crate::judge::metrics::{Better, Metric, TableWidth};
use crate::judge::nouns::SubjectKind;
use crate::report::table::{self, COMPARED, TextTable, compared, titles};
use crate::report::{Report, glossary};

/// Renders the whole file.
pub(crate) fn render(report: &Report, metrics: &[&Metric]) -> String {
    let metrics = &report.shown(metrics)[..];
    let title = if report.is_of_lab() { "seckill lab: comparison".to_owned() } else { report.title_of_shops() };
    let mut text = format!("# {title}\n\n{}\n\n", report.verdict.sentence);
    for detail in &report.verdict.details {
        let _ = writeln!(text, "- {detail}");
    }
    let _ = writeln!(text, "\n{}.\n", table::conditions(report));
    for reason in &report.verdict.reasons {
        let _ = writeln!(text, "**Verdict: {reason}.**\n");
    }
    table_lines(&mut text, &TextTable::of(report, metrics, TableWidth::Wide));
    text.push('\n');
    if let Some(builds) = &report.builds {
        let _ = writeln!(text, "## {} against {}\n", builds.new.name, builds.old.name);
        figures_of(&mut text, builds, builds.rows.iter(), metrics);
        let caveats = builds.caveats.iter().map(String::as_str);
        for line in [COMPARED].into_iter().chain(caveats) {
            let _ = writeln!(text, "- {line}");
        }
    }
    for line in table::generator(report).iter().chain(&report.caveats) {
        let _ = writeln!(text, "- {line}");
    }
    reproductions(&mut text, report);
    let _ = writeln!(text, "\n## How to read it\n");
    for term in glossary::terms(report, metrics, TableWidth::Wide) {
        let _ = writeln!(text, "- **{}**: {}", term.name, term.text);
    }
    text.push('\n');
    environment(&mut text, report);
    text
}

/// Writes the scripts that make shops sell wrongly, and why others have none.
fn reproductions(text: &mut String, report: &Report) {
    if report.reproductions.is_empty() && report.unreproduced.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## How to reproduce it");
    for reproduction in &report.reproductions {
        let _ = writeln!(text, "\n{}\n\n```sh\n{}```", reproduction.describe(), reproduction.script);
    }
    if !report.unreproduced.is_empty() {
        text.push('\n');
    }
    for line in &report.unreproduced {
        let _ = writeln!(text, "- {line}");
    }
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
    let kernel = environment.kernel.clone().unwrap_or_else(unknown);
    let cores = environment.cpu_count;
    let processor = environment.cpu_model.as_deref().unwrap_or("core");
    let system = format!("{} {}, kernel {kernel}, {cores} × {processor}", environment.os, environment.arch);
    let mut rows = vec![("ended", report.generated_at.clone()), ("loadgen", environment.loadgen_version.clone())];
    if report.is_of_lab() {
        let servers = if environment.servers_throwaway { "started for this comparison" } else { "given" };
        rows.extend([
            ("measured", environment.code()),
            ("system", system),
            ("Postgres", environment.postgres_version.clone().unwrap_or_else(unknown)),
            ("ZooKeeper", environment.zookeeper_version.clone().unwrap_or_else(unknown)),
        ]);
        rows.extend(environment.redis_version.clone().map(|version| ("Redis", version)));
        rows.extend([
            ("servers", servers.to_owned()),
            ("lock wait", report.schedule.lock_wait_ms.map_or_else(unknown, |wait| format!("{wait} ms"))),
        ]);
    } else {
        let name = if report.schedule.is_logged() { "system of the judge" } else { "system" };
        rows.push((name, system));
        rows.extend(report.schedule.shops.iter().map(|shop| ("shop", table::at_addresses(shop))));
    }
    let _ = writeln!(text, "## Environment\n\n| | |\n|---|---|");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
    }
}

/// Renders a table of what every figure means.
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

/// Renders the comparison of two sides as a comment for a pull request: the verdict, the changes, the number of figures
/// without one, and what makes the sides hard to compare.
pub(crate) fn diff(diff: &Diff, metrics: &[&Metric]) -> String {
    let what = match diff.subject {
        SubjectKind::Strategy => "seckill lab",
        SubjectKind::Shop => "check",
    };
    let mut text = format!("### {what}, {} against {}: {}\n\n", diff.new.name, diff.old.name, diff.counted());
    for reason in &diff.reasons {
        let _ = writeln!(text, "- **{reason}**");
    }
    text.push('\n');
    let changed = diff.with(Conclusion::Worse).chain(diff.with(Conclusion::Better));
    figures_of(&mut text, diff, changed, metrics);
    let _ = writeln!(text, "<details><summary>All figures</summary>\n");
    figures_of(&mut text, diff, diff.rows.iter(), metrics);
    let _ = writeln!(text, "{COMPARED}\n\n</details>\n");
    for side in [&diff.old, &diff.new] {
        let _ = writeln!(text, "- {}: {}", side.name, side.described());
    }
    if !diff.caveats.is_empty() {
        text += "\n<details><summary>Differences of the sides</summary>\n\n";
        for caveat in &diff.caveats {
            let _ = writeln!(text, "- {caveat}");
        }
        text += "\n</details>\n";
    }
    text
}

/// Writes a table of these figures, if there are any.
fn figures_of<'a>(text: &mut String, diff: &Diff, rows: impl Iterator<Item = &'a Row>, metrics: &[&Metric]) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let titles = titles(diff).join(" | ");
    let one = diff.subject.nouns().one;
    let _ = writeln!(text, "| {one} | users | {titles} |\n|---|--:|---|---|--:|--:|--:|--:|---|");
    for row in rows {
        let cells = compared(row, metrics).join(" | ");
        let _ = writeln!(text, "| `{}` | {} | {cells} |", row.named(), row.users);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::metrics::METRICS;
    use crate::report::{fixture, shop_fixture};

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report(), METRICS));
    }

    #[test]
    fn a_check_of_two_shops() {
        let report = shop_fixture::wrong_shop_beside_right();
        insta::assert_snapshot!(render(&report, &report.metrics()));
    }

    #[test]
    fn one_build_against_the_other() {
        insta::assert_snapshot!(diff(&fixture::builds("zk-mutex").builds.unwrap(), METRICS));
    }

    #[test]
    fn a_comparison_of_two_builds_has_all_figures_of_both() {
        let text = render(&fixture::builds("zk-mutex"), METRICS);
        assert!(
            text.contains("## head against base") && text.contains("| `zk-mutex` | 300 | p50 ms | pair |"),
            "{text}"
        );
        assert!(text.contains("| zk-mutex of base |") && text.contains("- **Build, pair**: "), "{text}");
    }

    #[test]
    fn the_guide_to_the_report_has_every_figure() {
        let guide = include_str!("../../../docs/reports.md");
        let figures = figures(METRICS);
        assert!(guide.contains(&figures), "put this into docs/reports.md: loadgen report --figures\n{figures}");
    }

    #[test]
    fn every_row_of_the_table_has_as_many_cells() {
        let report = fixture::report();
        let text = render(&report, METRICS);
        let table =
            text.lines().skip_while(|line| !line.starts_with("| Strategy")).take_while(|line| line.starts_with('|'));
        let shown = report.shown(METRICS);
        let widths: Vec<usize> = table.map(|line| line.matches(" | ").count()).collect();
        assert_eq!(widths, [shown.iter().filter(|metric| metric.column <= TableWidth::Wide).count() + 1; 6]);
    }
}
