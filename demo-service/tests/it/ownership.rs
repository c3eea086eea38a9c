//! `zk-owner`: one instance owns a SKU, and the others hand their buyers over to it. Whatever becomes of the owner, no unit is
//! sold twice and no confirmed order is lost.

mod answers;
mod crowd;
mod instances;
mod leaders;
mod networks;
mod permits;
mod port;
mod rows;

use std::collections::BTreeMap;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{Proxy, StopSignal};

use self::crowd::{Crowd, Heard};
use self::instances::{ElectedOwner, election};
use crate::commits::Gate;
use crate::lab::{Answer, Instance, Lab, Shop, wait_until};
use crate::program::Program;

const STRATEGY: &str = "zk-owner";

/// A session that ends soon, and purchases that outlast a fail-over.
const TIMES: [&str; 8] =
    ["--zk-session-timeout", "3s", "--lock-wait", "50s", "--db-timeout", "55s", "--http-timeout", "60s"];

async fn named(lab: &Lab, instance: &str) -> Instance {
    lab.start(&[&TIMES[..], &["--instance", instance]].concat()).await
}

/// Starts the instances `owner` and `other`.
async fn owner_and_other(lab: &Lab) -> [Instance; 2] {
    [named(lab, "owner").await, named(lab, "other").await]
}

async fn program(lab: &Lab, instance: &str) -> Program {
    let arguments = [&TIMES[..], &["--instance", instance]].concat();
    Program::start(lab, StopSignal::Terminate, &arguments, &[]).await
}

/// A lab whose service reaches a server only through a proxy.
struct Detour {
    lab: Lab,
    proxy: Proxy,
}

impl Detour {
    async fn to_zookeeper(lab: &Lab) -> Self {
        let (server, chroot) = lab.zookeeper.split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let zookeeper = format!("{}/{chroot}", proxy.connect_string());
        Self { lab: Lab::at(lab.database_url.clone(), zookeeper, lab.redis.clone()), proxy }
    }

    async fn to_postgres(lab: &Lab) -> Self {
        let mut lab = Lab::at(lab.database_url.clone(), lab.zookeeper.clone(), lab.redis.clone());
        let proxy = lab.put_proxy_before_postgres().await;
        Self { lab, proxy }
    }
}

/// Puts SKU 1 on sale and lets an instance buy first. So it is the owner.
async fn make_owner(owner: &Shop) -> Heard {
    owner.put_on_sale(1, 1_000_000, STRATEGY).await.assert_ok();
    let mut bought = Heard::default();
    bought.note(&owner.buy(1, STRATEGY).await);
    assert_eq!(bought.confirmed.len(), 1, "{bought:?}");
    bought
}

/// Waits until SKU 1 was sold under a later term than the first one.
async fn wait_for_next_owner(lab: &Lab) {
    let mut connection = lab.connect().await;
    wait_until(async || {
        let sql = "select count(distinct token) > 1 from order_lines where goods_no = 1";
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    })
    .await;
}

async fn wait_for_orders(lab: &Lab, count: i64) {
    let already = lab.orders().await;
    wait_until(async || lab.orders().await >= already + count).await;
}

// S55
#[tokio::test(flavor = "multi_thread")]
async fn three_instances_sell_out_and_one_of_them_writes_all_orders() {
    let lab = Lab::new().await;
    let instances = [named(&lab, "a").await, named(&lab, "b").await, named(&lab, "c").await];
    instances[0].put_on_sale(1, 200, STRATEGY).await.assert_ok();
    let first = instances[1].buy(1, STRATEGY).await;
    let buyers = instances.iter().cycle().take(219).map(|instance| instance.spawn_buy(1, STRATEGY));
    let answers = join_all(buyers).await.into_iter().map(Result::unwrap).chain([first]);
    let mut bought = Heard::default();
    for answer in answers {
        bought.note(&answer);
        // The buyer learns who has sold.
        assert!(answer.problem().is_some() || answer.body["instance"] == "b", "{answer:?}");
    }
    assert_eq!((bought.confirmed.len(), bought.unknown), (200, 0));
    assert_eq!(bought.refused, BTreeMap::from([("sold-out".to_owned(), 20)]));
    bought.assert_sold_once(&lab).await;
    let sql =
        "select array_agg(distinct instance), count(distinct token) from orders join order_lines using (order_id)";
    let (writers, terms): (Vec<String>, i64) = sqlx::query_as(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert_eq!((writers, terms), (vec!["b".to_owned()], 1));
}

/// Goal: buyers are handed over to the owner of their own database. Method: two databases use one ensemble and chroot, and the
/// instance of the first one is the first owner.
// S42
#[tokio::test]
async fn two_databases_on_one_ensemble_sell_their_own_stock() {
    let lab = Lab::new().await;
    let other_lab = Lab::on_zookeeper(lab.zookeeper.clone()).await;
    let owner = named(&lab, "owner").await;
    let other = named(&other_lab, "other").await;
    make_owner(&owner).await;
    other.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let bought = other.buy(1, STRATEGY).await;
    bought.assert_ok();
    assert_eq!((&bought.body["instance"], &bought.body["remaining"]), (&json!("other"), &json!(9)), "{bought:?}");
    assert_eq!((lab.orders().await, other_lab.orders().await), (1, 1));
}

// S22
#[tokio::test]
async fn equal_keys_through_two_instances_are_one_sale() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    let orders = [&owner, &other, &owner, &other].map(|instance| instance.order(1, 2, STRATEGY, "same"));
    let answers = join_all(orders).await;
    answers.iter().for_each(Answer::assert_created);
    assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
    assert_eq!(lab.assert_adds_up(1, "equal keys").await, 3);
    // Refusals are told as they are.
    other.order(1, 3, STRATEGY, "same").await.assert_problem(422, "idempotency-key-reused");
    other.order(1, 8, STRATEGY, "too-many").await.assert_problem(409, "sold-out");
}

// S41, S61
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_stops_leaves_its_buyers_to_the_next_one() {
    let lab = Lab::new().await;
    // No session may end, even if a process gets no processor for seconds.
    let patient = [&["--zk-session-timeout", "30s"], &TIMES[2..]].concat();
    let mut owner = Program::start(&lab, StopSignal::Terminate, &patient, &[]).await;
    let other = lab.start(&patient).await;
    let first = make_owner(&owner).await;
    let crowd = Crowd::through(&other);
    wait_for_orders(&lab, 50).await;
    owner.process.request_stop();
    wait_for_next_owner(&lab).await;
    assert_eq!(owner.process.wait().await.unwrap().code(), Some(0), "{}", owner.process.log_tail());
    let bought = crowd.stop().await.and(first);
    assert_eq!((&bought.refused, bought.unknown), (&BTreeMap::new(), 0));
    bought.assert_sold_once(&lab).await;
}

// S41
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_killed_is_followed_by_another_instance() {
    let lab = Lab::new().await;
    let owner = program(&lab, "owner").await;
    let other = program(&lab, "other").await;
    let first = make_owner(&owner).await;
    let crowds = [Crowd::through(&owner), Crowd::through(&other)];
    wait_for_orders(&lab, 50).await;
    owner.signal(Signal::SIGKILL);
    wait_for_next_owner(&lab).await;
    let [of_owner, of_other] = crowds.map(Crowd::stop);
    let (of_owner, of_other) = tokio::join!(of_owner, of_other);
    assert_eq!(of_other.refused, BTreeMap::new());
    of_owner.and(of_other).and(first).assert_sold_once(&lab).await;
}

/// Goal: an owner that was paused until another one has followed it cannot sell any more. Method: it is paused in the middle of a
/// load, and goes on when the next owner has sold.
// S41
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_was_paused_sells_nothing_after_the_next_owner() {
    let lab = Lab::new().await;
    let owner = program(&lab, "owner").await;
    let other = program(&lab, "other").await;
    let first = make_owner(&owner).await;
    let crowds = [Crowd::through(&owner), Crowd::through(&other)];
    wait_for_orders(&lab, 50).await;
    owner.pause().await;
    wait_for_next_owner(&lab).await;
    owner.go_on();
    wait_for_orders(&lab, 50).await;
    let [of_owner, of_other] = crowds.map(Crowd::stop);
    let (of_owner, of_other) = tokio::join!(of_owner, of_other);
    assert_eq!(of_other.refused, BTreeMap::new());
    of_owner.and(of_other).and(first).assert_sold_once(&lab).await;
}

/// Goal: an owner that freezes with a written batch blocks the next owner for a second, not for `--db-timeout`. Method: its
/// batch waits at a gate behind its statement, and the owner is paused before the gate opens. So it never commits.
// S41
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_freezes_before_its_commit_frees_the_row() {
    let lab = Lab::new().await;
    let times = ["--zk-session-timeout", "3s", "--lock-wait", "10m", "--db-timeout", "11m", "--http-timeout", "12m"];
    let owner = Program::start(&lab, StopSignal::Terminate, &times, &[]).await;
    let other = lab.start(&times).await;
    let first = make_owner(&owner).await;
    Gate::behind_statements(&lab, "order_lines", "insert").await;
    let gate = Gate::close(&lab).await;
    let abandoned = owner.spawn_buy(1, STRATEGY);
    lab.wait_for_statement("active", "with bounded").await;
    owner.pause().await;
    gate.open().await;
    let mut bought = first;
    // Nothing more is heard of the purchases that were handed over to the frozen owner. The next owner serves later ones.
    for problem in [Some("outcome-unknown"), None] {
        let buyer = other.spawn_buy(1, STRATEGY);
        wait_until(async || buyer.is_finished()).await;
        let answer = buyer.await.unwrap();
        assert_eq!(answer.problem(), problem, "{answer:?}");
        bought.note(&answer);
    }
    owner.go_on();
    bought.note(&abandoned.await.unwrap());
    assert_eq!(bought.confirmed.len(), 2, "{bought:?}");
    bought.assert_sold_once(&lab).await;
}

// S41
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_zookeeper_is_followed_by_another_instance() {
    let lab = Lab::new().await;
    let detour = Detour::to_zookeeper(&lab).await;
    let owner = named(&detour.lab, "owner").await;
    let other = named(&lab, "other").await;
    let first = make_owner(&owner).await;
    let crowds = [Crowd::through(&owner), Crowd::through(&other)];
    wait_for_orders(&lab, 50).await;
    detour.proxy.blackhole();
    wait_for_next_owner(&lab).await;
    detour.proxy.cut();
    detour.proxy.deliver();
    // Reconnected, the first owner hands its buyers over.
    wait_until(async || owner.buy(1, STRATEGY).await.problem().is_none()).await;
    let [of_owner, of_other] = crowds.map(Crowd::stop);
    let (of_owner, of_other) = tokio::join!(of_owner, of_other);
    let kinds: Vec<_> = of_owner.refused.keys().filter(|kind| *kind != "lock-service-unavailable").collect();
    assert!(kinds.iter().all(|kind| ["hold-lost", "fenced"].contains(&kind.as_str())), "{kinds:?}");
    let mut bought = of_owner.and(of_other).and(first);
    // The purchase of the test itself.
    bought.unknown += 1;
    bought.assert_sold_once(&lab).await;
}

// S41
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_postgres_leaves_its_skus_to_another() {
    let lab = Lab::new().await;
    let detour = Detour::to_postgres(&lab).await;
    let times = ["--lock-wait", "20s", "--db-timeout", "21s", "--http-timeout", "22s"];
    let owner = detour.lab.start(&times).await;
    let other = lab.start(&times).await;
    let first = make_owner(&owner).await;
    let crowd = Crowd::through(&other);
    wait_for_orders(&lab, 50).await;
    detour.proxy.refuse();
    detour.proxy.cut();
    wait_for_next_owner(&lab).await;
    detour.proxy.accept();
    let bought = crowd.stop().await.and(first);
    assert_eq!(bought.refused, BTreeMap::new());
    bought.assert_sold_once(&lab).await;
}

/// Goal: an owner that does not know the outcome of a batch reads the stock anew. Method: the batch commits after its deadline.
#[tokio::test]
async fn an_unknown_outcome_makes_an_owner_forget_the_stock() {
    let lab = Lab::new().await;
    let owner = lab.start(&["--lock-wait", "1s", "--db-timeout", "2s", "--http-timeout", "20s"]).await;
    make_owner(&owner).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    owner.buy(1, STRATEGY).await.assert_problem(503, "outcome-unknown");
    gate.open().await;
    wait_until(async || lab.orders().await == 2).await;
    owner.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a late commit").await, 3);
}

// S55
#[tokio::test]
async fn a_batch_is_taken_only_with_the_secret_of_the_process() {
    let lab = Lab::new().await;
    let owner = named(&lab, "owner").await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    let leader = ElectedOwner::of(&lab).await;
    let batch = json!({ "goods_no": 1, "nonce": 1, "purchases": [
        { "sale": 1, "has_decided": false, "quantity": 2, "key": null, "within_ms": 5000 },
    ] });
    let guess = ElectedOwner { secret: "guessed".to_owned(), at: leader.at.clone() };
    assert_eq!(guess.post(&batch).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(leader.post(&json!({})).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(lab.assert_adds_up(1, "refused batches").await, 1);
    let reply: Value = leader.post(&batch).await.json().await.unwrap();
    assert_eq!((&reply["index"], &reply["told"]["sold"]["lines"][0]["remaining"]), (&json!(0), &json!(7)), "{reply}");
    assert_eq!(lab.assert_adds_up(1, "a batch").await, 3);
}

/// Goal: a purchase makes one hop. Method: a batch is posted to an instance that does not own its SKU.
// S55
#[tokio::test]
async fn an_instance_that_does_not_own_a_sku_hands_nothing_on() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    other.buy(1, STRATEGY).await.assert_ok();
    let latch = election(&lab, 1).await;
    wait_until(async || latch.participants().await.unwrap().len() == 2).await;
    let address: Value = serde_json::from_slice(&latch.participants().await.unwrap()[1].data).unwrap();
    let batch = json!({ "goods_no": 1, "nonce": 1, "purchases": [
        { "sale": 1, "has_decided": false, "quantity": 1, "key": null, "within_ms": 5000 },
    ] });
    let request = reqwest::Client::new().post(format!("http://{}/purchases", address["at"].as_str().unwrap()));
    let answers = request.bearer_auth(address["secret"].as_str().unwrap()).json(&batch).send().await.unwrap();
    assert_eq!(answers.json::<Value>().await.unwrap(), json!({ "index": 0, "told": "elsewhere" }));
    assert_eq!(lab.assert_adds_up(1, "one hop").await, 2);
}
