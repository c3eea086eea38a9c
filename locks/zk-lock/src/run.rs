//! Waiting for the lock, running COMMAND under it, and giving the lock back.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::time::timeout;
use zk_recipes::{ConnectionState, Error as LockError, LockGuard, LostReason, Session};

use crate::cli::RunSettings;
use crate::error::{EXIT_LOST, Error};
use crate::hold::{HoldWatcher, is_later_than_the_last_look};
use crate::notices::{Notices, rounded};
use crate::permits::{Comparison, node_data};
use crate::signals::{Signals, status_of};

/// Upper bound of the delay of the program's end by a server that does not confirm.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// The same for a server that has not answered for long.
const LEAVE_LOST_WITHIN: Duration = Duration::from_secs(1);

/// The end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Status(u8),
    /// As if this signal had ended it.
    Signal(Signal),
}

/// Runs COMMAND under the lock.
pub(crate) async fn run(settings: &RunSettings, mut signals: Signals, notices: &Notices) -> Result<Finish, Error> {
    let session = tokio::select! {
        session = settings.server.connect() => session?,
        signal = signals.next_ending() => return Ok(Finish::Signal(signal)),
    };
    notices.detail(format_args!(
        "waiting for {} ({}), session {:#x} with a timeout of {}",
        settings.path,
        settings.recipe,
        session.id(),
        humantime::format_duration(session.timeout())
    ));
    let waiting = Instant::now();
    let permits = Comparison::new(settings, &session, notices);
    let reports = async { tokio::join!(report_waiting(settings, &session, notices), permits.during_the_wait()) };
    let acquiring = async {
        // The time of the grant is noted before the comparison, which may take seconds.
        let got = acquire(settings, &session).await.map(|held| (held, Instant::now()));
        permits.after_the_wait().await;
        got
    };
    let got = tokio::select! {
        biased;
        signal = signals.next_ending() => Err(Ok(Finish::Signal(signal))),
        got = acquiring => got.map_err(Err),
        _ = reports => unreachable!("BUG: the reports have ended"),
    };
    let (held, granted) = match got {
        Ok(got) => got,
        Err(finish) => {
            leave(&session, LEAVE_WITHIN, notices, async {}).await;
            return finish;
        }
    };
    notices.detail(format_args!(
        "got {} after {}, token {}, node {}",
        settings.path,
        rounded(granted - waiting),
        held.token(),
        held.node_path()
    ));
    let ended =
        HoldWatcher { settings, session: &session, held: &held, granted, notices }.over_command(&mut signals).await;
    // An error of COMMAND is told only after the lock is given back.
    let lost = ended.as_ref().ok().and_then(|ended| ended.lost);
    let lost = give_back(held, lost, &session, notices).await;
    notices.detail(format_args!("held {} for {}", settings.path, rounded(granted.elapsed())));
    Ok(finish(ended?.status, lost))
}

/// Acquires the lock, or says why not. If it is dropped, the end of the session takes the contender out of the queue.
async fn acquire(settings: &RunSettings, session: &Session) -> Result<LockGuard, Error> {
    let RunSettings { path, recipe, list, .. } = settings;
    let explain = |error| Error::lock("get", path)(error);
    let lock = recipe.lock(session, path, node_data(*recipe)).map_err(explain)?;
    match settings.timeout {
        None => lock.acquire().await.map_err(explain),
        Some(Duration::ZERO) => {
            let got = lock.try_acquire().await.map_err(explain)?;
            got.ok_or_else(|| Error::Taken { path: path.clone(), list: list.clone() })
        }
        Some(within) => match lock.acquire_within(within).await {
            Ok(Some(held)) => Ok(held),
            // Its node ends with the session, which is closed in any case.
            Ok(None) | Err(LockError::Unconfirmed { .. }) => {
                Err(Error::NotGranted { path: path.clone(), within, list: list.clone() })
            }
            Err(error) => Err(explain(error)),
        },
    }
}

/// Reports when ZooKeeper stops and starts to answer during the wait for the lock. The acquire itself reports the end
/// of the session.
async fn report_waiting(settings: &RunSettings, session: &Session, notices: &Notices) {
    let path = &settings.path;
    let mut states = session.states();
    while let Some(state) = states.changed().await {
        match state {
            ConnectionState::Connected => {
                notices.say(format_args!("ZooKeeper answers again; still waiting for {path}"))
            }
            ConnectionState::Suspended => {
                notices.say(format_args!("ZooKeeper does not answer; still waiting for {path}"))
            }
            ConnectionState::Lost(LostReason::Silence) => notices.say(format_args!(
                "ZooKeeper has not answered for long; the place in the queue of {path} may be lost; still waiting"
            )),
            ConnectionState::Lost(_) => {}
        }
    }
    std::future::pending().await
}

/// Releases the lock at once for the next contender, and ends the session. `lost`: the known reason why the hold is
/// lost. Returns why the hold was lost, or may have been lost, before COMMAND ended.
async fn give_back(
    held: LockGuard,
    mut lost: Option<LostReason>,
    session: &Session,
    notices: &Notices,
) -> Option<LostReason> {
    if lost.is_some() {
        // Another contender may hold by now, so there is no release to confirm.
        drop(held);
        leave(session, LEAVE_LOST_WITHIN, notices, async {}).await;
    } else {
        leave(session, LEAVE_WITHIN, notices, async { lost = release(held, notices).await }).await;
    }
    lost
}

async fn release(held: LockGuard, notices: &Notices) -> Option<LostReason> {
    let path = held.node_path().to_owned();
    match held.release().await {
        Ok(()) => None,
        Err(LockError::HoldLost { reason, .. }) if is_later_than_the_last_look(reason) => None,
        Err(LockError::HoldLost { path, reason, .. }) => {
            notices.say(format_args!(
                "the hold of {path} was lost: {reason}; another may have held it while the command ran"
            ));
            Some(reason)
        }
        Err(error) => {
            notices.say(format_args!("cannot delete {path}: {error}; the end of the session deletes it"));
            None
        }
    }
}

/// Runs `first`, and then ends the session with all its contenders. A signal does not cut this short, because it may be
/// the one that has just ended COMMAND.
async fn leave(session: &Session, within: Duration, notices: &Notices, first: impl Future<Output = ()>) {
    let leaving = async {
        first.await;
        session.close().await
    };
    if !matches!(timeout(within, leaving).await, Ok(Ok(()))) {
        notices.say(format_args!(
            "ZooKeeper did not confirm the end of the session; its servers free the lock after {} of silence",
            humantime::format_duration(session.timeout())
        ));
    }
}

fn finish(status: Option<ExitStatus>, lost: Option<LostReason>) -> Finish {
    match (status, lost) {
        (None, _) => Finish::Status(EXIT_LOST),
        (Some(status), Some(_)) if status.success() => Finish::Status(EXIT_LOST),
        (Some(status), _) => match (status.code(), status.signal()) {
            (Some(code), _) => Finish::Status(u8::try_from(code).unwrap_or(u8::MAX)),
            // SIGINT must really end the program.
            (None, Some(signal)) if signal == Signal::SIGINT as i32 => Finish::Signal(Signal::SIGINT),
            (None, signal) => Finish::Status(status_of(signal.unwrap_or_default())),
        },
    }
}
