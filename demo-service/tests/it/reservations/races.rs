//! Confirmations, cancellations and sweepers of one reservation at one instant.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use demo_service::store::{Cancelled, Confirmed, SoldUnits};
use futures_util::future::join_all;
use sqlx::Executor;
use tokio::time::sleep;

use super::support::{Balance, FOR_EVER, RESERVE, Unswept, confirm, hold};
use crate::lab::{Lab, PATIENT};

/// Races at a time. Each has up to three statements under way.
const WORKERS: usize = 6;

/// SKUs that the races are divided among, because the ends of the reservations of one SKU wait for its row.
const GOODS: i64 = 8;

/// How long most reservations live. Their ends come at random instants around that.
const LIFE: Duration = Duration::from_millis(4);

/// Returns how many races there are. `RESERVATION_RACES` in the environment sets it, for a long run.
fn races() -> usize {
    env::var("RESERVATION_RACES").map_or(400, |races| races.parse().unwrap())
}

/// What was told about one reservation.
#[derive(Debug, Clone, Copy)]
struct RaceTold {
    reservation: i64,
    confirmed: [Confirmed; 2],
    cancelled: Option<Cancelled>,
}

/// What one race does. The first three make sure that each end is reached, whatever the speed of the machine.
async fn race(shop: &Unswept, number: usize) -> RaceTold {
    let goods_no = i64::try_from(number).unwrap() % GOODS + 1;
    let store = &shop.store;
    let reservation = hold(store, goods_no, if number % 10 < 2 { FOR_EVER } else { LIFE }).await;
    let pay = || confirm(store, reservation);
    let (confirmed, cancelled) = match number % 10 {
        // Nobody is too late: one of three wins.
        0 => {
            let (first, cancelled, second) = tokio::join!(pay(), shop.cancel(goods_no, reservation), pay());
            ([first, second], Some(cancelled))
        }
        1 => (<[_; 2]>::from(tokio::join!(pay(), pay())), None),
        2 => {
            shop.lab.wait_until_due(reservation).await;
            (<[_; 2]>::from(tokio::join!(pay(), pay())), None)
        }
        // The payer comes at about the end, once with somebody who cancels.
        way => {
            sleep(rand::random_range(Duration::ZERO..2 * LIFE)).await;
            if way % 2 == 0 {
                (<[_; 2]>::from(tokio::join!(pay(), pay())), None)
            } else {
                let (first, cancelled, second) = tokio::join!(pay(), shop.cancel(goods_no, reservation), pay());
                ([first, second], Some(cancelled))
            }
        }
    };
    RaceTold { reservation, confirmed, cancelled }
}

/// Returns the orders of which the buyer was told, as a sale or as a repetition.
fn orders(told: &RaceTold) -> BTreeSet<i64> {
    let order = |confirmed: &Confirmed| match confirmed {
        Confirmed::Sold(SoldUnits { order_id, .. }) | Confirmed::Repeated(order_id) => Some(*order_id),
        _ => None,
    };
    told.confirmed.iter().filter_map(order).collect()
}

/// Checks all that was told about a reservation against its row.
fn check(told: &RaceTold, state: &str, order: Option<i64>) {
    let RaceTold { reservation, confirmed, cancelled } = told;
    let context =
        format!("reservation {reservation} is {state}, order {order:?}: told {confirmed:?} and {cancelled:?}");
    let sold = confirmed.iter().filter(|confirmed| matches!(confirmed, Confirmed::Sold(_))).count();
    let expected_payers: &[Confirmed] = match state {
        "confirmed" => &[],
        "cancelled" => &[Confirmed::Cancelled],
        "expired" => &[Confirmed::Expired],
        _ => panic!("{context}"),
    };
    if state == "confirmed" {
        assert_eq!((sold, orders(told)), (1, BTreeSet::from([order.unwrap()])), "{context}");
        assert!(confirmed.iter().all(|one| matches!(one, Confirmed::Sold(_) | Confirmed::Repeated(_))), "{context}");
    } else {
        assert_eq!(order, None, "{context}");
        assert!(confirmed.iter().all(|one| expected_payers.contains(one)), "{context}");
    }
    let expected = match state {
        "confirmed" => Cancelled::Confirmed,
        "cancelled" => Cancelled::Cancelled,
        _ => Cancelled::Expired,
    };
    assert!(cancelled.is_none_or(|cancelled| cancelled == expected), "{context}");
}

/// Goal: each reservation ends exactly once, and everybody is told that end. Method: payers, a canceller, two sweepers and the time
/// itself meet at each of many reservations. `make reservations` runs a million of them.
// S112, S115
#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_reservations_ends_exactly_once() {
    let races = races();
    let shop = Unswept::with_goods(GOODS, i64::try_from(races).unwrap(), None, 24).await;
    let is_over = AtomicBool::new(false);
    let sweep = async || {
        while !is_over.load(Ordering::Relaxed) {
            shop.store.sweep_reservations().await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
    };
    let next = AtomicUsize::new(0);
    let run = async || {
        let mut told = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= races {
                return told;
            }
            told.push(race(&shop, number).await);
        }
    };
    let run_all = async {
        let told = join_all((0..WORKERS).map(|_| run())).await;
        is_over.store(true, Ordering::Relaxed);
        told
    };
    let (told, (), ()) = tokio::join!(run_all, sweep(), sweep());
    let told = told.concat();
    let sql = "select reservation_id, state, order_id from reservations";
    let rows: Vec<(i64, String, Option<i64>)> =
        sqlx::query_as(sql).fetch_all(&mut shop.lab.connect().await).await.unwrap();
    let rows: BTreeMap<_, _> = rows.into_iter().map(|(number, state, order)| (number, (state, order))).collect();
    assert_eq!((told.len(), rows.len()), (races, races));
    for told in &told {
        let (state, order) = &rows[&told.reservation];
        check(told, state, *order);
    }
    let ends: BTreeSet<_> = rows.values().map(|(state, _)| state.as_str()).collect();
    assert_eq!(ends, BTreeSet::from(["cancelled", "confirmed", "expired"]), "every end was reached");
    for goods_no in 1..=GOODS {
        assert_eq!(shop.lab.assert_balance(goods_no).await.1, 0);
    }
    assert_eq!(shop.lab.orders().await, shop.lab.in_state("confirmed").await, "no order without its reservation");
}

/// Goal: free, held and sold units are the stock in every snapshot. Method: a reader at repeatable read looks again and again while
/// buyers reserve, pay, cancel and let expire, on two instances.
// S112
#[tokio::test(flavor = "multi_thread")]
async fn every_snapshot_adds_up_while_buyers_run() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &["--reservation-ttl", "30ms", "--db-connections", "8"]].concat();
    let instances = [lab.start(&arguments).await, lab.start(&arguments).await];
    instances[0].put_on_sale(1, 40, RESERVE).await.assert_ok();
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        let mut connection = lab.connect().await;
        async move {
            let mut seen = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                connection.execute("begin isolation level repeatable read").await.unwrap();
                let balance = Balance::of(&mut connection, 1).await;
                connection.execute("commit").await.unwrap();
                assert!(balance.adds_up(), "{balance:?}");
                seen.insert((balance.free, balance.held, balance.sold));
            }
            seen
        }
    });
    let buy = async |buyer: usize| {
        let quantity = i64::try_from(buyer % 3 + 1).unwrap();
        let held = instances[buyer % 2].reserve(1, quantity, "somebody", &format!("key-{buyer}")).await;
        let Some(number) = held.body["reservation_id"].as_i64() else {
            return held.assert_problem(409, "sold-out");
        };
        match buyer % 4 {
            0 => drop(instances[1].cancel(number).await),
            1 => drop(instances[0].confirm(number).await),
            _ => {}
        }
    };
    for group in 0..8 {
        join_all((group * 20..group * 20 + 20).map(&buy)).await;
    }
    crate::lab::wait_until(async || lab.in_state("held").await == 0).await;
    is_over.store(true, Ordering::Relaxed);
    let seen = reader.await.unwrap();
    assert!(seen.len() > 3, "the reader saw {seen:?}");
    let (free, held, sold) = lab.assert_balance(1).await;
    assert_eq!((free + sold, held), (40, 0));
}

/// Goal: the balance would show a sweeper that ignores a confirmation. Method: the test runs the wrong statements itself. The first
/// is refused by the table. The second frees the units without touching the reservation.
// S115
#[tokio::test]
async fn a_sweeper_that_ignores_a_confirmation_is_caught() {
    let shop = Unswept::new(5, None).await;
    let paid = shop.hold(2, LIFE * 1000).await;
    assert!(matches!(shop.confirm(paid).await, Confirmed::Sold(_)));
    let mut connection = shop.lab.connect().await;
    let wrong = "update reservations set state = 'expired', ended_at = clock_timestamp()";
    let refused = connection.execute(wrong).await.unwrap_err();
    assert!(refused.to_string().contains("reservations_confirmed_by_order"), "{refused}");
    assert_eq!(shop.lab.assert_balance(1).await, (3, 0, 2));
    let wrong = "update goods set on_hand = on_hand + (select sum(quantity) from reservations where goods_no = 1)";
    connection.execute(wrong).await.unwrap();
    let balance = Balance::of(&mut connection, 1).await;
    assert!(!balance.adds_up(), "{balance:?}");
}
