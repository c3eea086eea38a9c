//! A buyer, its request, and the task of its purchase, which outlives it.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::batch_queue::Commit;
use crate::instance::{InProgress, Instance};
use crate::notes::Sight;
use crate::plan::PlannedBuyer;
use crate::purchase::{Purchase, Reason};

/// Comes, buys, and waits for the answer or hangs up.
pub(crate) async fn buy(instance: Arc<Instance>, number: usize) {
    let world = Arc::clone(&instance.world);
    let PlannedBuyer { sku, comes, until, database_until, hangs_up, .. } = world.plan.buyers[number];
    world.clock.until(comes).await;
    world.notes.tell(|| format!("buyer {number} comes to instance {}", instance.number));
    let Some(slot) = instance.slots.try_take() else { return world.tell(number, Err(Reason::Shed)) };
    // A request and its purchase share it.
    let slot_of_purchase = slot.clone();
    let (hang_up, hung_up) = oneshot::channel::<()>();
    let (answer, answered) = oneshot::channel();
    let task = {
        let world = Arc::clone(&world);
        async move {
            let in_progress = InProgress::begin(&instance, false);
            let (sale, _) = world.stock(sku);
            let purchase = Purchase {
                buyer: number,
                instance: instance.number,
                sku,
                sale,
                until,
                is_handed: false,
                commit: Commit::default(),
                place: 0,
                is_counted: false.into(),
                world: Arc::clone(&world),
            };
            let hung_up = async {
                hung_up.await.ok();
            };
            let decision = instance.decide(purchase, hung_up, database_until).await;
            world.tell(number, decision);
            drop(in_progress);
            let has_client = answer.send(()).is_ok();
            world.notes.see(!has_client, Sight::HungUp);
            drop(slot_of_purchase);
        }
    };
    world.spawn(task);
    tokio::select! {
        biased;
        _ = answered => {}
        () = world.clock.until(hangs_up) => {}
    }
    world.notes.tell(|| format!("buyer {number} goes"));
    drop(hang_up);
    drop(slot);
}
