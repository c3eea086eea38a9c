//! The cost: the database, and processor time.

use stats::as_f64;
use stats::figures;

use crate::judge::metrics::{Metric, PRESSURE, PageTable};
use crate::judge::result::StrategyResult;
use crate::lab::cpu::GENERATOR;
use crate::report::Report;
use crate::report::html::names::name;
use crate::report::html::page::{Absent, Cell, Chart, Group, PageItem, PagePart, Table, TableColumn};
use crate::report::html::results::{cell, columns, groups, row};
use crate::trial::record::Trial;

/// Shows the load on the database. Every strategy writes the stock there.
pub(super) fn database(report: &Report, metrics: &[&Metric]) -> PagePart {
    let table = Table {
        id: "table-database",
        caption: "What Postgres had to do: medians over the trials with 95 % intervals".to_owned(),
        label: None,
        columns: columns(report, [], metrics, PageTable::Database),
        groups: groups(report, |result| row(report, result, [], metrics, PageTable::Database)),
    };
    let words = "Only transactions that wrote or locked a row are counted. The wait for locks is the database's own, added up \
                 over all connections and estimated from samples; a lock in ZooKeeper keeps it near zero by waiting elsewhere.";
    PagePart {
        id: "database",
        title: "The database",
        items: vec![PageItem::Paragraph(words.to_owned()), PageItem::Table(table)],
    }
}

/// Returns the trials of a result that count.
pub(super) fn measured<'a>(report: &'a Report, result: &'a StrategyResult) -> impl Iterator<Item = &'a Trial> {
    let subject = result.subject();
    report.trials.iter().filter(move |trial| !trial.warm_up && trial.is_of(&subject))
}

/// Kinds of process on the page.
pub(super) const KINDS: [&str; 5] = ["service", "ZooKeeper", "Postgres", "Redis", "generator"];

/// Returns the processor time for each request in milliseconds by kind of process, as a mean over the trials. Unlike
/// medians, means can be stacked. A kind without a figure is absent. All are, if only the generator is known.
pub(super) fn cpu_ms(report: &Report, result: &StrategyResult) -> [Option<f64>; 5] {
    let is_known =
        |trial: &&Trial| trial.cpu.iter().any(|cpu| cpu.process != GENERATOR) && trial.generator.requests > 0;
    let trials: Vec<&Trial> = measured(report, result).filter(is_known).collect();
    KINDS.map(|kind| {
        let of_trial = |trial: &&Trial| {
            let own: Vec<f64> =
                trial.cpu.iter().filter(|cpu| kind_of(&cpu.process) == kind).map(|cpu| cpu.cpu_s * 1e3).collect();
            (!own.is_empty()).then(|| own.iter().sum::<f64>() / as_f64(trial.generator.requests))
        };
        let each: Vec<f64> = trials.iter().filter_map(of_trial).collect();
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / as_f64(each.len()))
    })
}

fn kind_of(process: &str) -> &'static str {
    match process {
        GENERATOR => "generator",
        "zookeeper" => "ZooKeeper",
        "postgres" => "Postgres",
        "redis" => "Redis",
        _ => "service",
    }
}

/// Shows where processor time goes, and whether the generator kept up.
pub(super) fn processors(report: &Report, metrics: &[&Metric]) -> PagePart {
    let known = report.results.iter().any(|result| cpu_ms(report, result).iter().any(Option::is_some));
    let words = |result: &StrategyResult| {
        let of_kind = |(kind, ms): (&str, Option<f64>)| Some(format!("{kind} {} ms", figures::figure(ms?)));
        let parts: Vec<String> = KINDS.into_iter().zip(cpu_ms(report, result)).filter_map(of_kind).collect();
        (!parts.is_empty()).then(|| format!("{}: {} a request", name(report, result), parts.join(", ")))
    };
    let chart = Chart {
        id: "cpu",
        title: "Processor time of a request".to_owned(),
        caption: "Milliseconds of processor time for each request, mean over the trials, stacked by process: all \
                  instances of the service together, the servers with their children, and the generator itself. The \
                  longest bar is the most expensive strategy, which need not be the slowest."
            .to_owned(),
        label: None,
        words: report.results.iter().filter_map(words).collect(),
        absent: (!known).then(|| Absent {
            why: "No trial that counts was run to its end.".to_owned(),
            command: report.schedule.nouns().commands.more_trials,
        }),
        wide: true,
    };
    let mut items = vec![PageItem::Charts(vec![chart])];
    if known {
        items.push(PageItem::Table(processes(report, metrics)));
    }
    if !report.trials.is_empty() {
        items.push(PageItem::Table(generator(report, metrics)));
    }
    PagePart { id: "processors", title: "Processors and generator", items }
}

/// Shows whether the load generator kept up with shops that files describe. Only its own process is known.
pub(super) fn generator_part(report: &Report, metrics: &[&Metric]) -> PagePart {
    let words = "The generator and the wait for it are no part of the shop. Where it was late or waited for a processor, the times \
                 of the buyers include that wait.";
    let item = if report.trials.is_empty() {
        PageItem::Paragraph("No trial was run to its end.".to_owned())
    } else {
        PageItem::Table(generator(report, metrics))
    };
    PagePart { id: "generator", title: "The load generator", items: vec![PageItem::Paragraph(words.to_owned()), item] }
}

/// Lists the processor time of every process.
fn processes(report: &Report, metrics: &[&Metric]) -> Table {
    let mut names: Vec<&str> =
        report.trials.iter().flat_map(|trial| trial.cpu.iter().map(|cpu| cpu.process.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let mut columns = columns(report, [], metrics, PageTable::Processors);
    let short =
        |name: &&str| TableColumn::figures(name.split_once("://").map_or(*name, |(_, address)| address), "s a trial");
    columns.extend(names.iter().map(short));
    let row = |result: &StrategyResult| {
        let mean = |process: &&str| {
            let of_trial = |trial: &Trial| Some(trial.cpu.iter().find(|cpu| cpu.process == *process)?.cpu_s);
            let each: Vec<f64> = measured(report, result).filter_map(of_trial).collect();
            Cell::figure((!each.is_empty()).then(|| each.iter().sum::<f64>() / as_f64(each.len())))
        };
        let mut row = self::row(report, result, [], metrics, PageTable::Processors);
        row.cells.extend(names.iter().map(mean));
        row
    };
    Table {
        id: "table-processes",
        caption: "Processor time by process: median for each request, and means per trial".to_owned(),
        label: None,
        columns,
        groups: groups(report, row),
    }
}

/// Lists what the load generator did in the worst trial of each strategy.
fn generator(report: &Report, metrics: &[&Metric]) -> Table {
    let run = report.results.iter().filter(|result| result.trials > 0);
    // Where no process but the generator is known, this table has the pressure on its machine, too.
    let pressure = || (!report.is_of_lab()).then_some(&PRESSURE);
    let cells = |result| pressure().map(|metric| cell(metric, result));
    let rows = run.map(|result| row(report, result, cells(result), metrics, PageTable::Generator)).collect();
    Table {
        id: "table-generator",
        caption: "Whether the load generator kept up, in the measured trials".to_owned(),
        label: None,
        columns: columns(report, pressure().map(TableColumn::of), metrics, PageTable::Generator),
        groups: vec![Group { title: None, rows }],
    }
}
