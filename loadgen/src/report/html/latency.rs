//! The times of buyers, and of hand-overs of the lock.

use buyers::model::LoadModel;
use stats::Ratio;
use stats::figures;
use stats::times::Times;

use crate::judge::metrics::{
    HANDOVER_P50, HANDOVERS, INSIDE_MAX, Metric, P50, P50_CORRECTED, P90, P90_CORRECTED, P99, P99_CORRECTED, PageTable,
    SILENCE_MAX,
};
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::report::html::cost::measured;
use crate::report::html::names::{model_label, name};
use crate::report::html::page::{Absent, Cell, Chart, Group, PageItem, PagePart, Table, TableColumn, TableRow};
use crate::report::html::results::{columns, groups, groups_of, row};
use crate::report::html::sale::{counted, why_absent};
use crate::report::html::sold::mechanism;
use crate::trial::record::Latency;

/// Corrected and uncorrected quantiles this close count as equal.
const SAME: f64 = 0.05;

pub(super) fn part(report: &Report, metrics: &[&Metric]) -> PagePart {
    let mut items = vec![PageItem::Table(response(report, metrics)), PageItem::Charts(charts(report))];
    if let Some(table) = correction(report) {
        items.push(PageItem::Table(table));
    } else if report.results.iter().any(|result| P50.value(result).is_some()) {
        items.push(PageItem::Paragraph(
            "Response times count from the instant at which a request was meant to start. Service times count from its \
             actual start, as in many other tools. Here no p50 or p99 differs by more than 5 % between the two."
                .to_owned(),
        ));
    }
    items.extend(report.is_of_lab().then(|| PageItem::Table(confirmed(report, metrics))));
    items.extend(closed_loop(report).map(PageItem::Table));
    items.push(PageItem::Table(outcomes(report, metrics)));
    PagePart { id: "latency", title: "How long buyers waited", items }
}

fn response(report: &Report, metrics: &[&Metric]) -> Table {
    let is_ranked = report.schedule.has_relations();
    let rank = is_ranked.then(|| TableColumn::figures("Rank", ""));
    let own = rank.into_iter().chain(report.is_of_lab().then(|| TableColumn::words("Mechanism")));
    let row = |result: &StrategyResult| {
        let rank = is_ranked.then(|| Cell::count(result.rank.and_then(|rank| u64::try_from(rank).ok())));
        let mechanism = report.is_of_lab().then(|| Cell::text(mechanism(result.mechanism)));
        row(report, result, rank.into_iter().chain(mechanism), metrics, PageTable::Response)
    };
    let mut groups = groups(report, row);
    // By rank within each number of users.
    for group in &mut groups {
        if is_ranked && report.schedule.users.len() < 2 {
            group.rows.sort_by(|a, b| rank_of(a).total_cmp(&rank_of(b)));
        }
    }
    Table {
        id: "table-latency",
        caption: "Response times of the buyers who got a unit: p50 is the median over the trials with its exact 95 % interval, the \
                  others are of all trials merged"
            .to_owned(),
        label: Some(model_label(report)),
        columns: columns(report, own, metrics, PageTable::Response),
        groups,
    }
}

/// Tells when the orders were committed. The commits of other shops are not known.
fn confirmed(report: &Report, metrics: &[&Metric]) -> Table {
    Table {
        id: "table-confirmed",
        caption: "Until the order was committed: the times count from the buyer's wish. Where the answer comes after the commit, they \
                  are the response times; a strategy that answers earlier has a backlog of orders that it has promised"
            .to_owned(),
        label: Some(model_label(report)),
        columns: columns(report, [], metrics, PageTable::Confirmed),
        groups: groups(report, |result| row(report, result, [], metrics, PageTable::Confirmed)),
    }
}

fn rank_of(row: &TableRow) -> f64 {
    row.cells[0].sort.unwrap_or(f64::INFINITY)
}

fn charts(report: &Report) -> Vec<Chart> {
    let nouns = report.schedule.nouns();
    let label = Some(model_label(report));
    let unmeasured = || Absent {
        why: "No trial that counts sold anything: the warm-up is audited, but its times are left out.".to_owned(),
        command: nouns.commands.more_trials,
    };
    let results = &report.results;
    let sold_any = results.iter().any(|result| result.latency.response.sold.count() > 0);
    let quantiles = Chart {
        id: "quantiles",
        title: "Distribution of response times".to_owned(),
        caption: format!(
            "One line per {0}: how long the given share of the buyers who got a unit waited at most. Half of them are left of \
             50 %, one in a hundred is right of 99 %. Lower is faster; a line that rises steeply to the right has a long tail, a \
             dashed one belongs to a {0} that sold wrongly. Both axes are logarithmic.",
            nouns.one
        ),
        label: label.clone(),
        words: results.iter().filter_map(|result| quantile_words(report, result)).collect(),
        absent: (!sold_any).then(unmeasured),
        wide: true,
    };
    let has_median = results.iter().any(|result| P50.value(result).is_some());
    let median_words = |result: &StrategyResult| {
        let p50 = P50.of(result)?;
        let unit = if p50.value.is_finite() { " ms" } else { "" };
        Some(format!("{}: median {}{unit}", name(report, result), figures::estimate(&p50)))
    };
    let medians = Chart {
        id: "medians",
        title: "Medians with their 95 % intervals".to_owned(),
        caption: format!(
            "The dot is the median response time of the buyers who got a unit, the bar the range in which it lies with 95 % \
             confidence; the axis is logarithmic. An open dot belongs to a {} that sold wrongly, and is not ranked.",
            nouns.one
        ),
        label: label.clone(),
        words: results.iter().filter_map(median_words).collect(),
        absent: if !sold_any {
            Some(unmeasured())
        } else if !has_median {
            Some(Absent {
                why: format!(
                    "A median needs at least twenty buyers who got a unit, and every {} has fewer.",
                    nouns.one
                ),
                command: nouns.commands.more_units,
            })
        } else {
            None
        },
        wide: false,
    };
    // The service of the lab has strategies to add. Of other shops, the table says which have no ratio.
    let has_ratio = results.iter().any(|result| result.ratio_to_reference.is_some());
    let ratios = (report.is_of_lab() || has_ratio).then(|| ratios(report, label));
    [quantiles, medians].into_iter().chain(ratios).collect()
}

fn ratios(report: &Report, label: Option<String>) -> Chart {
    let words = |result: &StrategyResult| {
        let ratio = result.ratio_to_reference.as_ref()?;
        Some(format!("{}: {}", name(report, result), ratio_words(ratio, result.reference.as_deref()?)))
    };
    let words: Vec<String> = report.results.iter().filter_map(words).collect();
    let mut references: Vec<&String> = report.results.iter().filter_map(|result| result.reference.as_ref()).collect();
    references.dedup();
    let title = match references.as_slice() {
        [reference] => format!("Median as a multiple of the median of {reference}"),
        _ => "Median as a multiple of the reference's".to_owned(),
    };
    let has_others = report.results.iter().any(|result| {
        result.is_comparable && result.reference.as_ref().is_some_and(|reference| *reference != result.strategy)
    });
    let (why, command) = if references.is_empty() {
        let why = "There is no reference: no safe strategy sold exactly the stock in every trial.";
        (why, "loadgen compare --strategies zk-mutex,zk-handoff,pg-conditional --trials 10")
    } else if has_others {
        let why = "Ratios are paired within blocks, and no block that counts has a median of both: it needs twenty buyers who \
                   got a unit.";
        (why, "loadgen compare --stock 100 --trials 10")
    } else {
        let why =
            "There is nothing to compare the reference with: no other strategy sold exactly the stock in every trial.";
        (why, "loadgen compare --strategies zk-mutex,zk-handoff,pg-conditional --trials 10")
    };
    Chart {
        id: "ratios",
        title,
        caption:
            "Paired within blocks, so that a slow moment of the machine falls on both. Left of the line is faster \
                  than the reference, right of it slower; the shaded band is ±5 %: a difference too small to act upon. \
                  A solid dot differs by an exact test, an open one with ~ shows no significant difference, one with ? \
                  has too few trials."
                .to_owned(),
        label,
        absent: words.is_empty().then(|| Absent { why: why.to_owned(), command }),
        words,
        wide: false,
    }
}

fn ratio_words(ratio: &Ratio, reference: &str) -> String {
    let interval = figures::interval(ratio.low, ratio.high).map(|interval| format!(" {interval}")).unwrap_or_default();
    let sign = match figures::sign(ratio) {
        "~" => ", no significant difference",
        "?" => ", too few trials to tell",
        _ => "",
    };
    format!("{}{interval} times the median of {reference}{sign}", figures::figure(ratio.estimate))
}

fn quantile_words(report: &Report, result: &StrategyResult) -> Option<String> {
    let sold = &result.latency.response.sold;
    let longest = sold.max_ms()?;
    let quantile = |name: &str, permille| Some(format!("{name} {}, ", figures::ms(sold.quantile_ms(permille)?)));
    let known: String =
        [("p50", 500), ("p90", 900), ("p99", 990)].iter().filter_map(|(n, q)| quantile(n, *q)).collect();
    let n = figures::count(sold.count());
    Some(format!("{}: {known}longest {}, n = {n}", name(report, result), figures::ms(longest)))
}

/// Compares response times with service times. `None` if they agree.
fn correction(report: &Report) -> Option<Table> {
    let pairs = |result: &StrategyResult| {
        let Latency { response, service, .. } = &result.latency;
        [500, 990].map(|permille| (response.sold.quantile_ms(permille), service.sold.quantile_ms(permille)))
    };
    let differs = |result: &&StrategyResult| {
        pairs(result).iter().any(|pair| matches!(pair, (Some(a), Some(b)) if (a - b).abs() > SAME * a.min(*b)))
    };
    let row = |result: &StrategyResult| {
        let figures = pairs(result).into_iter().flat_map(|(response, service)| [response, service]);
        TableRow { name: name(report, result), cells: figures.map(Cell::figure).collect() }
    };
    let rows: Vec<TableRow> = report.results.iter().filter(differs).map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "table-correction",
        caption: format!(
            "{} whose response times and service times differ. The response time counts from the intended start of a request: \
             the buyer waits from then on. The service time counts from its actual start, and leaves out the wait for the \
             generator.",
            report.schedule.nouns().titles
        ),
        label: Some(model_label(report)),
        columns: vec![
            TableColumn::words(report.schedule.nouns().title),
            TableColumn::figures("p50 response", "ms"),
            TableColumn::figures("p50 service", "ms"),
            TableColumn::figures("p99 response", "ms"),
            TableColumn::figures("p99 service", "ms"),
        ],
        groups: vec![Group { title: None, rows }],
    })
}

/// Compares the times of a closed loop with and without the correction. `None` for another model.
fn closed_loop(report: &Report) -> Option<Table> {
    let quantiles = [("p50", &P50, &P50_CORRECTED), ("p90", &P90, &P90_CORRECTED), ("p99", &P99, &P99_CORRECTED)];
    let nouns = report.schedule.nouns();
    let mut columns = vec![TableColumn::words(nouns.title)];
    for (name, ..) in quantiles {
        columns.extend([TableColumn::figures(name, "ms"), TableColumn::figures(name, "ms, corrected")]);
    }
    columns.push(TableColumn::figures("Longest silence", "ms"));
    let row = |result: &StrategyResult| {
        let figures = quantiles.iter().flat_map(|(_, raw, corrected)| [raw.value(result), corrected.value(result)]);
        let cells = figures.chain([SILENCE_MAX.value(result)]).map(Cell::figure).collect();
        TableRow { name: name(report, result), cells }
    };
    matches!(report.schedule.model, Some(LoadModel::Loop { .. })).then(|| Table {
        id: "table-loop",
        caption: format!(
            "What a closed loop leaves out. A user who waits for an answer makes no other request, so a stall of the {} counts \
             once for each user. The corrected times have the requests that were not made: one in every mean time.",
            nouns.service
        ),
        label: Some(model_label(report)),
        columns,
        groups: groups(report, row),
    })
}

/// Lists the outcomes, and the times of each. An outcome that no buyer had is left out, and named if every load can have it.
fn outcomes(report: &Report, metrics: &[&Metric]) -> Table {
    type Pick = fn(&StrategyResult) -> (u64, &Times);
    let all: [(&str, &str, Pick); 7] = [
        ("Sold", "Sold p50", |result| (result.answers.sold, &result.latency.response.sold)),
        ("Sold out", "Sold out p50", |result| (result.answers.sold_out, &result.latency.response.sold_out)),
        ("Over the limit", "Over the limit p50", |result| {
            (result.answers.over_limit, &result.latency.response.over_limit)
        }),
        ("Unpaid", "Unpaid p50", |result| (result.answers.unpaid, &result.latency.response.unpaid)),
        ("Refused", "Refused p50", |result| (result.answers.refused, &result.latency.response.refused)),
        ("Errors", "Error p50", |result| (result.answers.error, &result.latency.response.error)),
        ("Timeouts", "Timeout p50", |result| (result.answers.timeout, &result.latency.response.timeout)),
    ];
    let is_told = |pick: &Pick| report.results.iter().any(|result| pick(result).0 > 0);
    let (told, untold): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, _, pick)| is_told(pick));
    let own = told.iter().flat_map(|(n, p50, _)| [TableColumn::figures(n, "n"), TableColumn::figures(p50, "ms")]);
    let own = own.chain([TableColumn::figures("First byte p50", "ms, sold")]);
    let row = |result: &StrategyResult| {
        let pairs = told.iter().map(|(_, _, pick)| pick(result));
        let own = pairs.flat_map(|(n, times)| [Cell::count(Some(n)), Cell::figure(times.quantile_ms(500))]);
        let first_byte = Cell::figure(result.latency.first_byte_sold.quantile_ms(500));
        row(report, result, own.chain([first_byte]), metrics, PageTable::Outcomes)
    };
    let is_usual = |title: &str| !["Over the limit", "Unpaid"].contains(&title);
    let none: Vec<String> =
        untold.iter().filter(|(title, _, _)| is_usual(title)).map(|(title, _, _)| title.to_lowercase()).collect();
    let none = if none.is_empty() { String::new() } else { format!("; {}: none", none.join(", ")) };
    Table {
        id: "table-outcomes",
        caption: format!("What buyers were told, and their median response time, the warm-up left out{none}"),
        label: Some(model_label(report)),
        columns: columns(report, own, metrics, PageTable::Outcomes),
        groups: groups(report, row),
    }
}

/// Shows how the lock went from holder to holder.
pub(super) fn handovers(report: &Report, metrics: &[&Metric]) -> PagePart {
    let table = handover_table(report, metrics).map_or_else(
        || PageItem::Paragraph("No history tells how long the lock took from one holder to the next.".to_owned()),
        PageItem::Table,
    );
    let items = vec![PageItem::Charts(vec![entered_chart(report)]), table];
    PagePart { id: "handovers", title: "From hand to hand", items }
}

fn entered_chart(report: &Report) -> Chart {
    let words = |result: &StrategyResult| {
        let ends = measured(report, result)
            .filter_map(|trial| Some((*trial.entered_over_time.at_ms.last()?, *trial.entered_over_time.count.last()?)));
        let (after_ms, entered) = ends.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let half = HANDOVER_P50.value(result).map(|p50| {
            let count = HANDOVERS.text(result);
            let p50 = HANDOVER_P50.write(Some(p50));
            format!("; half of {count} hand-overs took at most {p50} ms")
        });
        Some(format!(
            "{}: {} had entered after at most {} ms{}",
            name(report, result),
            figures::count(entered),
            figures::figure(after_ms),
            half.unwrap_or_default()
        ))
    };
    Chart {
        id: "entered",
        title: "Critical sections entered over time".to_owned(),
        caption: "Buyers that have entered, in the trial of median length. The time counts from the first request for \
                  the lock. A steep line has many hand-overs per second, and a line that flattens slows down."
            .to_owned(),
        label: None,
        words: report.results.iter().filter_map(words).collect(),
        absent: counted(report).all(|trial| trial.entered_over_time.at_ms.is_empty()).then(|| Absent {
            why: why_absent(
                report,
                "The instances kept no history of critical sections, or their clocks cannot be compared.",
            ),
            command: "loadgen compare --strategies zk-naive,zk-mutex,zk-handoff",
        }),
        wide: true,
    }
}

fn handover_table(report: &Report, metrics: &[&Metric]) -> Option<Table> {
    let has_any = |result: &StrategyResult| HANDOVERS.value(result).or(INSIDE_MAX.value(result)).is_some();
    let groups = groups_of(report, has_any, |result| row(report, result, [], metrics, PageTable::Handover));
    (!groups.is_empty()).then(|| Table {
        id: "table-handovers",
        caption:
            "From each release of the lock to the entry of the next waiter, and the order in which they were served"
                .to_owned(),
        label: Some(model_label(report)),
        columns: columns(report, [], metrics, PageTable::Handover),
        groups,
    })
}
