//! Sales whose stock lies in several rows: a row a unit (`pg-units`), or a row a bucket (`pg-buckets`).

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::database::DatabaseLock;
use crate::lab::{Answer, Instance, Lab, PATIENT, TOKEN};

/// The strategies, and the table that each of them sells from.
const LAYOUTS: [(&str, &str); 2] = [("pg-units", "units"), ("pg-buckets", "buckets")];

/// Room for purchases that meet.
const LOAD: [&str; 2] = ["--db-connections", "12"];

impl Lab {
    /// Locks the rows of all units of a SKU, as a purchase does that is not committed yet.
    async fn lock_stock(&self, table: &str, goods_no: i64) -> DatabaseLock {
        self.lock(&format!("select from {table} where goods_no = {goods_no} for update")).await
    }

    /// Takes all units of a SKU, and does not commit it yet.
    async fn take_stock(&self, table: &str, goods_no: i64) -> DatabaseLock {
        let taken = if table == "units" { "order_id = 0" } else { "on_hand = 0" };
        self.lock(&format!("update {table} set {taken} where goods_no = {goods_no}")).await
    }

    /// Waits until that many sessions wait for a lock of the database.
    async fn wait_for_lock_waits(&self, count: i64) {
        crate::lab::wait_until(async || self.lock_waits().await == count).await;
    }

    /// Returns what was left of a sale when the next one started.
    async fn final_stock(&self, goods_no: i64, sale: i64) -> Option<i64> {
        let sql = "select on_hand_final from sales where goods_no = $1 and sale = $2";
        let query = sqlx::query_scalar(sql).bind(goods_no).bind(sale);
        query.fetch_one(&mut self.connect().await).await.unwrap()
    }
}

/// Starts the next sale of a SKU beside the test.
fn spawn_sale(instance: &Instance, goods_no: i64, body: &serde_json::Value) -> tokio::task::JoinHandle<Answer> {
    let request = instance.request(Method::PUT, &format!("/admin/goods/{goods_no}")).bearer_auth(TOKEN).json(body);
    tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await })
}

/// Goal: nobody is told "sold out" because of a purchase that is not committed. Method: the test holds the last units.
// S103
#[tokio::test]
async fn the_last_unit_is_waited_for_while_another_buyer_holds_it() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, (strategy, table)) in (1..).zip(LAYOUTS) {
        for quantity in [1, 2] {
            instance.put_on_sale(goods_no, 2, strategy).await.assert_ok();
            let holder = lab.take_stock(table, goods_no).await;
            let buyer = instance.spawn_order(goods_no, quantity, strategy, &format!("{strategy}-back-{quantity}"));
            lab.wait_for_lock().await;
            holder.release().await;
            buyer.await.unwrap().assert_created();
            assert_eq!(lab.assert_adds_up(goods_no, strategy).await, quantity);
        }
        instance.put_on_sale(goods_no, 1, strategy).await.assert_ok();
        let holder = lab.take_stock(table, goods_no).await;
        let buyer = instance.spawn_order(goods_no, 1, strategy, &format!("{strategy}-gone"));
        lab.wait_for_lock().await;
        holder.commit().await;
        buyer.await.unwrap().assert_problem(409, "sold-out");
    }
}

// S27
#[tokio::test]
async fn units_that_others_hold_are_waited_for_so_long_and_no_longer() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "1s", "--remember-sold-out"]).await;
    for (goods_no, (strategy, table)) in (1..).zip(LAYOUTS) {
        instance.put_on_sale(goods_no, 3, strategy).await.assert_ok();
        let holder = lab.lock_stock(table, goods_no).await;
        instance.buy(goods_no, strategy).await.assert_problem(503, "lock-timeout");
        holder.release().await;
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
    }
}

#[tokio::test]
async fn a_buyer_that_hangs_up_does_not_wait_for_units() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, (strategy, table)) in (1..).zip(LAYOUTS) {
        instance.put_on_sale(goods_no, 3, strategy).await.assert_ok();
        let holder = lab.lock_stock(table, goods_no).await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock().await;
        buyer.abort();
        lab.wait_for_lock_waits(0).await;
        holder.release().await;
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 0);
    }
}

// S103
#[tokio::test]
async fn a_quantity_is_sold_from_as_many_rows_as_it_needs() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, (strategy, _)) in (1..).zip(LAYOUTS) {
        // More units than buckets, so that no bucket has a tenth of what is bought.
        instance.put_on_sale(goods_no, 130, strategy).await.assert_ok();
        let order =
            async |quantity| instance.order(goods_no, quantity, strategy, &format!("{strategy}-{quantity}")).await;
        order(131).await.assert_problem(409, "sold-out");
        let sold = order(100).await;
        sold.assert_created();
        assert_eq!(sold.body["lines"][0]["remaining"], json!(null));
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body["on_hand"], 30, "{strategy}");
        order(31).await.assert_problem(409, "sold-out");
        order(30).await.assert_created();
        instance.buy(goods_no, strategy).await.assert_problem(409, "sold-out");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 130);
    }
}

/// Goal: "sold out" is never told while the stock is enough, and buyers of several units never wait for each other. Method: a crowd
/// buys the last units. No unit comes back, so each refused buyer asked for more than is left now.
// S103
#[tokio::test(flavor = "multi_thread")]
async fn no_crowd_is_told_sold_out_while_enough_is_left() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &LOAD].concat();
    let instances = join_all((0..2).map(|_| lab.start(&arguments))).await;
    for (goods_no, (strategy, _)) in (1..).zip(LAYOUTS) {
        instances[0].put_on_sale(goods_no, 40, strategy).await.assert_ok();
        let orders = (0..40).map(|buyer| {
            let quantity = i64::try_from(buyer % 4 + 1).unwrap();
            let order = instances[buyer % 2].spawn_order(goods_no, quantity, strategy, &format!("{strategy}-{buyer}"));
            async move { (quantity, order.await.unwrap()) }
        });
        let answers = join_all(orders.collect::<Vec<_>>()).await;
        let left = 40 - lab.assert_adds_up(goods_no, strategy).await;
        for (quantity, answer) in answers {
            if answer.status != StatusCode::CREATED {
                answer.assert_problem(409, "sold-out");
                assert!(quantity > left, "{strategy}: {quantity} were refused, and {left} are left");
            }
        }
    }
}

/// Goal: the ledger has what a sale left, although its purchases do not write the row of the SKU. Method: the next sale starts
/// while a purchase waits for its units.
// S17
#[tokio::test]
async fn the_next_sale_starts_after_the_purchases_under_way() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, (strategy, table)) in (1..).zip(LAYOUTS) {
        for (sale, stock) in [(1, json!(7)), (2, json!("remaining"))] {
            if sale == 1 {
                instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
            }
            let holder = lab.lock_stock(table, goods_no).await;
            let buyer = instance.spawn_buy(goods_no, strategy);
            lab.wait_for_lock().await;
            let next = spawn_sale(&instance, goods_no, &json!({ "stock": stock, "strategy": strategy }));
            lab.wait_for_lock_waits(2).await;
            holder.release().await;
            let bought = buyer.await.unwrap();
            bought.assert_ok();
            next.await.unwrap().assert_ok();
            let stock = if sale == 1 { 5 } else { 7 };
            assert_eq!(lab.units_ordered(goods_no, sale).await, 1, "{strategy}");
            assert_eq!(lab.final_stock(goods_no, sale).await, Some(stock - 1), "{strategy}");
        }
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body["stock_initial"], 6, "{strategy}");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 0);
    }
}

/// Goal: no purchase sells from a sale whose end is noted. Method: the start of the next sale has noted nothing yet, but purchases
/// cannot begin any more: the test holds the row of the ledger.
// S7
#[tokio::test]
async fn a_purchase_that_comes_with_the_next_sale_buys_from_it() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, (strategy, _)) in (1..).zip(LAYOUTS) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        instance.buy(goods_no, strategy).await.assert_ok();
        let ledger = lab.lock(&format!("select from sales where goods_no = {goods_no} for update")).await;
        let next = spawn_sale(&instance, goods_no, &json!({ "stock": 9, "strategy": strategy }));
        lab.wait_for_lock().await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock_waits(2).await;
        ledger.release().await;
        next.await.unwrap().assert_ok();
        buyer.await.unwrap().assert_ok();
        let ordered = (lab.units_ordered(goods_no, 1).await, lab.units_ordered(goods_no, 2).await);
        assert_eq!((ordered, lab.final_stock(goods_no, 1).await), ((1, 1), Some(4)), "{strategy}");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
    }
}

#[tokio::test]
async fn a_purchase_that_claims_a_sale_lays_its_stock_out() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, (strategy, _)) in (1..).zip(LAYOUTS) {
        lab.put_on_sale_unguarded(goods_no, 5).await;
        instance.buy(goods_no, strategy).await.assert_ok();
        let goods = instance.get(&format!("/goods/{goods_no}")).await.body;
        assert_eq!((&goods["guard"], &goods["on_hand"]), (&json!(strategy), &json!(4)));
        instance.order(goods_no, 4, "", strategy).await.assert_created();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 5);
    }
}

// S104
#[tokio::test]
async fn more_units_than_can_have_rows_are_refused() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    let assert_refused = |answer: Answer, kind: &str| {
        answer.assert_problem(422, kind);
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains("at most 1000000 units") && detail.contains("another strategy"), "{detail}");
    };
    assert_refused(instance.put_on_sale(1, 1_000_001, "pg-units").await, "invalid-input");
    instance.get("/goods/1").await.assert_problem(404, "unknown-goods");
    instance.put_on_sale(1, 1_000_001, "pg-buckets").await.assert_ok();
    let next = json!({ "stock": "remaining", "strategy": "pg-units" });
    assert_refused(instance.put_sale(1, &next).await, "invalid-input");
    assert_eq!(instance.get("/goods/1").await.body["sale"], 1);
    lab.put_on_sale_unguarded(2, 1_000_001).await;
    let claim = instance.buy(2, "pg-units").await;
    claim.assert_problem(422, "guard-mismatch");
    assert!(claim.body["detail"].as_str().unwrap().contains("at most 1000000 units"), "{claim:?}");
    assert_eq!(instance.get("/goods/2").await.body["guard"], json!(null));
    assert_eq!(lab.orders().await, 0);
}
