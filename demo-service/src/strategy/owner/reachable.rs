//! The look at the other instances at the start: whether they reach this one.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::info;
use zk_recipes::{LeaderLatch, Participant};

use super::election::{RANGES, path};
use crate::instances::{Address, Reach};
use crate::sessions::SessionPool;
use crate::setup_error::SetupError;

/// How long a node may outlive its session timeout. A server ends sessions once a tick, which has 2 s by default.
const BEYOND: Duration = Duration::from_secs(5);

/// Looks whether the participants of all elections of a database reach this instance. Waits until those that do not are gone,
/// for a little more than a session timeout. An instance that crashed in another network, such as the last container of this
/// one, is gone by then.
pub(crate) async fn until_reachable(
    sessions: &SessionPool,
    database: &str,
    ours: &Address,
    session_timeout: Duration,
) -> Result<(), SetupError> {
    let session = sessions.any();
    let until = Instant::now() + session_timeout + BEYOND;
    let cut_off = |participant: Participant| {
        let theirs = serde_json::from_slice::<Address>(&participant.data).ok()?;
        (theirs.reach(ours) == Reach::Nowhere).then_some((participant, theirs))
    };
    for range in 0..RANGES {
        let election = LeaderLatch::new(&session, &path(database, range)).map_err(SetupError::LockRefused)?;
        loop {
            let participants = election.participants().await.map_err(SetupError::LockRefused)?;
            let Some((participant, theirs)) = participants.into_iter().find_map(cut_off) else { break };
            info!(
                ours = ours.at,
                theirs = theirs.at,
                "another instance does not reach this one, waiting until it is gone"
            );
            match timeout_at(until, election.until_gone(&participant)).await {
                Ok(gone) => gone.map_err(SetupError::LockRefused)?,
                Err(_) => return Err(SetupError::NotReached { ours: ours.at.clone(), theirs: theirs.at }),
            }
        }
    }
    Ok(())
}
