//! What is open in a section: its transaction, and its visit in the history, which is over before the database can let
//! the next one in.

use super::super::access::Access;
use super::{Section, Stop};
use crate::clock::Moment;
use crate::history::Visit;
use crate::purchase::Line;
use crate::stock::store::SaleTransaction;
use crate::stock::{GoodsNo, Outcome, Token};

/// What is open in a section. Dropped in this order, so that the visit is over before the transaction, and with it the
/// locks of the database, can be.
#[derive(Default)]
pub(super) struct Open<'a> {
    pub(super) visit: Option<Visit<'a>>,
    pub(super) begun: Option<SaleTransaction>,
}

impl<'a> Section<'a> {
    /// A visit that begins now.
    pub(super) fn visit(&self, lines: &[Line], asked: Moment) -> Visit<'a> {
        let places = lines.iter().map(|line| (line.goods_no, self.token(line.goods_no)));
        self.context.history.enter(self.context.entry.name, places.collect(), asked)
    }

    /// The transaction that was begun, or one that begins now.
    pub(super) async fn begun<'t>(
        &self,
        begun: &'t mut Option<SaleTransaction>,
    ) -> Result<&'t mut SaleTransaction, Stop> {
        Ok(match begun {
            Some(transaction) => transaction,
            none => none.insert(self.begin().await?),
        })
    }

    async fn begin(&self) -> Result<SaleTransaction, Stop> {
        let wait = if self.is_guarded_by_database() {
            // As for any other lock.
            Some(self.context.lock_wait_left(self.call))
        } else if self.purchase.key.is_some() || self.access == Access::Conditional {
            Some(self.context.db_timeout.saturating_sub(self.call.began.elapsed()))
        } else {
            None
        };
        let begin = self.context.store.begin(self.access.isolation(), wait.map(|wait| (self.wait_tag, wait)));
        let mut transaction = self.call.wait(begin).await??;
        if let Some(key) = &self.purchase.key
            && !self.unless_gone(transaction.remember(key, &self.purchase.cart)).await?
        {
            return Err(Stop::Ended(Outcome::Repeated));
        }
        Ok(transaction)
    }

    /// Runs a statement, with which a visit that the database guards ends if it fails.
    pub(super) async fn inside<T, E>(
        &self,
        visit: &mut Option<Visit<'_>>,
        statement: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match visit {
            Some(visit) if self.is_guarded_by_database() => visit.during(statement).await,
            _ => statement.await,
        }
    }

    /// Commits what was begun. A visit that the database guards is over before that, as the database lets the next one in
    /// before it answers.
    pub(super) async fn leave(&self, open: Open<'_>) -> Result<(), sqlx::Error> {
        let Open { visit, begun } = open;
        let _visit = visit.filter(|_| !self.is_guarded_by_database());
        begun.expect("BUG: a section without a transaction is to be committed").commit().await
    }

    /// That of the lock of a SKU, where there is one.
    pub(super) fn token(&self, goods_no: GoodsNo) -> Option<Token> {
        self.tokens.iter().find(|(of, _)| *of == goods_no).map(|(_, token)| *token)
    }
}
