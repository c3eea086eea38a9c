//! Purchases that the database alone keeps apart, or that nothing does.

pub(super) mod advisory;
pub(super) mod buckets;
pub(super) mod conditional;
pub(super) mod counted_limit;
pub(super) mod function;
pub(super) mod optimistic;
pub(super) mod row_lock;
pub(super) mod unguarded;
pub(super) mod units;

use super::call::Call;
use super::context::Context;
use super::{Boxed, Decided, Decision, Strategy};

/// Sells in the database alone.
pub(super) type SellInDatabase = for<'a> fn(&'a Context, &'a Call) -> Boxed<'a, Decision>;

/// A strategy whose purchases are in the database alone.
pub(super) struct InDatabase {
    context: Context,
    sell: SellInDatabase,
}

impl InDatabase {
    pub(super) fn new(context: Context, sell: SellInDatabase) -> Self {
        Self { context, sell }
    }
}

impl Strategy for InDatabase {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide((self.sell)(&self.context, call))
    }
}
