//! `pg-queue`: tickets, what they tell, and what becomes of them when something dies.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::json;
use sqlx::Executor;

use crate::commits::Gate;
use crate::lab::{Answer, CONDITION_WITHIN, Lab, PATIENT, Shop};

impl Lab {
    /// Returns how many tickets wait for their decision.
    pub(crate) async fn tickets_waiting(&self) -> i64 {
        let sql = "select count(*) from tickets where outcome is null";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }
}

impl Answer {
    /// Returns the path of the ticket, if the purchase waits for its decision.
    pub(crate) fn ticket(&self) -> Option<String> {
        (self.status == StatusCode::ACCEPTED).then(|| format!("/tickets/{}", self.body["ticket"]))
    }
}

impl Shop {
    /// Returns the same shop for a task of its own.
    pub(crate) fn another(&self) -> Self {
        Self { address: self.address, client: self.client.clone() }
    }

    /// Returns the decision of a purchase: the answer, or what its ticket tells in the end.
    pub(crate) async fn decided(&self, answer: Answer) -> Answer {
        let Some(ticket) = answer.ticket() else {
            self.until_written(&answer).await;
            return answer;
        };
        self.look_until(&ticket, |told| told.ticket().is_none()).await
    }

    /// Looks at a path until the answer is the wanted one, every few milliseconds.
    pub(crate) async fn look_until(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool + Send) -> Answer {
        let look = async {
            loop {
                let answer = self.get(path).await;
                if is_wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(CONDITION_WITHIN, look).await.expect("the wanted answer should come")
    }

    /// Returns the decision of an order, as the order itself would have been answered.
    pub(crate) async fn decided_order(&self, answer: Answer) -> Answer {
        let first = answer.headers.get("idempotent-replayed").cloned();
        let is_ticket = answer.ticket().is_some();
        let decided = self.decided(answer).await;
        if !is_ticket || decided.status != StatusCode::OK {
            return decided;
        }
        let replayed = first.or_else(|| decided.headers.get("idempotent-replayed").cloned());
        let location = format!("/orders/{}", decided.body["order_id"]);
        let mut order = self.get(&location).await;
        order.status = StatusCode::CREATED;
        order.headers.insert("location", location.parse().unwrap());
        if let Some(replayed) = replayed {
            order.headers.insert("idempotent-replayed", replayed);
        }
        order
    }
}

// S111
#[tokio::test]
async fn a_ticket_tells_what_the_purchase_would_have_told() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_sale(1, &json!({ "stock": 3, "strategy": "pg-queue", "per_buyer": 2 })).await.assert_ok();
    let buy = async |buyer: &str, quantity: i64, key: &str| {
        let body = json!({ "quantity": quantity, "buyer": buyer });
        instance.post("/goods/1/orders", Some(key), &body).await
    };
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let first = buy("ann", 2, "first").await;
    assert_eq!((first.status.as_u16(), first.header("retry-after")), (202, Some("1")), "{first:?}");
    assert_eq!(first.header("location"), first.ticket().as_deref());
    assert_eq!(first.body, json!({ "ticket": first.body["ticket"], "goods_no": 1, "sale": 1, "quantity": 2 }));
    // While it waits, the same key has the same ticket, and another cart may not have the key.
    let again = buy("ann", 2, "first").await;
    assert_eq!((&again.body, again.header("idempotent-replayed")), (&first.body, Some("true")));
    buy("ann", 1, "first").await.assert_problem(422, "idempotency-key-reused");
    let beyond = buy("ann", 1, "beyond").await;
    let second = buy("bob", 1, "second").await;
    let late = buy("cat", 1, "late").await;
    for waiting in [&first, &beyond, &second, &late] {
        let told = instance.get(&waiting.ticket().unwrap()).await;
        assert_eq!((told.status.as_u16(), &told.body), (202, &waiting.body));
    }
    gate.open().await;
    let sold = instance.decided(first).await;
    sold.assert_ok();
    assert_eq!((&sold.body["strategy"], &sold.body["remaining"]), (&json!("pg-queue"), &json!(1)));
    instance.decided(beyond).await.assert_problem(403, "over-limit");
    instance.decided(second).await.assert_ok();
    instance.decided(late).await.assert_problem(409, "sold-out");
    // Now nothing is left, which needs no ticket.
    buy("dan", 1, "too-late").await.assert_problem(409, "sold-out");
    let replayed = buy("ann", 2, "first").await;
    replayed.assert_created();
    assert_eq!(
        (&replayed.body["order_id"], replayed.header("idempotent-replayed")),
        (&sold.body["order_id"], Some("true"))
    );
    instance.get("/tickets/99").await.assert_problem(404, "unknown-ticket");
    instance.get("/tickets/x").await.assert_problem(422, "invalid-input");
    let outcomes = [("queued", 4.0), ("repeated", 2.0), ("sold", 2.0), ("sold_out", 2.0), ("over_limit", 1.0)];
    for (outcome, count) in outcomes {
        assert_eq!(instance.outcomes("pg-queue", outcome).await, Some(count), "{outcome}");
    }
}

// S111
#[tokio::test]
async fn tickets_are_decided_in_their_order() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "pg-queue").await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let mut tickets = Vec::new();
    for _ in 0..8 {
        tickets.push(instance.get("/goods-stock/1").await);
    }
    gate.open().await;
    let decided = join_all(tickets.into_iter().map(|ticket| instance.decided(ticket))).await;
    let remaining: Vec<_> = decided.iter().map(|told| told.body["remaining"].as_i64()).collect();
    assert_eq!(remaining, [Some(4), Some(3), Some(2), Some(1), Some(0), None, None, None]);
}

/// Goal: the workers of two instances overtake no ticket. Method: the row is locked until both workers have found tickets.
// S111
#[tokio::test(flavor = "multi_thread")]
async fn tickets_of_two_instances_are_decided_in_their_order() {
    let lab = Lab::new().await;
    let instances = [lab.start(&PATIENT).await, lab.start(&PATIENT).await];
    instances[0].put_on_sale(1, 5, "pg-queue").await.assert_ok();
    let row = lab.lock_row(1).await;
    let mut tickets = Vec::new();
    for number in 0..10 {
        tickets.push(instances[number % 2].get("/goods-stock/1").await);
    }
    row.release().await;
    let decided = join_all(tickets.into_iter().map(|ticket| instances[0].decided(ticket))).await;
    let remaining: Vec<_> = decided.iter().map(|told| told.body["remaining"].as_i64()).collect();
    assert_eq!(remaining[..5], [4, 3, 2, 1, 0].map(Some));
    assert_eq!(remaining[5..], [None; 5]);
}

// S111
#[tokio::test]
async fn a_sku_that_is_locked_delays_the_tickets_of_no_other() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 5, "pg-queue").await.assert_ok();
    }
    let row = lab.lock_row(1).await;
    let locked = [instance.get("/goods-stock/1").await, instance.get("/goods-stock/1").await];
    let other = instance.get("/goods-stock/2").await;
    instance.decided(other).await.assert_ok();
    assert_eq!(lab.tickets_waiting().await, 2);
    row.release().await;
    for ticket in locked {
        instance.decided(ticket).await.assert_ok();
    }
}

/// Goal: a ticket outlives its instance. Method: the instance stops while the order of the ticket cannot be committed.
// S111
#[tokio::test]
async fn a_ticket_of_an_instance_that_ended_is_decided_by_another() {
    let lab = Lab::new().await;
    let dying = lab.start(&PATIENT).await;
    let other = lab.start(&["--instance", "other"]).await;
    dying.put_on_sale(1, 5, "pg-queue").await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let ticket = dying.get("/goods-stock/1").await;
    lab.wait_for_statement("active", "commit").await;
    assert_eq!(lab.orders().await, 0);
    dying.request_stop().await.unwrap();
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query = 'commit'";
    lab.connect().await.execute(sql).await.unwrap();
    gate.open().await;
    let sold = other.decided(ticket).await;
    sold.assert_ok();
    assert_eq!(sold.body["instance"], "other");
    assert_eq!(lab.assert_adds_up(1, "once").await, 1);
}

// S111
#[tokio::test(flavor = "multi_thread")]
async fn workers_of_three_instances_sell_each_unit_once() {
    let lab = Lab::new().await;
    let instances = join_all((0..3).map(|_| lab.start(&PATIENT))).await;
    instances[0].put_on_sale(1, 200, "pg-queue").await.assert_ok();
    instances[0].put_on_sale(2, 7, "pg-queue").await.assert_ok();
    let buy = |number: usize| instances[number % 3].spawn_buy(i64::from(number.is_multiple_of(5)) + 1, "pg-queue");
    let answers = join_all((0..300).map(buy).collect::<Vec<_>>()).await;
    let sold = answers.into_iter().map(Result::unwrap).filter(|answer| answer.status.is_success()).count();
    assert_eq!(sold, 207);
    assert_eq!((lab.assert_adds_up(1, "hot").await, lab.assert_adds_up(2, "cold").await), (200, 7));
    assert_eq!(lab.tickets_waiting().await, 0);
}

// S111
#[tokio::test]
async fn tickets_of_a_sale_that_is_over_sell_nothing() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "pg-queue").await.assert_ok();
    // The row is locked, so the worker passes it over, and then finds the next sale.
    let mut holder = lab.connect().await;
    holder.execute("begin; update goods set sale = 2 where goods_no = 1").await.unwrap();
    let ticket = instance.get("/goods-stock/1").await;
    holder.execute("commit").await.unwrap();
    instance.decided(ticket).await.assert_problem(503, "sale-restarted");
    assert_eq!(lab.orders().await, 0);
}
