//! A sale with a limit per buyer.

use demo_service::strategy::entry::Promise;
use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::lab::{Answer, Lab, PATIENT, Shop, cart, wait_until};

/// How often each buyer presses the button at once.
const PRESSES: usize = 3;
const BUYERS: usize = 4;

impl Shop {
    /// Starts a sale in which no buyer gets more than `per_buyer` units.
    async fn limit_sale(&self, goods_no: i64, stock: i64, strategy: &str, per_buyer: i64) -> Answer {
        let body = json!({ "stock": stock, "strategy": strategy, "per_buyer": per_buyer });
        let opened = self.put_sale(goods_no, &body).await;
        opened.assert_ok();
        assert_eq!(opened.body["per_buyer"], per_buyer);
        opened
    }

    /// Prepares a purchase of one unit by that buyer.
    fn purchase_by(&self, buyer: &str, goods_no: i64) -> RequestBuilder {
        self.request(Method::GET, &format!("/goods-stock/{goods_no}")).header("buyer-id", buyer)
    }

    async fn buy_as(&self, buyer: &str, goods_no: i64) -> Answer {
        Answer::of(self.purchase_by(buyer, goods_no).send().await.unwrap()).await
    }

    fn spawn_buy_as(&self, buyer: &str, goods_no: i64) -> JoinHandle<Answer> {
        let request = self.purchase_by(buyer, goods_no);
        let shop = self.another();
        tokio::spawn(async move { shop.decided(Answer::of(request.send().await.unwrap()).await).await })
    }

    async fn order_as(&self, buyer: &str, key: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).header("buyer-id", buyer).header("idempotency-key", key);
        Answer::of(request.json(body).send().await.unwrap()).await
    }
}

impl Lab {
    /// Returns the most units that one buyer has ordered of the current sale of a SKU.
    async fn most_of_one_buyer(&self, goods_no: i64) -> i64 {
        let sql = "select max(units)::bigint from (
                       select sum(quantity) as units from orders join order_lines using (order_id) join goods using (goods_no, sale)
                       where goods_no = $1 group by buyer) as buyers";
        sqlx::query_scalar(sql).bind(goods_no).fetch_one(&mut self.connect().await).await.unwrap()
    }
}

// S105
#[tokio::test(flavor = "multi_thread")]
async fn no_buyer_gets_more_than_the_limit_on_three_instances() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &["--business-time", "5ms", "--db-connections", "12"]].concat();
    let instances = join_all((0..3).map(|_| lab.start(&arguments))).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES.iter().filter(|entry| entry.promise != Promise::ExceedsLimit)) {
        instances[0].limit_sale(goods_no, 100, entry.name, 1).await;
        let presses = (0..BUYERS * PRESSES).map(|press| {
            let buyer = format!("buyer-{}", press / PRESSES);
            instances[press % instances.len()].spawn_buy_as(&buyer, goods_no)
        });
        let answers = join_all(presses.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap);
        let (sold, refused): (Vec<_>, Vec<_>) = answers.partition(|answer| answer.status.is_success());
        refused.iter().for_each(|answer| answer.assert_problem(403, "over-limit"));
        assert_eq!(sold.len(), BUYERS, "{}: each buyer bought once", entry.name);
        assert_eq!(lab.most_of_one_buyer(goods_no).await, 1, "{}", entry.name);
        // The units of the refused were given back. A control loses updates whatever the limit is.
        if matches!(entry.promise, Promise::NeverOversells | Promise::MayPromiseWithoutOrder) {
            assert_eq!(lab.assert_adds_up(goods_no, entry.name).await, i64::try_from(BUYERS).unwrap());
        }
    }
}

// S105
#[tokio::test(flavor = "multi_thread")]
async fn the_control_counts_none_when_one_buyer_presses_twice() {
    let (lab, shop) = Lab::with_instance(&PATIENT).await;
    shop.limit_sale(1, 100, "pg-counted-limit", 1).await;
    // Both requests have counted when they wait for the row.
    let row = lab.lock_row(1).await;
    let presses = [shop.spawn_buy_as("ann", 1), shop.spawn_buy_as("ann", 1)];
    wait_until(async || lab.lock_waits().await == 2).await;
    row.release().await;
    for press in presses {
        press.await.unwrap().assert_ok();
    }
    assert_eq!(lab.most_of_one_buyer(1).await, 2);
    // One after the other they are counted.
    shop.buy_as("ann", 1).await.assert_problem(403, "over-limit");
    assert_eq!(lab.assert_adds_up(1, "the control").await, 2);
}

#[tokio::test]
async fn a_limit_counts_units_of_one_sale_and_of_one_buyer() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    for strategy in ["zk-mutex", "pg-conditional", "pg-function", "pg-merge"] {
        shop.limit_sale(1, 10, strategy, 3).await;
        let order = async |buyer: &'static str, key: &str, units: i64| {
            shop.order_as(
                buyer,
                &format!("{strategy} {key}").replace(' ', "-"),
                "/goods/1/orders",
                &json!({ "quantity": units }),
            )
            .await
        };
        order("ann", "1", 2).await.assert_created();
        order("ann", "2", 2).await.assert_problem(403, "over-limit");
        order("ann", "3", 1).await.assert_created();
        order("ann", "4", 1).await.assert_problem(403, "over-limit");
        order("bob", "5", 4).await.assert_problem(403, "over-limit");
        order("bob", "6", 3).await.assert_created();
        // A repeated request gets its order, whatever the buyer has by now.
        let again = order("ann", "1", 2).await;
        again.assert_created();
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(lab.assert_adds_up(1, strategy).await, 6);
        // Another sale counts anew, and one without a limit asks for nobody.
        shop.limit_sale(1, 10, strategy, 3).await;
        order("ann", "7", 3).await.assert_created();
        shop.put_on_sale(1, 10, strategy).await.assert_ok();
        shop.buy(1, strategy).await.assert_ok();
        assert_eq!(shop.get("/goods/1").await.body["per_buyer"], Value::Null);
    }
}

#[tokio::test]
async fn a_cart_beyond_the_limit_of_one_line_buys_nothing() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    for strategy in ["zk-multi", "pg-conditional", "pg-function"] {
        shop.put_on_sale(1, 10, strategy).await.assert_ok();
        shop.limit_sale(2, 10, strategy, 1).await;
        let order = async |key: &str| {
            let key = format!("{strategy}-{key}");
            shop.order_as("ann", &key, &format!("/orders?strategy={strategy}"), &cart(&[(1, 2), (2, 1)])).await
        };
        order("first").await.assert_created();
        let refused = order("second").await;
        refused.assert_problem(403, "over-limit");
        assert!(refused.body["detail"].as_str().unwrap().contains("SKU 2"), "{refused:?}");
        assert_eq!([lab.assert_adds_up(1, strategy).await, lab.assert_adds_up(2, strategy).await], [2, 1]);
    }
}

#[tokio::test]
async fn a_sale_with_a_limit_asks_who_buys() {
    let (_lab, shop) = Lab::with_instance(&[]).await;
    shop.limit_sale(1, 10, "pg-conditional", 1).await;
    let nobody = shop.buy(1, "").await;
    nobody.assert_problem(422, "buyer-unclear");
    assert!(nobody.body["detail"].as_str().unwrap().contains("Buyer-Id"), "{nobody:?}");
    let by_member = json!({ "quantity": 1, "buyer": "ann" });
    shop.post("/goods/1/orders", Some("1"), &by_member).await.assert_created();
    shop.buy_as("ann", 1).await.assert_problem(403, "over-limit");
    // The header and the member may agree, and may not contradict each other.
    shop.order_as("bob", "2", "/goods/1/orders", &by_member).await.assert_problem(422, "buyer-unclear");
    shop.order_as("ann", "1", "/goods/1/orders", &by_member).await.assert_created();
    let malformed = json!({ "quantity": 1, "buyer": "two words" });
    shop.post("/goods/1/orders", Some("3"), &malformed).await.assert_problem(422, "invalid-input");
    let twice = shop.purchase_by("ann", 1).header("buyer-id", "bob").send().await.unwrap();
    Answer::of(twice).await.assert_problem(422, "invalid-input");
    for per_buyer in [0, -1] {
        let body = json!({ "stock": 1, "per_buyer": per_buyer });
        shop.put_sale(1, &body).await.assert_problem(422, "invalid-input");
    }
}
