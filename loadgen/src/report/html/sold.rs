//! The units sold: the audit of every trial.

use stats::figures::{self, ABSENT, things};

use crate::audit::shop::Evidence;
use crate::judge::finding::Finding;
use crate::judge::metrics::{Metric, OVERSOLD, PageTable};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{ExpectedFault, Mechanism, Promise};
use crate::report::Report;
use crate::report::html::names::name;
use crate::report::html::page::{Absent, Cell, Chart, Emphasis, PageItem, PagePart, Table, TableColumn};
use crate::report::html::results::{columns, groups, row};

pub(super) fn part(report: &Report, metrics: &[&Metric]) -> PagePart {
    let words = if report.is_of_lab() {
        "Judged from the database after every trial, the warm-up included: units sold compared with the stock, and answers to \
         buyers compared with the orders."
    } else {
        "Judged after every trial, the warm-up included: by the answers to buyers, and by the books of the shop as far as its \
         file says how they are read."
    };
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

/// Shows the scripts that make shops sell wrongly, and why others have none. `None` if nothing was sought.
pub(super) fn reproductions(report: &Report) -> Option<PagePart> {
    let items = report.reproductions.iter().flat_map(|reproduction| {
        [PageItem::Paragraph(reproduction.describe()), PageItem::Script(reproduction.script.clone())]
    });
    let lines = report.unreproduced.iter().cloned().map(PageItem::Paragraph);
    let part = PagePart { id: "reproduction", title: "How to reproduce it", items: items.chain(lines).collect() };
    (!part.items.is_empty()).then_some(part)
}

fn table(report: &Report, metrics: &[&Metric]) -> Table {
    let own = if report.is_of_lab() { ["Promise", "Kept"] } else { ["Checked by", "Kept"] }.map(TableColumn::words);
    let row = |result: &StrategyResult| {
        let first = if report.is_of_lab() { promise(result.promise) } else { checked_by(result) };
        row(report, result, [first, kept(result)], metrics, PageTable::Sold)
    };
    Table {
        id: "table-sold",
        caption: format!("What each {} sold", report.schedule.nouns().one),
        label: None,
        columns: columns(report, own, metrics, PageTable::Sold),
        groups: groups(report, row),
    }
}

fn checked_by(result: &StrategyResult) -> Cell {
    Cell::text(match result.evidence {
        Some(Evidence::Statuses) => "statuses alone",
        Some(Evidence::Answers) => "answers alone",
        Some(Evidence::Pages) => "the shop's own pages",
        Some(Evidence::Database) => "the database",
        None => ABSENT,
    })
}

fn promise(promise: Promise) -> Cell {
    let (text, aside) = match promise {
        Promise::Oversells => ("oversells", "the control"),
        Promise::OversellsOnManyInstances => ("oversells", "on many instances"),
        Promise::ExceedsLimit => ("exceeds the limit", "per buyer"),
        Promise::MayPromiseWithoutOrder => ("never oversells", "may promise without an order"),
        Promise::SafeWhileLockLives => ("safe", "while the lock lives"),
        Promise::SafeWhileSessionLives => ("safe", "while the session lives"),
        Promise::NeverOversells => ("never oversells", ""),
    };
    Cell::text(text).aside(aside)
}

fn kept(result: &StrategyResult) -> Cell {
    let shown = result.shown();
    let (sign, mark) = match result.finding {
        Finding::Kept if shown != ExpectedFault::Nothing => ("✓", Emphasis::Open),
        Finding::Kept => ("✓", Emphasis::Good),
        Finding::Broken => ("✗", Emphasis::Bad),
        Finding::Inconclusive | Finding::Dropped | Finding::Failing | Finding::Unchecked | Finding::LoadTooWeak => {
            ("?", Emphasis::Open)
        }
        Finding::NotRun => ("", Emphasis::None),
    };
    Cell::text(format!("{sign} {}", result.finding.describe(shown)).trim_start()).marked(mark)
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
            command: report.schedule.nouns().commands.again,
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
        Mechanism::Redis => "Redis",
        Mechanism::Postgres => "Postgres",
    }
}
