//! When a key expires. The time of most of these tests is what they tell the store.

use std::time::Duration;

use demo_service::store::ensemble::Ensemble;
use demo_service::store::schema::{options, prepare};
use demo_service::store::{KeyLook, Store};
use sqlx::{Connection, PgConnection};
use testbed::{Postgres, PostgresConfig};
use tokio::time::timeout;

use crate::lab::{Lab, SHORT_LIVED_KEYS, wait_until};

const LIFETIME: Duration = Duration::from_secs(16);

/// Less than the lifetime of short-lived keys, and longer than a few of their sweeps take.
const SHORT_LIFE: Duration = Duration::from_secs(4);

const WITHIN: Duration = Duration::from_secs(30);

/// Makes a lab on a server of its own. On a shared one, transactions of other tests keep orders unsettled.
async fn lab() -> (Postgres, Lab) {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    (postgres, lab)
}

/// An instance, as far as it sweeps keys.
struct Sweeper {
    store: Store,
    last: Option<KeyLook>,
}

impl Sweeper {
    async fn start(lab: &Lab) -> Self {
        let options = options(&lab.database_url).unwrap();
        prepare(&options, WITHIN).await.unwrap();
        let ensemble = Ensemble { id: "1".to_owned(), servers: String::new() };
        Self { store: Store::open(options, ensemble, 1, WITHIN), last: None }
    }

    /// Looks at the keys when this time has passed since the last look. Returns the last order whose key has expired.
    async fn look(&mut self, seconds: u64) -> Option<i64> {
        let last = self.last.map(|last| (last, Duration::from_secs(seconds)));
        let look = self.store.look_at_keys(last, LIFETIME).await.unwrap();
        self.last = Some(look);
        look.expired
    }
}

/// Writes an order with a key. Returns its number.
async fn order(connection: &mut PgConnection) -> i64 {
    let sql = "with item as (
                   insert into goods (goods_no, sale, stock_initial, on_hand) values (1, 1, 1, 1) on conflict do nothing
               ), header as (
                   insert into orders (strategy, instance) values ('', '') returning order_id
               )
               insert into idempotency_keys (key, cart, goods_no, sale, order_id)
               select order_id::text, '[]'::jsonb, 1, 1, order_id from header returning order_id";
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn number(lab: &Lab, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut lab.connect().await).await.unwrap()
}

async fn clock(lab: &Lab) -> i64 {
    number(lab, "select ms from key_clock").await
}

async fn marks(lab: &Lab) -> i64 {
    number(lab, "select count(*) from key_marks").await
}

/// Goal: keys are deleted although no instance runs for as long as they live.
// S26
#[tokio::test]
async fn restarts_do_not_keep_keys_for_ever() {
    let (_postgres, lab) = lab().await;
    let instance = lab.start(&SHORT_LIVED_KEYS).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.order(1, 1, "zk-mutex", "key").await.assert_created();
    instance.request_stop().await.unwrap();
    for _ in 0..15 {
        let instance = lab.start(&SHORT_LIVED_KEYS).await;
        let are_deleted = timeout(SHORT_LIFE, wait_until(async || lab.keys().await == 0)).await.is_ok();
        instance.request_stop().await.unwrap();
        if are_deleted {
            return;
        }
    }
    panic!("no instance has deleted the key");
}

// S25
#[tokio::test]
async fn a_key_expires_a_lifetime_after_it_was_known() {
    let (_postgres, lab) = lab().await;
    let mut before = Sweeper::start(&lab).await;
    let mut connection = lab.connect().await;
    let first = order(&mut connection).await;
    assert_eq!(before.look(0).await, None);
    let second = order(&mut connection).await;
    assert_eq!(before.look(1).await, None, "the first order is settled");
    assert_eq!(before.look(7).await, None);
    // The next instance goes on where this one has ended.
    let mut after = Sweeper::start(&lab).await;
    assert_eq!(after.look(0).await, None);
    assert_eq!(after.look(8).await, None);
    assert_eq!(after.look(1).await, Some(first));
    assert!(after.store.forget_keys(first).await.unwrap(), "a key is deleted");
    assert!(!after.store.forget_keys(first).await.unwrap(), "no key is left");
    assert_eq!((lab.keys().await, marks(&lab).await), (1, 3));
    assert_eq!(after.look(7).await, Some(second));
    while after.store.forget_keys(second).await.unwrap() {}
    assert_eq!((lab.keys().await, marks(&lab).await), (0, 0));
}

/// Goal: marks outlive their keys, if the instance that deletes both crashes in between. The next one deletes the marks.
#[tokio::test]
async fn marks_without_keys_are_deleted() {
    let (_postgres, lab) = lab().await;
    let mut sweeper = Sweeper::start(&lab).await;
    let mut connection = lab.connect().await;
    let last = order(&mut connection).await;
    for seconds in [0, 1, 16] {
        sweeper.look(seconds).await;
    }
    assert!(sweeper.store.forget_keys(last).await.unwrap());
    assert_ne!(marks(&lab).await, 0);
    let mut next = Sweeper::start(&lab).await;
    assert_eq!(next.look(0).await, Some(last));
    assert!(!next.store.forget_keys(last).await.unwrap());
    assert_eq!(marks(&lab).await, 0);
    assert_eq!((next.look(1).await, next.look(16).await), (None, None));
    assert_eq!(marks(&lab).await, 0, "without keys nothing is marked");
}

/// Goal: a key whose transaction is slow does not expire with the keys of later orders.
// S25
#[tokio::test]
async fn a_key_of_a_slow_transaction_does_not_expire_early() {
    let (_postgres, lab) = lab().await;
    let mut sweeper = Sweeper::start(&lab).await;
    let mut slow = lab.connect().await;
    order(&mut slow).await;
    let mut transaction = slow.begin().await.unwrap();
    order(&mut transaction).await;
    let last = order(&mut lab.connect().await).await;
    for seconds in [0, 1, 100] {
        assert_eq!(sweeper.look(seconds).await, None);
    }
    transaction.commit().await.unwrap();
    assert_eq!(sweeper.look(1).await, None, "it is settled");
    assert_eq!(sweeper.look(15).await, None);
    assert_eq!(sweeper.look(1).await, Some(last));
}

/// Goal: an instance that outlives a restore of its database marks no order of before. A new order may get the number again.
// S25
#[tokio::test]
async fn a_restored_database_is_marked_anew() {
    let (_postgres, lab) = lab().await;
    let mut sweeper = Sweeper::start(&lab).await;
    let mut connection = lab.connect().await;
    for _ in 0..3 {
        order(&mut connection).await;
    }
    sweeper.look(0).await;
    let restore = "truncate orders, idempotency_keys restart identity cascade";
    sqlx::raw_sql(restore).execute(&mut connection).await.unwrap();
    let again = order(&mut connection).await;
    for (seconds, expired) in [(1, None), (15, None), (1, None), (16, Some(again))] {
        assert_eq!(sweeper.look(seconds).await, expired);
    }
}

/// Goal: no time counts twice, and none from before a mark.
// S25
#[tokio::test]
async fn the_clock_of_the_keys_never_runs_ahead_of_time() {
    let (_postgres, lab) = lab().await;
    let mut one = Sweeper::start(&lab).await;
    let mut other = Sweeper::start(&lab).await;
    order(&mut lab.connect().await).await;
    for sweeper in [&mut one, &mut other] {
        sweeper.look(0).await;
    }
    one.look(60).await;
    assert_eq!((clock(&lab).await, marks(&lab).await), (60_000, 1));
    // It has paused since before the mark.
    assert_eq!(other.look(3600).await, None);
    assert_eq!(clock(&lab).await, 60_000);
    other.look(60).await;
    assert_eq!(clock(&lab).await, 120_000);
    one.look(60).await;
    assert_eq!(clock(&lab).await, 120_000, "the same minute");
    one.look(60).await;
    assert_eq!(clock(&lab).await, 180_000);
}

#[tokio::test]
async fn a_lifetime_has_few_marks() {
    let (_postgres, lab) = lab().await;
    let mut sweeper = Sweeper::start(&lab).await;
    let mut connection = lab.connect().await;
    for _ in 0..40 {
        order(&mut connection).await;
        if let Some(last) = sweeper.look(1).await {
            while sweeper.store.forget_keys(last).await.unwrap() {}
        }
        assert!(marks(&lab).await <= 17, "{}", marks(&lab).await);
    }
    assert!(lab.keys().await <= 20, "{}", lab.keys().await);
}
