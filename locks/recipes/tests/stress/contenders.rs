//! The contenders: they acquire locks in every form, hold them under the eyes of the judge, and let go in every form.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use zk_recipes::{Error, HoldState, LostReason, Session};

use crate::checker::CertainHold;
use crate::contended::{Contended, GrantedHold, within_polls};
use crate::contended_paths::{self, ContendedPath, ContenderKind};
use crate::record::{JudgedHold, Subject};
use crate::stress_run::StressRun;

/// The polls after which a future is dropped, at most.
const POLLS_MAX: u32 = 12;

/// A task that contends for one lock after the other.
#[derive(Debug)]
pub(crate) struct ContenderTask {
    run: Arc<StressRun>,
    session_number: usize,
    name: String,
    rng: ChaCha8Rng,
}

/// What became of an acquire.
enum AcquireOutcome {
    Granted(GrantedHold),
    NotHad,
    Cancelled,
}

impl ContenderTask {
    pub(crate) fn new(run: &Arc<StressRun>, session_number: usize, number: usize) -> Self {
        let part = 1000 * (session_number as u64 + 1) + number as u64;
        Self {
            run: Arc::clone(run),
            session_number,
            name: format!("contender {session_number}.{number}"),
            rng: run.rng(part),
        }
    }

    /// Contends until the run is to end.
    pub(crate) async fn run(mut self) {
        while self.run.record.is_running() {
            let session = self.run.sessions[self.session_number].session();
            if session.is_ended() {
                self.run.record.pause(Duration::from_millis(20)).await;
                continue;
            }
            let contended = contended_paths::choose(&mut self.rng);
            let kind = contended.kinds[self.rng.random_range(0..contended.kinds.len())];
            self.round(&session, contended, kind).await;
            let pause = self.rng.random_range(0..15);
            self.run.record.pause(Duration::from_millis(pause)).await;
        }
    }

    /// Contends once, in a random form.
    pub(crate) async fn round(&mut self, session: &Session, contended: &'static ContendedPath, kind: ContenderKind) {
        let lock = contended_paths::lock(kind, session, contended.path, &mut self.rng).unwrap();
        let outcome = self.acquire(&lock).await;
        let record = Arc::clone(&self.run.record);
        match outcome {
            Ok(AcquireOutcome::Granted(granted)) => self.hold(contended, kind, session, granted).await,
            Ok(AcquireOutcome::NotHad) => record.count("not had in time"),
            Ok(AcquireOutcome::Cancelled) => record.count("acquires cancelled"),
            Err(error) => self.failed("acquire", contended, &error),
        }
    }

    /// Acquires until it was granted, each time in the session of the moment: what every contender can do after the faults.
    pub(crate) async fn acquire_at_last(&mut self, contended: &'static ContendedPath, kind: ContenderKind) {
        let run = Arc::clone(&self.run);
        loop {
            let session = run.sessions[self.session_number].live_session().await;
            let lock = contended_paths::lock(kind, &session, contended.path, &mut self.rng).unwrap();
            match lock.acquire().await {
                Ok(granted) => return self.hold(contended, kind, &session, granted).await,
                Err(error) => self.failed("acquire after the faults", contended, &error),
            }
        }
    }

    async fn acquire(&mut self, lock: &Contended) -> Result<AcquireOutcome, Error> {
        let rng = &mut self.rng;
        let or_not_had = |granted: Option<GrantedHold>| granted.map_or(AcquireOutcome::NotHad, AcquireOutcome::Granted);
        let or_cancelled = |granted: Option<Result<GrantedHold, Error>>| match granted {
            Some(granted) => granted.map(AcquireOutcome::Granted),
            None => Ok(AcquireOutcome::Cancelled),
        };
        match rng.random_range(0..100) {
            0..45 => lock.acquire().await.map(AcquireOutcome::Granted),
            45..58 => lock.acquire_within(Duration::from_millis(rng.random_range(1..1000))).await.map(or_not_had),
            58..66 => lock.try_acquire().await.map(or_not_had),
            66..76 => lock.enqueue(Duration::from_millis(rng.random_range(0..20))).await.map(AcquireOutcome::Granted),
            76..90 => or_cancelled(within_polls(rng.random_range(1..=POLLS_MAX), lock.acquire()).await),
            _ => {
                let delay = Duration::from_millis(rng.random_range(0..400));
                or_cancelled(tokio::time::timeout(delay, lock.acquire()).await.ok())
            }
        }
    }

    /// Holds for a random time, and lets go in a random form.
    async fn hold(
        &mut self,
        contended: &'static ContendedPath,
        kind: ContenderKind,
        session: &Session,
        granted: GrantedHold,
    ) {
        let run = Arc::clone(&self.run);
        let record = Arc::clone(&self.run.record);
        let time = match self.rng.random_range(0..400) {
            0..160 => 0,
            160..399 => self.rng.random_range(0..25),
            _ => self.rng.random_range(500..3500),
        };
        // Most sessions expire only while their session is silent.
        let outlasts_silence = self.rng.random_bool(0.7);
        let until = record.now() + Duration::from_millis(time);
        let mut watched: Vec<Option<JudgedHold>> = granted.guards().iter().map(|_| None).collect();
        record.count(&format!("grants of {kind:?}"));
        let holder = outlasts_silence.then(|| run.sessions[self.session_number].note_holder());
        loop {
            for (guard, watched) in granted.guards().iter().zip(&mut watched) {
                // Before the guard is asked; see `checker`.
                let at = record.now();
                match (guard.state(), &watched) {
                    (HoldState::Lost(_), _) => {}
                    (HoldState::Held | HoldState::Suspect, Some(watched)) => watched.extend(at),
                    (HoldState::Held | HoldState::Suspect, None) => {
                        let token = (guard.token().czxid(), guard.token().handover());
                        let lock = contended_paths::lock_of(guard.node_path());
                        let node = guard.node_path().to_owned();
                        let who = format!("{} as {kind:?} of session {:#x}", self.name, session.id());
                        record.note(Subject::Lock(lock), format!("{who} holds {node} with token {token:?}"));
                        let session_number = self.session_number;
                        let is_reader = kind == ContenderKind::Read;
                        let hold =
                            CertainHold { lock, who, session_number, node, token, is_reader, first: at, last: at };
                        *watched = Some(record.watch(hold));
                    }
                }
            }
            let is_over = record.now() >= until && !(outlasts_silence && run.sessions[self.session_number].is_silent());
            if is_over || granted.is_lost() || !record.is_running() {
                break;
            }
            let pause = self.rng.random_range(1..6);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if granted.is_lost() {
            record.count("holds lost");
            record.note(Subject::Lock(contended.path), format!("{} as {kind:?} has lost its hold", self.name));
        }
        record.note(Subject::Lock(contended.path), format!("{} as {kind:?} lets go", self.name));
        // What is certain of the hold ends here.
        drop(watched);
        drop(holder);
        match self.rng.random_range(0..100) {
            0..80 => {
                if let Err(error) = granted.release().await {
                    self.failed("release", contended, &error);
                }
            }
            80..90 => {
                let polls = self.rng.random_range(1..=POLLS_MAX);
                if within_polls(polls, granted.release()).await.is_none() {
                    record.count("releases cancelled");
                }
            }
            _ => {
                drop(granted);
                record.count("guards dropped");
            }
        }
    }

    /// Counts an error, and fails the run if it is none that the faults may cause.
    fn failed(&self, what: &str, contended: &'static ContendedPath, error: &Error) {
        let record = &self.run.record;
        record.note(Subject::Lock(contended.path), format!("{} failed to {what}: {error}", self.name));
        record.count(&format!("errors of {what}: {}", self.kind_of(contended, error)));
    }

    fn kind_of(&self, contended: &'static ContendedPath, error: &Error) -> &'static str {
        let record = &self.run.record;
        match error {
            Error::SessionEnded { .. } => "session ended",
            Error::NoAnswer { .. } => "no answer",
            Error::Unconfirmed { .. } => "unconfirmed",
            Error::HoldLost { node_path, reason: LostReason::NodeDeleted, .. } => {
                self.expect_deleted(node_path);
                "hold lost, as its node was deleted"
            }
            Error::HoldLost { .. } => "hold lost",
            Error::NodeDeleted { path, .. } => {
                self.expect_deleted(path);
                "node deleted"
            }
            error @ Error::Several { .. } => {
                for error in error.errors() {
                    self.kind_of(contended, error);
                }
                "several"
            }
            error => {
                record
                    .fail(format!("{} got an error that no fault explains at {}: {error}", self.name, contended.path));
                "unexpected"
            }
        }
    }

    /// Fails the run if nobody has deleted the node by hand.
    fn expect_deleted(&self, path: &str) {
        let record = &self.run.record;
        if !record.history(|history| history.was_deleted(path)) {
            let concerned =
                [Subject::Lock(contended_paths::lock_of(path)), Subject::Session(self.session_number), Subject::Server];
            let trace = record.trace(|_, subject| concerned.contains(subject));
            record.fail(format!("{} was told that {path} was deleted, and nobody did:\n{trace}", self.name));
        }
    }
}
