//! A purchase of the shop in the queue of its SKU.

use batch_queue::{Candidate, Commit, Refusal};
use tokio::time::Instant;

use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Line, Order, Purchase, Wish};
use crate::strategy::call::Sent;
use crate::telemetry::Waiting;
use crate::telemetry::clock::Moment;

/// A purchase that asks to be decided in a batch.
pub(in crate::strategy) struct BatchRequest {
    /// What is bought. The cart has one line.
    pub(in crate::strategy) purchase: Purchase,
    /// The sale to which the purchase was admitted.
    pub(in crate::strategy) sale: i64,
    /// Whether the purchase has decided by the stock of that sale.
    pub(in crate::strategy) has_decided: bool,
    /// Whether another instance has handed it over. Then only this instance may decide it.
    pub(in crate::strategy) is_handed: bool,
    /// When it gives up waiting.
    pub(in crate::strategy) until: Instant,
    /// What is known of the commit of its order.
    pub(in crate::strategy) commit: Commit<Sent>,
    /// Its wait, for the metrics.
    pub(in crate::strategy) waiting: Waiting,
    /// When it came to the queue. It grows in the order of arrival.
    pub(in crate::strategy) asked: Moment,
}

impl BatchRequest {
    /// Returns the line of the cart.
    pub(in crate::strategy) fn line(&self) -> Line {
        self.purchase.cart.lines()[0]
    }

    /// Returns what the buyer wants of a batch.
    pub(super) fn wish(&self) -> Wish<'_> {
        let Purchase { key, buyer, .. } = &self.purchase;
        Wish { sale: self.sale, quantity: self.line().quantity, key: key.as_ref(), buyer: buyer.as_ref() }
    }
}

impl Candidate for BatchRequest {
    type Sku = GoodsNo;
    type Order = Order;
    type Refusal = Failure;
    type Sent = Sent;
    type Instant = Instant;

    fn now() -> Instant {
        Instant::now()
    }

    fn sale(&self) -> i64 {
        self.sale
    }

    fn until(&self) -> Instant {
        self.until
    }

    fn is_handed(&self) -> bool {
        self.is_handed
    }

    fn commit(&self) -> &Commit<Sent> {
        &self.commit
    }

    fn joined(&mut self) {
        self.asked = Moment::now();
    }

    fn taken(&mut self) {
        self.waiting.pause();
    }

    fn waits_again(&mut self) {
        self.waiting.go_on();
    }
}

impl Refusal for Failure {
    fn client_gone() -> Self {
        Failure::client_gone()
    }

    fn is_lock_timeout(&self) -> bool {
        self.is(&failure::LOCK_TIMEOUT)
    }

    fn leaves_unknown(&self) -> bool {
        self.is(&failure::OUTCOME_UNKNOWN)
    }

    fn lies_here(&self) -> bool {
        self.is_one_of(&[
            &failure::DATABASE_UNAVAILABLE,
            &failure::HOLD_LOST,
            &failure::LOCK_SERVICE_UNAVAILABLE,
            &failure::CLIENT_GONE,
        ])
    }

    fn concerns_all(&self) -> bool {
        self.is_one_of(&[&failure::DATABASE_UNAVAILABLE, &failure::FENCED, &failure::HOLD_LOST])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use batch_queue::{HandedOver, Queues};

    use super::*;
    use crate::sale::Quantity;
    use crate::telemetry::{Levels, Metrics};

    const STRATEGY: &str = "zk-owner";

    // S100
    #[test]
    fn buyers_that_change_instances_are_counted_while_they_wait() {
        let metrics = Metrics::new([STRATEGY].into_iter());
        let goods_no = "1".parse().unwrap();
        let request = |seconds| BatchRequest {
            purchase: Purchase::of_one(goods_no, Quantity::ONE, None),
            sale: 1,
            has_decided: false,
            is_handed: false,
            until: Instant::now() + Duration::from_secs(seconds),
            commit: Commit::default(),
            waiting: metrics.locks(STRATEGY).wait_on(),
            asked: Moment::now(),
        };
        let assert_waiting = |count: usize| {
            let rendered = metrics.render(&Levels::default());
            for line in [
                format!(r#"seckill_queue_depth{{strategy="{STRATEGY}"}} {count}"#),
                format!(r#"seckill_lock_wait_seconds_count{{strategy="{STRATEGY}"}} 0"#),
            ] {
                assert!(rendered.lines().any(|rendered| rendered == line), "{line} in {rendered}");
            }
        };
        let queues = Arc::<Queues<BatchRequest>>::default();
        let (mut pending, worker) = queues.join(goods_no, [3600, 0, 3600].map(request).into());
        let mut worker = worker.unwrap();
        assert_waiting(3);
        drop(pending.pop());
        assert_waiting(2);
        assert!(worker.next());
        let away = worker.go_away();
        let batch = HandedOver::take(&mut worker, away, &Sent::Elsewhere).unwrap();
        assert_waiting(0);
        // The buyer whose deadline has passed is refused, and the other one waits again.
        batch.end(&mut worker, None, &Failure::of(&failure::LOCK_TIMEOUT));
        assert_waiting(1);
        drop(worker);
        assert_waiting(0);
    }
}
