//! The watch over a hold: while COMMAND runs, and afterwards until `--at-least` is over.

use std::future::pending;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::time::Instant;

use nix::sys::signal::Signal;
use tokio::time::sleep;
use zk_recipes::{ConnectionState, Error as LockError, HoldState, LockGuard, LostReason, Session};

use crate::cli::{OnLost, OnRevoke, RunSettings};
use crate::error::Error;
use crate::job::{self, Job};
use crate::notices::{Notices, rounded};
use crate::signals::{Signals, is_ending};

/// The end of COMMAND and of its hold.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` when COMMAND was stopped, or not even started, because the hold was lost.
    pub(crate) status: Option<ExitStatus>,
    /// Why the hold was or may have been lost before COMMAND ended.
    pub(crate) lost: Option<LostReason>,
}

/// The watch over a hold.
pub(crate) struct HoldWatcher<'a> {
    pub(crate) settings: &'a RunSettings,
    pub(crate) session: &'a Session,
    pub(crate) held: &'a LockGuard,
    /// When the lock was granted.
    pub(crate) granted: Instant,
    pub(crate) notices: &'a Notices,
}

impl HoldWatcher<'_> {
    /// Runs COMMAND until it has ended, by itself or because the hold was lost. Then keeps the lock as long as `--at-least` says.
    pub(crate) async fn over_command(&self, signals: &mut Signals) -> Result<Ended, Error> {
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
        let mut request = pin!(self.request());
        let mut is_requested = false;
        let mut is_told_to_end = false;
        let mut lost = None;
        // `changed` reports only later states.
        if states.current() != ConnectionState::Connected {
            self.report(states.current());
        }
        loop {
            let reason = tokio::select! {
                // The loss comes first: nothing may delay the kill.
                biased;
                reason = self.held.lost(), if lost.is_none() => reason,
                answer = &mut request, if lost.is_none() && !is_requested => {
                    is_requested = true;
                    let Err(reason) = answer else {
                        self.answer_request(&job);
                        continue;
                    };
                    reason
                }
                status = job.ended() => {
                    let status = status.map_err(Error::system("wait for the command"))?;
                    // The hold may have been lost after `lost` was polled above.
                    if lost.is_none() && let HoldState::Lost(reason) = self.held.state() {
                        self.say_lost(reason);
                        lost = Some(reason);
                    }
                    if lost.is_none() && !is_requested && !is_told_to_end {
                        lost = self.keep(signals, request).await;
                    }
                    return Ok(Ended { status: Some(status), lost });
                }
                signal = signals.next() => {
                    is_told_to_end |= is_ending(signal);
                    job.forward(signal);
                    continue;
                }
                Some(state) = states.changed(), if lost.is_none() => {
                    self.report(state);
                    continue;
                }
            };
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
    }

    /// Waits until somebody asks for the lock. An error says that somebody has deleted the node of the hold instead.
    async fn request(&self) -> Result<(), LostReason> {
        if self.settings.on_revoke == OnRevoke::Ignore {
            return pending().await;
        }
        let revocation = self.held.revocation();
        match revocation.requested().await {
            Ok(()) => Ok(()),
            Err(LockError::NodeDeleted { .. }) => Err(LostReason::NodeDeleted),
            Err(error) => {
                // The end of the session is a loss, which the hold reports.
                if !matches!(error, LockError::SessionEnded { .. }) {
                    let path = &self.settings.path;
                    self.notices.say(format_args!("cannot see whether somebody asks for {path}: {error}"));
                }
                pending().await
            }
        }
    }

    /// Carries out `--on-revoke`.
    fn answer_request(&self, job: &Job) {
        let path = &self.settings.path;
        match self.settings.on_revoke {
            OnRevoke::Stop => {
                job.forward(Signal::SIGTERM);
                self.notices.say(format_args!("somebody asks for {path}, and the command is asked to stop"));
            }
            OnRevoke::Warn | OnRevoke::Ignore => {
                self.notices.say(format_args!("somebody asks for {path}, and the command goes on"))
            }
        }
    }

    /// Keeps the lock until `--at-least` is over, or until somebody wants the hold to end. COMMAND has ended. Returns why the hold
    /// was lost, if that may have been before COMMAND ended.
    async fn keep(
        &self,
        signals: &mut Signals,
        request: Pin<&mut impl Future<Output = Result<(), LostReason>>>,
    ) -> Option<LostReason> {
        let rest = self.settings.at_least.saturating_sub(self.granted.elapsed());
        if rest.is_zero() {
            return None;
        }
        let path = &self.settings.path;
        self.notices.detail(format_args!("the command has ended, and {path} is kept for another {}", rounded(rest)));
        let lost = tokio::select! {
            biased;
            reason = self.held.lost() => reason,
            answer = request => match answer {
                Err(reason) => reason,
                Ok(()) => {
                    self.notices.say(format_args!("somebody asks for {path}: it is free before --at-least is over"));
                    return None;
                }
            },
            signal = signals.next_ending() => {
                self.notices.say(format_args!("{signal}: {path} is free before --at-least is over"));
                return None;
            }
            () = sleep(rest) => return None,
        };
        self.notices.say(format_args!("the hold of {path} was lost before --at-least was over: {lost}"));
        (!is_later_than_the_last_look(lost)).then_some(lost)
    }

    /// Stops COMMAND before another contender can hold the lock, and prints lines only afterwards.
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
                self.notices.say(format_args!("ZooKeeper answers again; the hold of {path} is certain"));
            }
            ConnectionState::Suspended => {
                self.notices.say(format_args!("ZooKeeper does not answer; the hold of {path} is suspect"));
            }
            // The hold reports the loss and its reason.
            ConnectionState::Lost(_) => {}
        }
    }
}

/// Returns whether a loss came after the end of COMMAND, and so harms nobody. When COMMAND had ended, the hold was not
/// lost by our clock. Only our clock or this process can have lost it since, by one of these reasons.
///
/// A server reports the other reasons, and does not say since when. Our clock does not know either: it stands still
/// while the machine is suspended, and servers that were restored have forgotten the session.
pub(crate) fn is_later_than_the_last_look(reason: LostReason) -> bool {
    use LostReason::{Closed, CredentialsMissing, CredentialsRefused, RuntimeEnded, Silence};
    matches!(reason, Silence | Closed | CredentialsRefused | CredentialsMissing | RuntimeEnded)
}
