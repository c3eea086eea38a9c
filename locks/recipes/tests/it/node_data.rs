//! What the nodes of a lock may say of themselves.

use std::time::Duration;

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    Error, HandoffMutex, HoldState, LeaderLatch, Mutex, NODE_DATA_MAX, RwLock, Semaphore, SemaphoreMutex, Session,
    SharedCount,
};

use crate::support::{Lab, soon, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_the_longest_data_that_a_node_may_have() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let data = || vec![7; NODE_DATA_MAX];
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap().with_node_data(data()).unwrap();
    let semaphore = Semaphore::new(&session, "/locks/semaphore", 1).unwrap().with_node_data(data()).unwrap();
    let held =
        [soon("the mutex", mutex.acquire()).await.unwrap(), soon("the permit", semaphore.acquire()).await.unwrap()];
    for seen in [mutex.participants().await.unwrap(), semaphore.participants().await.unwrap()] {
        assert_eq!(seen.iter().map(|participant| participant.data.len()).collect::<Vec<_>>(), [1_000_000]);
    }
    for held in held {
        held.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_servers_would_not_take_is_refused_before_a_request() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let before = session.traffic();
    let refusals = |data: &str| {
        [
            Mutex::new(&session, "/locks/x").unwrap().with_node_data(data).map(drop).unwrap_err(),
            HandoffMutex::new(&session, "/locks/x").unwrap().with_node_data(data).map(drop).unwrap_err(),
            RwLock::new(&session, "/locks/x").unwrap().with_node_data(data).map(drop).unwrap_err(),
            Semaphore::new(&session, "/locks/x", 1).unwrap().with_node_data(data).map(drop).unwrap_err(),
            SemaphoreMutex::new(&session, "/locks/x").unwrap().with_node_data(data).map(drop).unwrap_err(),
            LeaderLatch::new(&session, "/locks/x").unwrap().with_id(data).map(drop).unwrap_err(),
        ]
    };
    for refused in refusals(&"x".repeat(1_000_001)) {
        let expected = "the data of a lock's node can be 1000000 bytes at most, not 1000001: keep it elsewhere and give \
                        the nodes a reference to it";
        assert_eq!(refused.to_string(), expected);
        assert!(matches!(refused, Error::NodeDataTooLong { length: 1_000_001, limit: NODE_DATA_MAX, .. }));
    }
    for refused in refusals("__REVOKE__") {
        assert!(matches!(refused, Error::NodeDataReserved), "{refused}");
    }
    assert_eq!(session.traffic(), before);
}

// L48
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_closes_the_connection_is_repeated_more_rarely() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), Default::default()).await.unwrap();
    let held = Mutex::new(&session, "/locks/other").unwrap().acquire().await.unwrap();
    // Path and data together are more than the server reads.
    let path = format!("/{}", "x".repeat(60_000));
    let mutex = Mutex::new(&session, &path).unwrap().with_node_data(vec![7; NODE_DATA_MAX]).unwrap();
    let wait = Duration::from_secs(4);
    // A create, a sync and a listing each time, after at most 10, 20, 40 … 1000 ms.
    let mut requests = 0;
    until("the lock is asked for again and again", async || {
        let before = session.traffic().requests;
        assert!(mutex.acquire_within(wait).await.unwrap().is_none());
        let in_time = session.traffic().requests - before;
        assert!(in_time < 60, "{in_time}");
        requests += in_time;
        requests >= 10
    })
    .await;

    // The path alone is.
    let count = SharedCount::new(&session, &format!("/{}", "x".repeat(1_100_000)), 1).unwrap();
    let mut requests = 0;
    until("the count is asked for again and again", async || {
        let before = session.traffic().requests;
        assert!(tokio::time::timeout(wait, count.get()).await.is_err());
        let in_time = session.traffic().requests - before;
        assert!(in_time < 20, "{in_time}");
        requests += in_time;
        requests >= 5
    })
    .await;

    until("the session is back", async || held.state() == HoldState::Held).await;
    held.release().await.unwrap();
}
