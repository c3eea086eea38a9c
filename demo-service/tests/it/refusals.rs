//! ZooKeeper answers, and refuses: by a quota, by an ACL, because credentials are missing, or because it has too much to do.

use demo_service::http::server::Server;
use futures_util::future::join_all;
use testbed::{StopSignal, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::lab::{Lab, lock_path, wait_until};
use crate::program::Program;

const ENFORCED_AUTHENTICATION: &[&str] =
    &["zookeeper.enforce.auth.enabled=true", "zookeeper.enforce.auth.schemes=digest"];

async fn zookeeper(properties: &'static [&'static str]) -> ZooKeeper {
    ZooKeeper::start(ZooKeeperConfig { properties, ..ZooKeeperConfig::default() }).await.unwrap()
}

/// An instance that has sold a unit, and whose ZooKeeper refuses locks from then on.
struct Refused {
    program: Program,
    _lab: Lab,
    _zookeeper: ZooKeeper,
}

impl Refused {
    async fn new(properties: &'static [&'static str], refuse: impl AsyncFnOnce(&Client)) -> Self {
        let zookeeper = zookeeper(properties).await;
        let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
        let program = Program::start(&lab, StopSignal::Terminate, &["--zk-sessions", "2"], &[]).await;
        program.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
        program.buy(1, "zk-mutex").await.assert_ok();
        program.get("/readyz").await.assert_ok();
        refuse(&Client::connect(&lab.zookeeper).await.unwrap()).await;
        Self { program, _lab: lab, _zookeeper: zookeeper }
    }

    /// Expects that buyers, probes and the log are told what the server has said.
    async fn assert_told(&self, said: &str) {
        for _ in 0..3 {
            let refused = self.program.buy(1, "zk-mutex").await;
            refused.assert_problem(503, "lock-service-unavailable");
            let detail = refused.body["detail"].as_str().unwrap();
            assert!(detail.starts_with("ZooKeeper refused a request for the lock"), "{detail}");
        }
        let log = self.program.process.log_tail();
        assert!(log.contains("lock service not available") && log.contains(said), "{log}");
        let readiness = self.program.get("/readyz").await;
        readiness.assert_problem(503, "not-ready");
        let detail = readiness.body["detail"].as_str().unwrap();
        assert!(detail.starts_with("ZooKeeper grants no lock") && detail.contains(said), "{detail}");
    }
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_is_told() {
    let exhaust = async |client: &Client| {
        let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/zookeeper/quota/seckill", b"", &mode).await.unwrap();
        let limits = b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1";
        client.create("/zookeeper/quota/seckill/zookeeper_limits", limits, &mode).await.unwrap();
        client.create("/zookeeper/quota/seckill/zookeeper_stats", b"count=0,bytes=0", &mode).await.unwrap();
    };
    Refused::new(&["zookeeper.enforceQuota=true"], exhaust).await.assert_told("quota").await;
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn an_acl_that_forbids_locks_is_told() {
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    let forbid = async |client: &Client| {
        for folder in ["/seckill/probe", &lock_path("zk-mutex", 1)] {
            client.set_acl(folder, &Acls::new(&read_only), None).await.unwrap();
        }
    };
    Refused::new(&[], forbid).await.assert_told("does not allow this session to create").await;
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn buyers_are_not_told_why_if_operators_have_a_listener() {
    let zookeeper = zookeeper(&[]).await;
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let instance = lab.start(&["--operators-listen", "127.0.0.1:0"]).await;
    instance.get("/readyz").await.assert_ok();
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    let client = Client::connect(&lab.zookeeper).await.unwrap();
    client.set_acl("/seckill/probe", &Acls::new(&read_only), None).await.unwrap();
    for (shop, is_told) in [(instance.operators.as_ref().unwrap(), true), (&*instance, false)] {
        let readiness = shop.get("/readyz").await;
        readiness.assert_problem(503, "not-ready");
        let detail = readiness.body["detail"].as_str().unwrap();
        assert!(detail.starts_with("ZooKeeper grants no lock"), "{detail}");
        assert_eq!(detail.contains("does not allow this session to create"), is_told, "{detail}");
    }
}

/// Starts an instance that must not start, and returns why it does not.
async fn refusal(zookeeper: String, arguments: &[&str]) -> String {
    let lab = Lab::on_zookeeper(zookeeper).await;
    Server::start(lab.config(arguments)).await.err().unwrap().to_string()
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn too_many_sessions_for_zookeeper_name_the_remedy() {
    let limited = ZooKeeperConfig { connections_max: Some(10), ..ZooKeeperConfig::default() };
    let zookeeper = ZooKeeper::start(limited).await.unwrap();
    // A server accepts a few more than it allows, if they come together.
    let sessions = ["--zk-sessions", "100", "--zk-session-timeout", "4s"];
    let refused = refusal(zookeeper.connect_string(), &sessions).await;
    assert!(refused.contains("fewer --zk-sessions") && refused.contains("maxClientCnxns"), "{refused}");
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn a_zookeeper_host_that_does_not_resolve_is_named() {
    let refused = refusal("no.such.host.invalid:2181".to_owned(), &["--zk-session-timeout", "1s"]).await;
    assert!(refused.contains("no.such.host.invalid:2181 does not resolve"), "{refused}");
}

// S95
#[tokio::test(flavor = "multi_thread")]
async fn enforced_authentication_is_told_as_missing_credentials() {
    let zookeeper = zookeeper(ENFORCED_AUTHENTICATION).await;
    let refused = refusal(zookeeper.connect_string(), &[]).await;
    assert!(refused.contains("requires credentials") && refused.contains("ZOOKEEPER_AUTH"), "{refused}");
    assert!(!refused.contains("refused the credentials"), "{refused}");
}

// S96
#[tokio::test(flavor = "multi_thread")]
async fn a_zookeeper_that_throttles_sells_the_whole_stock() {
    let zookeeper = zookeeper(ZooKeeperConfig::THROTTLING).await;
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let times = ["--lock-wait", "60s", "--db-timeout", "80s", "--http-timeout", "100s", "--business-time", "1ms"];
    let instance = lab.start(&[&times[..], &["--zk-sessions", "10"]].concat()).await;
    instance.put_on_sale(1, 10, "zk-mutex").await.assert_ok();
    for bought in join_all((0..10).map(|_| instance.buy(1, "zk-mutex"))).await {
        bought.assert_ok();
    }
    wait_until(async || zookeeper.metric("zk_throttled_ops").await.unwrap() > 0).await;
}
