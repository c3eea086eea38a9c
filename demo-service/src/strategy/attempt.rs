//! The steps that strategies are made of: one transaction, and its record in the history.

mod layouts;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::call::{Call, Sent};
use super::context::Context;
use super::{Boxed, Decision};
use crate::failure::{self, Failure};
use crate::sale::{
    Fence, GoodsNo, Level, Line, LockSequence, Order, OrderLine, Purchase, Quantity, Token, remaining_after,
};
use crate::store::{Isolation, LockWait, NotWritten, OrderToWrite, Transaction, WrittenOrder};
use crate::telemetry::clock::Moment;
use crate::telemetry::history::Visit;

/// We give up the wait for a lock this much later than the server. If the server gives a statement up first, its
/// connection can be used again.
const LOCK_GRACE: Duration = Duration::from_millis(100);

/// The fences of a purchase, one for each SKU. Only locks that give tokens have any.
#[derive(Debug, Clone, Default)]
pub(super) struct Fences(Arc<[(GoodsNo, Fence)]>);

impl Fences {
    pub(super) fn of(&self, goods_no: GoodsNo) -> Option<Fence> {
        self.0.iter().find(|(of, _)| *of == goods_no).map(|(_, fence)| *fence)
    }

    /// Returns the fencing token for a SKU.
    pub(super) fn token_of(&self, goods_no: GoodsNo) -> Option<Token> {
        self.of(goods_no).map(|fence| fence.token)
    }
}

impl FromIterator<(GoodsNo, Fence)> for Fences {
    fn from_iter<I: IntoIterator<Item = (GoodsNo, Fence)>>(fences: I) -> Self {
        Self(fences.into_iter().collect())
    }
}

/// An order that is written and not committed.
pub(super) struct Written {
    order: Order,
    transaction: WrittenOrder,
}

/// One attempt at a purchase: its transaction, its lines in the order of the SKUs, and its visit in the history.
///
/// A strategy calls the steps that it needs, and ends with [`end`](Self::end) or [`commit`](Self::commit). If the
/// attempt is dropped before that, its connection is closed, and the database rolls back.
pub(super) struct Attempt<'a> {
    context: &'a Context,
    call: &'a Call,
    lines: Vec<Line>,
    /// For each line, the most units that one buyer may have, if the strategy keeps such a limit.
    limits: Vec<Option<Quantity>>,
    fences: Fences,
    /// The deadline of its waits for locks of the database, if it may wait for any.
    locks_until: Option<Instant>,
    // Declared before the transaction, so dropped first: the visit ends before the locks of the database are
    // released.
    visit: Option<Visit>,
    transaction: Transaction,
}

/// Reads, decides and overwrites in one transaction. Only a lock around it prevents overselling. The order records
/// the fencing tokens of that lock.
pub(super) fn overwrite_alone<'a>(context: &'a Context, call: &'a Call, fences: Fences) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let mut attempt = Attempt::begin(context, call, fences).await?;
        let sold = attempt.overwrite().await;
        attempt.end(sold).await
    })
}

/// Looks at the stock, and then does the business of a purchase, before its transaction begins. Does nothing without a
/// business time. If the SKU is sold out, the purchase fails before its business time. No connection is kept during the
/// business time. Returns how long the business took.
pub(super) async fn do_business_first(context: &Context, call: &Call) -> Result<Duration, Failure> {
    if context.shared.settings.business_time.is_none() {
        return Ok(Duration::ZERO);
    }
    for line in call.purchase.cart.lines() {
        let goods_no = line.goods_no;
        let goods = call.wait(context.shared.store.look_for(goods_no, line.quantity)).await??;
        let goods =
            goods.filter(|goods| goods.sale == call.sale_of(goods_no)).ok_or_else(|| restarted(call, goods_no))?;
        remaining_after(goods.on_hand, line.quantity).ok_or_else(|| Failure::sold_out(goods_no))?;
    }
    call.has_decided.store(true, Ordering::Relaxed);
    let start = Instant::now();
    context.shared.settings.business_time.pass().await;
    Ok(start.elapsed())
}

impl<'a> Attempt<'a> {
    /// Begins a transaction that waits for no lock of the database. `fences` are those of the locks around
    /// it. The order records their tokens.
    pub(super) async fn begin(context: &'a Context, call: &'a Call, fences: Fences) -> Result<Self, Failure> {
        let transaction = call.wait(context.shared.store.begin(Isolation::ReadCommitted, None)).await??;
        Ok(Self { fences, ..Self::of(context, call, transaction) })
    }

    /// Begins a transaction that may wait for locks of the database until `until`. A purchase needs a connection to
    /// wait for a lock, so the wait for the connection counts as a part of that wait.
    pub(super) async fn begin_to_wait(
        context: &'a Context,
        call: &'a Call,
        isolation: Isolation,
        until: Instant,
    ) -> Result<Self, Failure> {
        Self::begin_with(context, call, isolation, until, false).await
    }

    async fn begin_with(
        context: &'a Context,
        call: &'a Call,
        isolation: Isolation,
        until: Instant,
        shares_sales: bool,
    ) -> Result<Self, Failure> {
        let goods = call.purchase.cart.goods_in_order(LockSequence::Canonical);
        let begin = context.shared.store.begin(isolation, Some(LockWait { goods, until, shares_sales }));
        let begun = call.wait(timeout_at(until, begin)).await?;
        // If both deadlines are one, the lock is not to blame.
        let too_late = || if until < call.until { context.lock_timeout() } else { Failure::database_unavailable() };
        let transaction = begun.unwrap_or_else(|_| Err(too_late()))?;
        Ok(Self { locks_until: Some(until), ..Self::of(context, call, transaction) })
    }

    /// Sets the fences of the locks around the attempt. The order records their tokens.
    pub(super) fn with_fences(self, fences: Fences) -> Self {
        Self { fences, ..self }
    }

    fn of(context: &'a Context, call: &'a Call, transaction: Transaction) -> Self {
        let lines = call.purchase.cart.in_order(LockSequence::Canonical);
        let limit = |line: &Line| call.per_buyer_of(line.goods_no).filter(|_| context.keeps_limit);
        let limits = lines.iter().map(limit).collect();
        Self { context, call, lines, limits, fences: Fences::default(), locks_until: None, visit: None, transaction }
    }

    /// Notes in the history that the purchase enters its critical section, and that it asked at `asked`. Before each later
    /// write, the history notes that the section lasted until then. The database may end the section at that
    /// statement: by a commit, or because the statement fails.
    pub(super) fn enter(&mut self, asked: Moment) {
        self.visit = Some(visit(self.context, &self.lines, &self.fences, asked));
    }

    /// Reads the stock of each SKU, without a lock.
    pub(super) async fn read(&mut self) -> Result<Vec<Level>, Failure> {
        let mut levels = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            levels.push(self.transaction.read(line.goods_no).await?);
        }
        self.known(levels)
    }

    /// Reads the stock of each SKU and locks its row, one SKU after the other.
    pub(super) async fn read_for_update(&mut self) -> Result<Vec<Level>, Failure> {
        let mut levels = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let read = self.transaction.read_for_update(line.goods_no);
            levels.push(locked(self.context, self.call, self.locks_until, read).await?);
        }
        // Checked under the locks: another sale may have started during the wait for a row.
        self.known(levels)
    }

    /// Takes the advisory lock of each SKU, one SKU after the other.
    pub(super) async fn lock_advisory(&mut self) -> Result<(), Failure> {
        for line in &self.lines {
            let lock = self.transaction.lock_advisory(line.goods_no);
            locked(self.context, self.call, self.locks_until, lock).await?;
        }
        Ok(())
    }

    fn known(&self, levels: Vec<Option<Level>>) -> Result<Vec<Level>, Failure> {
        self.lines
            .iter()
            .zip(levels)
            .map(|(line, level)| admitted(self.context, self.call, line.goods_no, level))
            .collect()
    }

    /// Reads, decides, and overwrites the stock, whatever it is by then.
    pub(super) async fn overwrite(&mut self) -> Result<Vec<OrderLine>, Failure> {
        let levels = self.read().await?;
        let sold = self.decide(&levels).await?;
        for (at, line) in sold.iter().enumerate() {
            self.about_to_write();
            if !self.transaction.overwrite(line, self.context.family).await? {
                return Err(self.why_not_written(at, Failure::of(&failure::SALE_RESTARTED)).await);
            }
        }
        Ok(sold)
    }

    /// Decides by `levels`, which were read under a fence. Overwrites the stock if the fence is still ours.
    pub(super) async fn overwrite_fenced(&mut self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        let sold = self.decide(levels).await?;
        for (at, line) in sold.iter().enumerate() {
            self.about_to_write();
            let fence = self.fences.of(self.lines[at].goods_no).expect("BUG: a lock without a token");
            if !self.transaction.overwrite_fenced(line, self.context.family, fence).await? {
                return Err(self.why_not_written(at, Failure::fenced()).await);
            }
        }
        Ok(sold)
    }

    /// Decides by `levels`. Overwrites the stock if the version of the row is still the one in `levels`.
    pub(super) async fn overwrite_unchanged(&mut self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        let sold = self.decide(levels).await?;
        for (at, (line, level)) in sold.iter().zip(levels).enumerate() {
            self.about_to_write();
            if !self.transaction.overwrite_version(line, self.context.family, level.version).await? {
                return Err(self.why_not_written(at, Failure::of(&failure::OVERTAKEN)).await);
            }
        }
        Ok(sold)
    }

    /// Waits for the lock of each row. Takes the units if enough are left at that instant.
    pub(super) async fn take(&mut self) -> Result<Vec<OrderLine>, Failure> {
        let mut sold = Vec::with_capacity(self.lines.len());
        for (at, line) in self.lines.clone().into_iter().enumerate() {
            let sale = self.call.sale_of(line.goods_no);
            let take = self.transaction.take_if_enough(line.goods_no, sale, self.context.family, line.quantity);
            match locked(self.context, self.call, self.locks_until, take).await? {
                Some(remaining) => sold.push(self.sold(line, sale, remaining)),
                None => return Err(self.why_not_written(at, Failure::sold_out(line.goods_no)).await),
            }
        }
        Ok(sold)
    }

    /// Decides what is sold of each SKU, all or nothing, and lets the business time pass.
    async fn decide(&self, levels: &[Level]) -> Result<Vec<OrderLine>, Failure> {
        self.call.has_decided.store(true, Ordering::Relaxed);
        let sold = self.lines.iter().zip(levels).map(|(line, level)| {
            let remaining = remaining_after(level.on_hand, line.quantity);
            let remaining = remaining.ok_or_else(|| Failure::sold_out(line.goods_no))?;
            Ok(self.sold(*line, level.sale, remaining))
        });
        let sold: Vec<_> = sold.collect::<Result<_, Failure>>()?;
        self.context.shared.settings.business_time.pass().await;
        Ok(sold)
    }

    fn sold(&self, line: Line, sale: i64, remaining: i64) -> OrderLine {
        let token = self.fences.token_of(line.goods_no);
        OrderLine {
            goods_no: line.goods_no.get(),
            sale,
            quantity: line.quantity.get(),
            remaining: Some(remaining),
            token,
        }
    }

    /// Writes the order and commits. If `sold` is a failure or the order cannot be written, rolls back and returns
    /// the failure.
    pub(super) async fn end(mut self, sold: Result<Vec<OrderLine>, Failure>) -> Decision {
        let written = match sold {
            Ok(sold) => self.write_order(sold).await,
            Err(failure) => Err(failure),
        };
        match written {
            Ok(written) => self.commit(written).await,
            Err(failure) => {
                // The section ends before the rollback is sent, because that releases the locks.
                drop(self.visit);
                self.transaction.roll_back().await;
                Err(failure)
            }
        }
    }

    /// Writes the order and its key.
    pub(super) async fn write_order(&mut self, sold: Vec<OrderLine>) -> Result<Written, Failure> {
        self.about_to_write();
        let strategy = self.context.strategy;
        let instance = &*self.context.shared.instance;
        let Purchase { cart, key, buyer } = &self.call.purchase;
        let key = key.as_ref();
        let buyer = buyer.as_ref();
        let limits = &self.limits;
        let is_limited = limits.iter().any(Option::is_some);
        let order = OrderToWrite { strategy, instance, key, cart, buyer, lines: &sold, limits };
        let insert = self.transaction.insert_order(order);
        // The insert may wait for another purchase under the same key or of the same buyer. Otherwise it waits for nobody.
        let written = if key.is_some() || is_limited { self.call.wait(insert).await?? } else { insert.await? };
        let transaction = written.map_err(|reason| match reason {
            NotWritten::Repeated => Failure::repeated(),
            NotWritten::OverLimit(goods_no) => Failure::over_limit(goods_no),
        })?;
        let order_id = transaction.order_id;
        let strategy = strategy.to_owned();
        let instance = instance.to_owned();
        if let Some(visit) = &mut self.visit {
            visit.wrote(order_id);
        }
        Ok(Written { order: Order { order_id, strategy, instance, lines: sold }, transaction })
    }

    /// Commits. From here on, a failure means that the outcome is unknown, unless the answer proves that nothing was
    /// committed.
    pub(super) async fn commit(mut self, written: Written) -> Decision {
        self.about_to_write();
        let Written { order, transaction } = written;
        // Noted before the statement is sent: a deadline or a lost hold may drop this future at the next line, and must
        // find the note.
        self.call.commit.note(Sent::Order(transaction));
        let committed = self.transaction.commit(Some(order.order_id)).await;
        self.call.answered(&committed);
        committed.map(|()| order)
    }

    /// Notes in the history that the section lasted until now. The next statement may end it.
    fn about_to_write(&mut self) {
        if let Some(visit) = &mut self.visit {
            visit.seen_inside();
        }
    }

    /// Returns why a row was not written. A second read tells whether the sale is over. If it is not, returns
    /// `otherwise`.
    async fn why_not_written(&mut self, at: usize, otherwise: Failure) -> Failure {
        let goods_no = self.lines[at].goods_no;
        let level = self.transaction.read(goods_no).await;
        level.and_then(|level| admitted(self.context, self.call, goods_no, level)).err().unwrap_or(otherwise)
    }
}

/// Notes in the history the order of a decision, also of one whose outcome is unknown.
pub(super) fn note_order(visit: &mut Visit, decision: &Decision) {
    let order_id = decision.as_ref().map_or_else(Failure::order_id, |order| Some(order.order_id));
    if let Some(order_id) = order_id {
        visit.wrote(order_id);
    }
}

/// Starts a visit of the critical sections of these lines.
pub(super) fn visit(context: &Context, lines: &[Line], fences: &Fences, asked: Moment) -> Visit {
    let goods = lines.iter().map(|line| (line.goods_no, fences.token_of(line.goods_no))).collect();
    Arc::clone(&context.shared.history).enter(context.strategy, goods, asked)
}

/// Returns the level of a SKU. Fails if its sale is not the one to which the purchase was admitted, or if another
/// family guards it.
fn admitted(context: &Context, call: &Call, goods_no: GoodsNo, level: Option<Level>) -> Result<Level, Failure> {
    let level = level.ok_or_else(|| Failure::unknown_goods(goods_no))?;
    let is_same = level.sale == call.sale_of(goods_no) && level.guard.as_deref() == Some(context.family);
    if is_same { Ok(level) } else { Err(restarted(call, goods_no)) }
}

/// Waits for `statement`, which waits for a lock of the database, until a little after `until`. At about `until` the server
/// gives up, too. But the server limits the wait for each lock separately. So for a later lock our limit comes first.
pub(super) async fn within_grace<T>(
    context: &Context,
    until: Instant,
    statement: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(until + LOCK_GRACE, statement).await.unwrap_or_else(|_| Err(context.lock_timeout()))
}

/// Waits as [`within_grace`] does, until the client hangs up. Without `until`, there is no limit.
async fn locked<T>(
    context: &Context,
    call: &Call,
    until: Option<Instant>,
    statement: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match until {
        Some(until) => call.wait(within_grace(context, until, statement)).await?,
        None => call.wait(statement).await?,
    }
}

/// Returns the failure if another sale of the SKU has started since the purchase was admitted. The purchase may be
/// admitted again, unless it has decided already.
pub(super) fn restarted(call: &Call, goods_no: GoodsNo) -> Failure {
    restarted_if(call.has_decided(), goods_no)
}

/// Returns the same failure for a purchase that has decided, or has not.
pub(super) fn restarted_if(has_decided: bool, goods_no: GoodsNo) -> Failure {
    if has_decided {
        return Failure::of(&failure::SALE_RESTARTED);
    }
    Failure::new(&failure::GUARD_MISMATCH, format!("another sale of SKU {goods_no} has started; nothing was written"))
}
