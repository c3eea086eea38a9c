//! What other load generators count equals what the database has.

// S21

use std::fs;
use std::future::pending;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::StopSignal;
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::{ENDLESS, Lab, wait_until};
use crate::program::Program;

/// One that oversells, one that locks in ZooKeeper, one that locks in Postgres.
const STRATEGIES: [&str; 3] = ["unguarded", "zk-mutex", "pg-conditional"];

/// How long a load generator may take.
const RUN_WITHIN: Duration = Duration::from_secs(120);

/// The connections of wrk.
const CONNECTIONS: u32 = 32;

const REMEDY: &str = "run: make deps-test";

/// Runs a load generator on a sale by each strategy and compares how many units it was sold with how
/// many were ordered.
async fn assert_counts_what_was_ordered(stock: i64, load: impl AsyncFn(&Lab, &Program, &str, i64) -> i64) {
    let lab = Lab::new().await;
    // On a busy machine, the last of JMeter's threads waits longer for a lock than by default.
    let program = Program::start(&lab, StopSignal::Terminate, &ENDLESS, &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        program.put_on_sale(goods_no, stock, strategy).await.assert_ok();
        let sold = load(&lab, &program, strategy, goods_no).await;
        assert_eq!(sold, lab.units_ordered(goods_no, 1).await, "{strategy}");
        assert_eq!(sold > stock, strategy == "unguarded", "{strategy} sold {sold} of {stock}");
    }
}

/// Starts a load generator. `until` decides when it is interrupted. Returns what it says.
async fn output_of(command: &mut Command, until: impl Future<Output = ()>) -> String {
    let piped = command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be run; {REMEDY}: {error}"));
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap());
    let interrupted = async {
        until.await;
        kill(pid, Signal::SIGINT).unwrap();
        pending::<()>().await;
    };
    let output = tokio::select! {
        output = timeout(RUN_WITHIN, child.wait_with_output()) => output.expect("the load generator ends").unwrap(),
        () = interrupted => unreachable!(),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Waits until a sale is over and every answer about it has been read: no purchase that has seen units left is under way, and
/// many others were refused since.
async fn until_sold_out(lab: &Lab, program: &Program, strategy: &str, goods_no: i64) {
    let mut connection = lab.connect().await;
    let is_sold_out = "select on_hand = 0 from goods where goods_no = $1";
    let is_over = "select not exists (select from pg_stat_activity where datname = current_database()
                       and application_name like 'demo-service%' and xact_start < $1::timestamptz)";
    wait_until(async || {
        let sold_out: bool = sqlx::query_scalar(is_sold_out).bind(goods_no).fetch_one(&mut connection).await.unwrap();
        if !sold_out {
            return false;
        }
        // A purchase that began before now may still write what it has read.
        let seen: String =
            sqlx::query_scalar("select clock_timestamp()::text").fetch_one(&mut connection).await.unwrap();
        while !sqlx::query_scalar::<_, bool>(is_over).bind(&seen).fetch_one(&mut connection).await.unwrap() {}
        sqlx::query_scalar(is_sold_out).bind(goods_no).fetch_one(&mut connection).await.unwrap()
    })
    .await;
    let refusals = async || program.outcomes(strategy, "sold_out").await.unwrap_or(0.0);
    let seen = refusals().await;
    wait_until(async || refusals().await > seen + 10.0 * f64::from(CONNECTIONS)).await;
}

#[tokio::test]
async fn wrk_counts_what_was_ordered() {
    assert_counts_what_was_ordered(50, async |lab, program, strategy, goods_no| {
        let url = format!("http://{}/goods-stock/{goods_no}?strategy={strategy}", program.address);
        let connections = format!("-c{CONNECTIONS}");
        let longest = format!("-d{}", RUN_WITHIN.as_secs());
        // By default, it counts each answer that takes more than two seconds as an error, and a busy machine takes longer.
        let patience = format!("--timeout={}", RUN_WITHIN.as_secs());
        let until = until_sold_out(lab, program, strategy, goods_no);
        let report = output_of(Command::new("wrk").args(["-t2", &connections, &longest, &patience, &url]), until).await;
        assert!(!report.contains("Socket errors"), "{report}");
        let number = |before: &str, after: &str| {
            let line = report.lines().find(|line| line.contains(before) && line.contains(after))?;
            let rest = &line[line.find(before)? + before.len()..];
            rest.trim().split(' ').next()?.parse::<i64>().ok()
        };
        let requests = number("", " requests in ").unwrap_or_else(|| panic!("{report}"));
        // It leaves without the answers to its last requests, which must not have been sold anything.
        let refused = number("Non-2xx or 3xx responses:", "").expect("the last were refused");
        requests - refused
    })
    .await;
}

#[tokio::test]
async fn jmeter_counts_what_was_ordered() {
    let results = tempfile::tempdir().unwrap();
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("jmeter");
    let threads = 200;
    assert_counts_what_was_ordered(50, async |_, program, strategy, goods_no| {
        let result = results.path().join(strategy);
        let jmeter = testbed::jmeter(&plans.join("JMeter.java"));
        let mut jmeter = Command::from(jmeter.unwrap_or_else(|error| panic!("{error}")));
        jmeter.arg("-n").arg("-t").arg(plans.join("seckill.jmx"));
        jmeter.arg("-l").arg(&result).arg("-j").arg(result.with_extension("log"));
        jmeter.args([
            format!("-Jport={}", program.address.port()),
            format!("-JgoodsNo={goods_no}"),
            format!("-Jstrategy={strategy}"),
        ]);
        jmeter.arg(format!("-Jthreads={threads}"));
        let report = output_of(&mut jmeter, pending()).await;
        let lines = fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {report}"));
        // Before they meet, the threads ask for the health of the instance.
        let purchases = lines.lines().filter(|line| !line.contains("warm-up: no purchase"));
        let codes: Vec<_> = purchases.filter_map(|line| line.split(',').nth(3)).collect();
        let count = |code: &str| codes.iter().filter(|&&one| one == code).count();
        let sold = count("200");
        assert_eq!(sold + count("409"), threads, "{codes:?}");
        sold.try_into().unwrap()
    })
    .await;
}
