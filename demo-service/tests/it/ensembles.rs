//! Several ZooKeeper ensembles and one database: copies of an ensemble, strangers, and one that replaces another.

use std::process::{Command, Output};
use std::time::Duration;

use demo_service::http::server::Server;
use demo_service::sale::{Fence, Guard, NewStock, Stock, Token};
use demo_service::store::Store;
use demo_service::store::ensemble::Ensemble;
use demo_service::store::schema;
use demo_service::strategy::entry::Promise;
use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use sqlx::Executor;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::Client;

use crate::database::END_SESSIONS;
use crate::lab::{Instance, Lab, Shop, wait_until};
use crate::program::PROGRAM;

/// Units of each sale, and buyers of each instance.
const STOCK: i64 = 60;
const BUYERS: usize = 6;

/// How often a buyer who is told to come again does so. Then a fence above every token of its ensemble keeps it out.
const REFUSALS_MAX: usize = 40;

/// Buys until the sale is sold out, or the fence is above the tokens of the instance's ensemble. Returns the units bought.
async fn buy_out(shop: &Shop, goods_no: i64, strategy: &str) -> i64 {
    let mut bought = 0;
    let mut refusals = 0;
    while refusals < REFUSALS_MAX {
        let answer = shop.buy(goods_no, strategy).await;
        match (answer.status.as_u16(), answer.problem()) {
            (200, _) => {
                bought += 1;
                refusals = 0;
            }
            (409, Some("sold-out")) => break,
            (503, Some("fenced" | "hold-lost" | "overtaken")) => refusals += 1,
            _ => panic!("{strategy}: {answer:?}"),
        }
    }
    bought
}

/// Goal: a family that promises never to oversell keeps its promise although its locks do not exclude. Method: the ensemble of
/// one instance is a copy of the other's, so their locks are granted side by side, with equal tokens.
// S9
#[tokio::test(flavor = "multi_thread")]
async fn instances_on_copies_of_an_ensemble_never_oversell() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let first = lab.start(&["--business-time", "1ms"]).await;
    let safe: Vec<_> = STRATEGIES.iter().filter(|entry| entry.promise == Promise::NeverOversells).collect();
    for (goods_no, entry) in (1..).zip(&safe) {
        first.put_on_sale(goods_no, STOCK, entry.name).await.assert_ok();
    }
    let copy = zookeeper.copy().await.unwrap();
    let second = Lab::at(lab.database_url.clone(), copy.connect_string(), lab.redis.clone());
    let second = second.start(&["--business-time", "1ms"]).await;
    for (goods_no, entry) in (1..).zip(&safe) {
        let buyers = [&first, &second].into_iter().flat_map(|instance| [instance; BUYERS]);
        let bought = join_all(buyers.map(|instance| buy_out(instance, goods_no, entry.name))).await;
        let bought: i64 = bought.into_iter().sum();
        assert_eq!(lab.assert_adds_up(goods_no, entry.name).await, bought, "{}", entry.name);
        assert!(bought > 0, "{}: nobody bought", entry.name);
    }
}

/// Opens a store that knows a sale of ten units of SKU 1.
async fn store_with_a_sale(lab: &Lab) -> Store {
    let options = schema::options(&lab.database_url).unwrap();
    schema::prepare(&options, Duration::from_secs(60)).await.unwrap();
    let store = Store::open(options, ensemble("a"), 1, Duration::from_secs(30));
    let goods_no = 1.try_into().unwrap();
    let guard = Guard { family: "zk-queue-fenced".to_owned(), strategy: "zk-merge".to_owned() };
    store.start_sale(goods_no, NewStock::Units(Stock::new(10).unwrap()), guard, None).await.unwrap();
    store
}

fn ensemble(id: &str) -> Ensemble {
    Ensemble { id: id.to_owned(), servers: format!("{id}:2181") }
}

// S9
#[tokio::test]
async fn of_two_holds_with_one_token_only_the_first_raises_the_fence() {
    let lab = Lab::new().await;
    let store = store_with_a_sale(&lab).await;
    let fence = |number, handover, hold| Fence { token: Token { number, handover }, hold };
    for (fence, is_raised) in [
        (fence(7, 0, 1), true),
        (fence(7, 0, 2), false),
        (fence(7, 0, 1), true),
        (fence(7, 1, 2), true),
        (fence(7, 0, 1), false),
        (fence(8, 0, 1), true),
    ] {
        let raised = store.raise_fence(1.try_into().unwrap(), 1, "zk-queue-fenced", fence, None).await.unwrap();
        assert_eq!(raised.is_some(), is_raised, "{fence:?}");
    }
}

/// Runs the service with `--adopt-zookeeper`.
fn adopt(lab: &Lab) -> Output {
    let servers = ["--database-url", &lab.database_url, "--zookeeper", &lab.zookeeper];
    Command::new(PROGRAM).args(servers).arg("--adopt-zookeeper").env_remove("RUST_LOG").output().unwrap()
}

#[track_caller]
fn assert_refused(adoption: &Output, expected: &str) {
    let stderr = String::from_utf8_lossy(&adoption.stderr);
    assert_eq!(adoption.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
}

/// Starts an instance that must not start, and returns why it does not.
async fn refusal(lab: &Lab) -> String {
    match Server::start(lab.config(&[])).await {
        Ok(_) => panic!("an instance has started"),
        Err(error) => error.to_string(),
    }
}

async fn sell_fenced(instance: &Instance, remaining: i64) {
    let sold = instance.buy(1, "zk-mutex-fenced").await;
    sold.assert_ok();
    assert_eq!(sold.body["remaining"], remaining);
}

// S10
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_ensemble_is_refused_until_it_is_adopted() {
    let old = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(old.connect_string()).await;
    let instance = lab.start(&[]).await;
    instance.put_on_sale(1, 10, "zk-mutex-fenced").await.assert_ok();
    for remaining in (4..10).rev() {
        sell_fenced(&instance, remaining).await;
    }
    let rebuilt = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let rebuilt = Lab::at(lab.database_url.clone(), rebuilt.connect_string(), lab.redis.clone());

    let refused = refusal(&rebuilt).await;
    for part in [&lab.zookeeper, &rebuilt.zookeeper, "--adopt-zookeeper"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_refused(&adopt(&rebuilt), "stop every instance first");
    sell_fenced(&instance, 3).await;

    instance.request_stop().await.unwrap();
    let adopted = adopt(&rebuilt);
    assert!(adopted.status.success(), "{}", String::from_utf8_lossy(&adopted.stderr));
    let instance = rebuilt.start(&[]).await;
    sell_fenced(&instance, 2).await;
    assert!(refusal(&lab).await.contains(&rebuilt.zookeeper), "the old ensemble is the stranger now");
    assert_eq!(lab.assert_adds_up(1, "two ensembles").await, 8);
}

// S10
#[tokio::test(flavor = "multi_thread")]
async fn another_chroot_is_another_ensemble() {
    let lab = Lab::new().await;
    let other = Lab::new().await;
    let _instance = lab.start(&[]).await;
    let refused = refusal(&Lab::at(lab.database_url.clone(), other.zookeeper.clone(), lab.redis.clone())).await;
    assert!(refused.contains("whose locks do not exclude the others"), "{refused}");
}

/// Goal: an instance that was not connected when its ensemble was replaced sells nothing. Method: what an adoption writes is
/// written by hand, and the connections of the instance are ended.
// S11
#[tokio::test]
async fn an_instance_of_a_replaced_ensemble_sells_nothing() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 10, "zk-mutex").await.assert_ok();
    instance.buy(1, "zk-mutex").await.assert_ok();
    let mut connection = lab.connect().await;
    connection.execute("update lock_service set ensemble = 'another'").await.unwrap();
    connection.execute(END_SESSIONS).await.unwrap();
    wait_until(async || instance.get("/readyz").await.status == 503).await;
    // The first buyers may still find connections that have ended.
    wait_until(async || {
        let refused = instance.buy(1, "zk-mutex").await;
        refused.assert_problem(503, "database-unavailable");
        refused.body["detail"].as_str().unwrap().contains("another ZooKeeper ensemble")
    })
    .await;
    assert_eq!(lab.assert_adds_up(1, "replaced").await, 1);
}

/// Goal: all sessions of an instance are on one ensemble. Method: the connect string names two servers that serve alone. Each
/// takes one connection, so each gets one of two sessions. A server that is asked by both at the same instant may take both. Then
/// the instance starts, and another one is tried.
// S12
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_two_ensembles_are_refused_at_the_start() {
    let config = ZooKeeperConfig { connections_max: Some(1), ..ZooKeeperConfig::default() };
    let (one, other) = tokio::try_join!(ZooKeeper::start(config.clone()), ZooKeeper::start(config)).unwrap();
    let lab = Lab::on_zookeeper(format!("{},{}", one.connect_string(), other.connect_string())).await;
    let mut refused = String::new();
    wait_until(async || {
        let started = Server::start(lab.config(&["--zk-sessions", "2"])).await;
        refused = started.err().map(|error| error.to_string()).unwrap_or_default();
        refused.contains("two ZooKeeper ensembles")
    })
    .await;
    for server in [one, other] {
        // The server takes the next connection when it has closed the session of the instance.
        wait_until(async || identity(&server).await.is_some_and(|identity| refused.contains(&identity))).await;
    }
    assert!(refused.contains("--zookeeper (ZOOKEEPER_CONNECT)"), "{refused}");
}

/// Returns the identity that a server keeps, if it keeps one.
async fn identity(server: &ZooKeeper) -> Option<String> {
    let client = Client::connect(&server.connect_string()).await.ok()?;
    let (identity, _) = client.get_data("/seckill/ensemble").await.ok()?;
    Some(String::from_utf8(identity).unwrap())
}

/// Goal: a session that was replaced on another ensemble is not used. Method: the connect string names two servers that serve
/// alone. The first one goes away, so the next session is opened at the second one.
// S12
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_strays_to_another_ensemble_sells_nothing() {
    let config = ZooKeeperConfig::default();
    let (ours, other) = tokio::try_join!(ZooKeeper::start(config.clone()), ZooKeeper::start(config)).unwrap();
    let to_ours = Proxy::start(&ours.connect_string()).await.unwrap();
    let to_other = Proxy::start(&other.connect_string()).await.unwrap();
    to_other.refuse();
    let lab = Lab::on_zookeeper(format!("{},{}", to_ours.connect_string(), to_other.connect_string())).await;
    let instance = lab.start(&[]).await;
    instance.put_on_sale(1, 10, "zk-mutex").await.assert_ok();
    instance.buy(1, "zk-mutex").await.assert_ok();
    to_other.accept();
    to_ours.refuse();
    to_ours.cut();
    wait_until(async || {
        let refused = instance.buy(1, "zk-mutex").await;
        assert!(refused.problem().is_some(), "by a lock of another ensemble: {refused:?}");
        identity(&other).await.is_some()
    })
    .await;
    for refused in join_all((0..10).map(|_| instance.buy(1, "zk-mutex"))).await {
        refused.assert_problem(503, "lock-service-unavailable");
    }
    to_ours.accept();
    to_other.refuse();
    to_other.cut();
    wait_until(async || instance.buy(1, "zk-mutex").await.problem().is_none()).await;
    assert_eq!(lab.assert_adds_up(1, "after a stray session").await, 2);
}
