//! A service that stops answering for a while, in a closed loop.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::support::{PATIENCE, Running, TestFolder, eventually, exports};

const STOPPED: Duration = Duration::from_millis(1500);

// C18
#[test]
fn a_closed_loop_tells_of_the_silence_that_it_hides() {
    let folder = TestFolder::new();
    let client = TestFolder::new();
    let up = ["up", "--instances", "1", "--business-time", "0ms", "--demo-service"];
    let running = Running::start(folder.loadgen_throwaway(up).arg(folder.noting_service()));
    let variables = exports(&running.until_stdout("# what was sold"));
    let runtime = Runtime::new().unwrap();
    let count = async || {
        let mut connection = PgConnection::connect(&variables["DATABASE_URL"]).await.unwrap();
        let orders: i64 = sqlx::query_scalar("select count(*) from orders").fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        orders
    };

    let args = "run pg-conditional --users 4 --duration 4s --stock 1000000 --trials 1 --no-warm-up --quiet --target";
    let mut load = client.loadgen(args.split(' '));
    let load = Running::start(load.arg(&variables["SECKILL_URLS"]).envs(&variables));
    eventually("buyers buy", PATIENCE, || runtime.block_on(count()) > 0);
    let instance = folder.first_instance();
    kill(instance, Signal::SIGSTOP).unwrap();
    thread::sleep(STOPPED);
    kill(instance, Signal::SIGCONT).unwrap();
    let (status, stdout) = load.wait();

    // On a busy machine, the generator may be the bottleneck.
    assert!([Some(0), Some(4)].contains(&status.code()), "{stdout}");
    let report = client.report();
    let result = &report["results"][0];
    let figure = |key: &str| result["figures"][key]["value"].as_f64().unwrap();
    assert!(figure("silence_max") > 1400.0, "{result:#}");
    // Each user has waited once. Without the stall it would have asked many times.
    let sold = |times: &str| result.pointer(times).unwrap()["n"].as_u64().unwrap();
    assert!(sold("/latency/corrected_sold") > sold("/latency/response/sold"), "{result:#}");
    assert!(stdout.contains("(coordinated omission)"), "{stdout}");
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().0.code(), Some(0));
    assert!(folder.is_clean() && client.is_clean(), "something is left");
}
