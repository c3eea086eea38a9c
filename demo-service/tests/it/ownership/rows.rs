//! The row of a SKU is not as its owner expects: its fence is of another age, it is locked, or it has another sale or stock. The
//! other SKUs of its range are sold by the same term.

use tokio::task::JoinHandle;

use super::{STRATEGY, TIMES, named, owner_and_other};
use crate::lab::{Answer, Instance, Lab, wait_until};

/// A SKU of the range of SKU 1.
const NEIGHBOUR: i64 = 17;

/// Longer than a purchase waits for a key that is in use.
const LONGER_THAN_FOR_A_KEY: &str = "500ms";

/// Starts an owner that has sold SKU 1, and puts its neighbour on sale, too.
async fn owner_of_two(lab: &Lab, times: &[&str]) -> Instance {
    let owner = lab.start(times).await;
    for goods_no in [1, NEIGHBOUR] {
        owner.put_on_sale(goods_no, 10, STRATEGY).await.assert_ok();
    }
    owner.buy(1, STRATEGY).await.assert_ok();
    owner
}

/// Asserts that SKU 1 was sold under one term only.
async fn assert_one_term(lab: &Lab) {
    let sql = "select count(distinct token) from order_lines where goods_no = 1";
    let terms: i64 = sqlx::query_scalar(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert_eq!(terms, 1);
}

/// Waits until a buyer was answered, or until a statement has waited for a lock for longer than a purchase waits for a key.
async fn wait_for_long_wait(lab: &Lab, buyer: &JoinHandle<Answer>) {
    let sql =
        "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                   and query_start < clock_timestamp() - $1::text::interval";
    let mut connection = lab.connect().await;
    wait_until(async || {
        let query = sqlx::query_scalar(sql).bind(LONGER_THAN_FOR_A_KEY);
        buyer.is_finished() || query.fetch_one(&mut connection).await.unwrap()
    })
    .await;
}

/// Goal: a fence that no term of this ensemble can reach concerns its SKU only. Method: the fence of one SKU is raised by hand,
/// as if ZooKeeper had been rebuilt. The neighbour is sold meanwhile, through the owner and through another instance.
// S43
#[tokio::test]
async fn a_fence_of_another_age_leaves_the_term_to_its_neighbours() {
    let lab = Lab::new().await;
    let owner = owner_of_two(&lab, &TIMES).await;
    let other = named(&lab, "other").await;
    let raise = "update goods set fence = 9000000000000000000 where goods_no = $1";
    sqlx::query(raise).bind(NEIGHBOUR).execute(&mut lab.connect().await).await.unwrap();
    for instance in [&owner, &other, &owner, &other] {
        instance.buy(NEIGHBOUR, STRATEGY).await.assert_problem(503, "fenced");
        instance.buy(1, STRATEGY).await.assert_ok();
    }
    assert_one_term(&lab).await;
    assert_eq!(lab.assert_adds_up(1, "beside a fenced SKU").await, 5);
    // The remedy.
    owner.put_sale(NEIGHBOUR, &serde_json::json!({ "stock": "remaining", "strategy": STRATEGY })).await.assert_ok();
    other.buy(NEIGHBOUR, STRATEGY).await.assert_ok();
}

// S43
#[tokio::test]
async fn a_row_that_is_locked_leaves_the_term_to_its_neighbours() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "4s", "--db-timeout", "9s", "--http-timeout", "50s"];
    let owner = owner_of_two(&lab, &times).await;
    let row = lab.lock_row(NEIGHBOUR).await;
    // The term reads the row for the first time.
    owner.buy(NEIGHBOUR, STRATEGY).await.assert_problem(503, "lock-timeout");
    wait_until(async || lab.lock_waits().await == 0).await;
    owner.buy(1, STRATEGY).await.assert_ok();
    row.release().await;
    owner.buy(NEIGHBOUR, STRATEGY).await.assert_ok();
    let row = lab.lock_row(NEIGHBOUR).await;
    // The term knows the stock, so the batch meets the lock.
    owner.buy(NEIGHBOUR, STRATEGY).await.assert_problem(503, "lock-timeout");
    row.release().await;
    owner.buy(1, STRATEGY).await.assert_ok();
    assert_one_term(&lab).await;
    assert_eq!(lab.assert_adds_up(NEIGHBOUR, "a locked row").await, 1);
}

/// Goal: a batch waits for its row as long as its buyers wait for a lock. Method: the test has the row for longer than a
/// purchase waits for a key.
// S40
#[tokio::test]
async fn a_batch_waits_for_its_row_longer_than_for_a_key() {
    let (lab, instance) = Lab::with_instance(&TIMES).await;
    for (goods_no, strategy) in (1..).zip(["zk-merge", STRATEGY]) {
        instance.put_on_sale(goods_no, 10, strategy).await.assert_ok();
        instance.buy(goods_no, strategy).await.assert_ok();
        let row = lab.lock_rows().await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        wait_for_long_wait(&lab, &buyer).await;
        row.release().await;
        buyer.await.unwrap().assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 2);
    }
}

/// Sets the units that are left of SKU 1, and its sale, as a restored database would have them.
async fn restore(lab: &Lab, sale: i64, units: i64) {
    let sql = "update goods set sale = $1, on_hand = $2, stock_initial = $2 + (
                   select coalesce(sum(quantity), 0) from order_lines where goods_no = 1 and sale = $1)
               where goods_no = 1";
    sqlx::query(sql).bind(sale).bind(units).execute(&mut lab.connect().await).await.unwrap();
}

/// Goal: an owner that remembers a stock sells the stock of the row. Method: the row is changed by hand under the owner. Buyers
/// come through the owner and through another instance.
// S44
#[tokio::test]
async fn an_owner_sells_a_stock_that_others_have_changed() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    for units in [5, 0, 1, 0, 20] {
        for instance in [&owner, &other] {
            restore(&lab, 1, units).await;
            let answer = instance.buy(1, STRATEGY).await;
            match units {
                0 => answer.assert_problem(409, "sold-out"),
                _ => assert_eq!(answer.body["remaining"], units - 1, "{answer:?}"),
            }
            lab.assert_adds_up(1, "a stock that was changed").await;
        }
    }
    assert_one_term(&lab).await;
}

/// Goal: a database that was restored to an earlier sale sells that sale. Method: the row is changed by hand. One batch of the
/// owner has a buyer of each sale, because the owner still knows the later one.
// S44
#[tokio::test]
async fn an_owner_sells_an_earlier_sale_that_was_restored() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    let newcomer = named(&lab, "new").await;
    for _ in 0..2 {
        owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
        owner.buy(1, STRATEGY).await.assert_ok();
    }
    restore(&lab, 1, 4).await;
    other.buy(1, STRATEGY).await.assert_ok();
    let row = lab.lock_rows().await;
    let first = other.spawn_buy(1, STRATEGY);
    lab.wait_for_lock().await;
    let both = [owner.spawn_buy(1, STRATEGY), newcomer.spawn_buy(1, STRATEGY)];
    owner.wait_for_waiting(STRATEGY, 2).await;
    row.release().await;
    for buyer in [first].into_iter().chain(both) {
        buyer.await.unwrap().assert_ok();
    }
    assert_eq!(lab.assert_adds_up(1, "an earlier sale").await, 5);
    owner.buy(1, STRATEGY).await.assert_problem(409, "sold-out");
}
