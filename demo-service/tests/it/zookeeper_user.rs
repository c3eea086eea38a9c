//! Locks that only a user of ZooKeeper may touch.

use std::process::Command;

use demo_service::config::Config;
use demo_service::http::server::Server;
use demo_service::secrets::ZooKeeperUser;
use demo_service::strategy::entry::Mechanism;
use demo_service::strategy::registry::STRATEGIES;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Acl, Auth, Mutex, Session, SessionConfig};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::lab::{Instance, Lab, lock_folder, lock_path, wait_until};

fn as_shop(lab: &Lab, arguments: &[&str]) -> Config {
    let zookeeper_user = Some(ZooKeeperUser::parse("shop:sesame").unwrap());
    Config { zookeeper_user, ..lab.config(arguments) }
}

// S97
#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_sells_under_locks_that_nobody_else_may_use() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let instance = Instance::start(as_shop(&lab, &["--zk-sessions", "2"])).await;
    let stranger = Client::connect(&lab.zookeeper).await.unwrap();
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_ok();
        if entry.mechanism == Mechanism::Zookeeper {
            let folder = lock_folder(entry.name);
            assert_eq!(stranger.list_children(&folder).await.unwrap_err(), Error::NoAuth, "{folder}");
            let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let created = stranger.create(&format!("{folder}/mine"), b"", &mode).await;
            assert_eq!(created.map(drop).unwrap_err(), Error::NoAuth, "{folder}");
        }
    }
}

// S97
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_may_read_or_delete_the_node_of_a_buyer() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let instance = Instance::start(as_shop(&lab, &[])).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let config = SessionConfig::default().with_auth(Auth::digest("shop", "sesame")).with_acl(Acl::creator());
    let session = Session::connect(&lab.zookeeper, config).await.unwrap();
    let mutex = Mutex::new(&session, &lock_path("zk-mutex", 1)).unwrap();
    let held = mutex.acquire().await.unwrap();
    let buyer = instance.spawn_buy(1, "zk-mutex");
    wait_until(async || mutex.participants().await.unwrap().len() == 2).await;

    let stranger = Client::connect(&lab.zookeeper).await.unwrap();
    let liar = Client::connector().with_auth("digest", b"shop:guess").connect(&lab.zookeeper).await.unwrap();
    for participant in mutex.participants().await.unwrap() {
        let node = &*participant.path;
        for other in [&stranger, &liar] {
            assert_eq!(other.get_data(node).await.map(drop).unwrap_err(), Error::NoAuth, "{node}");
            assert_eq!(other.set_data(node, b"", None).await.map(drop).unwrap_err(), Error::NoAuth, "{node}");
            assert_eq!(other.delete(node, None).await.unwrap_err(), Error::NoAuth, "{node}");
        }
    }
    held.release().await.unwrap();
    buyer.await.unwrap().assert_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_without_the_user_of_the_locks_does_not_start() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let _instance = Instance::start(as_shop(&lab, &[])).await;
    let refused = Server::start(lab.config(&[])).await.err().unwrap().to_string();
    assert!(refused.contains("ZOOKEEPER_AUTH") && refused.contains("does not allow"), "{refused}");
}

#[test]
fn a_user_of_a_wrong_form_is_refused_and_not_shown() {
    for wrong in ["sesame", "sesame:", ":sesame"] {
        let output = Command::new(env!("CARGO_BIN_EXE_demo-service"))
            .args(["--database-url", "postgres://localhost/lab", "--zookeeper", "localhost"])
            .env("ZOOKEEPER_AUTH", wrong)
            .output()
            .unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{complaint}");
        assert!(complaint.contains("ZOOKEEPER_AUTH is not of the form user:password"), "{complaint}");
        assert!(!complaint.contains("sesame"), "{complaint}");
    }
}
