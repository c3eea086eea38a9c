//! One request, its deadlines, and what is known of its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Boxed, Decided, Decision};
use crate::failure::Failure;
use crate::sale::{Goods, GoodsNo, Purchase};
use crate::store::WrittenOrder;

/// One request that a strategy serves.
pub struct Call {
    /// What the buyer asks for.
    pub purchase: Purchase,
    /// When the request arrived. The deadlines for the lock and for the database count from then.
    pub began: Instant,
    /// Cancelled when the client hangs up or the service shuts down. That ends waits. All other work runs to its end.
    pub client: CancellationToken,
    /// The deadline for the database.
    pub until: Instant,
    /// The sales that the purchase was admitted to. It must not write to any other.
    sales: Mutex<Vec<(GoodsNo, i64)>>,
    /// Whether the purchase has decided by the stock of `sales`. Then it must not go on in other sales.
    pub(super) has_decided: AtomicBool,
    /// The commit that was sent and not answered. This field outlives the strategy's future. So a deadline or a lost
    /// lock that stops the future can tell whether the outcome is unknown. A batch shares it, because it commits for its
    /// buyers.
    pub(super) committing: Arc<Mutex<Option<Committing>>>,
}

/// A commit that was sent.
#[derive(Debug, Clone)]
pub(super) enum Committing {
    /// The COMMIT of a transaction that wrote this order.
    Order(WrittenOrder),
    /// A statement that commits by itself. The number of its order comes with its answer.
    Statement,
    /// Another instance decides the purchase, and commits it or not.
    Elsewhere,
}

impl Committing {
    /// The failure of a purchase of which nothing more is heard.
    pub(super) fn unknown(&self) -> Failure {
        match self {
            Self::Order(order) => Failure::outcome_unknown(Some(order.order_id)),
            Self::Statement => Failure::outcome_unknown(None),
            Self::Elsewhere => Failure::outcome_unknown_elsewhere(),
        }
    }
}

impl Call {
    /// Makes a call for a request that arrived at `began`. Its deadline is `within` after that.
    pub fn new(purchase: Purchase, began: Instant, within: Duration, client: CancellationToken) -> Self {
        let until = began + within;
        let (sales, has_decided, committing) = (Mutex::default(), AtomicBool::new(false), Arc::default());
        Self { purchase, began, client, until, sales, has_decided, committing }
    }

    /// Admits the purchase to these sales, and to no others.
    pub fn admit(&self, sales: &[Goods]) {
        *self.sales.lock() = sales.iter().map(|goods| (goods.goods_no, goods.sale)).collect();
    }

    /// Returns the sale of a SKU to which the purchase was admitted.
    pub(super) fn sale_of(&self, goods_no: GoodsNo) -> i64 {
        let sales = self.sales.lock();
        sales.iter().find(|(of, _)| *of == goods_no).map(|(_, sale)| *sale).expect("BUG: a purchase was not admitted")
    }

    /// Returns whether the purchase has decided by the stock of the sales to which it was admitted.
    pub(super) fn has_decided(&self) -> bool {
        self.has_decided.load(Ordering::Relaxed)
    }

    /// Waits for `waited`, until the client hangs up or the service shuts down. If that has already happened,
    /// `waited` is not polled.
    ///
    /// # Errors
    /// [`CLIENT_GONE`](crate::failure::CLIENT_GONE).
    ///
    /// # Cancel safety
    /// As `waited`.
    pub async fn wait<F: Future>(&self, waited: F) -> Result<F::Output, Failure> {
        if self.client.is_cancelled() {
            return Err(Failure::client_gone());
        }
        tokio::select! {
            biased;
            had = waited => Ok(had),
            () = self.client.cancelled() => Err(Failure::client_gone()),
        }
    }

    /// Runs a part of the call until the deadline for the database. The server limits the time of each statement,
    /// too. This deadline also holds if the server does not answer at all. Box a part with many statements: its
    /// future is large, and each wrapper around it would take as much of the stack again.
    ///
    /// # Errors
    /// Those of the part. At the deadline, [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN) if a commit is in flight,
    /// and [`DATABASE_UNAVAILABLE`](crate::failure::DATABASE_UNAVAILABLE) otherwise.
    ///
    /// # Cancel safety
    /// Dropped, the part is dropped.
    pub async fn in_time<T>(&self, part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match timeout_at(self.until, part).await {
            Ok(result) => result,
            Err(_) => Err(self.stopped(Failure::database_unavailable())),
        }
    }

    /// Runs `decision` until the deadline for the database. No work is left after the answer.
    pub(super) fn decide<'a>(&'a self, decision: impl Future<Output = Decision> + Send + 'a) -> Boxed<'a, Decided<'a>> {
        let decision: Boxed<'a, Decision> = Box::pin(decision);
        Box::pin(async move { self.in_time(decision).await.into() })
    }

    /// Returns whether a COMMIT was sent and not answered, or the purchase was handed over and not answered.
    pub fn is_committing(&self) -> bool {
        self.committing.lock().is_some()
    }

    /// Returns the failure of a call that was stopped for `reason`. If a commit is in flight, the outcome is unknown.
    pub(super) fn stopped(&self, reason: Failure) -> Failure {
        match &*self.committing.lock() {
            Some(committing) => committing.unknown().caused_by(reason),
            None => reason,
        }
    }
}
