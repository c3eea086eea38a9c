//! Comparisons with fixed figures, for the tests of everything that reads them.

use std::sync::LazyLock;
use std::time::Duration;

use buyers::health::{Dropped, Effort, Generator, Processors, Threads};
use buyers::model::LoadModel;
use buyers::sample::{Confirmation, OrderTold, Outcome, Receipt, Sample};
use buyers::tally::Tally;
use stats::as_ms;
use stats::times::Times;

use crate::audit::history::{HistoryAudit, Section, handovers_ns};
use crate::audit::orders::OrderRow;
use crate::audit::trial::{Audit, LabFacts};
use crate::judge::verdict::EndedEarly;
use crate::lab::build::Build;
use crate::lab::cpu::ProcessCpu;
use crate::lab::environment::Environment;
use crate::lab::postgres::Setting;
use crate::lab::postgres_load::PostgresLoad;
use crate::lab::strategy::tests::strategy;
use crate::lab::strategy::{Mechanism, Promise, Strategy, Wakes};
use crate::lab::traffic::{ServerTraffic, Traffic, WatchesFired};
use crate::lab::zookeeper::ZooKeeperServer;
use crate::report::{Findings, Report};
use crate::trial::record::{Curve, Trial, goodput_per_s, sold_out_after_ms};
use crate::trial::schedule::{Limits, NamedBuild, Schedule, Subject, blocks};

pub(super) const USERS: u32 = 300;
/// The limits of every comparison that sets none.
pub(crate) const LIMITS: Limits = Limits { dropped_share_max: 0.01, errors_share_max: 0.01 };
/// Blocks of the plan without the warm-up: enough for significant differences.
pub(super) const TRIALS: u32 = 8;

const fn receipt(order_id: i64, remaining: Option<i64>) -> Receipt {
    Receipt { order_id, goods_no: 1, quantity: 1, remaining }
}

pub(crate) fn strategies() -> Vec<Strategy> {
    vec![
        strategy("unguarded", Promise::Oversells, Mechanism::None, Wakes::None),
        strategy("zk-naive", Promise::SafeWhileSessionLives, Mechanism::Zookeeper, Wakes::All),
        strategy("zk-mutex", Promise::SafeWhileSessionLives, Mechanism::Zookeeper, Wakes::One),
        strategy("pg-conditional", Promise::NeverOversells, Mechanism::Postgres, Wakes::None),
    ]
}

/// Returns a trial that sold `sold` units, one in each step.
pub(crate) fn trial(strategy: &str, block: usize, stock: i64, sold: i64) -> Trial {
    timed_trial(strategy, block, stock, sold, 2.0)
}

fn samples(sold: i64, step_ms: f64) -> Vec<Sample> {
    let of = |number: u32| {
        let order_id = i64::from(number);
        let outcome = if order_id <= sold { Outcome::Sold } else { Outcome::SoldOut };
        let confirmation = (order_id <= sold).then(|| Confirmation::Lab(OrderTold::once(receipt(order_id, None))));
        let ended = Duration::from_secs_f64(step_ms * f64::from(number) / 1e3);
        let user = number as usize - 1;
        Sample { user, buyer: user, confirmation, ended, first_byte: Some(ended), ..sample(outcome, 1, 0) }
    };
    (1..=USERS).map(of).collect()
}

/// Returns critical sections, one after another, each half a step long.
fn sections(strategy: &str, step_ms: f64) -> Vec<Section> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds in nanoseconds")]
    let step_ns = (step_ms * 1e6) as u64;
    let of = |number: u64| Section {
        goods_no: 1,
        token: Some((number.cast_signed(), 0)),
        // The herd serves in any order.
        asked_ns: Some(if strategy == "zk-naive" { number * 7 % 300 } else { number }),
        entered_ns: number * step_ns,
        left_ns: number * step_ns + step_ns / 2,
        order_id: None,
    };
    (1..=u64::from(USERS)).map(of).collect()
}

#[expect(clippy::too_many_lines, reason = "one value, written out")]
pub(super) fn timed_trial(strategy: &str, block: usize, stock: i64, sold: i64, step_ms: f64) -> Trial {
    let is_lock = strategy.starts_with("zk-");
    let remaining = |order_id: i64| Some((stock - order_id).max(0)).filter(|_| order_id <= stock);
    let order = |order_id| OrderRow {
        order_id,
        goods_no: 1,
        transaction: Some(order_id),
        quantity: 1,
        strategy: strategy.into(),
        instance: "lab-1".into(),
        buyer: None,
        remaining: remaining(order_id),
        token: is_lock.then_some((order_id, 0)),
        arrival: None,
    };
    let orders: Vec<OrderRow> = (1..=sold).map(order).collect();
    let confirmed = orders.iter().map(|order| receipt(order.order_id, order.remaining)).enumerate();
    let confirmed: Vec<_> = confirmed.collect();
    let tally = tally(&samples(sold, step_ms));
    let answers = tally.answers();
    let (audit, _) = Audit::of(&LabFacts {
        stock_initial: stock,
        stock_final: (stock - sold).max(0),
        permits: is_lock.then_some(1),
        orders,
        rows: None,
        confirmed,
        sold_out: answers.sold_out,
        ..LabFacts::default()
    });
    let sections = if is_lock { sections(strategy, step_ms) } else { Vec::new() };
    let mut handovers = Times::new();
    handovers_ns(&sections).into_iter().for_each(|ns| handovers.record(Duration::from_nanos(ns)));
    let sold_at = tally.sold_at;
    let stock = usize::try_from(stock).unwrap();
    let length = tally.length;
    Trial {
        block,
        warm_up: block == 0,
        strategy: strategy.to_owned(),
        users: USERS,
        build: None,
        hazard: None,
        strike: None,
        sales: vec![7],
        answers,
        audit,
        ledger_balanced: audit.ledger_balanced(),
        unchecked: Vec::new(),
        evidence: None,
        books_read: None,
        unseen: Vec::new(),
        history: is_lock.then(|| HistoryAudit::of(&sections, Some(1), 0)),
        handovers,
        goodput_per_s: goodput_per_s(tally.first_start, &sold_at, stock),
        confirmed_per_s: goodput_per_s(tally.first_start, &sold_at, stock),
        backlog: Some(0),
        backlog_ms: Some(0.0),
        sold_out_after_ms: sold_out_after_ms(&sold_at, stock),
        duration_ms: length.as_secs_f64() * 1e3,
        silence_max_ms: tally.silence_max.map(as_ms),
        latency: tally.latency,
        zookeeper: traffic(strategy),
        postgres: PostgresLoad {
            batch_mean: Some(1.0),
            batch_max: Some(1),
            commits: Some(sold.unsigned_abs()),
            rollbacks: Some(0),
            wal_bytes: Some(700 * sold.unsigned_abs()),
            lock_wait_ms: Some(if is_lock { 0.0 } else { 120.0 }),
            lock_waiting_max: Some(if is_lock { 0 } else { 17 }),
            lock_looks: 30,
        },
        cpu: [("generator", 0.3), ("http://127.0.0.1:8080", 0.4), ("postgres", 0.2), ("zookeeper", 0.1)]
            .map(|(process, cpu_s)| ProcessCpu { process: process.to_owned(), cpu_s })
            .to_vec(),
        settled: true,
        generator: Generator::judge(Effort {
            starts: tally.starts,
            dropped: Dropped::default(),
            is_open: false,
            response_p50_ms: Some(as_ms(length / 2)),
            length,
            cpu_time: Some(length / 2),
            cores: 2,
            heartbeat: heartbeat(),
            processors: Processors {
                threads: Some(Threads { ran: Duration::from_millis(300), waited: Duration::from_millis(100) }),
                pressed: Some(length / 4),
            },
        }),
        problems: Vec::new(),
        left_out: Vec::new(),
        sold_over_time: Curve::of(sold_at),
        entered_over_time: Curve::of(sections.iter().map(|section| Duration::from_nanos(section.entered_ns)).collect()),
    }
}

/// Returns the beats of a generator that was no later than its timers.
fn heartbeat() -> Times {
    let mut beats = Times::new();
    beats.record_n(Duration::from_millis(1), 1000);
    beats
}

/// Returns the tally of these requests, of one SKU.
pub(crate) fn tally(samples: &[Sample]) -> Tally {
    let users = samples.iter().map(|sample| sample.user + 1).max().unwrap_or(0);
    let mut tally = Tally::of(1, users, true, samples.len());
    samples.iter().for_each(|sample| tally.start(sample.user, sample.started));
    samples.iter().for_each(|sample| tally.end(sample.clone()));
    tally
}

fn traffic(strategy: &str) -> Traffic {
    let (releases, deleted) = match strategy {
        "zk-naive" => (300, 43_000),
        "zk-mutex" => (300, 299),
        _ => (0, 0),
    };
    let fired = WatchesFired { created: Some(0), deleted: Some(deleted), changed: Some(0), children: Some(0) };
    Traffic {
        releases: Some(releases),
        servers: vec![ServerTraffic {
            server: "127.0.0.1:2181".to_owned(),
            watches_fired: fired.clone(),
            packets_received: Some(3 * deleted),
            packets_sent: Some(4 * deleted),
            bytes_received: Some(100 * deleted),
        }],
        watches_fired: fired,
        wake_max: (strategy == "zk-naive").then_some(297),
        packets_received: Some(3 * deleted),
        packets_sent: Some(4 * deleted),
        bytes_received: Some(100 * deleted),
        client_requests: Some(3 * deleted),
        client_notifications: Some(deleted),
        client_bytes_sent: Some(100 * deleted),
        client_bytes_received: Some(120 * deleted),
    }
}

pub(crate) fn schedule() -> Schedule {
    let subjects: Vec<Subject> = strategies().iter().map(|strategy| Subject::of(strategy, USERS)).collect();
    Schedule {
        seed: 42,
        model: Some(LoadModel::BURST),
        model_described: LoadModel::BURST.describe(USERS),
        users: vec![USERS],
        stock: 100,
        per_buyer: None,
        habits: None,
        hazards: Vec::new(),
        goods_no: 1,
        goods: 1,
        builds: Vec::new(),
        shops: Vec::new(),
        logs: Vec::new(),
        trials: TRIALS,
        instances: 3,
        zk_sessions_total: Some(300),
        business_time: Some("2ms".to_owned()),
        lock_wait_ms: Some(60_000),
        service_args: Vec::new(),
        limits: LIMITS,
        blocks: blocks(&subjects, true, TRIALS, 42),
    }
}

pub(crate) fn findings(ended_early: Option<EndedEarly>, trials: Vec<Trial>) -> Findings {
    Findings {
        generated_at: "2026-01-02T03:04:05Z".to_owned(),
        ended_early,
        environment: Environment {
            loadgen_version: "0.1.0".to_owned(),
            service: vec![Build {
                name: None,
                version: "0.1.0".to_owned(),
                revision: Some("2cecee4f00d1".to_owned()),
                changed: Some(false),
                profile: "release".to_owned(),
            }],
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
            kernel: Some("6.1.0".to_owned()),
            cpu_model: Some("Example CPU".to_owned()),
            cpu_count: 2,
            memory_bytes: Some(8 << 30),
            postgres_version: Some("15.18".to_owned()),
            postgres_settings: vec![Setting { name: "fsync".to_owned(), value: "on".to_owned() }],
            zookeeper_version: Some("3.8.0".to_owned()),
            zookeeper_servers: vec![ZooKeeperServer {
                server: "127.0.0.1:2181".to_owned(),
                mode: Some("standalone".to_owned()),
            }],
            redis_version: None,
            servers_throwaway: true,
            generator_shares_host: Some(true),
        },
        schedule: schedule(),
        strategies: strategies(),
        thresholds: Vec::new(),
        trials,
    }
}

/// Returns a warm-up and eight blocks of four strategies, without any fault.
pub(crate) fn report() -> Report {
    static REPORT: LazyLock<Report> = LazyLock::new(|| draw(1.0, ""));
    REPORT.clone()
}

/// Returns another run like [`report`], with a pace of its own, and with one strategy slowed down by a half.
pub(crate) fn run(number: u8, slowed: &str) -> Report {
    let speed = [1.0, 1.06, 0.95, 1.09, 0.98, 1.04, 0.93, 1.07][usize::from(number)];
    Report { generated_at: format!("2026-01-02T03:04:1{number}Z"), ..draw(speed, slowed) }
}

fn draw(speed: f64, slowed: &str) -> Report {
    let block = |number: usize| {
        let trial = |strategy: &str, sold: i64, step_ms: f64| {
            // Every block has a pace of its own.
            let pace = speed * (1.0 + 0.02 * f64::from(u32::try_from(number).unwrap()));
            let slowed = if strategy == slowed { 1.5 } else { 1.0 };
            timed_trial(strategy, number, 100, sold, step_ms * pace * slowed)
        };
        [
            trial("unguarded", 280, 1.0),
            trial("zk-naive", 100, 9.0),
            trial("zk-mutex", 100, 4.0),
            trial("pg-conditional", 100, 2.0),
        ]
    };
    Report::of(findings(None, (0..=TRIALS as usize).flat_map(block).collect()))
}

/// The names of the two builds of [`builds`].
pub(crate) const BUILDS: [&str; 2] = ["base", "head"];

/// Returns two builds in pairs, with one strategy slowed down by a half in the second build.
pub(crate) fn builds(slowed: &str) -> Report {
    Report::of(of_builds(slowed))
}

pub(crate) fn of_builds(slowed: &str) -> Findings {
    let of_both =
        |strategy: Strategy| BUILDS.map(|build| Strategy { build: Some(build.to_owned()), ..strategy.clone() });
    let strategies: Vec<Strategy> = strategies().into_iter().flat_map(of_both).collect();
    let subjects: Vec<Subject> = strategies.iter().map(|strategy| Subject::of(strategy, USERS)).collect();
    let trials = draw(1.0, "").trials.into_iter().enumerate().flat_map(|(position, base)| {
        // One of the two is a little slower by chance.
        let chance = if position % 3 == position % 2 { 1.01 } else { 0.99 };
        let step_ms = base.duration_ms / f64::from(USERS) * chance * if base.strategy == slowed { 1.5 } else { 1.0 };
        let head = timed_trial(&base.strategy, base.block, 100, base.audit.sold, step_ms);
        [base, head].into_iter().zip(BUILDS).map(|(trial, build)| Trial { build: Some(build.to_owned()), ..trial })
    });
    let named = |name: &str| NamedBuild { name: name.to_owned(), program: format!("target/{name}/demo-service") };
    let Findings { schedule, environment, .. } = findings(None, Vec::new());
    let of_build = |name: &str| Build { name: Some(name.to_owned()), ..environment.service[0].clone() };
    let blocks = blocks(&subjects, true, TRIALS, 42);
    Findings {
        schedule: Schedule { builds: BUILDS.map(named).to_vec(), blocks, ..schedule },
        environment: Environment { service: BUILDS.map(of_build).to_vec(), ..environment.clone() },
        strategies,
        ..findings(None, trials.collect())
    }
}

/// Returns a comparison that was interrupted after its first trial.
pub(crate) fn interrupted() -> Report {
    let ended = EndedEarly { exit_code: 130, reason: "interrupted".to_owned() };
    Report::of(findings(Some(ended), vec![trial("zk-mutex", 0, 100, 100)]))
}

/// Returns a request of user zero that was meant to start at the release.
pub(crate) fn sample(outcome: Outcome, started_ms: u64, ended_ms: u64) -> Sample {
    Sample {
        user: 0,
        buyer: 0,
        goods: 0,
        outcome,
        confirmation: (outcome == Outcome::Sold).then(|| Confirmation::Lab(OrderTold::once(receipt(1, None)))),
        intended: Duration::ZERO,
        idle_since: Duration::ZERO,
        started: Duration::from_millis(started_ms),
        first_byte: Some(Duration::from_millis(ended_ms)),
        ended: Duration::from_millis(ended_ms),
        decided: None,
        is_committed: true,
        status: Some(200),
        instance: None,
        received_bytes: 100,
        problem: None,
    }
}
