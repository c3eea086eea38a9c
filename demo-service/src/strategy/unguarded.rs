//! The control: no guard at all.

use tokio::time::Instant;

use super::section::{Progression, read_modify_write};
use super::{Context, Deducting, Deduction, DeductionStrategy, registry::Entry};

struct Unguarded {
    entry: &'static Entry,
    context: Context,
}

/// Makes the strategy.
pub(super) fn build(entry: &'static Entry, context: Context) -> Box<dyn DeductionStrategy> {
    Box::new(Unguarded { entry, context })
}

impl DeductionStrategy for Unguarded {
    fn deduct(&self, deduction: Deduction, began: Instant) -> Deducting<'_> {
        Box::pin(async move {
            let progression = Progression::default();
            let name = self.entry.name;
            // There is no lock to keep, so an unknown outcome is not settled.
            read_modify_write(&self.context, name, deduction, began, None, &progression).await.into()
        })
    }
}
