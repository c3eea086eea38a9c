//! `unguarded`: the first control. Reads, decides and overwrites in one transaction without any lock, so concurrent
//! purchases overwrite each other.

use crate::strategy::attempt::{Fences, note_order, overwrite_alone, visit};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};
use crate::telemetry::clock::Moment;

/// Sells without a lock.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let fences = Fences::default();
        let mut inside = visit(context, call.purchase.cart.lines(), &fences, Moment::now());
        let decision = overwrite_alone(context, call, fences).await;
        note_order(&mut inside, &decision);
        decision
    })
}
