//! The steps that strategies are made of: one transaction, and what the history notes of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{Call, Context, Decision};
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Level, Line, LockOrder, Order, OrderLine, Token, remaining_after};
use crate::store::{Isolation, NewOrder, Transaction, WrittenOrder};
use crate::telemetry::clock::Moment;
use crate::telemetry::history::Visit;

/// The pause before the database is asked again whether a commit is over.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// An order that is written and not committed.
pub(super) struct Written {
    order: Order,
    transaction: WrittenOrder,
}

/// One attempt at a purchase: its transaction, its lines in the order of the SKUs, and its visit in the history.
///
/// A strategy calls the steps in its order and ends with [`end`](Self::end). Dropped before, its connection is closed, and
/// the database rolls back.
pub(super) struct Section<'a> {
    context: &'a Context,
    call: &'a Call,
    lines: Vec<Line>,
    tokens: &'a [(GoodsNo, Token)],
    // The visit is over before the transaction can be, and with it the locks of the database.
    visit: Option<Visit>,
    transaction: Transaction,
}

impl<'a> Section<'a> {
    /// Begins without a lock of the database to wait for.
    pub(super) async fn begin(context: &'a Context, call: &'a Call, isolation: Isolation) -> Result<Self, Failure> {
        let transaction = call.wait(context.store.begin(isolation, None)).await??;
        Ok(Self::of(context, call, transaction))
    }

    /// Begins with the intent to wait for a lock of the database. The wait for a connection is a part of the wait for the
    /// lock: whoever waits for the lock has a connection.
    pub(super) async fn begin_to_wait(context: &'a Context, call: &'a Call) -> Result<Self, Failure> {
        let left = context.lock_wait_left(call);
        let begin = context.store.begin(Isolation::ReadCommitted, Some(left));
        let begun = call.wait(timeout(left, begin)).await?;
        let transaction = begun.unwrap_or_else(|_| Err(context.lock_timeout()))?;
        Ok(Self::of(context, call, transaction))
    }

    fn of(context: &'a Context, call: &'a Call, transaction: Transaction) -> Self {
        let lines = call.purchase.cart.in_order(LockOrder::Canonical);
        Self { context, call, lines, tokens: &[], visit: None, transaction }
    }

    /// The same under locks with these fencing tokens, which its order records.
    pub(super) fn with_tokens(self, tokens: &'a [(GoodsNo, Token)]) -> Self {
        Self { tokens, ..self }
    }

    /// Notes in the history that the critical section begins, which was asked for at `asked`. The end of the section is
    /// noted before the next statement, as the database may end it there: by a commit, or because a statement fails.
    pub(super) fn enter(&mut self, asked: Moment) {
        self.visit = Some(visit(self.context, &self.lines, self.tokens, asked));
    }

    /// Reads what is left of each SKU, without a lock.
    pub(super) async fn read(&mut self) -> Result<Vec<Level>, Failure> {
        let mut levels = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            levels.push(self.transaction.read(line.goods_no).await?);
        }
        self.known(levels)
    }

    /// Reads what is left of each SKU, and locks the rows, one after the other.
    pub(super) async fn read_for_update(&mut self) -> Result<Vec<Level>, Failure> {
        let mut levels = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            levels.push(self.call.wait(self.transaction.read_for_update(line.goods_no)).await??);
        }
        self.known(levels)
    }

    /// Takes the advisory lock of each SKU, one after the other.
    pub(super) async fn lock_advisory(&mut self) -> Result<(), Failure> {
        for line in &self.lines {
            self.call.wait(self.transaction.lock_advisory(line.goods_no)).await??;
        }
        Ok(())
    }

    fn known(&self, levels: Vec<Option<Level>>) -> Result<Vec<Level>, Failure> {
        self.lines.iter().zip(levels).map(|(line, level)| writable(self.context, line.goods_no, level)).collect()
    }

    /// Reads, decides, and writes what remains over whatever is there. Only a lock around it makes that right.
    pub(super) async fn overwrite(&mut self) -> Result<Vec<OrderLine>, Failure> {
        let levels = self.read().await?;
        let sold = self.decide(&levels).await?;
        for (at, line) in sold.iter().enumerate() {
            self.about_to_write();
            if !self.transaction.overwrite(line, self.context.family).await? {
                return Err(self.why_not_written(at, line.sale, sale_restarted()).await);
            }
        }
        Ok(sold)
    }

    /// Decides by what was read under a fence, and writes what remains if our token is the fence still.
    pub(super) async fn overwrite_fenced(&mut self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        let sold = self.decide(levels).await?;
        for (at, line) in sold.iter().enumerate() {
            self.about_to_write();
            if !self.transaction.overwrite_fenced(line, self.context.family).await? {
                return Err(self.why_not_written(at, line.sale, fenced()).await);
            }
        }
        Ok(sold)
    }

    /// Decides by what was read, and writes what remains if nobody has written the rows since.
    pub(super) async fn overwrite_unchanged(&mut self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        let sold = self.decide(levels).await?;
        for (at, (line, level)) in sold.iter().zip(levels).enumerate() {
            self.about_to_write();
            if !self.transaction.overwrite_version(line, self.context.family, level.version).await? {
                return Err(self.why_not_written(at, line.sale, overtaken()).await);
            }
        }
        Ok(sold)
    }

    /// Reads, decides, and takes the units if enough are left at that instant. Waits for the rows.
    pub(super) async fn take(&mut self) -> Result<Vec<OrderLine>, Failure> {
        let levels = self.read().await?;
        let mut sold = self.decide(&levels).await?;
        for (at, line) in sold.iter_mut().enumerate() {
            let Line { goods_no, quantity } = self.lines[at];
            let take = self.transaction.take_if_enough(goods_no, line.sale, self.context.family, quantity);
            line.remaining = self.call.wait(take).await??;
            if line.remaining.is_none() {
                return Err(self.why_not_written(at, line.sale, Failure::sold_out(goods_no)).await);
            }
        }
        Ok(sold)
    }

    /// Decides what is sold of each SKU, all or nothing, and lets the business time pass.
    async fn decide(&self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        let sold: Result<Vec<_>, _> =
            self.lines.iter().zip(levels).map(|(line, level)| self.sell(line, level)).collect();
        let sold = sold?;
        self.context.business_time.pass().await;
        Ok(sold)
    }

    fn sell(&self, line: &Line, level: &Level) -> Result<OrderLine, Failure> {
        let (goods_no, quantity) = (line.goods_no, line.quantity);
        let remaining = remaining_after(level.on_hand, quantity).ok_or_else(|| Failure::sold_out(goods_no))?;
        let token = self.tokens.iter().find(|(of, _)| *of == goods_no).map(|(_, token)| *token);
        let (goods_no, quantity) = (goods_no.get(), quantity.get());
        Ok(OrderLine { goods_no, sale: level.sale, quantity, remaining: Some(remaining), token })
    }

    /// Commits the order, or rolls back and passes the failure on.
    ///
    /// # Cancel safety
    /// Dropped during the commit, the outcome is unknown, and the call knows.
    pub(super) async fn end(mut self, sold: Result<Vec<OrderLine>, Failure>) -> Decision {
        let written = match sold {
            Ok(sold) => self.write_order(sold).await,
            Err(failure) => Err(failure),
        };
        match written {
            Ok(written) => self.commit(written).await,
            Err(failure) => {
                drop(self.visit);
                // A statement may have been given up then, and its connection answers nothing else: it is closed.
                if !failure.is(&failure::CLIENT_GONE) && !failure.is(&failure::HOLD_LOST) {
                    self.transaction.roll_back().await;
                }
                Err(failure)
            }
        }
    }

    /// Writes the order and its key.
    pub(super) async fn write_order(&mut self, sold: Vec<OrderLine>) -> Result<Written, Failure> {
        self.about_to_write();
        let Context { strategy, instance, .. } = self.context;
        let (cart, key) = (&self.call.purchase.cart, self.call.purchase.key.as_ref());
        let insert = self.transaction.insert_order(NewOrder { strategy, instance, key, cart, lines: &sold });
        // A key waits for another purchase under the same key. Nothing else here waits for anybody.
        let transaction = if key.is_some() { self.call.wait(insert).await?? } else { insert.await? };
        let transaction =
            transaction.ok_or_else(|| Failure::new(&failure::REPEATED, "the key has an order already"))?;
        let (order_id, strategy, instance) = (transaction.order_id, (*strategy).to_owned(), instance.to_string());
        Ok(Written { order: Order { order_id, strategy, instance, lines: sold }, transaction })
    }

    /// Commits. From here on a failure leaves the outcome open, unless the database refuses in words.
    pub(super) async fn commit(mut self, written: Written) -> Decision {
        self.about_to_write();
        let Written { order, transaction } = written;
        *self.call.committing.lock() = Some(transaction);
        let committed = self.transaction.commit(Some(order.order_id)).await;
        if !committed.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) {
            *self.call.committing.lock() = None;
        }
        committed.map(|()| order)
    }

    /// The database may end the section by the next statement.
    fn about_to_write(&mut self) {
        if let Some(visit) = &mut self.visit {
            visit.seen_inside();
        }
    }

    /// Why a row was not written: a second read tells whether the sale is over, and else it is `otherwise`.
    async fn why_not_written(&mut self, at: usize, sale: i64, otherwise: Failure) -> Failure {
        let goods_no = self.lines[at].goods_no;
        match self.transaction.read(goods_no).await.and_then(|level| writable(self.context, goods_no, level)) {
            Ok(level) if level.sale == sale => otherwise,
            Ok(_) => sale_restarted(),
            Err(failure) => failure,
        }
    }
}

/// A visit of the critical sections of these lines, which begins now.
pub(super) fn visit(context: &Context, lines: &[Line], tokens: &[(GoodsNo, Token)], asked: Moment) -> Visit {
    let token = |goods_no| tokens.iter().find(|(of, _)| *of == goods_no).map(|(_, token)| *token);
    let places = lines.iter().map(|line| (line.goods_no, token(line.goods_no))).collect();
    Arc::clone(&context.history).enter(context.strategy, places, asked)
}

/// The level of a SKU that strategies of this family may write.
pub(super) fn writable(context: &Context, goods_no: GoodsNo, level: Option<Level>) -> Result<Level, Failure> {
    let level = level.ok_or_else(|| Failure::unknown_goods(goods_no))?;
    if level.guard.as_deref() == Some(context.family) {
        return Ok(level);
    }
    let guard = level.guard.as_deref().unwrap_or("nothing");
    let detail = format!("SKU {goods_no} is guarded by {guard} since its sale was restarted; nothing was written");
    Err(Failure::new(&failure::GUARD_MISMATCH, detail))
}

/// Waits until a commit that was not answered is over. Until then the lock must be kept: the next holder would read the
/// stock from before the commit and overwrite the stock from after it. What came of the commit stays unknown.
///
/// It waits as long as the database says that the commit is under way, for which Postgres has no time limit. If the
/// database cannot be asked for twice `--db-timeout`, it gives up. A commit that has arrived and outlasts that silence
/// meets the next holder: that is the hole of every strategy whose row does not check the write.
///
/// # Cancel safety
/// Dropped, only the waiting ends.
pub(super) async fn settle(context: &Context, call: &Call) {
    let Some(order) = call.committing.lock().clone() else { return };
    let patience = 2 * context.db_timeout;
    let mut heard = Instant::now();
    loop {
        match context.store.is_over(&order.transaction).await {
            Ok(true) => return,
            Ok(false) => heard = Instant::now(),
            Err(error) if heard.elapsed() >= patience => {
                let order_id = order.order_id;
                warn!(order_id, %error, ?patience, "a commit was not answered, and the database was silent: the lock is released");
                return;
            }
            Err(_) => {}
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
}

fn sale_restarted() -> Failure {
    Failure::new(&failure::SALE_RESTARTED, failure::SALE_RESTARTED.meaning)
}

/// A later holder came first.
pub(super) fn fenced() -> Failure {
    let detail = "a later holder of the lock had read the stock before this purchase could write; nothing was written";
    Failure::new(&failure::FENCED, detail)
}

fn overtaken() -> Failure {
    Failure::new(&failure::OVERTAKEN, failure::OVERTAKEN.meaning)
}
