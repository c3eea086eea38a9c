//! The traffic on ZooKeeper, and how everything grows with the number of users.

use stats::{as_f64, figures};

use crate::judge::metrics::{GOODPUT, Metric, NOTIFICATIONS_PER_RELEASE, P50, PageTable};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{Mechanism, Wakes};
use crate::lab::traffic::ServerTraffic;
use crate::report::Report;
use crate::report::html::cost::measured;
use crate::report::html::names::{model_label, name};
use crate::report::html::page::{Absent, Cell, Chart, Group, PageItem, PagePart, Table, TableColumn, TableRow};
use crate::report::html::results::{columns, groups_of, row};

pub(super) fn part(report: &Report, metrics: &[&Metric]) -> PagePart {
    let words = "A release of the lock wakes the waiters that watch for it. A queue wakes the next in line. A lock that all waiters \
                 watch wakes the herd, and all but one of them in vain.";
    let mut items = vec![PageItem::Paragraph(words.to_owned()), PageItem::Charts(vec![notifications(report)])];
    match table(report, metrics) {
        Some(table) => {
            items.push(PageItem::Table(table));
            items.extend(by_server(report).map(PageItem::Table));
        }
        None => {
            items.push(PageItem::Paragraph("No strategy of this comparison takes its lock in ZooKeeper.".to_owned()))
        }
    }
    PagePart { id: "herd", title: "The herd", items }
}

fn is_zookeeper(result: &StrategyResult) -> bool {
    result.mechanism == Mechanism::Zookeeper && result.trials > 0
}

fn notifications(report: &Report) -> Chart {
    let words = |result: &StrategyResult| {
        let measured = figures::estimate(&NOTIFICATIONS_PER_RELEASE.of(result)?);
        let expected = result.notifications_per_release_expected;
        let expected = expected.map(|expected| format!(", expected {}", figures::figure(expected))).unwrap_or_default();
        Some(format!("{}: {measured} notifications per release{expected}", name(report, result)))
    };
    let words: Vec<String> = report.results.iter().filter(|result| is_zookeeper(result)).filter_map(words).collect();
    let why = if report.results.iter().any(is_zookeeper) {
        "Buyers without a decision, or too early an end, left no trial in which the releases are known."
    } else {
        "No strategy of this comparison takes its lock in ZooKeeper."
    };
    Chart {
        id: "herd-notifications",
        title: "Watch notifications for each release of the lock".to_owned(),
        caption: "Solid dots are what ZooKeeper's servers counted, with 95 % intervals. Where the servers do not count, they \
                  are what the clients counted. Open diamonds are what the clients received. Upright strokes are what to \
                  expect when all N users wait at once, each in a session: (N − 1)/N if a release wakes one, (N − 1)/2 if it \
                  wakes all. The axis is logarithmic."
            .to_owned(),
        label: None,
        absent: words.is_empty().then(|| Absent {
            why: why.to_owned(),
            command: "loadgen compare --strategies zk-naive,zk-mutex,zk-handoff",
        }),
        words,
        wide: true,
    }
}

fn table(report: &Report, metrics: &[&Metric]) -> Option<Table> {
    let row = |result: &StrategyResult| {
        let woken = Cell::text(match result.wakes {
            Wakes::None => "nobody",
            Wakes::One => "the next in line",
            Wakes::All => "all waiters",
        });
        row(report, result, [woken], metrics, PageTable::Herd)
    };
    let groups = groups_of(report, is_zookeeper, row);
    (!groups.is_empty()).then(|| Table {
        id: "table-herd",
        caption: "Traffic on ZooKeeper: medians over the trials with 95 % intervals".to_owned(),
        label: None,
        columns: columns(report, [TableColumn::words("A release wakes")], metrics, PageTable::Herd),
        groups,
    })
}

/// Lists the traffic of each server: means over the trials that count. `None` if no trial counts.
fn by_server(report: &Report) -> Option<Table> {
    let mode = |server: &str| {
        let known = report.environment.zookeeper_servers.iter().find(|known| known.server == server);
        known.and_then(|known| known.mode.clone()).unwrap_or_else(|| "unknown".to_owned())
    };
    let mut rows = Vec::new();
    for result in report.results.iter().filter(|result| is_zookeeper(result)) {
        let trials: Vec<_> = measured(report, result).collect();
        let servers = trials.first().map(|trial| trial.zookeeper.servers.as_slice()).unwrap_or_default();
        for (position, server) in servers.iter().enumerate() {
            let mean = |figure: fn(&ServerTraffic) -> Option<u64>| {
                let figures = trials.iter().map(|trial| figure(trial.zookeeper.servers.get(position)?));
                Some(as_f64(figures.sum::<Option<u64>>()?) / as_f64(trials.len()))
            };
            rows.push(TableRow {
                name: name(report, result),
                cells: vec![
                    Cell::text(server.server.clone()),
                    Cell::text(mode(&server.server)),
                    Cell::figure(mean(|server| server.watches_fired.total())),
                    Cell::figure(mean(|server| server.packets_received)),
                    Cell::figure(mean(|server| server.packets_sent)),
                    Cell::figure(mean(|server| server.bytes_received)),
                ],
            });
        }
    }
    (!rows.is_empty()).then(|| Table {
        id: "table-servers",
        caption: "The same by server: means per trial".to_owned(),
        label: None,
        columns: vec![
            TableColumn::words("Strategy"),
            TableColumn::words("Server"),
            TableColumn::words("Part"),
            TableColumn::figures("Notifications", "sent"),
            TableColumn::figures("Packets", "received"),
            TableColumn::figures("Packets", "sent"),
            TableColumn::figures("Bytes", "received"),
        ],
        groups: vec![Group { title: None, rows }],
    })
}

/// Shows how the figures grow with the number of users.
pub(super) fn scaling(report: &Report) -> PagePart {
    let nouns = report.schedule.nouns();
    let scale = nouns.commands.scale;
    let several = report.schedule.users.len() > 1;
    if !several {
        let absent = Absent {
            why: "This comparison had one number of users. With several, the growth of the waiting time, of the goodput and \
                  of the herd is drawn here."
                .to_owned(),
            command: scale,
        };
        let chart = chart("scale", "Against the number of users", "", Vec::new(), Some(absent));
        return PagePart { id: "scaling", title: "How it scales", items: vec![PageItem::Charts(vec![chart])] };
    }
    let unmeasured = |words: &Vec<String>| {
        words.is_empty().then(|| Absent { why: "No trial that counts has this figure.".to_owned(), command: scale })
    };
    let words = |metric: &Metric| -> Vec<String> {
        let of = |result: &StrategyResult| {
            Some(format!("{}: {} {}", name(report, result), figures::estimate(&metric.of(result)?), metric.unit))
        };
        report.results.iter().filter_map(of).collect()
    };
    let [medians, goodput, notifications] = [&P50, &GOODPUT, &NOTIFICATIONS_PER_RELEASE].map(words);
    let mut charts = vec![
        chart(
            "scale-median",
            "Median response time against users",
            &format!(
                "One line per {}, with 95 % intervals; both axes are logarithmic. A line that rises by one power of ten together \
                 with the users grows in proportion to them, and one that rises by two grows with their square. Dashed lines \
                 belong to {} that sold wrongly.",
                nouns.one, nouns.many
            ),
            medians.clone(),
            unmeasured(&medians),
        ),
        chart(
            "scale-goodput",
            "Goodput against users",
            "Units of the stock sold a second. A level line serves any number of users equally well; a falling line \
             serves many users worse than few.",
            goodput.clone(),
            unmeasured(&goodput),
        ),
    ];
    if report.is_of_lab() {
        charts.push(chart(
            "scale-notifications",
            "Notifications per release against users",
            "Dashed lines are what to expect when all N users wait at once: (N − 1)/2 for a herd, (N − 1)/N for a \
             queue, in which each release wakes one.",
            notifications.clone(),
            unmeasured(&notifications),
        ));
    }
    charts[0].label = Some(model_label(report));
    charts[0].wide = true;
    PagePart { id: "scaling", title: "How it scales", items: vec![PageItem::Charts(charts)] }
}

fn chart(id: &'static str, title: &str, caption: &str, words: Vec<String>, absent: Option<Absent>) -> Chart {
    Chart { id, title: title.to_owned(), caption: caption.to_owned(), label: None, words, absent, wide: false }
}
