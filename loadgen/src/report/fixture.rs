//! Comparisons with fixed figures, for the tests of everything that reads them.

use std::time::Duration;

use loadgen::audit::{Audit, Evidence, OrderRow};
use loadgen::stats::Times;

use crate::generator::{Burst, Generator};
use crate::herd::{Traffic, WatchesFired};
use crate::plan::Plan;
use crate::report::{Environment, Findings, Parameters, Report};
use crate::strategies::tests::strategy;
use crate::strategies::{Guard, Promise, Strategy, Wakes};
use crate::trial::tests::sample;
use crate::trial::{ByOutcome, Outcome, Timings, Trial, sold_per_second};

const USERS: i64 = 300;

pub(crate) fn strategies() -> Vec<Strategy> {
    vec![
        strategy("unguarded", Promise::Oversells, Guard::None, Wakes::None),
        strategy("zk-naive", Promise::SafeWhileSessionLives, Guard::Zookeeper, Wakes::All),
        strategy("zk-mutex", Promise::SafeWhileSessionLives, Guard::Zookeeper, Wakes::One),
        strategy("pg-conditional", Promise::NeverOversells, Guard::Postgres, Wakes::None),
    ]
}

/// A trial that sold so many units, the first after one step, each of the others a step later.
pub(crate) fn trial(strategy: &str, block: usize, stock: i64, sold: i64) -> Trial {
    timed_trial(strategy, block, stock, sold, 2)
}

fn timed_trial(strategy: &str, block: usize, stock: i64, sold: i64, step_ms: u64) -> Trial {
    let orders: Vec<OrderRow> =
        (1..=sold).map(|order_id| OrderRow { order_id, quantity: 1, strategy: strategy.to_owned() }).collect();
    let confirmed: Vec<i64> = (1..=sold).collect();
    let outcome = |number: i64| {
        if number <= sold { Outcome::Sold { order_id: number, quantity: 1 } } else { Outcome::SoldOut }
    };
    let samples: Vec<_> =
        (1..=USERS).map(|number| sample(outcome(number), 1, step_ms * number.unsigned_abs())).collect();
    let sold_out = (USERS - sold).unsigned_abs();
    let audit = Audit::of(&Evidence {
        stock_initial: stock,
        stock_final: (stock - sold).max(0),
        orders: &orders,
        confirmed: &confirmed,
        sold_out,
        refused: 0,
        unanswered: 0,
    });
    let timings = Timings::of(&samples);
    Trial {
        block,
        strategy: strategy.to_owned(),
        sale: 7,
        answers: ByOutcome { sold: sold.unsigned_abs(), sold_out, ..ByOutcome::default() },
        audit,
        ledger_balanced: audit.ledger_balanced(),
        sold_per_second: sold_per_second(&samples),
        duration_ms: 600.0,
        latency_ms: timings.response.map(Times::summary),
        first_byte_ms: timings.first_byte_sold.summary(),
        zookeeper: traffic(strategy),
        settled: true,
        generator: Generator::judge(&Burst {
            start_lags: vec![Duration::from_millis(1); 300],
            response_p50: Some(Duration::from_millis(300)),
            length: Duration::from_millis(600),
            cpu_time: Duration::from_millis(300),
            cores: 2,
        }),
        problems: Vec::new(),
        timings,
    }
}

fn traffic(strategy: &str) -> Traffic {
    let (releases, deleted) = match strategy {
        "zk-naive" => (300, 43_000),
        "zk-mutex" => (300, 299),
        _ => (0, 0),
    };
    Traffic {
        releases: Some(releases),
        watches_fired: WatchesFired { created: Some(0), deleted: Some(deleted), changed: Some(0), children: Some(0) },
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

pub(crate) fn findings(interrupted: bool, trials: Vec<Trial>) -> Findings {
    let names: Vec<String> = strategies().into_iter().map(|strategy| strategy.name).collect();
    Findings {
        generated_at: "2026-01-02T03:04:05Z".to_owned(),
        interrupted,
        environment: Environment {
            loadgen_version: "0.1.0",
            os: "linux",
            arch: "x86_64",
            kernel: Some("6.1.0".to_owned()),
            cpu_count: 2,
            postgres_version: "15.18".to_owned(),
            zookeeper_version: Some("3.8.0".to_owned()),
            servers_throwaway: true,
            generator_shares_host: Some(true),
        },
        parameters: Parameters {
            load_model: "closed burst",
            users: 300,
            stock: 100,
            trials: 2,
            instances: 3,
            zk_sessions_total: Some(300),
            hold: Some("2ms".to_owned()),
            lock_wait_ms: Some(60_000),
            goods_no: 1,
        },
        plan: Plan { seed: 42, blocks: vec![names.clone(), names] },
        strategies: strategies(),
        trials,
    }
}

/// Two blocks of four strategies, all as they should be.
pub(crate) fn report() -> Report {
    let block = |number| {
        [
            timed_trial("unguarded", number, 100, 280, 1),
            timed_trial("zk-naive", number, 100, 100, 9),
            timed_trial("zk-mutex", number, 100, 100, 4),
            timed_trial("pg-conditional", number, 100, 100, 2),
        ]
    };
    Report::of(findings(false, (0..2).flat_map(block).collect()))
}

/// Stopped after its first trial.
pub(crate) fn interrupted() -> Report {
    Report::of(findings(true, vec![trial("zk-mutex", 0, 100, 100)]))
}
