//! Rules, conditions, and an explanation of the page.

use stats::as_f64;
use stats::figures::{ABSENT, bytes, count, exact, things};

use crate::judge::metrics::{Metric, TableWidth};
use crate::lab::environment::Environment;
use crate::lab::zookeeper::ZooKeeperServer;
use crate::report::glossary::ShownTerm;
use crate::report::html::names::model_label;
use crate::report::html::page::{Cell, Emphasis, Group, PageItem, PagePart, Table, TableColumn, TableRow};
use crate::report::table::at_addresses;
use crate::report::{Report, glossary};
use crate::trial::schedule::{Block, CheckedShop};

/// Lists the rules that were given, with their results.
pub(super) fn thresholds(report: &Report) -> PagePart {
    let nouns = report.schedule.nouns();
    let row = |result: &crate::judge::thresholds::ThresholdResult| {
        let met = if result.is_met { Cell::text("✓ met") } else { Cell::text("✗ CROSSED") };
        TableRow {
            name: result.rule.clone(),
            cells: vec![
                Cell::text(result.name()),
                Cell::count(Some(u64::from(result.users))),
                Cell { text: result.value.map_or_else(|| ABSENT.to_owned(), exact), ..Cell::figure(result.value) },
                met.marked(if result.is_met { Emphasis::Good } else { Emphasis::Bad }),
            ],
        }
    };
    let item = if report.thresholds.is_empty() {
        PageItem::Paragraph(format!(
            "No rule was given. With --threshold '{}' a {} fails if a figure does not meet the rule.",
            nouns.rule, nouns.run
        ))
    } else {
        PageItem::Table(Table {
            id: "table-thresholds",
            caption: "Rules and their results; times in milliseconds, shares as parts of one".to_owned(),
            label: Some(model_label(report)),
            columns: vec![
                TableColumn::words("Rule"),
                TableColumn::words(nouns.title),
                TableColumn::figures("Users", ""),
                TableColumn::figures("Figure", ""),
                TableColumn::words("Met"),
            ],
            groups: vec![Group { title: None, rows: report.thresholds.iter().map(row).collect() }],
        })
    };
    PagePart { id: "thresholds", title: "Thresholds", items: vec![item] }
}

/// Explains the words and figures of the page.
pub(super) fn guide(report: &Report, metrics: &[&Metric]) -> PagePart {
    let items = vec![PageItem::Terms(glossary::terms(report, metrics, TableWidth::Page))];
    PagePart { id: "guide", title: "How to read it", items }
}

/// Lists where the comparison ran and what was asked for.
pub(super) fn environment(report: &Report) -> PagePart {
    let of_build = if report.builds.is_some() { " of each build" } else { "" };
    let plan_words = if report.schedule.is_logged() {
        "A block has the next trial of each shop and number of users, in the order of time.".to_owned()
    } else {
        let one = report.schedule.nouns().one;
        format!(
            "Every block was to run each {one}{of_build} once with each number of users, in an order drawn from the seed."
        )
    };
    PagePart {
        id: "environment",
        title: "Environment and plan",
        items: vec![
            PageItem::Terms(machine(report)),
            PageItem::Terms(schedule(report)),
            PageItem::Paragraph(plan_words),
            PageItem::Table(order(report)),
        ],
    }
}

fn machine(report: &Report) -> Vec<ShownTerm> {
    let environment = &report.environment;
    let unknown = || "unknown".to_owned();
    let kernel = environment.kernel.clone().unwrap_or_else(unknown);
    let cores = environment.cpu_count;
    let mut terms = vec![
        ShownTerm::new(
            if report.schedule.is_logged() { "System of the judge" } else { "System" },
            format!("{} {}, kernel {kernel}", environment.os, environment.arch),
        ),
        ShownTerm::new("Processor", format!("{cores} × {}", environment.cpu_model.as_deref().unwrap_or("core"))),
        ShownTerm::new("Memory", environment.memory_bytes.map_or_else(unknown, |size| bytes(as_f64(size)))),
    ];
    if report.is_of_lab() {
        terms.insert(0, ShownTerm::new("Measured", environment.code()));
        terms.extend(servers(environment));
    }
    let shares = match environment.generator_shares_host {
        Some(true) => "on one machine",
        Some(false) => "on different machines",
        None => "perhaps on different machines: the target's address does not tell",
    };
    terms.push(ShownTerm::new(&format!("Generator and {}", report.schedule.nouns().service), shares));
    terms
}

/// Describes the servers.
fn servers(environment: &Environment) -> Vec<ShownTerm> {
    let unknown = || "unknown".to_owned();
    let mut terms = vec![ShownTerm::new("Postgres", environment.postgres_version.clone().unwrap_or_else(unknown))];
    let settings: Vec<String> =
        environment.postgres_settings.iter().map(|setting| format!("{} = {}", setting.name, setting.value)).collect();
    if !settings.is_empty() {
        terms.push(ShownTerm::new("Its settings", settings.join(", ")));
    }
    terms.push(ShownTerm::new("ZooKeeper", environment.zookeeper_version.clone().unwrap_or_else(unknown)));
    let server =
        |server: &ZooKeeperServer| format!("{} ({})", server.server, server.mode.as_deref().unwrap_or("part unknown"));
    let servers: Vec<String> = environment.zookeeper_servers.iter().map(server).collect();
    if !servers.is_empty() {
        terms.push(ShownTerm::new("Its servers", servers.join(", ")));
    }
    terms.extend(environment.redis_version.clone().map(|version| ShownTerm::new("Redis", version)));
    let throwaway = if environment.servers_throwaway { "started for this comparison alone" } else { "given" };
    terms.push(ShownTerm::new("Servers were", throwaway));
    terms
}

fn schedule(report: &Report) -> Vec<ShownTerm> {
    let schedule = &report.schedule;
    let unknown = || "unknown".to_owned();
    let one = schedule.nouns().one;
    let units = things(schedule.stock, "unit");
    let stock = match schedule.goods {
        _ if schedule.is_of_shops() => units,
        1 => format!("{units} of SKU {}", schedule.goods_no),
        goods => format!("{units} of each of {goods} SKUs, numbered from {}", schedule.goods_no),
    };
    let warm_up = if schedule.blocks.iter().any(|block| block.warm_up) { " with the warm-up" } else { "" };
    let users: Vec<String> = schedule.users.iter().map(|users| count(u64::from(*users))).collect();
    let mut terms = vec![
        ShownTerm::new("Load model", model_label(report)),
        ShownTerm::new("Users", users.join(", ")),
        ShownTerm::new("Stock", stock),
        ShownTerm::new("Trials", format!("{} of each {one}; {} in all{warm_up}", schedule.trials, schedule.len())),
    ];
    if !schedule.is_logged() {
        terms.push(ShownTerm::new("Seed", schedule.seed.to_string()));
    }
    terms.extend(schedule.logs.iter().map(|log| ShownTerm::new(&format!("Log {}", log.file), log.describe())));
    if !schedule.is_of_shops() {
        terms.extend([
            ShownTerm::new("Instances", schedule.instances.to_string()),
            ShownTerm::new("ZooKeeper sessions", schedule.zk_sessions_total.map_or_else(unknown, count)),
            ShownTerm::new("Business time", schedule.business_time.clone().unwrap_or_else(unknown)),
            ShownTerm::new("Lock wait", schedule.lock_wait_ms.map_or_else(unknown, |ms| format!("{} ms", count(ms)))),
        ]);
    }
    terms.extend(schedule.shops.iter().flat_map(shop_terms));
    let builds = schedule.builds.iter();
    terms.extend(builds.map(|build| ShownTerm::new("Build", format!("{}: {}", build.name, build.program))));
    if !schedule.service_args.is_empty() {
        terms.push(ShownTerm::new("Further arguments", schedule.service_args.join(" ")));
    }
    terms
}

/// Describes a shop that a file describes: where it is, and what the file lets nobody see.
fn shop_terms(shop: &CheckedShop) -> Vec<ShownTerm> {
    let mut terms = vec![ShownTerm::new("Shop", at_addresses(shop))];
    if !shop.unseen.is_empty() {
        terms.push(ShownTerm::new(&format!("The file of {} does not show", shop.name), shop.unseen.join("; ")));
    }
    terms
}

/// Lists the order of the trials, block by block.
fn order(report: &Report) -> Table {
    let tell_users = report.schedule.users.len() > 1;
    let row = |(number, block): (usize, &Block)| {
        let subjects = block
            .subjects
            .iter()
            .map(|subject| if tell_users { format!("{} @{}", subject.name(), subject.users) } else { subject.name() });
        let warm_up = if block.warm_up { " (warm-up)" } else { "" };
        let run = report.trials.iter().filter(|trial| trial.block == number).count();
        TableRow {
            name: format!("{number}{warm_up}"),
            cells: vec![
                Cell::text(subjects.collect::<Vec<_>>().join(", ")),
                Cell::text(format!("{run}/{}", block.subjects.len())).sorted(run),
            ],
        }
    };
    Table {
        id: "table-order",
        caption: "Order of the trials".to_owned(),
        label: None,
        columns: vec![
            TableColumn::words("Block"),
            TableColumn::words(&format!("{} in order", report.schedule.nouns().titles)),
            TableColumn::figures("Run", "trials"),
        ],
        groups: vec![Group { title: None, rows: report.schedule.blocks.iter().enumerate().map(row).collect() }],
    }
}

impl Cell {
    fn sorted(self, by: usize) -> Cell {
        Cell { sort: Some(stats::as_f64(by)), ..self }
    }
}
