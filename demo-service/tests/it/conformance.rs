//! Every row of the registry under load: it keeps its promise, and the control shows that the load can break one.

// S5

use demo_service::strategy::entry::{Entry, Promise};
use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use reqwest::StatusCode;

use crate::lab::{Instance, Lab, PATIENT};

const STOCK: i64 = 20;
const BUYERS: usize = 60;

/// Sales of a control, of which one must sell too much. How wide its mistake is open depends on the machine's load.
const CONTROL_SALES: i64 = 50;

/// Long enough that buyers meet in their critical sections.
const LOAD: [&str; 6] = ["--business-time", "5ms", "--zk-sessions", "4", "--db-connections", "12"];

/// Sells one SKU to more buyers than there are units, all at once, and returns how many units were ordered.
async fn units_sold(lab: &Lab, instances: &[Instance], goods_no: i64, entry: &Entry) -> i64 {
    let opened = instances[0].put_on_sale(goods_no, STOCK, entry.name).await;
    opened.assert_ok();
    let sale = opened.body["sale"].as_i64().unwrap();
    let buyers = (0..BUYERS).map(|buyer| instances[buyer % instances.len()].spawn_buy(goods_no, entry.name));
    let answers = join_all(buyers.collect::<Vec<_>>()).await;
    let mut bought = 0;
    for answer in answers.into_iter().map(Result::unwrap) {
        if answer.status == StatusCode::OK {
            bought += 1;
        } else {
            answer.assert_problem(409, "sold-out");
        }
    }
    let ordered = lab.units_ordered(goods_no, sale).await;
    assert_eq!(ordered, bought, "{}: every order was answered with 200, and every 200 has its order", entry.name);
    ordered
}

/// Asserts that the load can break a promise.
async fn assert_oversells(lab: &Lab, instances: &[Instance], goods_no: i64, entry: &Entry) {
    for _ in 0..CONTROL_SALES {
        if units_sold(lab, instances, goods_no, entry).await > STOCK {
            return;
        }
    }
    panic!("{} sold {STOCK} in each of {CONTROL_SALES} sales", entry.name);
}

/// Returns the most critical sections of a SKU that were under way at one time, over all instances.
async fn most_sections_at_once(instances: &[Instance], goods_no: i64) -> i64 {
    let mut steps = Vec::new();
    for instance in instances {
        let history = instance.admin_get("/admin/history").await;
        history.assert_ok();
        assert_eq!(history.body["dropped_total"], 0);
        let records = history.body["records"].as_array().unwrap();
        for record in records.iter().filter(|record| record["goods_no"] == goods_no) {
            let [asked, entered, left] = ["asked_ns", "entered_ns", "left_ns"].map(|at| record[at].as_u64().unwrap());
            assert!(asked <= entered && entered <= left, "{record}");
            steps.extend([(entered, 1), (left, -1)]);
        }
    }
    assert!(!steps.is_empty(), "SKU {goods_no} has a history");
    // A buyer that leaves at the very nanosecond at which another one enters does not overlap it.
    steps.sort_unstable();
    let mut inside = 0;
    let depths = steps.iter().map(|(_, step)| {
        inside += step;
        inside
    });
    depths.max().unwrap()
}

async fn assert_sections(instances: &[Instance], goods_no: i64, entry: &Entry) {
    let listed = instances[0].get("/strategies").await.body;
    let row = listed["strategies"].as_array().unwrap().iter().find(|row| row["name"] == entry.name).unwrap();
    // Where they exclude each other nowhere, nothing is recorded, or whatever happened is.
    let Some(permits) = row["permits"].as_i64() else { return };
    let most = most_sections_at_once(instances, goods_no).await;
    assert!(most <= permits, "{most} sections of {} at once", entry.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_keeps_its_promise_on_three_instances() {
    let lab = Lab::new().await;
    // All at once, so that they also meet in the migration of the empty database.
    let arguments = [PATIENT, LOAD].concat();
    let instances = join_all((0..3).map(|_| lab.start(&arguments))).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        match entry.promise {
            Promise::Oversells | Promise::OversellsOnManyInstances => {
                assert_oversells(&lab, &instances, goods_no, entry).await;
                assert!(most_sections_at_once(&instances, goods_no).await > 1, "{}", entry.name);
            }
            Promise::ExceedsLimit
            | Promise::MayPromiseWithoutOrder
            | Promise::SafeWhileLockLives
            | Promise::SafeWhileSessionLives
            | Promise::NeverOversells => {
                assert_eq!(units_sold(&lab, &instances, goods_no, entry).await, STOCK, "{}", entry.name);
                assert_sections(&instances, goods_no, entry).await;
                let left = &instances[1].get(&format!("/goods/{goods_no}")).await.body["on_hand"];
                assert_eq!(left, 0, "{}", entry.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_but_the_control_is_right_on_one_instance() {
    let lab = Lab::new().await;
    let instances = [lab.start(&[PATIENT, LOAD].concat()).await];
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        if entry.promise == Promise::Oversells {
            assert_oversells(&lab, &instances, goods_no, entry).await;
        } else {
            assert_eq!(units_sold(&lab, &instances, goods_no, entry).await, STOCK, "{}", entry.name);
        }
    }
}
