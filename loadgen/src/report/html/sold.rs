//! What was sold: the audit of every trial.

use crate::judge::finding::{Finding, count_of};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{Mechanism, Promise};
use crate::report::Report;
use crate::report::html::figures::{self, ABSENT};
use crate::report::html::names::{is_unranked, name};
use crate::report::html::page::{Absent, Block, Cell, Chart, Column, Group, Mark, Row, Section, Table};

/// What stands above the rows of strategies that sold wrongly.
pub(super) const UNRANKED: &str = "Sold wrongly, did not exclude, or undecided: shown, never ranked";

pub(super) fn section(report: &Report) -> Section {
    let words = "Judged from the database after every trial, the warm-up included: units sold against units that there \
                 were, and what buyers were told against what was written.";
    Section {
        id: "sold",
        title: "What was sold",
        blocks: vec![
            Block::Paragraph(words.to_owned()),
            Block::Table(table(report)),
            Block::Charts(vec![chart(report)]),
        ],
    }
}

fn table(report: &Report) -> Table {
    let columns = vec![
        Column::words("Strategy"),
        Column::words("Promise"),
        Column::words("Kept"),
        Column::figures("Bad trials", "of all"),
        Column::figures("Oversold", "units, worst"),
        Column::figures("Undersold", "units, worst"),
        Column::figures("Lost updates", "worst"),
        Column::figures("Sold twice", "worst"),
        Column::words("Ledger"),
        Column::figures("Overlaps", "all trials"),
        Column::figures("Token regressions", "all trials"),
        Column::figures("Indeterminate", "orders"),
    ];
    let row = |result: &StrategyResult| Row { name: name(report, result), cells: cells(result) };
    Table {
        id: "table-sold",
        caption: "What each strategy sold".to_owned(),
        label: None,
        columns,
        groups: groups(report, row),
    }
}

/// The results that are ranked, those that are not, and those that were not run, each made a row.
pub(super) fn groups(report: &Report, row: impl Fn(&StrategyResult) -> Row) -> Vec<Group> {
    groups_of(report, |_| true, row)
}

/// The same of some of the results.
pub(super) fn groups_of(
    report: &Report,
    is_wanted: impl Fn(&StrategyResult) -> bool,
    row: impl Fn(&StrategyResult) -> Row,
) -> Vec<Group> {
    let of = |is: &dyn Fn(&StrategyResult) -> bool| -> Vec<Row> {
        report.results.iter().filter(|result| is_wanted(result) && is(result)).map(&row).collect()
    };
    let groups = [
        Group { title: None, rows: of(&|result| result.trials > 0 && !is_unranked(result)) },
        Group { title: Some(UNRANKED), rows: of(&is_unranked) },
        Group { title: Some("Not run"), rows: of(&|result| result.trials == 0) },
    ];
    groups.into_iter().filter(|group| !group.rows.is_empty()).collect()
}

fn cells(result: &StrategyResult) -> Vec<Cell> {
    let mut cells = vec![promise(result.promise), kept(result)];
    if result.trials == 0 {
        cells.extend((0..9).map(|_| Cell::text(ABSENT)));
        return cells;
    }
    let bound = format!("≤ {}", figures::percent(result.bad_trial_rate_upper_95));
    let bad = Cell {
        text: format!("{}/{}", result.bad_trials, result.trials),
        sort: Some(f64::from(result.bad_trials) / f64::from(result.trials)),
        aside: bound,
        ..Cell::default()
    };
    let bad = if result.bad_trials > 0 { bad.marked(Mark::Bad) } else { bad };
    let oversold = Cell::signed(result.oversold_max).bad_unless_zero();
    let rate = if result.oversold_max > 0 { figures::percent(result.oversell_rate_max) } else { String::new() };
    cells.extend([
        bad,
        oversold.aside(rate),
        Cell::signed(result.undersold_max).bad_unless_zero(),
        Cell::signed(result.lost_updates_max).bad_unless_zero(),
        Cell::count(Some(result.double_sales_max)).bad_unless_zero(),
        if result.ledger_balanced { Cell::text("balanced") } else { Cell::text("✗ not balanced").marked(Mark::Bad) },
        Cell::count(result.overlaps).bad_unless_zero(),
        Cell::count(result.token_regressions).bad_unless_zero(),
        Cell::count(Some(result.indeterminate)),
    ]);
    cells
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
    match result.finding {
        Finding::Kept if result.bad_trials > 0 => Cell::text("✓ oversold").aside("as it has to").marked(Mark::Open),
        Finding::Kept => Cell::text("✓ yes").marked(Mark::Good),
        Finding::Broken => Cell::text("✗ NO").marked(Mark::Bad),
        Finding::Inconclusive => Cell::text("? refused or failed").marked(Mark::Open),
        Finding::LoadTooWeak => Cell::text("? load too weak").marked(Mark::Open),
        Finding::NotRun => Cell::text("not run"),
    }
}

fn chart(report: &Report) -> Chart {
    let word = |result: &StrategyResult| {
        let (name, trials) = (name(report, result), count_of(u64::from(result.trials), "trial"));
        let theirs =
            report.trials.iter().filter(|trial| trial.strategy == result.strategy && trial.users == result.users);
        let short = theirs.map(|trial| trial.audit.undersold + trial.audit.unsold_undecided).max().unwrap_or(0);
        let short = (short > 0).then(|| format!("up to {} units short", figures::signed(short)));
        let beyond = (result.oversold_max > 0).then(|| {
            let median = result.oversold_median.map_or_else(|| ABSENT.to_owned(), figures::figure);
            format!("up to {} units beyond the stock (median {median})", figures::signed(result.oversold_max))
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

/// What keeps the deductions of one SKU apart, in a word or two.
pub(super) fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::None => "nothing",
        Mechanism::Process => "process memory",
        Mechanism::Zookeeper => "ZooKeeper",
        Mechanism::Postgres => "Postgres",
    }
}
