//! What the tests of reservations stand on.

use std::time::Duration;

use demo_service::sale::{BuyerId, GoodsNo, Guard, Line, NewStock, Quantity, Stock};
use demo_service::store::ensemble::Ensemble;
use demo_service::store::schema::{options, prepare};
use demo_service::store::{Cancelled, Confirmed, ReserveArguments, Reserved, Store};
use serde_json::json;
use sqlx::PgConnection;
use tokio::time::Instant;

use crate::lab::{Answer, Lab, Shop, wait_until};

pub(super) const RESERVE: &str = "pg-reserve";

const WITHIN: Duration = Duration::from_secs(100);

/// Longer than any test.
pub(super) const FOR_EVER: Duration = Duration::from_hours(1);

impl Shop {
    /// Asks for a reservation.
    pub(super) async fn reserve(&self, goods_no: i64, quantity: i64, buyer: &str, key: &str) -> Answer {
        let body = json!({ "quantity": quantity, "buyer": buyer });
        self.post(&format!("/goods/{goods_no}/reservations"), Some(key), &body).await
    }

    /// Makes a reservation. Returns its number.
    pub(super) async fn hold(&self, goods_no: i64, quantity: i64, key: &str) -> i64 {
        let answer = self.reserve(goods_no, quantity, "somebody", key).await;
        answer.body["reservation_id"].as_i64().unwrap_or_else(|| panic!("{answer:?}"))
    }

    pub(super) async fn confirm(&self, reservation: i64) -> Answer {
        self.post(&format!("/reservations/{reservation}/confirm"), None, &json!({})).await
    }

    pub(super) async fn cancel(&self, reservation: i64) -> Answer {
        self.post(&format!("/reservations/{reservation}/cancel"), None, &json!({})).await
    }
}

/// The units of the current sale of a SKU, in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Balance {
    pub(super) stock: i64,
    pub(super) free: i64,
    pub(super) held: i64,
    pub(super) sold: i64,
}

impl Balance {
    pub(super) async fn of(connection: &mut PgConnection, goods_no: i64) -> Self {
        let sql = "select stock_initial, on_hand,
                       (select coalesce(sum(quantity), 0)::bigint from reservations as held
                        where held.goods_no = goods.goods_no and held.sale = goods.sale and state = 'held'),
                       (select coalesce(sum(quantity), 0)::bigint from order_lines as line
                        where line.goods_no = goods.goods_no and line.sale = goods.sale)
                   from goods where goods_no = $1";
        let (stock, free, held, sold) = sqlx::query_as(sql).bind(goods_no).fetch_one(connection).await.unwrap();
        Self { stock, free, held, sold }
    }

    pub(super) fn adds_up(self) -> bool {
        self.free + self.held + self.sold == self.stock
    }
}

impl Lab {
    /// Asserts that each unit of a sale is free, held or sold. Returns how many of each there are.
    pub(super) async fn assert_balance(&self, goods_no: i64) -> (i64, i64, i64) {
        let balance = Balance::of(&mut self.connect().await, goods_no).await;
        assert!(balance.adds_up(), "SKU {goods_no}: {balance:?}");
        (balance.free, balance.held, balance.sold)
    }

    /// Waits until the clock of the database has passed the time of a reservation.
    pub(super) async fn wait_until_due(&self, reservation: i64) {
        let sql = "select clock_timestamp() >= expires_at from reservations where reservation_id = $1";
        let mut connection = self.connect().await;
        wait_until(async || sqlx::query_scalar(sql).bind(reservation).fetch_one(&mut connection).await.unwrap()).await;
    }

    /// Returns the state of a reservation as the table has it, and its order.
    pub(super) async fn end_of(&self, reservation: i64) -> (String, Option<i64>) {
        let sql = "select state, order_id from reservations where reservation_id = $1";
        sqlx::query_as(sql).bind(reservation).fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Returns how many reservations are in that state.
    pub(super) async fn in_state(&self, state: &str) -> i64 {
        let sql = "select count(*) from reservations where state = $1";
        sqlx::query_scalar(sql).bind(state).fetch_one(&mut self.connect().await).await.unwrap()
    }
}

/// A database with sales of `pg-reserve` that no sweeper looks at.
pub(super) struct Unswept {
    pub(super) lab: Lab,
    pub(super) store: Store,
}

impl Unswept {
    /// Starts a sale of SKU 1.
    pub(super) async fn new(stock: i64, per_buyer: Option<i64>) -> Self {
        Self::with_goods(1, stock, per_buyer, 10).await
    }

    /// Starts a sale of each SKU from 1 up to that number.
    pub(super) async fn with_goods(count: i64, stock: i64, per_buyer: Option<i64>, connections: u32) -> Self {
        let lab = Lab::new().await;
        let options = options(&lab.database_url).unwrap();
        prepare(&options, WITHIN).await.unwrap();
        let ensemble = Ensemble { id: "1".to_owned(), servers: String::new() };
        let store = Store::open(options, ensemble, connections, WITHIN);
        for goods_no in 1..=count {
            let guard = Guard { family: RESERVE.to_owned(), strategy: RESERVE.to_owned() };
            let stock = NewStock::Units(Stock::new(stock).unwrap());
            let per_buyer = per_buyer.map(|units| Quantity::new(units).unwrap());
            store.start_sale(goods_no.try_into().unwrap(), stock, guard, per_buyer).await.unwrap().unwrap();
        }
        Self { lab, store }
    }

    /// Asks for units of SKU 1.
    pub(super) async fn ask(&self, quantity: i64, hold: Duration, limit: Option<(i64, &str)>) -> Reserved {
        let buyer: Option<BuyerId> = limit.map(|(_, buyer)| buyer.parse().unwrap());
        let arguments = ReserveArguments {
            per_buyer: limit.map(|(units, _)| Quantity::new(units).unwrap()),
            buyer: buyer.as_ref(),
            ..arguments(1, quantity, hold)
        };
        self.store.reserve(arguments, Instant::now() + WITHIN, || ()).await.unwrap()
    }

    /// Holds units of SKU 1. Returns the number of the reservation.
    pub(super) async fn hold(&self, quantity: i64, hold: Duration) -> i64 {
        let reserved = self.ask(quantity, hold, None).await;
        let Reserved::Held(reservation) = reserved else { panic!("{reserved:?}") };
        reservation.reservation_id
    }

    pub(super) async fn confirm(&self, reservation: i64) -> Confirmed {
        confirm(&self.store, reservation).await
    }

    pub(super) async fn cancel(&self, goods_no: i64, reservation: i64) -> Cancelled {
        let until = Instant::now() + WITHIN;
        self.store.cancel(reservation, goods_no.try_into().unwrap(), until).await.unwrap()
    }
}

pub(super) async fn confirm(store: &Store, reservation: i64) -> Confirmed {
    store.confirm(reservation, RESERVE, "it", Instant::now() + WITHIN, || ()).await.unwrap()
}

/// Returns the arguments of a reservation without a buyer and a key.
pub(super) fn arguments(goods_no: i64, quantity: i64, hold: Duration) -> ReserveArguments<'static> {
    let goods_no = GoodsNo::try_from(goods_no).unwrap();
    ReserveArguments {
        line: Line { goods_no, quantity: Quantity::new(quantity).unwrap() },
        sale: 1,
        per_buyer: None,
        guard: RESERVE,
        buyer: None,
        key: None,
        in_one_request: false,
        hold,
    }
}

pub(super) async fn hold(store: &Store, goods_no: i64, hold: Duration) -> i64 {
    let reserved = store.reserve(arguments(goods_no, 1, hold), Instant::now() + WITHIN, || ()).await.unwrap();
    let Reserved::Held(reservation) = reserved else { panic!("{reserved:?}") };
    reservation.reservation_id
}
