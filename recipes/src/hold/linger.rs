//! The watch of the queue behind which a hold lingers.

use std::pin::pin;
use std::sync::{Arc, Weak};

use futures_util::future::join;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use zk_recipes_protocol::cohort::{MemberId, Others};
use zookeeper_client::Error as ClientError;

use crate::hold::cohort::Cohort;
use crate::hold::held::Hold;
use crate::node;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Watch;

/// Looks for other contenders, and watches for their arrival. It is one round trip, and one request if the name of the node is
/// unique.
pub(super) async fn watch_queue(hold: &Hold) -> (Others, Option<Watch>) {
    let (wire, path) = (hold.session().wire(), hold.path());
    let listed = retry_lost_reply(|| wire.watch_children(hold.lock()));
    let is_own = async {
        // Another node may have got the same name.
        let Some(czxid) = hold.czxid() else { return Ok(true) };
        let stat = retry_lost_reply(|| wire.stat(path)).await?;
        Ok(stat.is_some_and(|stat| stat.czxid == czxid))
    };
    match join(listed, is_own).await {
        (Ok((names, watch)), Ok(is_own)) => {
            let is_there = is_own && names.iter().any(|name| name == node::name(path));
            let children = u32::try_from(names.len()).map_or(Others::Unknown, Others::Children);
            (if is_there { children } else { Others::OwnNodeGone }, Some(watch))
        }
        (Ok((_, watch)), Err::<_, ClientError>(_)) => (Others::Unknown, Some(watch)),
        (Err(ClientError::NoNode), _) => (Others::OwnNodeGone, None),
        (Err(_), _) => (Others::Unknown, None),
    }
}

/// Tells the cohort when its queue changes, and when the time of a hold that lingers is over.
///
/// The watch goes on through later holders of the same node. The deletion of the node fires it at the latest, so it is never
/// removed by a request. `kept`: notified when the hold begins to linger. `place`: the place of the hold among those that may
/// linger.
pub(super) async fn attend(
    cohort: Weak<Cohort>,
    watched_by: MemberId,
    watch: Watch,
    kept: Arc<Notify>,
    _place: OwnedSemaphorePermit,
) {
    let mut fired = pin!(watch.fired());
    loop {
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
                // The last lock object was dropped, and the hold with it. The deletion fires the watch.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = &mut fired => break,
            () = next_check => {}
        }
    }
    cohort.upgrade().iter().for_each(|cohort| cohort.queue_changed(watched_by));
}
