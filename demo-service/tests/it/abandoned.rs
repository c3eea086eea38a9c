//! Buyers who hang up, by the thousand.

use std::fs;

use testbed::{StopSignal, ZooKeeper, ZooKeeperConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use zk_recipes::{Mutex, Session, SessionConfig};

use crate::lab::{ENDLESS, Lab, lock_path, wait_until};
use crate::program::Program;

/// Their queues are in ZooKeeper: one node a buyer, the same with other requests, and one node for all of them.
const STRATEGIES: [&str; 3] = ["zk-mutex", "zk-handoff", "zk-cohort"];

const BUYERS: u32 = 10_000;

/// Well below the limits of requests and of connections.
const WAVE: u32 = 500;

/// Waves before the first measurement: until then buffers and queues of the process grow to what a wave needs.
const WARM_UP_WAVES: u32 = 6;

/// Tells the allocator of glibc to give back what is freed, so that what is resident is what is in use. Others do not know
/// these variables.
const FRUGAL: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "65536")];

/// How much more memory may be resident afterwards, in percent.
const GROWTH_MAX_PERCENT: u64 = 5;

/// What a process takes of the system. Only Linux tells; elsewhere it is nothing, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Footprint {
    files: usize,
    resident_kib: u64,
}

impl Footprint {
    fn of(program: &Program) -> Self {
        if !cfg!(target_os = "linux") {
            return Self { files: 0, resident_kib: 0 };
        }
        let folder = format!("/proc/{}", program.process.pid());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix(" kB"));
        let resident_kib = resident.unwrap().trim().parse().unwrap();
        Self { files: fs::read_dir(format!("{folder}/fd")).unwrap().count(), resident_kib }
    }
}

/// Lets a crowd of buyers queue for a lock that is held, and hang up together.
async fn wave(program: &Program, strategy: &str, goods_no: i64, mutex: &Mutex) {
    let head = format!("GET /goods-stock/{goods_no}?strategy={strategy} HTTP/1.1\r\nhost: lab\r\n\r\n");
    let mut buyers = Vec::new();
    for _ in 0..WAVE {
        let mut buyer = TcpStream::connect(program.address).await.unwrap();
        buyer.write_all(head.as_bytes()).await.unwrap();
        buyers.push(buyer);
    }
    program.wait_for_waiting(strategy, WAVE as usize).await;
    drop(buyers);
    program.wait_for_waiting(strategy, 0).await;
    wait_until(async || mutex.participants().await.unwrap().len() == 1).await;
}

/// Goal: a buyer that hangs up in a queue leaves nothing behind, neither in ZooKeeper nor in Postgres nor in the process.
/// Method: the test holds the locks, and buyers come and go in waves. The state after the last wave is compared with the
/// state after the first few.
// S35
#[tokio::test]
async fn ten_thousand_buyers_who_hang_up_leave_nothing_behind() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let arguments = [&ENDLESS[..], &["--zk-sessions", "4"]].concat();
    let program = Program::start(&lab, StopSignal::Terminate, &arguments, &FRUGAL).await;
    let session = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
    let mut mutexes = Vec::new();
    let mut holds = Vec::new();
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        program.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let mutex = Mutex::new(&session, &lock_path(strategy, goods_no)).unwrap();
        holds.push(mutex.acquire().await.unwrap());
        mutexes.push((goods_no, strategy, mutex));
    }

    let mut each = mutexes.iter().cycle();
    let mut waves = async |count: u32| {
        for (goods_no, strategy, mutex) in each.by_ref().take(count as usize) {
            wave(&program, strategy, *goods_no, mutex).await;
        }
    };
    waves(WARM_UP_WAVES).await;
    let watches = zookeeper.metric("zk_watch_count").await.unwrap();
    let nodes = zookeeper.metric("zk_znode_count").await.unwrap();
    let before = Footprint::of(&program);
    waves(BUYERS / WAVE).await;

    // There may be fewer nodes than before: the server deletes empty containers once a minute.
    wait_until(async || zookeeper.metric("zk_watch_count").await.unwrap() <= watches).await;
    wait_until(async || zookeeper.metric("zk_znode_count").await.unwrap() <= nodes).await;
    wait_until(async || Footprint::of(&program).files <= before.files).await;
    let resident_max_kib = before.resident_kib * (100 + GROWTH_MAX_PERCENT) / 100;
    let after = Footprint::of(&program);
    assert!(after.resident_kib <= resident_max_kib, "{after:?}, and before {before:?}");
    assert!(lab.service_connections().await <= 7, "the pool, and the two aside");
    assert_eq!(program.metric("seckill_requests_in_flight").await, Some(0.0));

    let mut gone = 0.0;
    for (goods_no, strategy, _) in &mutexes {
        holds.remove(0).release().await.unwrap();
        program.buy(*goods_no, strategy).await.assert_ok();
        assert_eq!(lab.units_ordered(*goods_no, 1).await, 1, "{strategy}: who hung up has bought nothing");
        gone += program.outcomes(strategy, "client_gone").await.unwrap();
    }
    assert_eq!(gone, f64::from(WARM_UP_WAVES * WAVE + BUYERS));
}
