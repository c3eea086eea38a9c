//! Rates: `--rate-per-client` and `--rate-per-key`. The tests ask at a rate of one a second until they are refused, as a busy
//! machine may ask less often.

// S73

use std::net::{IpAddr, Ipv4Addr};

use reqwest::{Client, Method, StatusCode};
use serde_json::json;

use crate::lab::{Answer, Lab, Shop, cart, wait_until};

/// Asserts a refusal for the rate of that option.
#[track_caller]
fn assert_limited(answer: &Answer, option: &str) {
    answer.assert_refusal(429, "urn:seckill-lab:problem:rate-limited");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("1 purchases a second ({option})")), "{detail}");
}

/// Buys one unit by a GET from that loopback address.
async fn buy_from(shop: &Shop, address: [u8; 4]) -> Answer {
    let client = Client::builder().local_address(IpAddr::from(Ipv4Addr::from(address))).build().unwrap();
    let url = format!("http://{}/goods-stock/1", shop.address);
    Answer::of(client.get(url).send().await.unwrap()).await
}

#[tokio::test]
async fn a_client_over_its_rate_is_refused_and_others_are_served() {
    let (lab, instance) = Lab::with_instance(&["--rate-per-client", "1"]).await;
    instance.put_on_sale(1, 1_000_000, "pg-conditional").await.assert_ok();
    let mut bought = 0;
    let body = json!({ "quantity": 1 });
    for path in ["/goods/1/orders", "/orders", "/goods-stock/1"] {
        wait_until(async || {
            let answer = match path {
                "/goods-stock/1" => instance.get(path).await,
                "/orders" => instance.post(path, Some(&format!("cart-{bought}")), &cart(&[(1, 1)])).await,
                _ => instance.post(path, Some(&format!("order-{bought}")), &body).await,
            };
            if answer.status.is_success() {
                bought += 1;
                return false;
            }
            assert_limited(&answer, "--rate-per-client");
            true
        })
        .await;
    }
    let refused = instance.metric(r#"seckill_requests_rate_limited_total{by="client"}"#).await;
    assert!(refused.is_some_and(|refused| refused >= 3.0), "{refused:?}");
    for address in [[127, 0, 0, 2], [127, 0, 0, 3]] {
        buy_from(&instance, address).await.assert_ok();
        bought += 1;
    }
    assert_eq!(lab.assert_adds_up(1, "rates").await, bought, "nothing was written for those who were refused");
}

#[tokio::test]
async fn a_key_over_its_rate_is_refused_and_others_are_served() {
    let (lab, instance) = Lab::with_instance(&["--rate-per-key", "1"]).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    wait_until(async || {
        let answer = instance.order(1, 1, "", "again").await;
        if answer.status == StatusCode::CREATED {
            return false;
        }
        assert_limited(&answer, "--rate-per-key");
        true
    })
    .await;
    assert_eq!(instance.metric(r#"seckill_requests_rate_limited_total{by="key"}"#).await, Some(1.0));
    instance.order(1, 1, "", "another").await.assert_created();
    instance.buy(1, "").await.assert_ok();
    instance.buy(1, "").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "rates").await, 4);
}

/// Goal: a rate is checked before the body is received and before a slot is taken. Method: each body is too large, which is told
/// only when it is received.
#[tokio::test]
async fn a_client_over_its_rate_is_refused_before_its_body() {
    let (_lab, instance) = Lab::with_instance(&["--rate-per-client", "1"]).await;
    let large = "x".repeat(5000);
    wait_until(async || {
        let request = instance.request(Method::POST, "/orders").body(large.clone());
        let answer = Answer::of(request.send().await.unwrap()).await;
        if answer.status == StatusCode::PAYLOAD_TOO_LARGE {
            return false;
        }
        assert_limited(&answer, "--rate-per-client");
        true
    })
    .await;
}

#[tokio::test]
async fn probes_and_looks_and_administrators_have_no_rate() {
    let (_lab, instance) = Lab::with_instance(&["--rate-per-client", "1", "--rate-per-key", "1"]).await;
    for _ in 0..10 {
        instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
        for path in ["/healthz", "/readyz", "/strategies", "/goods/1"] {
            instance.get(path).await.assert_ok();
        }
        assert!(instance.metric("seckill_requests_in_flight").await.is_some());
    }
}

#[tokio::test]
async fn without_the_options_nobody_is_refused() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 100, "pg-conditional").await.assert_ok();
    for _ in 0..50 {
        instance.buy(1, "").await.assert_ok();
        instance.order(1, 1, "", "again").await.assert_created();
    }
    assert_eq!(lab.assert_adds_up(1, "no rates").await, 51);
}
