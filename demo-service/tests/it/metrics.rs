//! `GET /metrics`.

use demo_service::strategy::registry;
use reqwest::Method;

use crate::lab::Lab;

#[tokio::test]
async fn deductions_are_counted_by_strategy_and_outcome() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    for name in registry::names() {
        let series = format!(r#"seckill_deductions_total{{strategy="{name}",outcome="sold"}}"#);
        assert_eq!(instance.metric(&series).await, Some(0.0), "every series is there from the start");
    }
    instance.reset(1, 1).await.assert_ok();
    for _ in 0..3 {
        instance.buy(1, "zk-mutex").await;
    }
    instance.buy(2, "unguarded").await;
    let count = async |strategy: &str, outcome: &str| {
        let series = format!(r#"seckill_deductions_total{{strategy="{strategy}",outcome="{outcome}"}}"#);
        instance.metric(&series).await
    };
    assert_eq!(count("zk-mutex", "sold").await, Some(1.0));
    assert_eq!(count("zk-mutex", "sold_out").await, Some(2.0));
    assert_eq!(count("unguarded", "unknown_goods").await, Some(1.0));
    for histogram in ["seckill_deduction_seconds", "seckill_lock_wait_seconds"] {
        assert_eq!(instance.metric(&format!(r#"{histogram}_count{{strategy="zk-mutex"}}"#)).await, Some(3.0));
        assert_eq!(
            instance.metric(&format!(r#"{histogram}_bucket{{strategy="zk-mutex",le="+Inf"}}"#)).await,
            Some(3.0)
        );
    }
}

#[tokio::test]
async fn traffic_with_zookeeper_is_counted_for_strategies_that_use_it_only() {
    let lab = Lab::new().await;
    let instance = lab.start(&["--zk-sessions", "3"]).await;
    instance.reset(1, 100).await.assert_ok();
    let traffic = async || {
        let mut values = Vec::new();
        for what in ["requests", "bytes_sent", "bytes_received"] {
            values.push(instance.metric(&format!("zookeeper_{what}_total")).await.unwrap());
        }
        values
    };
    let before = traffic().await;
    for strategy in ["unguarded", "local-mutex", "pg-conditional"] {
        instance.buy(1, strategy).await.assert_ok();
    }
    assert_eq!(traffic().await, before);
    instance.buy(1, "zk-mutex").await.assert_ok();
    for (after, before) in traffic().await.into_iter().zip(before) {
        assert!(after > before);
    }
    assert_eq!(instance.metric(r#"zookeeper_sessions{state="connected"}"#).await, Some(3.0));
    assert!(instance.metric("zookeeper_notifications_total").await.is_some());
}

#[tokio::test]
async fn the_text_is_what_prometheus_reads() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    let response = instance.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.unwrap();
    for line in [
        "# TYPE seckill_deductions_total counter",
        "# HELP seckill_deductions_total deductions by strategy and outcome",
        "# TYPE zookeeper_sessions gauge",
    ] {
        assert!(text.lines().any(|candidate| candidate == line), "{line} in {text}");
    }
}
