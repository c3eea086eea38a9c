//! Buyers that change instances: another instance hands them over, or they come back undecided.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::queue::{Batches, Buyer, Place};
use crate::failure::Failure;
use crate::peers::Wanted;
use crate::sale::{GoodsNo, Purchase};
use crate::strategy::Decision;
use crate::strategy::call::Commit;
use crate::telemetry::clock::Moment;
use crate::telemetry::{LockMetrics, Waiting};

/// A purchase that another instance has handed over.
pub(in crate::strategy) struct Handed {
    pub(in crate::strategy) purchase: Purchase,
    pub(in crate::strategy) sale: i64,
    pub(in crate::strategy) has_decided: bool,
    /// When its buyer gives up waiting.
    pub(in crate::strategy) until: Instant,
    /// The wait for its batch.
    pub(in crate::strategy) waiting: Waiting,
}

/// The answer that such a purchase waits for.
pub(in crate::strategy) struct HandedAnswer {
    decided: oneshot::Receiver<Decision>,
    commit: Commit,
    until: Instant,
    place: Place,
}

impl Buyer {
    /// What another instance must know to decide the purchase.
    pub(in crate::strategy) fn wanted(&self) -> Wanted {
        let within = self.until.saturating_duration_since(Instant::now());
        Wanted {
            sale: self.sale,
            has_decided: self.has_decided,
            quantity: self.line().quantity.get(),
            key: self.purchase.key.as_ref().map(ToString::to_string),
            within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Batches {
    /// Takes in purchases of one SKU that another instance has handed over. `begin` starts the worker of the SKU if none runs.
    /// Returns the answer that each of them waits for.
    pub(in crate::strategy) fn take_in(
        self: &Arc<Self>,
        goods_no: GoodsNo,
        purchases: Vec<Handed>,
        begin: impl FnOnce(GoodsNo),
    ) -> Vec<HandedAnswer> {
        let take_in = |Handed { purchase, sale, has_decided, until, waiting }| {
            let (answer, decided) = oneshot::channel();
            let commit = Commit::default();
            let handed = (decided, commit.clone(), until);
            let (asked, number, is_handed, waiting) = (Moment::now(), 0, true, Some(waiting));
            let buyer = Buyer { number, is_handed, purchase, sale, has_decided, asked, until, commit, answer, waiting };
            (buyer, handed)
        };
        let (buyers, answers): (Vec<_>, Vec<_>) = purchases.into_iter().map(take_in).unzip();
        let (first, is_first) = self.join(goods_no, buyers);
        if is_first {
            begin(goods_no);
        }
        let answer = |(number, (decided, commit, until))| HandedAnswer {
            decided,
            commit,
            until,
            place: Place { batches: Arc::clone(self), goods_no, number },
        };
        (first..).zip(answers).map(answer).collect()
    }

    /// Puts buyers of a SKU back into its queue, each in its old place. Nothing was decided for them. Refuses the buyers whose
    /// deadline has passed, because they do not look at the time any more. `begin` starts the worker of the SKU if none runs.
    pub(in crate::strategy) fn put_back(
        &self,
        goods_no: GoodsNo,
        buyers: Vec<Buyer>,
        late: &Failure,
        metrics: &LockMetrics,
        begin: impl FnOnce(GoodsNo),
    ) {
        let now = Instant::now();
        let (gone, back): (Vec<_>, Vec<_>) = buyers.into_iter().partition(|buyer| buyer.until <= now);
        gone.into_iter().for_each(|buyer| buyer.answer(Err(late.clone())));
        if back.is_empty() {
            return;
        }
        let mut queues = self.queues.lock();
        let is_first = !queues.waiting.contains_key(&goods_no);
        let queue = queues.waiting.entry(goods_no).or_default();
        for mut buyer in back {
            buyer.note_rollback();
            buyer.waiting = Some(metrics.wait_on());
            queue.insert(buyer.number, buyer);
        }
        drop(queues);
        if is_first {
            begin(goods_no);
        }
    }
}

impl HandedAnswer {
    /// Waits for the decision. Returns `None` if nothing was decided, and nothing was written. If the batch has not begun by the
    /// buyer's deadline, the buyer gives up, and the decision is `late`.
    ///
    /// # Cancel safety
    /// Dropped, the buyer gives up, unless the commit was sent.
    pub(in crate::strategy) async fn decided(mut self, late: &Failure) -> Option<Decision> {
        let decided = tokio::select! {
            biased;
            decided = &mut self.decided => decided,
            () = sleep_until(self.until) => {
                if self.place.give_up() {
                    return Some(Err(late.clone()));
                }
                (&mut self.decided).await
            }
        };
        match decided {
            Ok(decision) => Some(decision),
            // The worker has sent the buyer away, or it has panicked.
            Err(_) => self.commit.unknown().map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::LOCK_TIMEOUT;
    use crate::sale::Quantity;
    use crate::telemetry::{Levels, Metrics};

    const STRATEGY: &str = "zk-owner";

    fn goods() -> GoodsNo {
        "1".parse().unwrap()
    }

    fn handed(metrics: &Metrics) -> Handed {
        let (purchase, until) = (Purchase::of_one(goods(), Quantity::ONE), Instant::now() + Duration::from_secs(3600));
        let waiting = metrics.locks(STRATEGY).wait_on();
        Handed { purchase, sale: 1, has_decided: false, until, waiting }
    }

    #[test]
    fn a_buyer_whose_instance_does_not_wait_for_the_answer_keeps_no_place() {
        let batches = Arc::<Batches>::default();
        let metrics = Metrics::new([STRATEGY].into_iter());
        let mut answers = batches.take_in(goods(), [(); 3].map(|()| handed(&metrics)).into(), |_| ());
        drop(answers.remove(1));
        let worker = batches.worker(goods());
        assert_eq!(worker.claim(1).iter().map(|buyer| buyer.number).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn buyers_that_change_instances_are_counted_while_they_wait() {
        let (batches, metrics) = (Arc::<Batches>::default(), Metrics::new([STRATEGY].into_iter()));
        let assert_waiting = |count: usize| {
            let rendered = metrics.render(&Levels::default());
            for line in [
                format!(r#"seckill_queue_depth{{strategy="{STRATEGY}"}} {count}"#),
                format!(r#"seckill_lock_wait_seconds_count{{strategy="{STRATEGY}"}} 0"#),
            ] {
                assert!(rendered.lines().any(|rendered| rendered == line), "{line} in {rendered}");
            }
        };
        let mut answers = batches.take_in(goods(), [(); 3].map(|()| handed(&metrics)).into(), |_| ());
        assert_waiting(3);
        drop(answers.pop());
        assert_waiting(2);
        let worker = batches.worker(goods());
        let mut claimed = worker.claim(1);
        assert_waiting(0);
        claimed[1].until = Instant::now();
        batches.put_back(goods(), claimed, &Failure::of(&LOCK_TIMEOUT), metrics.locks(STRATEGY), |_| ());
        assert_waiting(1);
        drop(worker);
        assert_waiting(0);
    }
}
