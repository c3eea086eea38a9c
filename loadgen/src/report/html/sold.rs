//! The units sold: the audit of every trial.

use stats::figures::{self, ABSENT, things};

use crate::judge::finding::Finding;
use crate::judge::metrics::{Metric, OVERSOLD, PageTable};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{Mechanism, Promise};
use crate::report::Report;
use crate::report::html::columns::{cells, columns};
use crate::report::html::names::{is_unranked, name};
use crate::report::html::page::{
    Absent, Cell, Chart, Emphasis, Group, PageItem, PagePart, Table, TableColumn, TableRow,
};

/// The heading of strategies that sold wrongly.
pub(super) const UNRANKED: &str = "Sold wrongly, did not exclude, undecided, or unchecked: shown, never ranked";

pub(super) fn part(report: &Report, metrics: &[&Metric]) -> PagePart {
    let words = "Judged from the database after every trial, the warm-up included: units sold against units that there \
                 were, and what buyers were told against what was written.";
    PagePart {
        id: "sold",
        title: "What was sold",
        items: vec![
            PageItem::Paragraph(words.to_owned()),
            PageItem::Table(table(report, metrics)),
            PageItem::Charts(vec![chart(report)]),
        ],
    }
}

fn table(report: &Report, metrics: &[&Metric]) -> Table {
    let words = [TableColumn::words("Strategy"), TableColumn::words("Promise"), TableColumn::words("Kept")];
    let row = |result: &StrategyResult| {
        let words = [promise(result.promise), kept(result)];
        let cells = words.into_iter().chain(cells(metrics, PageTable::Sold, result)).collect();
        TableRow { name: name(report, result), cells }
    };
    Table {
        id: "table-sold",
        caption: "What each strategy sold".to_owned(),
        label: None,
        columns: words.into_iter().chain(columns(metrics, PageTable::Sold)).collect(),
        groups: groups(report, row),
    }
}

/// Groups the results as ranked, not ranked and not run, and makes each a row.
pub(super) fn groups(report: &Report, row: impl Fn(&StrategyResult) -> TableRow) -> Vec<Group> {
    groups_of(report, |_| true, row)
}

/// Groups some of the results in the same way.
pub(super) fn groups_of(
    report: &Report,
    is_wanted: impl Fn(&StrategyResult) -> bool,
    row: impl Fn(&StrategyResult) -> TableRow,
) -> Vec<Group> {
    let of = |is: &dyn Fn(&StrategyResult) -> bool| -> Vec<TableRow> {
        report.results.iter().filter(|result| is_wanted(result) && is(result)).map(&row).collect()
    };
    let groups = [
        Group { title: None, rows: of(&|result| result.trials > 0 && !is_unranked(result)) },
        Group { title: Some(UNRANKED), rows: of(&is_unranked) },
        Group { title: Some("Not run"), rows: of(&|result| result.trials == 0) },
    ];
    groups.into_iter().filter(|group| !group.rows.is_empty()).collect()
}

fn promise(promise: Promise) -> Cell {
    let (text, aside) = match promise {
        Promise::Oversells => ("oversells", "the control"),
        Promise::OversellsOnManyInstances => ("oversells", "on many instances"),
        Promise::SafeWhileSessionLives => ("safe", "while the session lives"),
        Promise::NeverOversells => ("never oversells", ""),
    };
    Cell::text(text).aside(aside)
}

fn kept(result: &StrategyResult) -> Cell {
    let is_expected = result.kept == Some(true) && result.bad_trials > 0;
    let (sign, mark) = match result.finding {
        Finding::Kept if is_expected => ("✓", Emphasis::Open),
        Finding::Kept => ("✓", Emphasis::Good),
        Finding::Broken => ("✗", Emphasis::Bad),
        Finding::Inconclusive | Finding::Dropped | Finding::Failing | Finding::Unchecked | Finding::LoadTooWeak => {
            ("?", Emphasis::Open)
        }
        Finding::NotRun => ("", Emphasis::None),
    };
    Cell::text(format!("{sign} {}", result.finding.describe(is_expected)).trim_start()).marked(mark)
}

fn chart(report: &Report) -> Chart {
    let word = |result: &StrategyResult| {
        let name = name(report, result);
        let trials = things(result.trials, "trial");
        let subject = result.subject();
        let theirs = report.trials.iter().filter(|trial| trial.is_of(&subject));
        let short = theirs.map(|trial| trial.audit.undersold + trial.audit.unsold_undecided).max().unwrap_or(0);
        let short = (short > 0).then(|| format!("up to {} short", things(figures::signed(short), "unit")));
        let oversold = OVERSOLD.value(result).filter(|oversold| *oversold > 0.0);
        let beyond = oversold.map(|oversold| {
            let median = result.oversold_median.map_or_else(|| ABSENT.to_owned(), figures::figure);
            format!("up to {} beyond the stock (median {median})", things(OVERSOLD.write(Some(oversold)), "unit"))
        });
        let found: Vec<String> = [beyond, short].into_iter().flatten().collect();
        let found = if found.is_empty() { "no unit too many and none too few".to_owned() } else { found.join(", ") };
        format!("{name}: {found} in {trials}")
    };
    let run = report.results.iter().filter(|result| result.trials > 0);
    Chart {
        id: "oversell",
        title: "Units beyond or short of the stock".to_owned(),
        caption: "Every dot is a trial, an open one the warm-up; trials with the same outcome lie side by side. On the line a \
                  trial sold no unit too many and none too few; right of it units were sold that did not exist, left of it buyers went \
                  away although units were left."
            .to_owned(),
        label: None,
        words: run.map(word).collect(),
        absent: report.trials.is_empty().then(|| Absent {
            why: "No trial was run to its end.".to_owned(),
            command: "loadgen compare --preset quick",
        }),
        wide: true,
    }
}

/// Names the mechanism that keeps the deductions of one SKU apart.
pub(super) fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::None => "nothing",
        Mechanism::Process => "process memory",
        Mechanism::Zookeeper => "ZooKeeper",
        Mechanism::Postgres => "Postgres",
    }
}
