//! `unguarded`: the first control. Reads, decides and overwrites in one transaction without any lock, so concurrent
//! purchases overwrite each other.

use crate::strategy::attempt::{Fences, note_order, overwrite_alone, visit};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};
use crate::telemetry::clock::Moment;

/// The strategy.
pub(in crate::strategy) struct Unguarded {
    context: Context,
}

impl Unguarded {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let fences = Fences::default();
        let mut inside = visit(&self.context, call.purchase.cart.lines(), &fences, Moment::now());
        let decision = overwrite_alone(&self.context, call, fences).await;
        note_order(&mut inside, &decision);
        decision
    }
}

impl Strategy for Unguarded {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(self.sell(call))
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
