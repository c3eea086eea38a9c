//! What an instance makes of the answers of an owner, and what an owner does with the buyers of other instances. Each of the
//! two is an instance, or the test itself.

use std::future::pending;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode as Status;
use axum::routing::post;
use axum::{Json, Router};
use demo_service::http::server::Server;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_recipes::{LeaderLatch, LockGuard, Session, SessionConfig};

use super::{Detour, STRATEGY, TIMES, named, owner_and_other};
use crate::commits::Gate;
use crate::lab::{Lab, Shop, wait_until};

/// A batch that has not come by then never will.
const BATCH_WITHIN: Duration = Duration::from_secs(60);

/// The end of an answer, which comes in chunks.
const END: &str = "\r\n0\r\n\r\n";

/// A batch that the test has received as an owner, and the way to reply to it.
type Received = (Value, Replies);

/// The replies of the test to a batch. The head of the answer is sent with the first one. Dropped before, it is a failure.
pub(super) struct Replies(mpsc::UnboundedSender<io::Result<String>>);

impl Replies {
    /// Tells a buyer of the batch that all units are sold.
    pub(super) fn sold_out(&self, index: usize) {
        let refused = json!({ "kind": "sold-out", "detail": "not enough is left", "order_id": null });
        self.send(&reply(index, &json!({ "refused": refused })));
    }

    pub(super) fn send(&self, text: &str) {
        self.0.send(Ok(text.to_owned())).unwrap();
    }

    /// Breaks the connection.
    pub(super) fn break_off(&self) {
        self.0.send(Err(io::ErrorKind::ConnectionReset.into())).unwrap();
    }
}

/// Returns the reply to a purchase of a batch.
pub(super) fn reply(index: usize, told: &Value) -> String {
    format!("{}\n", json!({ "index": index, "told": told }))
}

/// The test as the owner of the range of SKU 1. It decides purchases of this SKU only.
pub(super) struct TestOwner {
    term: LockGuard,
    batches: mpsc::UnboundedReceiver<Received>,
    _server: JoinSet<()>,
}

impl TestOwner {
    pub(super) async fn elect(lab: &Lab) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let id = json!({ "at": listener.local_addr().unwrap().to_string(), "loopback": "", "secret": "" });
        let (sender, batches) = mpsc::unbounded_channel::<Received>();
        let receive = async move |Json(batch): Json<Value>| {
            if batch["goods_no"] != 1 {
                return Ok::<_, Status>(Body::from(reply(0, &json!("elsewhere"))));
            }
            let (replies, mut replied) = mpsc::unbounded_channel();
            sender.send((batch, Replies(replies))).ok();
            let first = replied.recv().await.ok_or(Status::INTERNAL_SERVER_ERROR)?;
            let rest = stream::unfold(replied, async |mut replied| Some((replied.recv().await?, replied)));
            Ok(Body::from_stream(stream::iter([first]).chain(rest)))
        };
        let mut server = JoinSet::new();
        server.spawn(async { axum::serve(listener, Router::new().route("/purchases", post(receive))).await.unwrap() });
        let latch = election(lab, 1).await.with_id(id.to_string()).unwrap();
        Self { term: latch.lead().await.unwrap(), batches, _server: server }
    }

    pub(super) async fn batch(&mut self) -> Received {
        timeout(BATCH_WITHIN, self.batches.recv()).await.expect("a batch should come").unwrap()
    }
}

/// Returns the election of a range. SKUs 1 and 17 are of range 1. An instance must have started before.
pub(super) async fn election(lab: &Lab, range: u16) -> LeaderLatch {
    let identity = sqlx::query_scalar("select database from lock_service");
    let database: String = identity.fetch_one(&mut lab.connect().await).await.unwrap();
    let session = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
    LeaderLatch::new(&session, &format!("/seckill/zk-owner/{database}/{range}")).unwrap()
}

/// The owner of the range of SKU 1, as the election names it.
#[derive(Deserialize)]
pub(super) struct ElectedOwner {
    pub(super) at: String,
    pub(super) secret: String,
}

impl ElectedOwner {
    pub(super) async fn of(lab: &Lab) -> Self {
        let leader = election(lab, 1).await.leader().await.unwrap().unwrap();
        serde_json::from_slice(&leader.data).unwrap()
    }

    /// Hands a batch over.
    pub(super) async fn post(&self, batch: &Value) -> reqwest::Response {
        let request = reqwest::Client::new().post(format!("http://{}/purchases", self.at));
        request.bearer_auth(&self.secret).json(batch).send().await.unwrap()
    }
}

/// The test as an instance that hands over to the owner of the range of SKU 1, on one kept connection.
pub(super) struct Sender {
    connection: TcpStream,
    secret: String,
}

impl Sender {
    /// Connects to the owner that the election names.
    pub(super) async fn connect(lab: &Lab) -> Self {
        let ElectedOwner { at, secret } = ElectedOwner::of(lab).await;
        Self { connection: TcpStream::connect(at).await.unwrap(), secret }
    }

    /// Returns the head and the body of a batch of one purchase of SKU 1.
    pub(super) fn batch(&self) -> [String; 2] {
        let wanted = json!({ "sale": 1, "has_decided": false, "quantity": 1, "key": null, "within_ms": 50_000 });
        let body = json!({ "goods_no": 1, "nonce": rand::random::<u64>(), "purchases": [wanted] }).to_string();
        let head = format!(
            "POST /purchases HTTP/1.1\r\nhost: owner\r\nauthorization: Bearer {}\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n",
            self.secret,
            body.len()
        );
        [head, body]
    }

    pub(super) async fn send(&mut self, part: &str) {
        self.connection.write_all(part.as_bytes()).await.unwrap();
    }

    /// Reads up to this end of an answer.
    async fn read_until(&mut self, end: &str) {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let count = timeout(BATCH_WITHIN, self.connection.read_buf(&mut read)).await.expect("an answer").unwrap();
            assert_ne!(count, 0, "closed after {:?}", String::from_utf8_lossy(&read));
        }
    }

    /// Reads until the owner closes the connection.
    pub(super) async fn read_to_end(mut self) -> String {
        let mut read = String::new();
        timeout(BATCH_WITHIN, self.connection.read_to_string(&mut read)).await.expect("the end").unwrap();
        read
    }
}

// S52
#[tokio::test]
async fn an_owner_sells_what_another_instance_has_restarted() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    owner.put_on_sale(1, 1, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_problem(409, "sold-out");
    other.put_on_sale(1, 5, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "restarted").await, 1);
    owner.order(1, 5, STRATEGY, "too-many").await.assert_problem(409, "sold-out");
    // Now another family guards the sale.
    other.put_on_sale(1, 7, "pg-conditional").await.assert_ok();
    owner.order(1, 7, STRATEGY, "wrong-family").await.assert_problem(422, "guard-mismatch");
    owner.get("/goods-stock/1").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "another guard").await, 1);
}

// S53
#[tokio::test]
async fn an_instance_that_knows_the_owner_needs_no_zookeeper() {
    let lab = Lab::new().await;
    let detour = Detour::to_zookeeper(&lab).await;
    let owner = named(&lab, "owner").await;
    let other = named(&detour.lab, "other").await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    other.buy(1, STRATEGY).await.assert_ok();
    detour.proxy.refuse();
    detour.proxy.cut();
    wait_until(async || other.metric(r#"zookeeper_sessions{state="connected"}"#).await == Some(0.0)).await;
    other.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "without ZooKeeper").await, 3);
}

#[tokio::test]
async fn an_instance_that_is_dropped_takes_part_in_no_election() {
    let lab = Lab::new().await;
    let server = Server::start(lab.config(&[])).await.unwrap();
    let shop = Shop::at(server.address());
    let serving = tokio::spawn(server.serve(pending()));
    shop.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    shop.buy(1, STRATEGY).await.assert_ok();
    serving.abort();
    let election = election(&lab, 1).await;
    wait_until(async || election.participants().await.unwrap().is_empty()).await;
}

// S46
#[tokio::test]
async fn a_buyer_waits_at_the_owner_until_the_deadline_for_the_lock() {
    let lab = Lab::new().await;
    let owner = named(&lab, "owner").await;
    let times = ["--lock-wait", "2s", "--db-timeout", "50s", "--http-timeout", "60s"];
    let other = lab.start(&times).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let first = owner.spawn_buy(1, STRATEGY);
    lab.wait_for_statement("active", "commit").await;
    other.buy(1, STRATEGY).await.assert_problem(503, "lock-timeout");
    gate.open().await;
    first.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a slow commit").await, 1);
}

// S51
#[tokio::test]
async fn an_owner_takes_in_as_many_buyers_as_it_has_permits_for() {
    let lab = Lab::new().await;
    let owner = lab.start(&[&TIMES[..], &["--concurrency-max", "2"]].concat()).await;
    let other = named(&lab, "other").await;
    Gate::before_commits(&lab, "orders", "insert").await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let mut buyers = vec![other.spawn_buy(1, STRATEGY)];
    lab.wait_for_statement("active", "commit").await;
    for count in 1..=5 {
        buyers.push(other.spawn_buy(1, STRATEGY));
        other.wait_for_waiting(STRATEGY, count).await;
    }
    gate.open().await;
    for (index, answer) in join_all(buyers).await.into_iter().map(Result::unwrap).enumerate() {
        answer.assert_ok();
        assert_eq!(answer.body["remaining"], 8 - index, "in the order of arrival: {answer:?}");
    }
}

/// Goal: an owner that stops in order leaves no batch without an answer. Method: when its term is over, one batch has arrived
/// in part, and another one comes on a connection that was idle.
// S61
#[tokio::test]
async fn an_owner_that_stops_answers_the_last_batches() {
    let lab = Lab::new().await;
    let owner = named(&lab, "owner").await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    let mut idle = Sender::connect(&lab).await;
    let mut sending = Sender::connect(&lab).await;
    for part in idle.batch() {
        idle.send(&part).await;
    }
    idle.read_until(END).await;
    let [head, body] = sending.batch();
    sending.send(&head).await;
    let election = election(&lab, 1).await;

    let stopped = owner.request_stop();
    wait_until(async || election.participants().await.unwrap().is_empty()).await;
    sending.send(&body).await;
    for part in idle.batch() {
        idle.send(&part).await;
    }
    for sender in [idle, sending] {
        let answer = sender.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(END), "{answer}");
        assert!(answer.contains(&reply(0, &json!("elsewhere"))), "{answer}");
        // So the sender sends its next batch on another connection.
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    stopped.await.unwrap();
    assert_eq!(lab.assert_adds_up(1, "a stop").await, 2);
}

/// Goal: an owner that gives its term up in order can still answer. Method: the test answers as the former owner, when the
/// instance owns the range.
// S50
#[tokio::test]
async fn the_answer_of_an_owner_counts_after_its_term() {
    let lab = Lab::new().await;
    let instance = named(&lab, "instance").await;
    let mut owner = TestOwner::elect(&lab).await;
    for goods_no in [1, 17] {
        instance.put_on_sale(goods_no, 10, STRATEGY).await.assert_ok();
    }
    let buyer = instance.spawn_buy(1, STRATEGY);
    let (_, replies) = owner.batch().await;
    owner.term.release().await.unwrap();
    instance.buy(17, STRATEGY).await.assert_ok();
    replies.sold_out(0);
    buyer.await.unwrap().assert_problem(409, "sold-out");
}

// S55
#[tokio::test]
async fn a_purchase_whose_owner_fails_is_handed_over_only_once() {
    let lab = Lab::new().await;
    let instance = named(&lab, "instance").await;
    let mut owner = TestOwner::elect(&lab).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let buyer = instance.spawn_buy(1, STRATEGY);
    let (batch, replies) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 1);
    drop(replies);
    buyer.await.unwrap().assert_problem(503, "outcome-unknown");
    // The instance goes on, and the next batch is of the next buyer only.
    let next = instance.spawn_buy(1, STRATEGY);
    let (batch, replies) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 1);
    replies.sold_out(0);
    next.await.unwrap().assert_problem(409, "sold-out");
    assert_eq!(lab.orders().await, 0);
}

// S50
#[tokio::test]
async fn a_silent_owner_keeps_an_instance_until_the_deadline_only() {
    let (lab, instance) =
        Lab::with_instance(&["--lock-wait", "4s", "--db-timeout", "4500ms", "--http-timeout", "5s"]).await;
    let mut owner = TestOwner::elect(&lab).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let buyer = instance.spawn_buy(1, STRATEGY);
    let (_, _never) = owner.batch().await;
    buyer.await.unwrap().assert_problem(503, "outcome-unknown");
    let next = instance.spawn_buy(1, STRATEGY);
    let (_, replies) = owner.batch().await;
    replies.sold_out(0);
    next.await.unwrap().assert_problem(409, "sold-out");
}
