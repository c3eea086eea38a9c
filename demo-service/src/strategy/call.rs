//! One request, its deadlines, and what is known of its commit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use batch_queue::Commit;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Boxed, Decided, Decision};
use crate::failure::{self, Failure};
use crate::sale::{Goods, GoodsNo, Purchase, Quantity};
use crate::store::WrittenOrder;

/// One request that a strategy serves.
pub struct Call {
    /// What the buyer asks for.
    pub purchase: Purchase,
    /// When the request arrived. The deadlines for the lock and for the database count from then.
    pub arrived: Instant,
    /// Cancelled when the client hangs up or the service shuts down. That ends waits. All other work runs to its end.
    pub client: CancellationToken,
    /// The deadline for the database.
    pub until: Instant,
    /// The sales that the purchase was admitted to. It must not write to any other.
    sales: Mutex<Vec<AdmittedTo>>,
    /// Whether the purchase has decided by the stock of `sales`. Then it must not go on in other sales.
    pub(super) has_decided: AtomicBool,
    /// What is known of the commit. It outlives the future of the strategy. So a deadline or a lost lock that stops the
    /// future can tell whether the outcome is unknown.
    pub(super) commit: Commit<Sent>,
}

/// A sale that a purchase was admitted to.
#[derive(Debug, Clone, Copy)]
struct AdmittedTo {
    goods_no: GoodsNo,
    sale: i64,
    per_buyer: Option<Quantity>,
}

/// What was sent, and is not answered yet.
#[derive(Clone)]
pub(super) enum Sent {
    /// The COMMIT of a transaction that wrote this order.
    Order(WrittenOrder),
    /// A statement that commits by itself. The number of its order comes with its answer.
    Statement,
    /// Another instance decides the purchase, and commits it or not.
    Elsewhere,
    /// A gate was asked, and may have promised the order. Its number is known once the gate has answered.
    AtGate(Option<i64>),
}

impl Sent {
    /// Returns the failure of a purchase of which nothing more is heard.
    pub(super) fn unknown(&self) -> Failure {
        match self {
            Self::Order(order) => Failure::outcome_unknown(Some(order.order_id)),
            Self::Statement => Failure::outcome_unknown(None),
            Self::Elsewhere => Failure::outcome_unknown_elsewhere(),
            Self::AtGate(order_id) => Failure::outcome_unknown_at_gate(*order_id),
        }
    }
}

impl Call {
    /// Makes a call for a request that arrived at `arrived`. Its deadline is `within` after that.
    pub fn new(purchase: Purchase, arrived: Instant, within: Duration, client: CancellationToken) -> Self {
        let until = arrived + within;
        let sales = Mutex::default();
        let has_decided = AtomicBool::new(false);
        Self { purchase, arrived, client, until, sales, has_decided, commit: Commit::default() }
    }

    /// Admits the purchase to these sales, and to no others.
    pub fn admit(&self, sales: &[Goods]) {
        let admitted =
            |goods: &Goods| AdmittedTo { goods_no: goods.goods_no, sale: goods.sale, per_buyer: goods.per_buyer };
        *self.sales.lock() = sales.iter().map(admitted).collect();
    }

    /// Returns the sale of a SKU to which the purchase was admitted.
    pub(super) fn sale_of(&self, goods_no: GoodsNo) -> i64 {
        self.admitted_to(goods_no).sale
    }

    /// Returns the most units that one buyer may have of that sale, if it has such a limit.
    pub(super) fn per_buyer_of(&self, goods_no: GoodsNo) -> Option<Quantity> {
        self.admitted_to(goods_no).per_buyer
    }

    fn admitted_to(&self, goods_no: GoodsNo) -> AdmittedTo {
        let sales = self.sales.lock();
        *sales.iter().find(|admitted| admitted.goods_no == goods_no).expect("BUG: a purchase was not admitted")
    }

    /// Returns whether the purchase has decided by the stock of the sales to which it was admitted.
    pub(super) fn has_decided(&self) -> bool {
        self.has_decided.load(Ordering::Relaxed)
    }

    /// Waits for `waited`, until the client hangs up or the service shuts down. If that has already happened,
    /// `waited` is not polled.
    ///
    /// # Errors
    /// [`CLIENT_GONE`](failure::CLIENT_GONE).
    ///
    /// # Cancel safety
    /// As `waited`.
    pub async fn wait<F: Future>(&self, waited: F) -> Result<F::Output, Failure> {
        wait_for(&self.client, waited).await
    }

    /// Makes sure that somebody still waits for the answer. The service must not shut down, either.
    ///
    /// # Errors
    /// [`CLIENT_GONE`](failure::CLIENT_GONE).
    pub(super) fn still_wanted(&self) -> Result<(), Failure> {
        if self.client.is_cancelled() { Err(Failure::client_gone()) } else { Ok(()) }
    }

    /// Runs a part of the call until the deadline for the database. The server limits the time of each statement,
    /// too. This deadline also counts if the server does not answer at all. Box a part with many statements: its future
    /// is large, and each wrapper around it would take as much of the stack again.
    ///
    /// # Errors
    /// Those of the part. At the deadline, [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if a commit is in flight,
    /// and [`DATABASE_UNAVAILABLE`](failure::DATABASE_UNAVAILABLE) otherwise.
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
    pub(super) fn decide<'a>(&'a self, decision: Boxed<'a, Decision>) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move { self.in_time(decision).await.into() })
    }

    /// Returns whether a COMMIT was sent and not answered, or the purchase was handed over and not answered.
    pub fn is_committing(&self) -> bool {
        self.commit.is_sent()
    }

    /// Notes the answer to what was sent. Unless it leaves the outcome unknown, nothing is under way any more.
    pub(super) fn answered<T>(&self, answer: &Result<T, Failure>) {
        if !answer.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) {
            self.commit.forget();
        }
    }

    /// Returns the order whose COMMIT was sent and not answered.
    pub(super) fn unanswered_order(&self) -> Option<WrittenOrder> {
        match self.commit.sent()? {
            Sent::Order(order) => Some(order),
            Sent::Statement | Sent::Elsewhere | Sent::AtGate(_) => None,
        }
    }

    /// Returns the failure of a call that was stopped for `reason`. If a commit is in flight, the outcome is unknown.
    pub(super) fn stopped(&self, reason: Failure) -> Failure {
        stopped(self.commit.sent(), reason)
    }
}

/// Returns the failure of a call that was stopped for `reason`, after this was sent.
pub(super) fn stopped(sent: Option<Sent>, reason: Failure) -> Failure {
    match sent {
        Some(sent) => sent.unknown().caused_by(reason),
        None => reason,
    }
}

/// Waits for `waited` until `client` is cancelled. If it is cancelled already, `waited` is not polled.
pub(super) async fn wait_for<F: Future>(client: &CancellationToken, waited: F) -> Result<F::Output, Failure> {
    if client.is_cancelled() {
        return Err(Failure::client_gone());
    }
    tokio::select! {
        biased;
        had = waited => Ok(had),
        () = client.cancelled() => Err(Failure::client_gone()),
    }
}
