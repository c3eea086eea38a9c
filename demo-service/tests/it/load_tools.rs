//! What other load generators count equals what the database has.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testbed::StopSignal;
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::Lab;
use crate::program::Program;

/// One that oversells, one that locks in ZooKeeper, one that locks in Postgres.
const STRATEGIES: [&str; 3] = ["unguarded", "zk-mutex", "pg-conditional"];

/// How long a load generator may take, which is told to take a few seconds.
const RUN_WITHIN: Duration = Duration::from_secs(90);

const REMEDY: &str = "run: make deps-test";

/// Runs a load generator on a sale by each strategy and compares how many units it was sold with how
/// many were ordered.
async fn assert_counts_what_was_ordered(stock: i64, load: impl AsyncFn(&str, u16, i64) -> i64) {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        program.put_on_sale(goods_no, stock, strategy).await.assert_ok();
        let sold = load(strategy, program.address.port(), goods_no).await;
        assert_eq!(sold, lab.units_ordered(goods_no, 1).await, "{strategy}");
        assert_eq!(sold > stock, strategy == "unguarded", "{strategy} sold {sold} of {stock}");
    }
}

/// What a program says that must end well.
async fn output_of(command: &mut Command) -> String {
    let output = timeout(RUN_WITHIN, command.kill_on_drop(true).output()).await.expect("the load generator ends");
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run; {REMEDY}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[tokio::test]
async fn wrk_counts_what_was_ordered() {
    assert_counts_what_was_ordered(50, async |strategy, port, goods_no| {
        let url = format!("http://127.0.0.1:{port}/goods-stock/{goods_no}?strategy={strategy}");
        let report = output_of(Command::new("wrk").args(["-t2", "-c32", "-d3s", &url])).await;
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
    assert_counts_what_was_ordered(50, async |strategy, port, goods_no| {
        let result = results.path().join(strategy);
        let jmeter = testbed::jmeter(&plans.join("JMeter.java"));
        let mut jmeter = Command::from(jmeter.unwrap_or_else(|error| panic!("{error}")));
        jmeter.arg("-n").arg("-t").arg(plans.join("seckill.jmx"));
        jmeter.arg("-l").arg(&result).arg("-j").arg(result.with_extension("log"));
        jmeter.args([format!("-Jport={port}"), format!("-JgoodsNo={goods_no}"), format!("-Jstrategy={strategy}")]);
        jmeter.arg(format!("-Jthreads={threads}"));
        let report = output_of(&mut jmeter).await;
        let lines = fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {report}"));
        let codes: Vec<_> = lines.lines().filter_map(|line| line.split(',').nth(3)).collect();
        let count = |code: &str| codes.iter().filter(|&&one| one == code).count();
        let (sold, refused) = (count("200"), count("409"));
        assert_eq!(sold + refused, threads, "{codes:?}");
        sold.try_into().unwrap()
    })
    .await;
}
