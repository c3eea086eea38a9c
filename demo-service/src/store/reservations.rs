//! Reservations: their functions in the database, one statement each, which commits by itself. So a purchase in two steps never keeps
//! a lock between two messages, and an instance that freezes or dies keeps none.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::time::Instant;

use super::connections::PooledConnection;
use super::transaction::left_ms;
use super::{LockWait, Store, is_repeated_key};
use crate::failure::{self, Failure};
use crate::sale::{BuyerId, GoodsNo, IdempotencyKey, Line, Quantity, Reservation, ReservationState};

/// The most reservations that one statement of a sweep ends. The row of the SKU is locked meanwhile.
const SWEEP_MAX: i64 = 1000;

/// The most SKUs that one sweep looks at. The next sweep follows at once.
const SWEEP_GOODS_MAX: i64 = 100;

/// SQLSTATEs of `reserve` after it has taken units.
const OVER_LIMIT: &str = "SD003";
const OVERTAKEN_BY_KEY: &str = "SD004";

/// What the function `reserve` is called with.
#[derive(Debug, Clone, Copy)]
pub struct ReserveArguments<'a> {
    /// The SKU and how many units.
    pub line: Line,
    /// The sale that they are to be from.
    pub sale: i64,
    /// Most units of the sale that one buyer may have, if there is such a limit.
    pub per_buyer: Option<Quantity>,
    /// The family of the strategy. Only a sale that this family guards is written.
    pub guard: &'a str,
    /// The buyer, if the request names one.
    pub buyer: Option<&'a BuyerId>,
    /// The key, if the request has one.
    pub key: Option<&'a IdempotencyKey>,
    /// Whether the purchase is made in one request. Then its key stands for no reservation that has ended without an order.
    pub in_one_request: bool,
    /// How long the units are held.
    pub hold: Duration,
}

/// What `reserve` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It holds the units.
    Held(Reservation),
    /// The key has this reservation already.
    Repeated(i64),
    /// The key has an order already.
    Ordered,
    /// The key stands for a purchase of something else.
    KeyReused,
    /// Another request has just come under the key, and is to be looked for.
    Overtaken,
    /// It wrote nothing: too few units are left.
    SoldOut,
    /// It wrote nothing: the buyer would have too many units.
    OverLimit,
    /// It wrote nothing: the SKU has another sale or another guard by now.
    Restarted,
}

/// What `confirm_reservation` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// It sold the units by this order.
    Sold(SoldUnits),
    /// They were sold already, by this order.
    Repeated(i64),
    /// It wrote no order: the reservation was too late.
    Expired,
    /// It wrote no order: the sale is over.
    SaleOver,
    /// It wrote no order: the buyer has given the units back.
    Cancelled,
    /// There is no such reservation.
    Unknown,
    /// Another purchase has the key of the reservation.
    KeyReused,
}

/// The order of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldUnits {
    /// Its number.
    pub order_id: i64,
    /// The SKU.
    pub goods_no: i64,
    /// The sale.
    pub sale: i64,
    /// How many units.
    pub quantity: i64,
}

/// What `cancel_reservation` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It gave the units back.
    Cancelled,
    /// They were given back already.
    Repeated,
    /// The reservation was too late: its units are free already.
    Expired,
    /// The units are sold.
    Confirmed,
    /// There is no such reservation.
    Unknown,
}

impl Store {
    /// Holds units for a buyer. The waits for a connection, for the row and for the key end at `until`. `sent` is called when the
    /// statement is about to be sent.
    ///
    /// # Errors
    /// As [`Failure::of_database`] if nothing was written, and [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN) if the statement
    /// was sent and not answered.
    ///
    /// # Cancel safety
    /// Dropped after `sent`, the units may be held or not. Dropped before, nothing was written.
    pub async fn reserve(
        &self,
        arguments: ReserveArguments<'_>,
        until: Instant,
        sent: impl FnOnce(),
    ) -> Result<Reserved, Failure> {
        let ReserveArguments { line, sale, per_buyer, guard, buyer, key, in_one_request, hold } = arguments;
        let _waiter = self.wait_for(&LockWait { goods: vec![line.goods_no], until, shares_sales: false }).await?;
        let mut connection = self.connections.get().await?;
        let row = sqlx::query!(
            r#"select outcome as "outcome!", reservation_id,
                   to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as expires_at
               from reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"#,
            line.goods_no.get(),
            sale,
            line.quantity.get(),
            per_buyer.map(Quantity::get),
            guard,
            buyer.map(BuyerId::as_str),
            key.map(IdempotencyKey::as_str),
            in_one_request,
            i64::try_from(hold.as_millis()).unwrap_or(i64::MAX),
            i64::from(left_ms(until)),
        );
        sent();
        let row = row.fetch_one(connection.ask()).await;
        // The statement is a transaction of its own, so a refusal leaves none open on the connection.
        connection.settle(&row);
        let row = match row {
            Ok(row) => row,
            Err(error) => return refused(error),
        };
        Ok(match (row.outcome.as_str(), row.reservation_id) {
            ("held", Some(reservation_id)) => Reserved::Held(Reservation {
                reservation_id,
                goods_no: line.goods_no.get(),
                sale,
                quantity: line.quantity.get(),
                state: ReservationState::Held,
                expires_at: row.expires_at.unwrap_or_default(),
                order_id: None,
            }),
            ("repeated", Some(reservation_id)) => Reserved::Repeated(reservation_id),
            ("repeated", None) => Reserved::Ordered,
            ("reused", _) => Reserved::KeyReused,
            ("sold-out", _) => Reserved::SoldOut,
            ("over-limit", _) => Reserved::OverLimit,
            _ => Reserved::Restarted,
        })
    }

    /// Turns a reservation into an order of `strategy`, if it is in time. The waits end at `until`. `sent` is called when the
    /// statement is about to be sent, and once more if it is sent again.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    ///
    /// # Cancel safety
    /// Dropped after `sent`, the order may be committed or not.
    pub async fn confirm(
        &self,
        reservation_id: i64,
        strategy: &str,
        instance: &str,
        until: Instant,
        sent: impl Fn(),
    ) -> Result<Confirmed, Failure> {
        // It may wait for a row, but seldom for the one of the SKU.
        let _waiter = self.wait_for(&LockWait { goods: Vec::new(), until, shares_sales: false }).await?;
        let mut connection = self.connections.get().await?;
        loop {
            let row = sqlx::query!(
                r#"select outcome as "outcome!", order_id, goods_no, sale, quantity
                   from confirm_reservation($1, $2, $3, $4)"#,
                reservation_id,
                strategy,
                instance,
                i64::from(left_ms(until)),
            );
            sent();
            let row = row.fetch_one(connection.ask()).await;
            connection.settle(&row);
            let row = match row {
                Ok(row) => row,
                Err(error) if is_repeated_key(&error) => return Ok(Confirmed::KeyReused),
                Err(error) => return Err(Failure::of_committing_statement(error)),
            };
            let order_id = row.order_id.unwrap_or_default();
            return Ok(match row.outcome.as_str() {
                "sold" => Confirmed::Sold(SoldUnits {
                    order_id,
                    goods_no: row.goods_no.unwrap_or_default(),
                    sale: row.sale.unwrap_or_default(),
                    quantity: row.quantity.unwrap_or_default(),
                }),
                "repeated" => Confirmed::Repeated(order_id),
                "expired" => Confirmed::Expired,
                "sale-over" => Confirmed::SaleOver,
                "cancelled" => Confirmed::Cancelled,
                // Its time passed during the wait for its row. The next statement ends it first.
                "due" => continue,
                _ => Confirmed::Unknown,
            });
        }
    }

    /// Gives the units of a reservation back. The wait for the row of its SKU ends at `until`.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    ///
    /// # Cancel safety
    /// Dropped, the units may be free or not.
    pub async fn cancel(&self, reservation_id: i64, goods_no: GoodsNo, until: Instant) -> Result<Cancelled, Failure> {
        let _waiter = self.wait_for(&LockWait { goods: vec![goods_no], until, shares_sales: false }).await?;
        let mut connection = self.connections.get().await?;
        let outcome = sqlx::query_scalar!(
            r#"select outcome as "outcome!" from cancel_reservation($1, $2)"#,
            reservation_id,
            i64::from(left_ms(until)),
        );
        let outcome = outcome.fetch_one(connection.ask()).await;
        connection.settle(&outcome);
        Ok(match outcome.map_err(Failure::of_committing_statement)?.as_str() {
            "cancelled" => Cancelled::Cancelled,
            "repeated" => Cancelled::Repeated,
            "expired" => Cancelled::Expired,
            "confirmed" => Cancelled::Confirmed,
            _ => Cancelled::Unknown,
        })
    }

    /// Reads a reservation. One that is past its time is shown as expired, whether or not it has ended. Returns `None` if no
    /// reservation has that number.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reservation(&self, reservation_id: i64) -> Result<Option<Reservation>, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let row = sqlx::query!(
                r#"select goods_no, sale, quantity, order_id,
                       case when state = 'held' and expires_at <= clock_timestamp() then 'expired' else state end as "state!",
                       to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "expires_at!"
                   from reservations where reservation_id = $1"#,
                reservation_id
            );
            let row = row.fetch_optional(connection.ask()).await;
            let Some(row) = connection.heard(row)? else { return Ok(None) };
            let unknown = || Failure::new(&failure::INTERNAL, "the state of the reservation is not one of those there are");
            Ok(Some(Reservation {
                reservation_id,
                goods_no: row.goods_no,
                sale: row.sale,
                quantity: row.quantity,
                state: ReservationState::of(&row.state).ok_or_else(unknown)?,
                expires_at: row.expires_at,
                order_id: row.order_id,
            }))
        })
        .await
    }

    /// Ends reservations that are past their time, and frees their units. Any number of instances may do so at once: one waits for
    /// the row of a SKU, and then finds what the others have left. Returns the time until the next reservation is past its time,
    /// `None` if there is none.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, some may have ended.
    pub async fn sweep_reservations(&self) -> Result<Option<Duration>, Failure> {
        let due = async {
            let mut connection = self.connections.get().await?;
            let due = sqlx::query!(
                r#"select goods_no as "goods_no!", sale as "sale!" from (
                       select goods_no, sale from reservations
                       where state = 'held' and expires_at <= statement_timestamp()
                       order by expires_at limit 10000
                   ) as due group by goods_no, sale limit $1"#,
                SWEEP_GOODS_MAX,
            );
            let due = due.fetch_all(connection.ask()).await;
            connection.heard(due)
        };
        for sale in self.in_time(due).await? {
            while self.in_time(self.expire(sale.goods_no, sale.sale)).await? == SWEEP_MAX {}
        }
        let next = async {
            let mut connection = self.connections.get().await?;
            let next = sqlx::query_scalar!(
                r#"select (extract(epoch from min(expires_at) - clock_timestamp()) * 1000)::bigint
                   from reservations where state = 'held'"#
            );
            let next = next.fetch_one(connection.ask()).await;
            connection.heard(next)
        };
        let next_ms = self.in_time(next).await?;
        Ok(next_ms.map(|ms| Duration::from_millis(ms.try_into().unwrap_or_default())))
    }

    /// Ends some reservations of a sale that are past their time. Returns how many.
    async fn expire(&self, goods_no: i64, sale: i64) -> Result<i64, Failure> {
        let mut connection = self.connections.get().await?;
        let expire = sqlx::query_scalar!(
            r#"select expire_reservations($1, $2, $3, false) as "ended!""#,
            goods_no,
            sale,
            SWEEP_MAX
        );
        let ended = expire.fetch_one(connection.ask()).await;
        connection.heard(ended)
    }
}

/// Ends all reservations of a sale that is ending. The caller has locked the row of the SKU. Waits for confirmations under way.
pub(super) async fn end_reservations(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    sale: i64,
) -> Result<(), sqlx::Error> {
    let end = sqlx::query!("select end_reservations_of_sale($1, $2)", goods_no.get(), sale);
    end.fetch_one(connection).await.map(drop)
}

/// Reads a refusal of `reserve`.
fn refused(error: sqlx::Error) -> Result<Reserved, Failure> {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    match code.as_deref() {
        Some(OVER_LIMIT) => Ok(Reserved::OverLimit),
        Some(OVERTAKEN_BY_KEY) => Ok(Reserved::Overtaken),
        _ => Err(Failure::of_committing_statement(error)),
    }
}
