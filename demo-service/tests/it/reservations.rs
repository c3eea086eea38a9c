//! Purchases in two steps: a reservation, and its confirmation.

mod crashes;
mod expiry;
mod races;
mod support;

use demo_service::strategy::registry::STRATEGIES;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use self::support::RESERVE;
use crate::lab::Lab;

// S112
#[tokio::test]
async fn a_reservation_holds_its_units_until_they_are_paid() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    shop.put_on_sale(1, 5, RESERVE).await.assert_ok();
    let held = shop.reserve(1, 2, "ann", "first").await;
    assert_eq!(held.status, StatusCode::CREATED, "{held:?}");
    let number = held.body["reservation_id"].as_i64().unwrap();
    assert_eq!(held.header("location"), Some(&*format!("/reservations/{number}")));
    let expected = json!({
        "reservation_id": number, "goods_no": 1, "sale": 1, "quantity": 2, "state": "held",
        "expires_at": held.body["expires_at"], "order_id": null,
    });
    assert_eq!(held.body, expected);
    assert_eq!(shop.get(&format!("/reservations/{number}")).await.body, expected);
    assert_eq!(shop.get("/goods/1").await.body["on_hand"], 3);
    assert_eq!(lab.assert_balance(1).await, (3, 2, 0));
    shop.reserve(1, 4, "bob", "too-many").await.assert_problem(409, "sold-out");

    let sold = shop.confirm(number).await;
    sold.assert_created();
    let line = json!({
        "goods_no": 1, "sale": 1, "quantity": 2, "remaining": null, "token": null, "token_handover": null,
    });
    assert_eq!((&sold.body["strategy"], &sold.body["lines"]), (&json!(RESERVE), &json!([line])));
    assert_eq!(shop.get(sold.header("location").unwrap()).await.body, sold.body);
    shop.confirm(number).await.assert_replay_of(&sold);
    let shown = shop.get(&format!("/reservations/{number}")).await.body;
    assert_eq!((&shown["state"], &shown["order_id"]), (&json!("confirmed"), &sold.body["order_id"]));
    assert_eq!(lab.assert_balance(1).await, (3, 0, 2));
    for (outcome, count) in [("sold", 1.0), ("repeated", 1.0), ("sold_out", 1.0)] {
        assert_eq!(shop.outcomes(RESERVE, outcome).await, Some(count), "{outcome}");
    }
}

// S112
#[tokio::test]
async fn cancelled_units_are_free_and_nobody_can_pay_them() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    shop.put_on_sale(1, 1, RESERVE).await.assert_ok();
    let number = shop.hold(1, 1, "first").await;
    let cancelled = shop.cancel(number).await;
    cancelled.assert_ok();
    assert_eq!(cancelled.body["state"], "cancelled");
    let again = shop.cancel(number).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &cancelled.body));
    shop.confirm(number).await.assert_problem(409, "reservation-cancelled");
    assert_eq!(lab.assert_balance(1).await, (1, 0, 0));
    let next = shop.hold(1, 1, "second").await;
    shop.confirm(next).await.assert_created();
    shop.cancel(next).await.assert_problem(409, "reservation-confirmed");
    assert_eq!(lab.assert_balance(1).await, (0, 0, 1));
}

// S26
#[tokio::test]
async fn a_key_names_one_reservation_and_its_order() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    shop.put_on_sale(1, 5, RESERVE).await.assert_ok();
    shop.put_on_sale(2, 5, "pg-conditional").await.assert_ok();
    let first = shop.reserve(1, 2, "ann", "key").await;
    let again = shop.reserve(1, 2, "ann", "key").await;
    again.assert_replay_of(&first);
    shop.reserve(1, 1, "ann", "key").await.assert_problem(422, "idempotency-key-reused");
    let sold = shop.confirm(first.body["reservation_id"].as_i64().unwrap()).await;
    // The order has the key as well, so a purchase in one request is answered with it.
    shop.order(1, 2, "", "key").await.assert_replay_of(&sold);
    shop.order(2, 1, "", "key").await.assert_problem(422, "idempotency-key-reused");
    // A key that has bought something else makes no reservation.
    shop.order(2, 1, "", "other").await.assert_created();
    shop.reserve(1, 1, "ann", "other").await.assert_problem(422, "idempotency-key-reused");
    // A reservation that has ended keeps its key, and the buyer learns its end.
    let ended = shop.hold(1, 1, "ended").await;
    shop.cancel(ended).await.assert_ok();
    let shown = shop.reserve(1, 1, "ann", "ended").await;
    assert_eq!((&shown.body["reservation_id"], &shown.body["state"]), (&json!(ended), &json!("cancelled")));
    // A purchase in one request takes it over: refused, it would have left no key.
    shop.order(1, 1, "", "ended").await.assert_created();
    assert_eq!(lab.assert_balance(1).await, (2, 0, 3));
}

// S105
#[tokio::test]
async fn held_units_count_for_the_limit_per_buyer() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    let sale = json!({ "stock": 9, "strategy": RESERVE, "per_buyer": 2 });
    shop.put_sale(1, &sale).await.assert_ok();
    let held = shop.reserve(1, 1, "ann", "1").await.body["reservation_id"].as_i64().unwrap();
    let paid = shop.reserve(1, 1, "ann", "2").await.body["reservation_id"].as_i64().unwrap();
    shop.confirm(paid).await.assert_created();
    shop.reserve(1, 1, "ann", "3").await.assert_problem(403, "over-limit");
    let in_one = json!({ "quantity": 1, "buyer": "ann" });
    shop.post("/goods/1/orders", Some("4"), &in_one).await.assert_problem(403, "over-limit");
    shop.reserve(1, 2, "bob", "5").await;
    shop.cancel(held).await.assert_ok();
    shop.reserve(1, 2, "ann", "6").await.assert_problem(403, "over-limit");
    shop.post("/goods/1/orders", Some("7"), &in_one).await.assert_created();
    let nobody = shop.post("/goods/1/reservations", Some("8"), &json!({ "quantity": 1 })).await;
    nobody.assert_problem(422, "buyer-unclear");
    assert_eq!(lab.assert_balance(1).await, (5, 2, 2));
}

// S7
#[tokio::test]
async fn the_next_sale_ends_the_reservations_of_the_one_before() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    shop.put_on_sale(1, 5, RESERVE).await.assert_ok();
    let held = shop.hold(1, 2, "held").await;
    let paid = shop.hold(1, 1, "paid").await;
    let sold = shop.confirm(paid).await;
    let next = shop.put_sale(1, &json!({ "stock": "remaining", "strategy": RESERVE })).await;
    assert_eq!(next.body["stock_initial"], 4, "held units are left: {next:?}");
    let late = shop.confirm(held).await;
    late.assert_problem(410, "reservation-expired");
    assert!(late.body["detail"].as_str().unwrap().contains("the next sale has started"), "{late:?}");
    shop.cancel(held).await.assert_problem(410, "reservation-expired");
    assert_eq!(shop.get(&format!("/reservations/{held}")).await.body["state"], "expired");
    shop.confirm(paid).await.assert_replay_of(&sold);
    assert_eq!(lab.units_ordered(1, 1).await, 1);
    assert_eq!(lab.assert_balance(1).await, (4, 0, 0));
}

// S2
#[tokio::test]
async fn only_sales_of_one_family_sell_in_two_steps() {
    let (lab, shop) = Lab::with_instance(&[]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES.iter().filter(|entry| entry.family != RESERVE)) {
        shop.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
        let refused = shop.reserve(goods_no, 1, "ann", entry.name).await;
        refused.assert_problem(422, "guard-mismatch");
        assert!(refused.body["detail"].as_str().unwrap().contains("in one step"), "{refused:?}");
    }
    lab.put_on_sale_unguarded(1000, 5).await;
    shop.hold(1000, 1, "claims").await;
    assert_eq!(shop.get("/goods/1000").await.body["guard"], RESERVE);
    shop.reserve(1001, 1, "ann", "unknown").await.assert_problem(404, "unknown-goods");
    let other = lab.start(&["--offer", "zk-mutex"]).await;
    other.reserve(1000, 1, "ann", "not-offered").await.assert_problem(404, "unknown-strategy");
}

#[tokio::test]
async fn malformed_requests_about_reservations_are_refused() {
    let (_lab, shop) = Lab::with_instance(&[]).await;
    shop.put_on_sale(1, 5, RESERVE).await.assert_ok();
    let reserve = async |key, body: &Value| shop.post("/goods/1/reservations", key, body).await;
    reserve(None, &json!({ "quantity": 1 })).await.assert_problem(400, "idempotency-key-missing");
    reserve(Some("1"), &json!({ "quantity": 0 })).await.assert_problem(422, "invalid-input");
    reserve(Some("1"), &json!({ "quantity": 1, "for": "ever" })).await.assert_problem(422, "invalid-body");
    for number in ["0", "-1", "x", "9223372036854775808"] {
        for (method, end) in [(Method::POST, "/confirm"), (Method::POST, "/cancel"), (Method::GET, "")] {
            let request = shop.request(method, &format!("/reservations/{number}{end}"));
            let answer = crate::lab::Answer::of(request.send().await.unwrap()).await;
            answer.assert_problem(422, "invalid-input");
        }
    }
    shop.confirm(4711).await.assert_problem(404, "unknown-reservation");
    shop.cancel(4711).await.assert_problem(404, "unknown-reservation");
    shop.get("/reservations/4711").await.assert_problem(404, "unknown-reservation");
}
