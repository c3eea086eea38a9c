//! The watches behind which a hold lingers: of its queue and of its node.
//!
//! The hold stays with the cohort, so a drop of the last lock object drops the hold, and the reaper deletes its node. Every change
//! of the queue or the node ends the lingering, without a second look. The look would cost a rival a round trip, and would keep the
//! hold only if the rival has left again. Notifications may be late, so the bound of hand-overs stays.

use std::sync::{Arc, Weak};

use futures_util::future::{join, select};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use zk_recipes_protocol::cohort::{MemberId, Others};
use zookeeper_client::Error as ClientError;

use crate::cohort::Cohort;
use crate::engine::Engine;
use crate::hold::{Hold, revoke};
use crate::node;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Watch;

/// Looks for other contenders and for a revocation request, and watches for their arrival, by two requests in one round trip.
/// Returns the watches if the node of the hold is there.
pub(super) async fn watch_queue(hold: &Hold) -> (Others, Option<[Watch; 2]>) {
    let wire = hold.session().wire();
    let path = hold.path();
    let engine = Engine::at(hold.session(), hold.lock());
    let listed = engine.watch_children();
    let read = retry_lost_reply(|| wire.watch(path));
    match join(listed, read).await {
        (Ok((names, queue)), Ok((data, stat, node))) => {
            // Another node may have got the same name.
            let is_own = hold.czxid() == stat.czxid;
            let others = match u32::try_from(names.len()) {
                _ if !is_own || !names.iter().any(|name| name == node::name(path)) => {
                    return (Others::OwnNodeGone, None);
                }
                _ if data == revoke::REQUEST => Others::Revoked,
                children => children.map_or(Others::Unknown, Others::Children),
            };
            (others, Some([queue, node]))
        }
        (Err(ClientError::NoNode), _) | (_, Err(ClientError::NoNode)) => (Others::OwnNodeGone, None),
        (Err(_), _) | (_, Err(_)) => (Others::Unknown, None),
    }
}

/// Tells the cohort when its queue or the node of its hold changes, and when the time of a hold that lingers is over.
///
/// The watches go on through later holders of the same node. The deletion of the node fires both at the latest, so they are never
/// removed by a request. `kept`: notified when the hold begins to linger, unless a check comes in time. `permit`: lets the
/// hold linger.
pub(super) async fn attend(
    cohort: Weak<Cohort>,
    watched_by: MemberId,
    watches: [Watch; 2],
    kept: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
) {
    let [queue, node] = watches.map(|watch| Box::pin(watch.fired()));
    let mut fired = select(queue, node);
    let other = loop {
        let left = cohort.upgrade().map(|cohort| cohort.end_linger());
        let next_check = async {
            match left {
                // If a member takes the hold and releases it meanwhile, the check finds the later time. So a release in a row of
                // many wakes no task.
                Some(Some(left)) => tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    // The last holder's time is shorter.
                    () = kept.notified() => {}
                },
                Some(None) => kept.notified().await,
                // The last lock object was dropped, and the hold with it. The deletion fires the watches.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            first = &mut fired => break first.factor_first().1,
            () = next_check => {}
        }
    };
    cohort.upgrade().iter().for_each(|cohort| cohort.queue_changed(watched_by));
    // The permit counts until both watches are gone from the server.
    other.await;
}
