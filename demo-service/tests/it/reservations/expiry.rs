//! Reservations that are past their time. Most of these tests have no sweeper, so that nothing but the step under test ends them.

use std::time::Duration;

use demo_service::store::{Cancelled, Confirmed, Reserved};

use serde_json::json;
use sqlx::Executor;

use super::support::{FOR_EVER, RESERVE, Unswept, confirm};
use crate::lab::{Lab, PATIENT, wait_until};

const SHORT: Duration = Duration::from_millis(20);

// S113
#[tokio::test]
async fn a_late_payer_is_told_so_without_a_sweeper() {
    let shop = Unswept::new(3, None).await;
    let late = shop.hold(2, SHORT).await;
    shop.lab.wait_until_due(late).await;
    assert_eq!(shop.lab.end_of(late).await.0, "held", "nobody has come by");
    assert_eq!(shop.store.reservation(late).await.unwrap().unwrap().state.as_str(), "expired");
    for _ in 0..2 {
        assert_eq!(shop.confirm(late).await, Confirmed::Expired);
        // What the payer was told is final, whatever the clock does.
        assert_eq!(shop.lab.end_of(late).await, ("expired".to_owned(), None));
    }
    assert_eq!(shop.cancel(1, late).await, Cancelled::Expired);
    assert_eq!(shop.lab.assert_balance(1).await, (3, 0, 0));
}

/// Goal: the clock decides when the payer has the row, and not when it began to wait for it. Method: the test keeps the row beyond
/// the time of the reservation.
// S113
#[tokio::test]
async fn a_payer_whose_time_passes_in_the_queue_is_late() {
    let shop = Unswept::new(3, None).await;
    let reservation = shop.hold(1, Duration::from_millis(500)).await;
    let row = shop.lab.lock(&format!("select from reservations where reservation_id = {reservation} for update")).await;
    let store = shop.store.clone();
    let payer = tokio::spawn(async move { confirm(&store, reservation).await });
    shop.lab.wait_for_lock().await;
    shop.lab.wait_until_due(reservation).await;
    row.release().await;
    assert_eq!(payer.await.unwrap(), Confirmed::Expired);
    assert_eq!(shop.lab.assert_balance(1).await, (3, 0, 0));
}

// S114
#[tokio::test]
async fn the_next_buyer_gets_units_that_nobody_has_swept() {
    let shop = Unswept::new(4, None).await;
    let paid = shop.hold(1, FOR_EVER).await;
    shop.confirm(paid).await;
    let first = shop.hold(2, SHORT).await;
    let second = shop.hold(1, SHORT).await;
    shop.lab.wait_until_due(first).await;
    shop.lab.wait_until_due(second).await;
    let goods = shop.store.goods(1.try_into().unwrap()).await.unwrap().unwrap();
    assert_eq!(goods.on_hand, 3, "who looks is told what the next buyer can get");
    let next = shop.hold(3, FOR_EVER).await;
    assert_eq!(shop.ask(1, FOR_EVER, None).await, Reserved::SoldOut);
    assert_eq!((shop.confirm(first).await, shop.confirm(second).await), (Confirmed::Expired, Confirmed::Expired));
    assert!(matches!(shop.confirm(next).await, Confirmed::Sold(_)));
    assert_eq!(shop.lab.assert_balance(1).await, (0, 0, 4));
}

/// Goal: nobody is told "sold out" because of a confirmation that is not committed. Method: the test has the row of the reservation,
/// as a payer who came in time has it.
// S114
#[tokio::test]
async fn the_next_buyer_waits_for_a_payer_under_way() {
    let shop = Unswept::new(1, None).await;
    let reservation = shop.hold(1, SHORT).await;
    shop.lab.wait_until_due(reservation).await;
    let payer =
        shop.lab.lock(&format!("select from reservations where reservation_id = {reservation} for update")).await;
    let store = shop.store.clone();
    let buyer = tokio::spawn(async move { super::support::hold(&store, 1, FOR_EVER).await });
    shop.lab.wait_for_lock().await;
    payer.release().await;
    let next = buyer.await.unwrap();
    assert!(matches!(shop.confirm(next).await, Confirmed::Sold(_)));
    assert_eq!(shop.lab.assert_balance(1).await, (0, 0, 1));
}

// S105
#[tokio::test]
async fn a_buyer_is_not_kept_out_by_a_hold_that_has_expired() {
    let shop = Unswept::new(9, Some(1)).await;
    let ann = Some((1, "ann"));
    let Reserved::Held(first) = shop.ask(1, SHORT, ann).await else { panic!("nobody has bought") };
    shop.lab.wait_until_due(first.reservation_id).await;
    let Reserved::Held(second) = shop.ask(1, FOR_EVER, ann).await else { panic!("it has expired") };
    assert_eq!(shop.ask(1, FOR_EVER, ann).await, Reserved::OverLimit);
    assert!(matches!(shop.confirm(second.reservation_id).await, Confirmed::Sold(_)));
    assert_eq!(shop.ask(1, FOR_EVER, ann).await, Reserved::OverLimit);
    assert_eq!(shop.lab.assert_balance(1).await, (8, 0, 1));
}

// S115
#[tokio::test(flavor = "multi_thread")]
async fn two_sweepers_end_each_reservation_once() {
    let lab = Lab::new().await;
    let arguments = ["--reservation-ttl", "100ms"];
    let instances = [lab.start(&arguments).await, lab.start(&arguments).await];
    for goods_no in [1, 2] {
        instances[0].put_on_sale(goods_no, 100, RESERVE).await.assert_ok();
    }
    for number in 0..40_usize {
        let goods_no = i64::try_from(number % 2 + 1).unwrap();
        instances[number % 2].hold(goods_no, 2, &format!("key-{number}")).await;
    }
    wait_until(async || lab.in_state("held").await == 0).await;
    assert_eq!(lab.in_state("expired").await, 40);
    for goods_no in [1, 2] {
        assert_eq!(lab.assert_balance(goods_no).await, (100, 0, 0), "each unit came back once");
    }
    let late = instances[1].confirm(1).await;
    late.assert_problem(410, "reservation-expired");
    assert!(late.body["detail"].as_str().unwrap().contains("reserve again"), "{late:?}");
    assert_eq!(instances[1].outcomes(RESERVE, "reservation_expired").await, Some(1.0));
}

/// Goal: more reservations than one statement ends are all ended. Method: the rows are written by the test.
// S115
#[tokio::test]
async fn one_sweep_ends_thousands_of_reservations() {
    let shop = Unswept::new(5000, None).await;
    let sql = "with held as (
                   insert into reservations (goods_no, sale, quantity, expires_at)
                   select 1, 1, 1, clock_timestamp() from generate_series(1, 2500)
               ) update goods set on_hand = on_hand - 2500";
    sqlx::query(sql).execute(&mut shop.lab.connect().await).await.unwrap();
    let kept = shop.hold(1, FOR_EVER).await;
    let next = shop.store.sweep_reservations().await.unwrap().unwrap();
    assert!(next > FOR_EVER / 2, "the next one is due in {next:?}");
    assert_eq!((shop.lab.in_state("expired").await, shop.lab.in_state("held").await), (2500, 1));
    shop.cancel(1, kept).await;
    assert_eq!(shop.store.sweep_reservations().await.unwrap(), None);
    assert_eq!(shop.lab.assert_balance(1).await, (5000, 0, 0));
}

/// Goal: a sweeper waits for no payer, and takes nothing from one who came in time. Method: the test has the row of a reservation.
// S115
#[tokio::test]
async fn a_sweeper_passes_payers_under_way_over() {
    let shop = Unswept::new(5, None).await;
    let [paying, other] = [shop.hold(1, SHORT).await, shop.hold(1, SHORT).await];
    shop.lab.wait_until_due(paying).await;
    shop.lab.wait_until_due(other).await;
    let payer = shop.lab.lock(&format!("select from reservations where reservation_id = {paying} for update")).await;
    shop.store.sweep_reservations().await.unwrap();
    assert_eq!((shop.lab.end_of(paying).await.0, shop.lab.end_of(other).await.0), ("held".into(), "expired".into()));
    payer.release().await;
    shop.store.sweep_reservations().await.unwrap();
    assert_eq!(shop.lab.assert_balance(1).await, (5, 0, 0));
}

/// Goal: two requests under one key are one purchase, also of a buyer with a limit. Method: both wait for the row, and have seen that
/// the buyer has no unit.
// S26, S112
#[tokio::test]
async fn a_twin_under_one_key_is_not_beyond_the_limit() {
    let (lab, shop) = Lab::with_instance(&PATIENT).await;
    shop.put_sale(1, &json!({ "stock": 5, "strategy": RESERVE, "per_buyer": 1 })).await.assert_ok();
    let row = lab.lock_row(1).await;
    let press = || {
        let shop = shop.another();
        tokio::spawn(async move { shop.reserve(1, 1, "ann", "key").await })
    };
    let twins = [press(), press()];
    wait_until(async || lab.lock_waits().await == 2).await;
    row.release().await;
    let [first, second] = twins.map(|twin| async { twin.await.unwrap() });
    let (first, second) = tokio::join!(first, second);
    assert!(first.status.is_success() && second.status.is_success(), "{first:?} {second:?}");
    assert_eq!(first.body, second.body);
    assert_eq!(lab.assert_balance(1).await, (4, 1, 0));
    shop.reserve(1, 1, "ann", "other").await.assert_problem(403, "over-limit");
}

/// Goal: reservations of a sale that somebody has ended by hand end, too.
// S112
#[tokio::test]
async fn reservations_of_a_sale_that_was_ended_by_hand_expire() {
    let shop = Unswept::new(5, None).await;
    let reservation = shop.hold(1, SHORT).await;
    shop.lab.connect().await.execute("update goods set sale = 2, on_hand = 9 where goods_no = 1").await.unwrap();
    shop.lab.wait_until_due(reservation).await;
    assert_eq!(shop.store.sweep_reservations().await.unwrap(), None);
    assert_eq!(shop.lab.end_of(reservation).await, ("expired".to_owned(), None));
    assert_eq!(shop.lab.on_hand(1).await, 9, "the units belong to the sale that is over");
    assert!(matches!(shop.confirm(reservation).await, Confirmed::Expired | Confirmed::SaleOver));
}
