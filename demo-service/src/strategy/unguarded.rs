//! `unguarded`: the first control. Read, decide and overwrite in one transaction without any lock, so that purchases that
//! meet overwrite each other.

use super::section::{Section, visit};
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::store::Isolation;
use crate::telemetry::clock::Moment;

/// The strategy.
pub(super) struct Unguarded {
    context: Context,
}

impl Unguarded {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let _visit = visit(&self.context, call.purchase.cart.lines(), &[], Moment::now());
        let mut section = Section::begin(&self.context, call, Isolation::ReadCommitted).await?;
        let sold = section.overwrite().await;
        section.end(sold).await
    }
}

impl Strategy for Unguarded {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move { call.in_time(&self.context, Box::pin(self.sell(call))).await.into() })
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
