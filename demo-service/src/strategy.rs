//! Strategies: ways to decide a purchase. [`registry`] lists them. Each kind of technique has a folder, and each
//! technique a file in it.
//!
//! A purchase comes in as a [`Call`] and leaves as [`Decided`]. Strategies of one family exclude each other.
//! [`admission`] lets only strategies of the sale's family serve a sale.

pub mod admission;
pub mod call;
pub mod context;
pub mod entry;
pub mod registry;

pub(crate) mod owner;
pub(crate) mod reserve;

mod attempt;
mod gate;
mod settle;
mod tickets;

mod batch;
mod lock;
mod row;

use std::future::ready;
use std::pin::Pin;

use futures_util::stream::BoxStream;

use self::call::Call;
use crate::failure::Failure;
use crate::instances::{Batch, BatchReply};
use crate::sale::{Goods, GoodsNo, Order, Receipt, Reservation};

/// The result of a purchase. Unless it failed with [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN), a failure wrote
/// nothing.
pub type Decision = Result<Order, Failure>;

/// A reservation that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationAnswer {
    /// The reservation as it is now.
    pub reservation: Reservation,
    /// Whether an earlier request has made it, or has brought it to its state.
    pub is_replay: bool,
}

/// A boxed future. Strategies are chosen at run time, so the types of their futures differ.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to decide purchases.
pub trait Strategy: Send + Sync {
    /// Decides a purchase: takes the units and writes the order in one transaction, or does neither.
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>>;

    /// Looks at the stock of a SKU under a lock, or finds that there is no such SKU. Returns `None` if the strategy looks
    /// without a lock.
    fn look_locked<'a>(
        &'a self,
        _goods_no: GoodsNo,
        _call: &'a Call,
    ) -> Option<Boxed<'a, Result<Option<Goods>, Failure>>> {
        None
    }

    /// Does the work that the strategy does beside the requests, until the service ends. Most strategies have none.
    fn upkeep(&self) -> Boxed<'_, ()> {
        Box::pin(ready(()))
    }

    /// Holds the units of a purchase for a while. Returns `None` if the strategy sells in one step only.
    fn reserve<'a>(&'a self, _call: &'a Call) -> Option<Boxed<'a, Result<ReservationAnswer, Failure>>> {
        None
    }

    /// Notes that a sale of a SKU has started, whichever strategy sells it. Most strategies need not know.
    fn sale_started(&self, _goods_no: GoodsNo, _sale: i64) -> Boxed<'_, ()> {
        Box::pin(ready(()))
    }

    /// Takes in a batch that another instance has handed over. Returns the reply for each purchase when it is decided, or
    /// `None` if nothing of the batch is.
    fn take_over(&self, _batch: Batch) -> Option<BoxStream<'static, BatchReply>> {
        None
    }
}

/// The decision of a purchase, and the work that is left after the answer.
#[must_use]
pub struct Decided<'a> {
    /// The answer.
    pub decision: Result<Receipt, Failure>,
    /// Releases the lock. If the outcome is unknown, first waits until the commit is over. Dropped, the lock is
    /// released at once, possibly while a commit is in flight.
    pub release: Option<Boxed<'a, ()>>,
}

impl From<Decision> for Decided<'_> {
    /// Makes a decision without work left after the answer.
    fn from(decision: Decision) -> Self {
        Self { decision: decision.map(Receipt::Order), release: None }
    }
}
