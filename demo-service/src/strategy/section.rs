//! The critical section that the locks guard: read, decide, do business, write, commit.

mod open;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use self::open::Open;
use super::access::{Access, Exclusion};
use super::{Call, ClientGone, Context};
use crate::clock::Moment;
use crate::error::{Failure, Progress};
use crate::purchase::{Line, LockOrder, Purchase};
use crate::stock::store::{NewOrder, SaleTransaction, TransactionId, WaitTag, WrittenOrder};
use crate::stock::{Decision, GoodsNo, Level, Order, OrderLine, Outcome, Token, decide};

/// Why a section stopped before its end.
#[derive(Debug)]
pub enum Stop {
    /// There is nothing to be sold.
    Ended(Outcome),
    /// The database failed or refused.
    Database(sqlx::Error),
    /// Somebody with a later token has read the stock.
    Fenced,
    /// Somebody has written the stock meanwhile.
    Overtaken,
    /// The lock around the section was lost.
    HoldLost(zk_recipes::Error),
    /// Nobody waits for the answer any more.
    ClientGone,
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ClientGone> for Stop {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}

/// One section.
pub struct Section<'a> {
    context: &'a Context,
    purchase: &'a Purchase,
    call: Call<'a>,
    access: Access,
    exclusion: Exclusion,
    /// When the lock around it was asked for, if there is one.
    asked: Option<Moment>,
    tokens: Vec<(GoodsNo, Token)>,
    /// By which its wait for a lock of the database can be ended.
    wait_tag: WaitTag,
    /// How far the transaction has come. It outlives the section, so that whoever stops it can tell whether the commit
    /// had been sent.
    committing: Mutex<Option<TransactionId>>,
}

/// A section that is done but for the commit.
pub struct Prepared<'a> {
    open: Open<'a>,
    written: WrittenOrder,
    order: Order,
}

/// The pause before a transaction is asked after again.
const SETTLE_POLL: Duration = Duration::from_millis(20);

impl<'a> Section<'a> {
    /// A section without a lock around it.
    pub fn new(context: &'a Context, access: Access, purchase: &'a Purchase, call: Call<'a>) -> Self {
        let (asked, tokens, wait_tag, committing) = (None, Vec::new(), WaitTag::new(), Mutex::default());
        Self { context, purchase, call, access, exclusion: access.exclusion(), asked, tokens, wait_tag, committing }
    }

    /// A section with a lock around it, which was asked for then and has these tokens.
    pub fn guarded(self, asked: Moment, tokens: Vec<(GoodsNo, Token)>) -> Self {
        Self { exclusion: Exclusion::Whole, asked: Some(asked), tokens, ..self }
    }

    /// Deducts, in one transaction. Where the outcome is unknown, a lock around it must be kept until it is
    /// [settled](Self::settle).
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was sold.
    ///
    /// # Cancel safety
    /// Dropped, nothing was sold if the [progress](Self::progress) is [`Progress::Open`]; else the outcome is unknown.
    pub async fn run(&self) -> Result<Outcome, Failure> {
        self.bounded(self.attempt()).await
    }

    /// One attempt, unbounded.
    ///
    /// # Errors
    /// Why it stopped.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn attempt(&self) -> Result<Outcome, Stop> {
        let prepared = self.prepare().await?;
        self.commit(prepared).await
    }

    /// Does all but the commit.
    ///
    /// # Errors
    /// Why it stopped.
    ///
    /// # Cancel safety
    /// Dropped, nothing was sold.
    pub async fn prepare(&self) -> Result<Prepared<'a>, Stop> {
        // In the same order everywhere: rows are locked one after the other.
        let lines = self.purchase.cart.in_order(LockOrder::Canonical);
        let mut open = Open::default();
        let levels = self.enter(&mut open, &lines).await?;
        let mut sold = match self.decide(&lines, &levels) {
            Ok(sold) => sold,
            Err(Outcome::SoldOut(goods_no)) => return Err(self.sold_out(open, goods_no).await?),
            Err(other) => return Err(Stop::Ended(other)),
        };
        self.context.hold.pass().await;
        let Open { visit, begun } = &mut open;
        let transaction = self.begun(begun).await?;
        let asked = Moment::now();
        for (line, (level, sold)) in lines.iter().zip(levels.iter().zip(&mut sold)) {
            match self.inside(visit, self.write(transaction, line, level, sold)).await? {
                Written::Done => {}
                Written::SoldOut => {
                    // What was taken of the lines before is given back.
                    open.begun = None;
                    return Err(self.sold_out(open, line.goods_no).await?);
                }
            }
        }
        if self.exclusion == Exclusion::FromWrite {
            *visit = Some(self.visit(&lines, asked));
        }
        let (strategy, instance) = (self.context.entry.name, &*self.context.instance);
        let key = self.purchase.key.as_ref();
        let order = NewOrder { strategy, instance, key, lines: &sold };
        let written = self.inside(visit, transaction.insert_order(order)).await?;
        let (strategy, instance) = (strategy.to_owned(), instance.to_owned());
        let order = Order { order_id: written.order_id, strategy, instance, lines: sold };
        Ok(Prepared { open, written, order })
    }

    /// Commits, having noted that from here on a failure leaves the outcome open.
    ///
    /// # Errors
    /// Why it stopped.
    ///
    /// # Cancel safety
    /// Dropped, the outcome is unknown.
    pub async fn commit(&self, prepared: Prepared<'_>) -> Result<Outcome, Stop> {
        let Prepared { open, written, order } = prepared;
        *self.committing.lock() = Some(written.transaction);
        self.leave(open).await?;
        Ok(Outcome::Sold(order))
    }

    /// How far the transaction has come.
    pub fn progress(&self) -> Progress {
        if self.committing.lock().is_some() { Progress::Committing } else { Progress::Open }
    }

    /// Makes ready for another attempt, the last one having failed for certain.
    pub fn reopen(&self) {
        *self.committing.lock() = None;
    }

    /// Waits until a commit that was not answered is over. Until then the lock must be kept: the next holder would read
    /// the stock from before the commit and overwrite the one from after it. What came of the commit stays unknown; this
    /// is only about when.
    ///
    /// It waits as long as the database says that the commit is under way, for which Postgres has no time limit. Where
    /// the database cannot be asked, it gives up after twice the database timeout: a commit that has not arrived by then
    /// never will, as the server ends an idle transaction after one.
    ///
    /// # Cancel safety
    /// Dropped, only the waiting ends.
    pub async fn settle(&self) {
        let Some(transaction) = self.committing.lock().clone() else { return };
        let patience = 2 * self.context.db_timeout;
        let mut heard = Instant::now();
        loop {
            match self.context.store.is_over(&transaction).await {
                Ok(true) => return,
                Ok(false) => heard = Instant::now(),
                Err(error) if heard.elapsed() >= patience => {
                    warn!(?transaction, %error, "a commit was not answered, and the database could not be asked after it");
                    return;
                }
                Err(_) => {}
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
    }

    /// Runs a part of the section until `--db-timeout` after the deduction began, so that a long wait for a lock leaves
    /// it less, and names its failures. The statements have bounds of their own, on the server; this one also holds when
    /// the server does not answer at all.
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was sold.
    ///
    /// # Cancel safety
    /// That of the part.
    pub async fn bounded(&self, part: impl Future<Output = Result<Outcome, Stop>>) -> Result<Outcome, Failure> {
        let db_timeout = self.context.db_timeout;
        match timeout_at(self.call.began + db_timeout, part).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(stop)) => self.explain(stop),
            Err(_) => Err(Failure::of_database_timeout(db_timeout, self.progress())),
        }
    }

    /// What a stop means to the buyer.
    fn explain(&self, stop: Stop) -> Result<Outcome, Failure> {
        match stop {
            Stop::Ended(outcome) => Ok(outcome),
            Stop::Database(error) if self.is_lock_timeout(&error) => Err(self.context.lock_timeout()),
            Stop::Database(error) => Err(Failure::of_database(error, self.progress())),
            Stop::Fenced => Err(Failure::Fenced),
            Stop::Overtaken => Err(Failure::Overtaken { attempts: self.context.attempts_max }),
            Stop::HoldLost(reason) => Err(Failure::of_lost_hold(&reason, self.progress())),
            Stop::ClientGone => Err(Failure::ClientGone),
        }
    }

    /// Whether the locks of the database are what guards the deduction.
    fn is_guarded_by_database(&self) -> bool {
        matches!(self.exclusion, Exclusion::FromRead | Exclusion::FromWrite)
    }

    /// Whether others had the locks of the database for too long, where those are what guards the deduction.
    fn is_lock_timeout(&self, error: &sqlx::Error) -> bool {
        let code = error.as_database_error().and_then(|refusal| refusal.code());
        self.is_guarded_by_database() && code.as_deref() == Some("55P03")
    }
}

/// What became of the write to one row.
enum Written {
    Done,
    SoldOut,
}

impl<'a> Section<'a> {
    /// Begins, and reads all lines. A section that is guarded from outside, or not at all, is entered before that, and one
    /// that the locks of the read guard after it.
    async fn enter(&self, open: &mut Open<'a>, lines: &[Line]) -> Result<Vec<Option<Level>>, Stop> {
        if self.exclusion == Exclusion::Whole {
            // Where there is no lock, nobody waits for it.
            open.visit = Some(self.visit(lines, self.asked.unwrap_or_else(Moment::now)));
        }
        if self.access == Access::Fenced {
            return self.raise_fences(lines).await;
        }
        let transaction = self.begun(&mut open.begun).await?;
        let asked = Moment::now();
        let levels = self.read(transaction, lines).await?;
        if self.exclusion == Exclusion::FromRead {
            open.visit = Some(self.visit(lines, asked));
        }
        Ok(levels)
    }

    /// Waits for a statement that waits for others, for as long as the client does. Its transaction must have the
    /// [`WaitTag`].
    async fn unless_gone<T>(&self, statement: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Stop> {
        let had = self.call.wait(statement).await;
        if had.is_err() {
            // The statement would wait on, and keep its connection from others, for what nobody wants.
            if let Err(error) = self.context.store.interrupt(self.wait_tag).await {
                debug!(%error, "a wait in the database could not be ended, its own time will end it");
            }
        }
        Ok(had??)
    }

    async fn raise_fences(&self, lines: &[Line]) -> Result<Vec<Option<Level>>, Stop> {
        let mut levels = Vec::with_capacity(lines.len());
        for line in lines {
            let token = self.token(line.goods_no).expect("BUG: a fenced strategy without a token");
            // Whether the SKU exists was looked up before.
            let level = self.call.wait(self.context.store.raise_fence(line.goods_no, token)).await??;
            levels.push(Some(level.ok_or(Stop::Fenced)?));
        }
        Ok(levels)
    }

    async fn read(&self, transaction: &mut SaleTransaction, lines: &[Line]) -> Result<Vec<Option<Level>>, Stop> {
        let rows = async {
            let mut levels = Vec::with_capacity(lines.len());
            if self.access == Access::AdvisoryLock {
                for line in lines {
                    self.unless_gone(transaction.lock_advisory(line.goods_no)).await?;
                }
            }
            for line in lines {
                levels.push(match self.access {
                    Access::RowLock => self.unless_gone(transaction.read_for_update(line.goods_no)).await?,
                    _ => transaction.read(line.goods_no).await?,
                });
            }
            Ok(levels)
        };
        if self.exclusion == Exclusion::FromRead { self.context.metrics.waiting(rows).await } else { rows.await }
    }

    /// What is sold of each line, before it is written.
    fn decide(&self, lines: &[Line], levels: &[Option<Level>]) -> Result<Vec<OrderLine>, Outcome> {
        let sell = |(line, level): (&Line, &Option<Level>)| {
            let (goods_no, quantity) = (line.goods_no, line.quantity);
            let Some(level) = level else { return Err(Outcome::UnknownGoods(goods_no)) };
            match decide(level.on_hand, quantity) {
                Decision::SoldOut => Err(Outcome::SoldOut(goods_no)),
                Decision::Sell { remaining } => Ok(OrderLine {
                    goods_no: goods_no.get(),
                    sale: level.sale,
                    quantity: quantity.get(),
                    remaining: Some(remaining),
                    token: self.token(goods_no),
                }),
            }
        };
        lines.iter().zip(levels).map(sell).collect()
    }

    /// Writes one row.
    async fn write(
        &self,
        transaction: &mut SaleTransaction,
        line: &Line,
        level: &Option<Level>,
        sold: &mut OrderLine,
    ) -> Result<Written, Stop> {
        let (goods_no, sale) = (line.goods_no, sold.sale);
        let remaining = sold.remaining.unwrap_or_default();
        let written = match self.access {
            Access::Overwrite | Access::RowLock | Access::AdvisoryLock | Access::Serializable => {
                transaction.overwrite(goods_no, sale, remaining).await?
            }
            Access::Fenced => {
                let token = sold.token.expect("BUG: a fenced strategy without a token");
                transaction.overwrite_fenced(goods_no, sale, remaining, token).await?
            }
            Access::Version => {
                let version = level.map(|level| level.version).unwrap_or_default();
                transaction.overwrite_version(goods_no, version, remaining).await?
            }
            Access::Conditional => {
                let taken = self.unless_gone(transaction.take_if_enough(goods_no, sale, line.quantity)).await?;
                sold.remaining = taken;
                taken.is_some()
            }
        };
        if written {
            return Ok(Written::Done);
        }
        // At read committed, a second read tells why.
        let is_same_sale = transaction.read(goods_no).await?.is_some_and(|level| level.sale == sale);
        match self.access {
            Access::Version => Err(Stop::Overtaken),
            Access::Fenced if is_same_sale => Err(Stop::Fenced),
            Access::Conditional if is_same_sale => Ok(Written::SoldOut),
            _ => Err(Stop::Ended(Outcome::SaleRestarted)),
        }
    }

    /// Ends a section that sells nothing, for want of stock. Under a key that is an answer like any other: who asks again
    /// gets it again.
    async fn sold_out(&self, mut open: Open<'_>, goods_no: GoodsNo) -> Result<Stop, Stop> {
        if let Some(key) = &self.purchase.key {
            let transaction = self.begun(&mut open.begun).await?;
            self.inside(&mut open.visit, transaction.remember_sold_out(key, goods_no)).await?;
            self.leave(open).await?;
        }
        Ok(Stop::Ended(Outcome::SoldOut(goods_no)))
    }
}

/// Runs one statement outside of a section until `db_timeout` after the request began.
///
/// # Errors
/// A [`Failure`].
///
/// # Cancel safety
/// That of the statement.
pub async fn bounded<T>(
    call: Call<'_>,
    db_timeout: Duration,
    statement: impl Future<Output = Result<T, impl Into<Arc<sqlx::Error>>>>,
) -> Result<T, Failure> {
    match timeout_at(call.began + db_timeout, statement).await {
        Ok(result) => result.map_err(|error| Failure::of_database(error, Progress::Open)),
        Err(_) => Err(Failure::of_database_timeout(db_timeout, Progress::Open)),
    }
}
