//! The link between two instances, over which a batch goes to the owner of its SKU and its answers come back.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shuttle::future::yield_now;
use tokio::sync::{mpsc, oneshot};

use crate::batch_queue::{Commit, DecisionOf, HandedOver, Pending, Refusal, WaitEnd};
use crate::instance::{InProgress, Instance};
use crate::notes::{HANDED, HOP, Sight};
use crate::purchase::{Purchase, Reason};

/// A purchase on its way.
struct Parcel {
    buyer: usize,
    sale: i64,
    until: u64,
}

/// Sends a batch to the owner of its SKU, and takes what it tells. Returns the refusal of the purchases that were not told, or
/// `None` if nothing was decided for them.
pub(crate) async fn hand_over(
    from: &Instance,
    sku: u64,
    owner: usize,
    batch: &mut HandedOver<Purchase>,
) -> Option<Reason> {
    let world = &*from.world;
    let buyers: Vec<_> = batch.requests().map(|purchase| purchase.buyer).collect();
    let wanted: Vec<_> = batch.requests().map(|purchase| wanted(from, purchase)).collect();
    let owner = from.others.lock().unwrap_or_else(PoisonError::into_inner).get(owner).and_then(Weak::upgrade)?;
    world.notes.tell(|| format!("instance {} hands over {} purchases", from.number, wanted.len()));
    yield_now().await;
    if world.goes_wrong(world.plan.odds.not_reached) {
        return None;
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let (accept, accepted) = oneshot::channel();
    // Dropped when this ends, in whatever way.
    let (_alive, gone) = oneshot::channel();
    world.spawn(async move { take_over(&owner, sku, wanted, accept, tell, gone).await });
    if !accepted.await.unwrap_or(false) {
        return None;
    }
    let breaks = world.goes_wrong(world.plan.odds.link_breaks).then(|| world.draw(40));
    let breaking = async {
        match breaks {
            Some(steps) => {
                for _ in 0..steps {
                    yield_now().await;
                }
            }
            None => pending().await,
        }
    };
    let mut breaking = pin!(breaking);
    for _ in 0..buyers.len() {
        let reply = tokio::select! {
            // A reply that has come counts.
            biased;
            reply = told.recv() => reply,
            () = &mut breaking => {
                world.notes.tell(|| "the link breaks".to_owned());
                world.notes.see(true, Sight::LinkBroken);
                return Some(Reason::Unknown);
            }
        };
        let Some((index, decision)) = reply else { return Some(Reason::Unknown) };
        world.notes.see(world.owner_seen_by(from.number) == from.number, Sight::Moved);
        world.notes.see(decision.is_some(), Sight::ToldElsewhere);
        world.notes.see(decision.is_none(), Sight::Undecided);
        world.notes.tell(|| format!("instance {} is told of purchase {index}: {decision:?}", from.number));
        batch.tell(index, decision);
        if decision.is_none() {
            world.note_back(buyers[index]);
        }
    }
    None
}

fn wanted(from: &Instance, purchase: &Purchase) -> Parcel {
    let Purchase { buyer, sale, until, is_handed, .. } = *purchase;
    from.world.notes.check(!is_handed, HOP);
    from.world.note_sent(buyer);
    Parcel { buyer, sale, until }
}

/// Decides a batch that another instance has handed over, as far as there are slots.
async fn take_over(
    owner: &Arc<Instance>,
    sku: u64,
    mut wanted: Vec<Parcel>,
    accept: oneshot::Sender<bool>,
    tell: mpsc::UnboundedSender<(usize, Option<DecisionOf<Purchase>>)>,
    mut gone: oneshot::Receiver<()>,
) {
    let count = wanted.len();
    let Some(mut slots) = owner.handed.try_take_up_to(count) else {
        owner.world.notes.see(true, Sight::Busy);
        accept.send(false).ok();
        return;
    };
    let taken = slots.count();
    wanted.truncate(taken);
    let requests = wanted.iter().map(|Parcel { buyer, sale, until }| Purchase {
        buyer: *buyer,
        instance: owner.number,
        sku,
        sale: *sale,
        until: *until,
        is_handed: true,
        commit: Commit::default(),
        place: 0,
        is_counted: false.into(),
        world: Arc::clone(&owner.world),
    });
    let Some(pending) = owner.take_over(sku, requests.collect()) else {
        owner.world.notes.see(true, Sight::NotNow);
        accept.send(false).ok();
        return;
    };
    accept.send(true).ok();
    owner.world.notes.see(taken < count, Sight::InPart);
    owner.world.notes.tell(|| format!("instance {} takes over {taken} purchases of {count}", owner.number));
    for index in taken..count {
        tell.send((index, None)).ok();
    }
    let decide = |(index, pending): (usize, Pending<Purchase>)| {
        let in_progress = InProgress::begin(owner, true);
        async move {
            let told = decided(owner, pending).await;
            drop(in_progress);
            (index, told)
        }
    };
    let mut replies: FuturesUnordered<_> = pending.into_iter().enumerate().map(decide).collect();
    // A link that is broken ends the replies, and the purchases that wait.
    loop {
        let reply = tokio::select! {
            biased;
            reply = replies.next() => reply,
            _ = &mut gone => None,
        };
        let Some(reply) = reply else { return };
        slots.free_one();
        tell.send(reply).ok();
    }
}

/// Waits for the decision. Returns `None` if nothing was decided, and nothing was written.
async fn decided(owner: &Instance, waits: Pending<Purchase>) -> Option<DecisionOf<Purchase>> {
    let world = &owner.world;
    let until = waits.until;
    match waits.wait(world.clock.until(until), pending()).await {
        WaitEnd::Decided(decision) => {
            world.notes.check(!decision.is_err_and(|refused| refused.lies_here()), HANDED);
            Some(decision)
        }
        WaitEnd::Left(()) => Some(Err(Reason::LockTimeout)),
        WaitEnd::Undecided(sent) | WaitEnd::GaveUp(sent) => {
            world.notes.see(world.owner_seen_by(owner.number) != owner.number, Sight::Hop);
            sent.map(|_| Err(Reason::Unknown))
        }
    }
}
