//! `GET /metrics`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use demo_service::failure;
use demo_service::strategy::registry;
use reqwest::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::lab::{Answer, Lab, Shop, wait_until};

#[tokio::test]
async fn deductions_are_counted_by_strategy_and_outcome() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    for name in registry::names() {
        assert_eq!(instance.outcomes(name, "sold").await, Some(0.0), "every series is there from the start");
    }
    instance.put_on_sale(1, 1, "zk-mutex").await.assert_ok();
    for _ in 0..3 {
        instance.buy(1, "zk-mutex").await;
    }
    instance.buy(2, "unguarded").await;
    assert_eq!(instance.outcomes("zk-mutex", "sold").await, Some(1.0));
    assert_eq!(instance.outcomes("zk-mutex", "sold_out").await, Some(2.0));
    assert_eq!(instance.outcomes("unguarded", "unknown_goods").await, Some(1.0));
    for histogram in ["seckill_deduction_seconds", "seckill_lock_wait_seconds"] {
        assert_eq!(instance.metric(&format!(r#"{histogram}_count{{strategy="zk-mutex"}}"#)).await, Some(3.0));
        assert_eq!(
            instance.metric(&format!(r#"{histogram}_bucket{{strategy="zk-mutex",le="+Inf"}}"#)).await,
            Some(3.0)
        );
    }
}

#[tokio::test]
async fn only_strategies_that_use_zookeeper_have_traffic_with_it() {
    let (_lab, instance) = Lab::with_instance(&["--zk-sessions", "3"]).await;
    let strategies = ["unguarded", "local-mutex", "pg-conditional", "zk-mutex"];
    for (goods_no, strategy) in (1..).zip(strategies) {
        instance.put_on_sale(goods_no, 100, strategy).await.assert_ok();
    }
    let traffic = async || {
        let mut values = Vec::new();
        for what in ["requests", "bytes_sent", "bytes_received"] {
            values.push(instance.metric(&format!("zookeeper_{what}_total")).await.unwrap());
        }
        values
    };
    let before = traffic().await;
    for (goods_no, strategy) in (1..).zip(&strategies[..3]) {
        instance.buy(goods_no, strategy).await.assert_ok();
    }
    assert_eq!(traffic().await, before);
    instance.buy(4, "zk-mutex").await.assert_ok();
    for (after, before) in traffic().await.into_iter().zip(before) {
        assert!(after > before);
    }
    assert_eq!(instance.metric(r#"zookeeper_sessions{state="connected"}"#).await, Some(3.0));
    assert!(instance.metric("zookeeper_notifications_total").await.is_some());
}

/// Goal: an instance to which nothing has happened has one series for each label value.
#[tokio::test]
async fn every_series_is_there_from_the_start() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let text = instance.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let strategies = registry::names().count();
    // Every kind of failure that a purchase can end with, and its other ends: sold, repeated, and queued.
    let outcomes: BTreeSet<_> = failure::ALL.iter().filter_map(|kind| kind.outcome).collect();
    for (name, count) in [
        ("seckill_deductions_total", (outcomes.len() + 3) * strategies),
        ("seckill_deduction_seconds_count", strategies),
        ("seckill_lock_wait_seconds_count", strategies),
        ("seckill_lock_hold_seconds_count", strategies),
        ("seckill_lock_lost_total", 9 * strategies),
        ("seckill_queue_depth", strategies),
        ("seckill_retries_total", strategies),
        ("seckill_requests_shed_total", 1),
        ("seckill_requests_rate_limited_total", 2),
        ("seckill_requests_in_flight", 1),
        ("seckill_history_dropped_total", 1),
    ] {
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let series: Vec<_> = text.lines().filter(of_name).collect();
        assert_eq!(series.len(), count, "{name} in {text}");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "{series:?}");
    }
    let build = text.lines().find(|line| line.starts_with("seckill_build_info{")).unwrap();
    assert!(
        build.contains(concat!("version=\"", env!("CARGO_PKG_VERSION"), "\",")) && build.ends_with("} 1"),
        "{build}"
    );
    for label in ["revision=\"", "changed=\"", "profile=\""] {
        assert!(build.contains(label), "{build}");
    }
    for name in ["requests", "notifications", "bytes_sent", "bytes_received"] {
        assert!(instance.metric(&format!("zookeeper_{name}_total")).await.is_some(), "{name}");
    }
    for state in ["in_use", "idle"] {
        assert!(instance.metric(&format!(r#"postgres_connections{{state="{state}"}}"#)).await.is_some(), "{state}");
    }
    for (state, count) in [("connected", 1.0), ("suspended", 0.0), ("lost", 0.0)] {
        assert_eq!(instance.metric(&format!(r#"zookeeper_sessions{{state="{state}"}}"#)).await, Some(count));
    }
}

#[tokio::test]
async fn the_processor_time_of_the_process_grows_by_parts_of_a_second() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let mut last = 0.0;
    let mut readings = 0;
    // The reading of it costs some.
    wait_until(async || {
        let seconds = instance.metric("process_cpu_seconds_total").await.unwrap();
        assert!(seconds >= last, "{seconds} after {last}");
        readings += usize::from(seconds > last && seconds.fract() > 0.0);
        last = seconds;
        readings == 2
    })
    .await;
}

#[tokio::test]
async fn metrics_show_the_levels_of_now() {
    let (_lab, instance) = Lab::with_instance(&["--history", "1"]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    for _ in 0..3 {
        instance.buy(1, "zk-mutex").await.assert_ok();
    }
    assert_eq!(instance.metric("seckill_history_dropped_total").await, Some(2.0));
    assert!(instance.metric(r#"postgres_connections{state="idle"}"#).await > Some(0.0));
    assert_eq!(instance.metric("seckill_requests_in_flight").await, Some(0.0));
}

/// Goal: clients that ask for metrics all at once share what they get, and some are refused. A scrape and a buyer among a few
/// of them are served. Method: each rendering has its own processor time, so equal texts are one rendering.
// S74
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_rendered_for_many_at_once() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 1_000, "pg-conditional").await.assert_ok();
    let mut texts = BTreeSet::new();
    let mut served = 0;
    wait_until(async || {
        let asked: JoinSet<_> = (0..100).map(|_| instance.request(Method::GET, "/metrics").send()).collect();
        let mut refused = 0;
        for answer in asked.join_all().await {
            let answer = answer.unwrap();
            if answer.status() == 200 {
                texts.insert(answer.text().await.unwrap());
                served += 1;
            } else {
                Answer::of(answer).await.assert_problem(503, "overloaded");
                refused += 1;
            }
        }
        refused > 0
    })
    .await;
    assert!(texts.len() < served, "{} renderings for {served} clients", texts.len());

    let asking: JoinSet<_> = (0..8)
        .map(|_| {
            let shop = Shop::at(instance.address);
            async move {
                loop {
                    assert!(shop.metric("seckill_requests_in_flight").await.is_some());
                }
            }
        })
        .collect();
    for bought in 1..=20 {
        instance.buy(1, "pg-conditional").await.assert_ok();
        let sold = instance.outcomes("pg-conditional", "sold").await;
        assert_eq!(sold, Some(f64::from(bought)), "no text is older than the request for it");
    }
    drop::<JoinSet<()>>(asking);
}

/// Goal: clients that do not send their bodies keep no metrics from others. Method: there are more of them than permits.
// S75
#[tokio::test]
async fn half_a_body_keeps_no_metrics_from_others() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let half = b"GET /metrics HTTP/1.1\r\nhost: lab\r\ncontent-length: 14\r\n\r\n";
    let mut crowd = Vec::new();
    for number in 1..=20 {
        let mut client = TcpStream::connect(instance.address).await.unwrap();
        client.write_all(half).await.unwrap();
        crowd.push(client);
        assert!(instance.metric("seckill_requests_in_flight").await.is_some(), "beside {number} of them");
    }
}

/// Returns the program that checks metrics as Prometheus would read them.
fn promtool() -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/servers/bin/promtool");
    if unpacked.exists() { unpacked } else { "promtool".into() }
}

// S102
#[tokio::test]
async fn the_process_is_described_in_the_standard_names() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let value = async |name: &str| instance.metric(&format!("process_{name}")).await;
    for name in
        ["open_fds", "max_fds", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds", "threads"]
    {
        assert!(value(name).await > Some(0.0), "{name}");
    }
    assert!(value("open_fds").await <= value("max_fds").await);
    assert!(value("resident_memory_bytes").await <= value("virtual_memory_bytes").await);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(value("start_time_seconds").await <= Some(now));
}

// S102
#[tokio::test]
async fn the_text_is_what_prometheus_reads() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.buy(1, "zk-mutex").await.assert_ok();
    let response = instance.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.unwrap();
    let mut check = Command::new(promtool());
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap_or_else(|error| panic!("promtool: {error}; run `make deps-test`"));
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    for counter in ["seckill_deductions_total", "process_cpu_seconds_total"] {
        assert!(text.lines().any(|line| line == format!("# TYPE {counter} counter")), "{counter} in {text}");
        assert!(text.contains(&format!("# HELP {counter} ")), "{counter} in {text}");
    }
}
