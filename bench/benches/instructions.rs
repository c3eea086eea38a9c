//! The instructions of the deciding code, counted by callgrind. A busy machine takes the same number as an idle one, so
//! a gate can rely on it: see `make bench-compare`.
//!
//! The setup is not counted. A bench returns its input, so the drop of the input is not counted either.

#![allow(missing_docs, reason = "the macros generate undocumented items")]

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::hint::black_box;
use std::time::Duration;

use gungraun::Callgrind;
use gungraun::prelude::*;
use loadgen::audit::history::{HistoryAudit, Section};
use loadgen::audit::orders::OrderRow;
use loadgen::audit::trial::{Audit, LabFacts, Receipt};
use loadgen::audit::unchecked::Unchecked;
use stats::times::Times;
use stats::{Ratio, median, paired, rate};
use zk_recipes_protocol::leases::{self, LeaseListing};
use zk_recipes_protocol::liveness::{Event, Liveness, LossEpoch, Margins};
use zk_recipes_protocol::names::{Mode, Names, Sequence};
use zk_recipes_protocol::queue::{Predecessor, Queue, Queued};

/// Returns the numbers below `count`, each once, ordered by their hashes. So the order is always the same and has no
/// runs, which a sort would notice.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by_cached_key(|number| BuildHasherDefault::<DefaultHasher>::default().hash_one(number));
    numbers.into_iter()
}

/// Returns the children of a lock's parent, named as Curator names them, in no order, as a server lists them. They live
/// as long as the process, so a queue of them can be passed on.
fn children(count: usize, markers: &[&str]) -> &'static [String] {
    let name = |i: usize| format!("_c_c8a8a1c2-3b1f-4f0e-9d7c-{i:012x}-{}{i:010}", markers[i % markers.len()]);
    Box::leak(shuffled(count).map(name).collect())
}

fn mutex(count: usize) -> &'static [String] {
    children(count, &["lock-"])
}

fn readers_and_writers(count: usize) -> &'static [String] {
    children(count, &["__READ__", "__READ__", "__WRIT__"])
}

fn leases(count: usize) -> &'static [String] {
    children(count, &["lease-"])
}

/// Returns the names of the last `count` in the queue, which have the most before them.
fn last(children: &'static [String], count: usize) -> impl Iterator<Item = &'static str> {
    let is_last = move |&i: &usize| i >= children.len() - count;
    shuffled(children.len()).zip(children).filter(move |(i, _)| is_last(i)).map(|(_, name)| name.as_str())
}

fn queue(count: usize) -> Queue<&'static String> {
    Queue::from_children(readers_and_writers(count), Names::READ_WRITE)
}

fn queue_and_own(children: &'static [String], names: Names) -> (Queue<&'static String>, &'static str) {
    (Queue::from_children(children, names), last(children, 1).next().expect("somebody is the last"))
}

fn last_reader(count: usize) -> (Queue<&'static String>, &'static str) {
    queue_and_own(readers_and_writers(count), Names::READ_WRITE)
}

fn mutex_waiter(count: usize) -> (Queue<&'static String>, &'static str) {
    queue_and_own(mutex(count), Names::MUTEX)
}

#[library_benchmark]
#[bench::of_10(args = (10), setup = mutex)]
#[bench::of_100(args = (100), setup = mutex)]
#[bench::of_1000(args = (1_000), setup = mutex)]
#[bench::of_10000(args = (10_000), setup = mutex)]
fn parse_mutex(children: &'static [String]) -> Queue<&'static String> {
    Queue::from_children(black_box(children), Names::MUTEX)
}

#[library_benchmark]
#[bench::of_10(args = (10), setup = readers_and_writers)]
#[bench::of_100(args = (100), setup = readers_and_writers)]
#[bench::of_1000(args = (1_000), setup = readers_and_writers)]
#[bench::of_10000(args = (10_000), setup = readers_and_writers)]
fn parse_read_write(children: &'static [String]) -> Queue<&'static String> {
    Queue::from_children(black_box(children), Names::READ_WRITE)
}

#[library_benchmark]
#[bench::any(("_c_c8a8a1c2-3b1f-4f0e-9d7c-00000000002a-__rlock__0000000042", Names::ANY))]
#[bench::mutex(("_c_c8a8a1c2-3b1f-4f0e-9d7c-00000000002a-lock-0000000042", Names::MUTEX))]
#[bench::foreign(("a-child-of-somebody-else", Names::ANY))]
fn parse_name((name, names): (&'static str, Names)) -> Option<(Mode, Sequence)> {
    black_box(names).parse(black_box(name))
}

#[library_benchmark]
#[bench::mutex_10(args = (10), setup = mutex_waiter)]
#[bench::mutex_100(args = (100), setup = mutex_waiter)]
#[bench::mutex_1000(args = (1_000), setup = mutex_waiter)]
#[bench::mutex_10000(args = (10_000), setup = mutex_waiter)]
#[bench::read_write_10(args = (10), setup = last_reader)]
#[bench::read_write_100(args = (100), setup = last_reader)]
#[bench::read_write_1000(args = (1_000), setup = last_reader)]
#[bench::read_write_10000(args = (10_000), setup = last_reader)]
fn predecessor_of(
    (queue, own): (Queue<&'static String>, &'static str),
) -> (Option<Predecessor>, Queue<&'static String>) {
    (black_box(&queue).predecessor_of(black_box(own)), queue)
}

#[library_benchmark]
#[bench::of_10(args = (10), setup = queue)]
#[bench::of_100(args = (100), setup = queue)]
#[bench::of_1000(args = (1_000), setup = queue)]
#[bench::of_10000(args = (10_000), setup = queue)]
fn into_order(queue: Queue<&'static String>) -> Vec<(Queued<&'static String>, bool)> {
    black_box(queue).into_order()
}

library_benchmark_group!(
    name = queues,
    benchmarks = [parse_mutex, parse_read_write, parse_name, predecessor_of, into_order]
);

#[library_benchmark]
#[bench::of_10(args = (10), setup = leases)]
#[bench::of_100(args = (100), setup = leases)]
#[bench::of_1000(args = (1_000), setup = leases)]
#[bench::of_10000(args = (10_000), setup = leases)]
fn parse_leases(children: &'static [String]) -> LeaseListing<'static> {
    LeaseListing::from_children(black_box(children))
}

/// Returns `count` leases, and the names of the last three, which are ours.
fn leases_and_own(count: usize) -> (LeaseListing<'static>, HashSet<&'static str>) {
    let children = leases(count);
    (LeaseListing::from_children(children), last(children, 3).collect())
}

#[library_benchmark]
#[bench::of_10(args = (10), setup = leases_and_own)]
#[bench::of_100(args = (100), setup = leases_and_own)]
#[bench::of_1000(args = (1_000), setup = leases_and_own)]
#[bench::of_10000(args = (10_000), setup = leases_and_own)]
fn verdict_on_leases(
    (leases, own): (LeaseListing<'static>, HashSet<&'static str>),
) -> (leases::LeasesVerdict, (LeaseListing<'static>, HashSet<&'static str>)) {
    let permits = own.len();
    (black_box(&leases).verdict(black_box(&own), permits), (leases, own))
}

library_benchmark_group!(name = permits, benchmarks = [parse_leases, verdict_on_leases]);

// A session with a hold that writes every tenth of a second, is asked for its state as often, and is cut off every ten
// seconds.
#[library_benchmark]
#[bench::of_1000(1_000)]
fn liveness_events(events: u32) -> Liveness {
    let ms = |ms: u32| Duration::from_millis(ms.into());
    let mut live = Liveness::new(Margins::new(ms(10_000), None), ms(0));
    for event in 1..=black_box(events) {
        let now = ms(event * 100);
        if event % 100 == 0 {
            live.on_event(now, Event::Disconnected);
        } else {
            live.on_event(now, Event::Connected);
            let sent = live.on_send(now.saturating_sub(ms(2)));
            live.on_proof(now, sent);
        }
        let seen = live.at(now + ms(50));
        black_box((seen.state(true), seen.due(true), seen.lost_since(LossEpoch(0))));
    }
    live
}

library_benchmark_group!(name = sessions, benchmarks = [liveness_events]);

/// The orders of a sale, and the receipts with the numbers of their buyers.
type AuditedSale = (Vec<OrderRow>, Vec<(usize, Receipt)>);

/// Returns the orders of a sale and the numbers that the buyers were told, both in no order.
fn sale(orders: usize) -> AuditedSale {
    let order_ids = || shuffled(orders).filter_map(|i| i64::try_from(i).ok());
    let order = |order_id| OrderRow {
        order_id,
        goods_no: 1,
        transaction: Some(order_id),
        quantity: 1,
        strategy: "zk-mutex".into(),
        instance: "lab-1".into(),
        buyer: None,
        remaining: Some(order_id),
        token: Some((order_id, 0)),
        arrival: None,
    };
    let receipt = |order_id| Receipt { order_id, goods_no: 1, quantity: 1, remaining: Some(order_id) };
    (order_ids().map(order).collect(), order_ids().map(receipt).enumerate().collect())
}

#[library_benchmark]
#[bench::of_100(args = (100), setup = sale)]
#[bench::of_1000(args = (1_000), setup = sale)]
#[bench::of_10000(args = (10_000), setup = sale)]
fn audit((orders, confirmed): AuditedSale) -> ((Audit, Unchecked), LabFacts) {
    let facts = LabFacts {
        stock_initial: 100,
        stock_final: 0,
        permits: Some(1),
        orders,
        confirmed,
        sold_out: 1_400,
        refused: 3,
        unanswered: vec![3, 4],
        ..LabFacts::default()
    };
    (Audit::of(black_box(&facts)), facts)
}

/// Returns times from a microsecond to some ten milliseconds, in no order.
fn times(count: usize) -> Vec<Duration> {
    shuffled(count).filter_map(|i| u64::try_from(i).ok()).map(|i| Duration::from_micros(i + 1)).collect()
}

#[library_benchmark]
#[bench::of_1000(args = (1_000), setup = times)]
#[bench::of_10000(args = (10_000), setup = times)]
fn record_times(times: Vec<Duration>) -> (Option<f64>, Times, Vec<Duration>) {
    let mut recorded = Times::new();
    for time in &times {
        recorded.record(black_box(*time));
    }
    (recorded.quantile_ms(990), recorded, times)
}

/// Returns a figure for each of `blocks` blocks.
fn figures(blocks: usize) -> Vec<f64> {
    shuffled(blocks).filter_map(|i| u32::try_from(i).ok()).map(|i| f64::from(i) + 0.5).collect()
}

#[library_benchmark]
#[bench::of_10(args = (10), setup = figures)]
#[bench::of_100(args = (100), setup = figures)]
#[bench::of_1000(args = (1_000), setup = figures)]
fn median_of_blocks(figures: Vec<f64>) -> (Option<f64>, Vec<f64>) {
    (median(black_box(&figures)), figures)
}

fn paired_figures(blocks: usize) -> Vec<Option<f64>> {
    figures(blocks).into_iter().map(Some).collect()
}

// The ratio has an interval from all Walsh averages.
#[library_benchmark]
#[bench::of_10(args = (10), setup = paired_figures)]
#[bench::of_30(args = (30), setup = paired_figures)]
fn ratio_of_blocks(figures: Vec<Option<f64>>) -> (Option<Ratio>, Vec<Option<f64>>) {
    let reference: Vec<Option<f64>> = figures.iter().rev().copied().collect();
    (paired::ratio(black_box(&figures), black_box(&reference)), figures)
}

/// Returns critical sections one after another. They are in no order, as after reading them from several instances.
fn sections(count: usize) -> Vec<Section> {
    let section = |i: u64| Section {
        goods_no: 1,
        token: i64::try_from(i).ok().map(|token| (token, 0)),
        asked_ns: Some(i / 3),
        entered_ns: 10 * i,
        left_ns: 10 * i + 5,
        order_id: None,
    };
    shuffled(count).filter_map(|i| u64::try_from(i).ok()).map(section).collect()
}

#[library_benchmark]
#[bench::of_1000(args = (1_000), setup = sections)]
#[bench::of_10000(args = (10_000), setup = sections)]
fn audit_history(sections: Vec<Section>) -> (HistoryAudit, Vec<Section>) {
    (HistoryAudit::of(black_box(&sections), Some(1), 0), sections)
}

#[library_benchmark]
#[bench::none_of_10((0, 10))]
#[bench::five_of_100((5, 100))]
fn bound_of_rate((bad, trials): (u32, u32)) -> f64 {
    rate::upper_95(black_box(bad), black_box(trials))
}

library_benchmark_group!(
    name = reports,
    benchmarks = [audit, audit_history, record_times, median_of_blocks, ratio_of_blocks, bound_of_rate]
);

main!(
    // Instructions only: what a cache would do depends on the machine.
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [queues, permits, sessions, reports]
);
