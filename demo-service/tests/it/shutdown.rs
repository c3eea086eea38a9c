//! Told to stop, the service finishes what it has begun and leaves nothing behind.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as Client;
use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use testbed::{StopSignal, ZooKeeper, ZooKeeperConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use crate::commits::slow_down_commits;
use crate::lab::{ENDLESS, Lab, PATIENT, wait_until};
use crate::program::Program;

/// Returns how many clients are connected to a ZooKeeper server, the asking one not counted.
async fn zookeeper_clients(address: &str) -> u32 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"mntr").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t"));
    count.expect("mntr reports the sessions").trim().parse().unwrap()
}

// S80
#[tokio::test]
async fn requests_in_flight_are_finished_and_the_sessions_closed() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let instance = lab.start(&["--zk-sessions", "3"]).await;
    let address = instance.address;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.put_on_sale(2, 5, "unguarded").await.assert_ok();
    assert_eq!(zookeeper_clients(&lab.zookeeper).await, 3);
    let row = lab.lock_rows().await;
    let answered = instance.spawn_buy(1, "zk-mutex");
    lab.wait_for_statement("active", "update goods").await;
    let abandoned = instance.spawn_buy(2, "unguarded");
    wait_until(async || {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and state = 'active' and query like 'update goods%'";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut lab.connect().await).await.unwrap() == 2
    })
    .await;
    abandoned.abort();

    let stopped = instance.request_stop();
    wait_until(async || {
        TcpStream::connect(address).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
    assert!(!stopped.is_finished(), "it waits for the requests in flight");
    row.release().await;
    answered.await.unwrap().assert_ok();
    stopped.await.unwrap();
    let ordered = (lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await);
    assert_eq!(ordered, (1, 1), "the buyer who had left was served, too");
    assert_eq!(zookeeper_clients(&lab.zookeeper).await, 0);
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_end() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let mut idle = TcpStream::connect(instance.address).await.unwrap();
    instance.get("/healthz").await.assert_ok();
    instance.request_stop().await.unwrap();
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

/// Goal: a client that the system has accepted is answered, although the service is told to stop before it accepts it. Method:
/// the runtime does not look at the listeners between both.
// S81
#[tokio::test]
async fn told_to_stop_it_answers_the_clients_that_have_come() {
    let (_lab, instance) = Lab::with_instance(&["--operators-listen", "127.0.0.1:0"]).await;
    let operators = instance.operators.as_ref().unwrap().address;
    let ask = |address, path: &str| {
        let mut client = Client::connect(address).unwrap();
        client.write_all(format!("GET {path} HTTP/1.1\r\nhost: lab\r\n\r\n").as_bytes()).unwrap();
        client
    };
    let clients = [
        (ask(instance.address, "/goods-stock/1"), ["HTTP/1.1 503", "shutting-down"]),
        (ask(instance.address, "/healthz"), ["HTTP/1.1 200", "alive"]),
        (ask(operators, "/healthz"), ["HTTP/1.1 200", "alive"]),
    ];
    let stopped = instance.request_stop();
    for (mut client, parts) in clients {
        let mut said = String::new();
        let (said, read) = spawn_blocking(move || {
            let read = client.read_to_string(&mut said);
            (said, read)
        })
        .await
        .unwrap();
        read.unwrap();
        assert!(parts.into_iter().chain(["connection: close"]).all(|part| said.contains(part)), "{said:?}");
    }
    stopped.await.unwrap();
}

/// Goal: no instance enters a critical section while the commit of another instance is in flight, also during its shutdown.
/// Method: a commit outlasts the shutdown of its instance, and a second instance wants the same and only unit.
// S30
#[tokio::test]
async fn a_commit_that_outlasts_the_shutdown_keeps_its_lock() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "1s", "--db-timeout", "1500ms", "--http-timeout", "1600ms"];
    let stopping = lab.start(&times).await;
    let staying = lab.start(&PATIENT).await;
    stopping.put_on_sale(1, 1, "zk-mutex").await.assert_ok();
    slow_down_commits(&lab, 8.0).await;
    stopping.buy(1, "zk-mutex").await.assert_problem(503, "outcome-unknown");
    stopping.request_stop().await.unwrap();
    assert_eq!(lab.units_ordered(1, 1).await, 0, "the commit is still under way");

    staying.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    assert_eq!(lab.units_ordered(1, 1).await, 1);
}

/// Goal: a shutdown starts nothing and drops nothing in progress. Method: one buyer waits for a lock of ZooKeeper and one
/// for a row, both for longer than the test lasts. A third one has the lock and is about to write.
// S80
#[tokio::test]
async fn told_to_stop_it_refuses_who_waits_and_finishes_the_rest() {
    let lab = Lab::new().await;
    for (sale, stop_signal) in [(1, StopSignal::Interrupt), (2, StopSignal::Terminate)] {
        let mut program = Program::start(&lab, stop_signal, &ENDLESS, &[]).await;
        for (goods_no, strategy) in (1..).zip(["zk-mutex", "pg-row-lock", "zk-handoff"]) {
            program.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        }
        let held = lab.hold_locks("zk-mutex", &[1]).await;
        let rows = lab.lock("select from goods where goods_no in (2, 3) for update").await;
        let waiting = [program.spawn_buy(1, "zk-mutex"), program.spawn_buy(2, "pg-row-lock")];
        let writing = program.spawn_buy(3, "zk-handoff");
        lab.wait_for_queue("zk-mutex", 1, 2).await;
        wait_until(async || lab.lock_waits().await == 2).await;

        program.process.request_stop();
        for refused in waiting {
            refused.await.unwrap().assert_problem(503, "shutting-down");
        }
        assert!(program.process.try_wait().unwrap().is_none(), "it finishes what has begun");
        rows.release().await;
        writing.await.unwrap().assert_ok();
        assert_eq!(program.process.wait().await.unwrap().code(), Some(0), "{}", program.process.log_tail());
        for (goods_no, sold) in [(1, 0), (2, 0), (3, 1)] {
            assert_eq!(lab.units_ordered(goods_no, sale).await, sold, "SKU {goods_no}");
        }
        lab.wait_for_queue("zk-mutex", 1, 1).await;
        lab.wait_for_queue("zk-handoff", 3, 0).await;
        held.release().await.unwrap();
    }
}

// S82
#[tokio::test]
async fn told_to_stop_twice_it_stops_at_once_and_nothing_is_sold() {
    let lab = Lab::new().await;
    let mut program = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    program.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let row = lab.lock_rows().await;
    let buyer = tokio::spawn(program.request(Method::GET, "/goods-stock/1").send());
    lab.wait_for_lock().await;

    let pid = Pid::from_raw(program.process.pid());
    let tell = || kill(pid, Signal::SIGTERM).unwrap();
    tell();
    wait_until(async || TcpStream::connect(program.address).await.is_err()).await;
    assert!(program.process.try_wait().unwrap().is_none(), "it finishes what has begun");
    tell();
    // What is given for an exit status of 143.
    let signal = program.process.wait().await.unwrap().signal();
    assert_eq!(signal, Some(Signal::SIGTERM as i32), "{}", program.process.log_tail());
    assert!(buyer.await.unwrap().is_err(), "nobody answers");
    row.release().await;
    lab.wait_for_queue("zk-mutex", 1, 0).await;
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

#[tokio::test]
async fn two_signals_of_a_closing_terminal_are_one_request_to_stop() {
    let lab = Lab::new().await;
    let mut program = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    program.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let row = lab.lock_rows().await;
    let buyer = tokio::spawn(program.request(Method::GET, "/goods-stock/1").send());
    lab.wait_for_lock().await;

    let hang_up = || kill(Pid::from_raw(program.process.pid()), Signal::SIGHUP).unwrap();
    hang_up();
    wait_until(async || TcpStream::connect(program.address).await.is_err()).await;
    hang_up();
    row.release().await;
    assert!(buyer.await.unwrap().unwrap().status().is_success(), "the purchase in progress is completed");
    assert_eq!(program.process.wait().await.unwrap().code(), Some(0), "{}", program.process.log_tail());
    assert_eq!(lab.units_ordered(1, 1).await, 1);
}

/// Goal: a batch in progress is finished with its lock, and a wait for a lock is not. Method: one SKU has its batch written,
/// and the lock of the other one is held elsewhere for longer than the test lasts.
// S80
#[tokio::test]
async fn told_to_stop_it_finishes_its_batch_and_frees_the_lock() {
    let lab = Lab::new().await;
    let mut program = Program::start(&lab, StopSignal::Terminate, &ENDLESS, &[]).await;
    for goods_no in [1, 2] {
        program.put_on_sale(goods_no, 5, "zk-merge").await.assert_ok();
    }
    let held = lab.hold_locks("zk-merge", &[1]).await;
    let waiting = program.spawn_buy(1, "zk-merge");
    lab.wait_for_queue("zk-merge", 1, 2).await;
    let row = lab.lock_orders().await;
    let writing = program.spawn_buy(2, "zk-merge");
    lab.wait_for_lock().await;

    program.process.request_stop();
    waiting.await.unwrap().assert_problem(503, "shutting-down");
    row.release().await;
    writing.await.unwrap().assert_ok();
    assert_eq!(program.process.wait().await.unwrap().code(), Some(0), "{}", program.process.log_tail());
    let log = program.process.log_tail();
    assert!(!log.contains("WARN"), "{log}");
    held.release().await.unwrap();
}
