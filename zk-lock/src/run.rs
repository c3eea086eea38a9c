//! Waiting for the lock, watching over the hold while COMMAND runs, and giving the lock back.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::time::timeout;
use zk_recipes::{ConnectionState, Error as LockError, HoldState, LockGuard, LostReason, Session};

use crate::cli::{OnLost, RunSettings};
use crate::error::{EXIT_LOST, Error};
use crate::job::{self, Job};
use crate::notices::Notices;
use crate::signals::{Signals, status_of};

/// How long the end of the program may be delayed by a server that does not confirm.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// The same for a server that has not answered for long.
const LEAVE_LOST_WITHIN: Duration = Duration::from_secs(1);

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Status(u8),
    /// As if this signal had ended it.
    Signal(Signal),
}

/// What became of COMMAND and of the hold that it ran under.
#[derive(Debug)]
struct Ended {
    /// `None` when COMMAND was stopped, or not even started, because the hold was lost.
    status: Option<ExitStatus>,
    lost: Option<LostReason>,
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
    let got = tokio::select! {
        biased;
        signal = signals.next_ending() => Err(Ok(Finish::Signal(signal))),
        got = acquire(settings, &session) => got.map_err(Err),
        () = report_waiting(settings, &session, notices) => unreachable!("BUG: the reports have ended"),
    };
    let held = match got {
        Ok(held) => held,
        Err(finish) => {
            leave(&session, LEAVE_WITHIN, notices, async {}).await;
            return finish;
        }
    };
    notices.detail(format_args!(
        "got {} after {}, token {}, node {}",
        settings.path,
        rounded(waiting.elapsed()),
        held.token(),
        held.node_path()
    ));
    let granted = Instant::now();
    let ended = Watch { settings, session: &session, held: &held, notices }.over_command(&mut signals).await;
    let lost = ended.as_ref().ok().and_then(|ended| ended.lost);
    let lost = give_back(held, lost, &session, notices).await;
    notices.detail(format_args!("held {} for {}", settings.path, rounded(granted.elapsed())));
    Ok(finish(ended?.status, lost))
}

/// Gets the lock, or says why not. When that is cut short, the end of the session gives up the place in the queue.
async fn acquire(settings: &RunSettings, session: &Session) -> Result<LockGuard, Error> {
    let RunSettings { path, recipe, .. } = settings;
    let explain = |error| Error::lock("get", path)(error);
    let lock = recipe.lock(session, path, node_data()).map_err(explain)?;
    match settings.timeout {
        None => lock.acquire().await.map_err(explain),
        Some(Duration::ZERO) => {
            let got = lock.try_acquire().await.map_err(explain)?;
            got.ok_or_else(|| Error::Taken { path: path.clone() })
        }
        Some(within) => match lock.acquire_within(within).await {
            Ok(Some(held)) => Ok(held),
            // Its node ends with the session, which is closed in any case.
            Ok(None) | Err(LockError::Unconfirmed { .. }) => Err(Error::NotHad { path: path.clone(), within }),
            Err(error) => Err(explain(error)),
        },
    }
}

/// Says when ZooKeeper stops to answer and answers again, while the program waits for the lock. The acquire itself tells of the end of
/// the session.
async fn report_waiting(settings: &RunSettings, session: &Session, notices: &Notices) {
    let path = &settings.path;
    let mut states = session.states();
    while let Some(state) = states.changed().await {
        match state {
            ConnectionState::Connected => {
                notices.say(format_args!("ZooKeeper answers again, still waiting for {path}"))
            }
            ConnectionState::Suspended => {
                notices.say(format_args!("ZooKeeper does not answer, still waiting for {path}"))
            }
            ConnectionState::Lost(LostReason::Silence) => notices.say(format_args!(
                "ZooKeeper has not answered for long, the place in the queue of {path} may be lost; still waiting"
            )),
            ConnectionState::Lost(_) => {}
        }
    }
    std::future::pending().await
}

/// What our nodes tell of us: `HOST:PID`.
fn node_data() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}:{}", host.as_deref().unwrap_or("localhost"), std::process::id())
}

/// The watch over a hold while COMMAND runs.
struct Watch<'a> {
    settings: &'a RunSettings,
    session: &'a Session,
    held: &'a LockGuard,
    notices: &'a Notices,
}

impl Watch<'_> {
    /// Runs COMMAND until it has ended, by itself or because the hold was lost.
    async fn over_command(&self, signals: &mut Signals) -> Result<Ended, Error> {
        if job::needs_job_control() {
            signals.catch_job_control()?;
        }
        // This process may have been halted since the grant.
        if let HoldState::Lost(reason) = self.held.state() {
            self.say_lost(reason);
            return Ok(Ended { status: None, lost: Some(reason) });
        }
        let mut job = Job::start(&self.settings.command, self.held)?;
        let mut states = self.session.states();
        let mut lost = None;
        if states.current() != ConnectionState::Connected {
            self.report(states.current());
        }
        loop {
            tokio::select! {
                // The loss first: nothing may delay what it asks for.
                biased;
                reason = self.held.lost(), if lost.is_none() => {
                    lost = Some(reason);
                    if self.settings.on_lost == OnLost::Kill {
                        self.stop(&mut job, reason).await;
                        return Ok(Ended { status: None, lost });
                    }
                    self.notices.say(format_args!(
                        "the hold of {} was lost: {reason}; another may hold it now, and the command goes on",
                        self.settings.path
                    ));
                }
                status = job.ended() => {
                    let status = status.map_err(Error::system("wait for the command"))?;
                    if lost.is_none() && let HoldState::Lost(reason) = self.held.state() {
                        self.say_lost(reason);
                        lost = Some(reason);
                    }
                    return Ok(Ended { status: Some(status), lost });
                }
                signal = signals.next() => job.forward(signal),
                Some(state) = states.changed(), if lost.is_none() => self.report(state),
            }
        }
    }

    /// Stops COMMAND before another can hold the lock, and only then spends time on words.
    async fn stop(&self, job: &mut Job, reason: LostReason) {
        // The hold is lost at least a twelfth of the session timeout before another contender can have the lock. Half of that
        // is for the kill.
        let grace = self.settings.kill_after.unwrap_or(self.session.timeout() / 24);
        let is_gone = job.stop(grace).await;
        self.say_lost(reason);
        self.notices.say(match (is_gone, job.is_listed()) {
            (true, _) => "the command was stopped",
            (false, true) => {
                "processes of the command run on: they hang, belong to other users, or are hidden in /proc; find and end them"
            }
            (false, false) => {
                "processes of the command may run on: /proc does not show them; mount one for this namespace, and end them"
            }
        });
    }

    fn say_lost(&self, reason: LostReason) {
        self.notices.say(format_args!("the hold of {} was lost: {reason}", self.settings.path));
    }

    fn report(&self, state: ConnectionState) {
        let path = &self.settings.path;
        match state {
            ConnectionState::Connected => {
                self.notices.say(format_args!("ZooKeeper answers again, the hold of {path} is certain"));
            }
            ConnectionState::Suspended => {
                self.notices.say(format_args!("ZooKeeper does not answer, the hold of {path} is suspect"));
            }
            // The hold itself says why.
            ConnectionState::Lost(_) => {}
        }
    }
}

/// Releases the lock, for the next contender to have it at once, and ends the session. `lost`: why the hold is known to be lost. Returns
/// why the hold was lost, or may have been lost, before COMMAND ended.
async fn give_back(
    held: LockGuard,
    mut lost: Option<LostReason>,
    session: &Session,
    notices: &Notices,
) -> Option<LostReason> {
    if lost.is_some() {
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
            notices.say(format_args!("cannot delete {path}, the end of the session will: {error}"));
            None
        }
    }
}

/// Whether a loss that the release reports came after COMMAND had ended, and so harms nobody. The hold was looked at then, and was not
/// lost by our clock. Only our clock or this process can have lost it since, by one of these reasons.
///
/// The other reasons are what a server tells. A server does not tell since when. Our clock does not know either: it stands still while
/// the machine is suspended, and servers that were restored have forgotten the session.
fn is_later_than_the_last_look(reason: LostReason) -> bool {
    use LostReason::{Closed, CredentialsMissing, CredentialsRefused, RuntimeEnded, Silence};
    matches!(reason, Silence | Closed | CredentialsRefused | CredentialsMissing | RuntimeEnded)
}

/// Does something first, and then ends the session, and with it whatever the session has in the queue. A signal does
/// not cut this short: it may well be the one that has just ended COMMAND.
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
            // How the caller is told of this one is special.
            (None, Some(signal)) if signal == Signal::SIGINT as i32 => Finish::Signal(Signal::SIGINT),
            (None, signal) => Finish::Status(status_of(signal.unwrap_or_default())),
        },
    }
}

/// To the millisecond.
fn rounded(time: Duration) -> humantime::FormattedDuration {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(ms))
}
