//! The control: no guard at all.

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
    fn deduct(&self, deduction: Deduction) -> Deducting<'_> {
        Box::pin(async move {
            let progression = Progression::default();
            read_modify_write(&self.context, self.entry.name, deduction, None, &progression).await
        })
    }
}
