//! Every row of the registry under load: it keeps its promise, and the control shows that the load can break one.

use demo_service::strategy::registry::{Entry, Promise, STRATEGIES};
use futures_util::future::join_all;
use reqwest::StatusCode;

use crate::lab::{Instance, Lab};

const STOCK: i64 = 20;
const BUYERS: usize = 90;

/// Long enough that buyers meet in their critical sections, with waits that no buyer outlasts.
const LOAD: [&str; 12] = [
    "--hold",
    "5ms",
    "--zk-sessions",
    "4",
    "--db-connections",
    "12",
    "--lock-wait",
    "50s",
    "--db-timeout",
    "55s",
    "--http-timeout",
    "60s",
];

/// Sells one SKU to more buyers than there are units, all at once, and returns how many units were ordered.
async fn units_sold(lab: &Lab, instances: &[Instance], goods_no: i64, entry: &Entry) -> i64 {
    instances[0].reset(goods_no, STOCK).await.assert_ok();
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
    let ordered = lab.units_ordered(goods_no, 1).await;
    assert_eq!(ordered, bought, "{}: every order was answered with 200, and every 200 has its order", entry.name);
    ordered
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_keeps_its_promise_on_three_instances() {
    let lab = Lab::new().await;
    // All at once, so that they also meet in the migration of the empty database.
    let instances = join_all((0..3).map(|_| lab.start(&LOAD))).await;
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        let sold = units_sold(&lab, &instances, goods_no, entry).await;
        match entry.promise {
            Promise::Oversells | Promise::OversellsOnManyInstances => {
                assert!(sold > STOCK, "{} sold {sold} of {STOCK}", entry.name);
            }
            Promise::SafeWhileSessionLives | Promise::NeverOversells => {
                assert_eq!(sold, STOCK, "{}", entry.name);
                let left = &instances[1].get(&format!("/goods/{goods_no}")).await.body["on_hand"];
                assert_eq!(left, 0, "{}", entry.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_but_the_control_is_right_on_one_instance() {
    let lab = Lab::new().await;
    let instances = [lab.start(&LOAD).await];
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        let sold = units_sold(&lab, &instances, goods_no, entry).await;
        if entry.promise == Promise::Oversells {
            assert!(sold > STOCK, "{} sold {sold} of {STOCK}", entry.name);
        } else {
            assert_eq!(sold, STOCK, "{}", entry.name);
        }
    }
}
