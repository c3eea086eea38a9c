//! Tickets: durable wishes to buy, which workers take and decide.
//!
//! A ticket waits as long as it has no outcome. It is written by one statement, which commits by itself. A worker locks the row of a
//! SKU, takes the oldest tickets, and writes their outcomes in the transaction of their orders. So a ticket is decided once, whatever
//! dies meanwhile.

use std::time::Duration;

use super::Store;
use super::connections::PooledConnection;
use super::transaction::Transaction;
use crate::failure::{self, Failure};
use crate::sale::{BuyerId, Cart, GoodsNo, IdempotencyKey, Order, Purchase, Quantity, Ticket};

/// What a ticket is written with.
#[derive(Debug, Clone, Copy)]
pub struct NewTicket<'a> {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// The family of the strategy. Only a sale that this family guards has tickets.
    pub guard: &'a str,
    /// How many units are wished for.
    pub quantity: Quantity,
    /// The buyer, if the purchase names one.
    pub buyer: Option<&'a BuyerId>,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
}

/// What became of the wish for a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketTaken {
    /// The ticket, new or of an earlier request with the same key.
    Ticket(Ticket),
    /// Nothing was written: another purchase waits under the key.
    OtherCart,
    /// Nothing was written: too few units are left.
    SoldOut,
    /// Nothing was written: the SKU has another sale or another guard by now.
    Restarted,
    /// Nothing was written: another request with the same key took a ticket at the same instant, or its ticket was decided.
    Overtaken,
}

/// A ticket that a worker has locked.
#[derive(Debug, Clone)]
pub struct WaitingTicket {
    /// Its number.
    pub ticket: i64,
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// What is wished for. The cart has one line.
    pub purchase: Purchase,
    /// How long it has waited, by the clock of the database.
    pub waited: Duration,
}

/// The SKU whose tickets a worker decides next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingGoods {
    /// No ticket waits.
    None,
    /// Tickets wait, and others have locked the rows of their SKUs.
    LockedByOthers,
    /// Its row is locked now.
    Locked(GoodsNo),
}

/// What a worker has decided of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketOutcome {
    /// The order was written.
    Sold {
        /// The number of the order.
        order_id: i64,
    },
    /// The key has this order of an earlier purchase.
    Repeated {
        /// The number of the order.
        order_id: i64,
    },
    /// Nothing was sold, for a reason of this kind.
    Refused(&'static failure::Kind),
}

/// The kinds of failure that a ticket can end with.
const REFUSALS: [&failure::Kind; 4] =
    [&failure::SOLD_OUT, &failure::OVER_LIMIT, &failure::SALE_RESTARTED, &failure::KEY_REUSED];

/// How a ticket with an order ends, and a ticket whose key had an order.
const SOLD: &str = "sold";
const REPEATED: &str = "repeated";

impl TicketOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Sold { .. } => SOLD,
            Self::Repeated { .. } => REPEATED,
            Self::Refused(kind) => kind.slug(),
        }
    }

    fn order_id(self) -> Option<i64> {
        match self {
            Self::Sold { order_id } | Self::Repeated { order_id } => Some(order_id),
            Self::Refused(_) => None,
        }
    }
}

/// What a ticket shows.
#[derive(Debug, Clone)]
pub enum TicketLook {
    /// It waits.
    Waiting(Ticket),
    /// It has an order.
    Sold {
        /// The order.
        order: Order,
        /// Whether an earlier purchase with the same key made it.
        is_replay: bool,
    },
    /// It was refused.
    Refused(Failure),
}

impl Store {
    /// Writes a ticket, which is durable when this returns. A ticket of an earlier request with the same key is returned instead,
    /// as long as it waits. `sent` is called when the statement is about to be sent.
    ///
    /// # Errors
    /// As [`Failure::of_database`] if nothing was written, and [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if the statement was
    /// sent and not answered.
    ///
    /// # Cancel safety
    /// Dropped after `sent`, the ticket may have been written or not.
    pub async fn take_ticket(&self, new: NewTicket<'_>, sent: impl FnOnce()) -> Result<TicketTaken, Failure> {
        let mut connection = self.connections.get().await?;
        // The worker that decides the ticket of the key has its row locked, and an insert would wait for that. So the ticket is
        // looked for first.
        let row = sqlx::query!(
            r#"with known as materialized (
                   select ticket, (goods_no, sale, quantity) = ($1, $2, $4) as is_same from tickets where key = $6
               ), taken as (
                   insert into tickets (goods_no, sale, quantity, buyer, key)
                   select goods_no, sale, $4, $5, $6 from goods
                   where goods_no = $1 and sale = $2 and guard = $3 and on_hand >= $4 and not exists (select from known)
                   on conflict (key) do nothing
                   returning ticket
               )
               select (select ticket from taken) as taken, (select ticket from known) as known,
                   (select is_same from known) as is_same"#,
            new.goods_no.get(),
            new.sale,
            new.guard,
            new.quantity.get(),
            new.buyer.map(BuyerId::as_str),
            new.key.map(IdempotencyKey::as_str),
        );
        sent();
        let row = row.fetch_one(connection.ask()).await;
        connection.settle(&row);
        let row = row.map_err(Failure::of_committing_statement)?;
        let ticket = |ticket, is_repeated| Ticket {
            ticket,
            goods_no: new.goods_no.get(),
            sale: new.sale,
            quantity: new.quantity.get(),
            is_repeated,
        };
        match (row.taken, row.known) {
            (Some(number), _) => return Ok(TicketTaken::Ticket(ticket(number, false))),
            (None, Some(number)) if row.is_same == Some(true) => return Ok(TicketTaken::Ticket(ticket(number, true))),
            (None, Some(_)) => return Ok(TicketTaken::OtherCart),
            (None, None) => {}
        }
        // Nothing was written. What is true by now is told.
        let has_enough = sqlx::query_scalar!(
            r#"select on_hand >= $4 as "has_enough!" from goods where goods_no = $1 and sale = $2 and guard = $3"#,
            new.goods_no.get(),
            new.sale,
            new.guard,
            new.quantity.get(),
        );
        let has_enough = has_enough.fetch_optional(connection.ask()).await;
        Ok(match connection.heard(has_enough)? {
            None => TicketTaken::Restarted,
            Some(false) => TicketTaken::SoldOut,
            Some(true) => TicketTaken::Overtaken,
        })
    }

    /// Looks at a ticket. Returns `None` if there is none of that number.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ticket(&self, number: i64) -> Result<Option<TicketLook>, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let row = sqlx::query!(
                "select goods_no, sale, quantity, outcome, order_id from tickets where ticket = $1",
                number
            );
            let row = row.fetch_optional(connection.ask()).await;
            let Some(row) = connection.heard(row)? else { return Ok(None) };
            let Some(outcome) = row.outcome else {
                return Ok(Some(TicketLook::Waiting(Ticket {
                    ticket: number,
                    goods_no: row.goods_no,
                    sale: row.sale,
                    quantity: row.quantity,
                    is_repeated: false,
                })));
            };
            if let Some(order_id) = row.order_id {
                let order = super::order(connection.ask(), order_id).await;
                let is_replay = outcome == REPEATED;
                return Ok(connection.heard(order)?.map(|order| TicketLook::Sold { order, is_replay }));
            }
            let refused = REFUSALS.into_iter().find(|kind| kind.slug() == outcome).unwrap_or(&failure::INTERNAL);
            Ok(Some(TicketLook::Refused(Failure::of_ticket(refused, row.goods_no))))
        })
        .await
    }
}

impl Transaction {
    /// Locks the row of the SKU that has waited longest for a worker. Passes over SKUs whose rows others have locked, and waits for
    /// none.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn lock_waiting_goods(&mut self) -> Result<WaitingGoods, Failure> {
        // The first ticket of each SKU is found by one step in the index, however many wait.
        let oldest = sqlx::query_scalar!(
            r#"with recursive oldest as (
                   (select goods_no, ticket from tickets where outcome is null order by goods_no, ticket limit 1)
                   union all
                   select next.goods_no, next.ticket from oldest cross join lateral (
                       select goods_no, ticket from tickets where outcome is null and goods_no > oldest.goods_no
                       order by goods_no, ticket limit 1
                   ) as next
               ), locked as (
                   select goods.goods_no from goods join oldest using (goods_no)
                   order by oldest.ticket limit 1 for no key update of goods skip locked
               )
               select (select goods_no from locked) as locked from oldest limit 1"#
        );
        let oldest = oldest.fetch_optional(self.connection()).await;
        Ok(match self.heard(oldest)? {
            None => WaitingGoods::None,
            Some(locked) => locked
                .and_then(|goods_no| GoodsNo::try_from(goods_no).ok())
                .map_or(WaitingGoods::LockedByOthers, WaitingGoods::Locked),
        })
    }

    /// Locks up to `most` tickets of a SKU that wait, the oldest first, and returns them in their order. The caller has locked the row
    /// of the SKU, so no other worker has them.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn lock_tickets(&mut self, goods_no: GoodsNo, most: i64) -> Result<Vec<WaitingTicket>, Failure> {
        let rows = sqlx::query!(
            r#"select ticket, sale, quantity, buyer, key,
                   (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "waited_ms!"
               from tickets where outcome is null and goods_no = $1 order by ticket limit $2 for update"#,
            goods_no.get(),
            most,
        );
        let rows = rows.fetch_all(self.connection()).await;
        let waiting = self.heard(rows)?.into_iter().filter_map(|row| {
            Some(WaitingTicket {
                ticket: row.ticket,
                sale: row.sale,
                purchase: Purchase {
                    cart: Cart::of_one(goods_no, Quantity::new(row.quantity)?),
                    key: row.key.and_then(|key| key.parse().ok()),
                    buyer: row.buyer.and_then(|buyer| buyer.parse().ok()),
                },
                waited: Duration::from_millis(u64::try_from(row.waited_ms).unwrap_or_default()),
            })
        });
        Ok(waiting.collect())
    }

    /// Writes the outcomes of tickets that wait. Their keys are free again: those of the sold ones stand with
    /// their orders.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn decide_tickets(&mut self, decided: &[(i64, TicketOutcome)]) -> Result<(), Failure> {
        let tickets: Vec<i64> = decided.iter().map(|(ticket, _)| *ticket).collect();
        let outcomes: Vec<&str> = decided.iter().map(|(_, outcome)| outcome.name()).collect();
        let orders: Vec<Option<i64>> = decided.iter().map(|(_, outcome)| outcome.order_id()).collect();
        let write = sqlx::query!(
            "update tickets set outcome = decided.outcome, order_id = decided.order_id, key = null
             from unnest($1::bigint[], $2::text[], $3::bigint[]) as decided (ticket, outcome, order_id)
             where tickets.ticket = decided.ticket and tickets.outcome is null",
            &tickets,
            &outcomes as _,
            &orders as _,
        );
        let written = write.execute(self.connection()).await;
        self.heard(written).map(drop)
    }
}
