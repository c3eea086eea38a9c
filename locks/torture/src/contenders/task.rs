//! The task that has a process, and carries out what it is told.

use std::collections::HashMap;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;
use testbed::Process;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::orders::{ContenderSettings, MissingLock, OpenedSession, ProcessOrder, RoundShared};
use crate::history::Operation;
use crate::library::{ContendedLock, LOCKS};
use crate::lines::{LockKind, Said, now};

/// Contenders of a process.
const CONTENDERS: usize = 3;
/// How long an adapter may take from its start to its first line, on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a process is listened to at a time.
pub(super) const LISTENING: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(super) struct Abilities {
    pub(super) locks: Vec<ContendedLock>,
    pub(super) reenters: bool,
    pub(super) cancels: bool,
}

/// A contender.
pub(super) struct ContenderOfProcess {
    pub(super) state: ContenderState,
    /// When it does what comes next.
    pub(super) due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContenderState {
    Idle,
    /// It was asked to acquire, and may be cancelled when it is due.
    Asked(u64, bool),
    /// It holds. The flag: it holds on while a fault strikes.
    Holds(u64, bool),
    /// It was asked to release.
    Leaves(u64),
}

pub(super) struct ProcessTask {
    pub(super) settings: ContenderSettings,
    pub(super) shared: RoundShared,
    pub(super) draws: ChaCha8Rng,
    pub(super) process: Option<Process>,
    pub(super) is_frozen: bool,
    pub(super) is_contending: bool,
    pub(super) holds_on: bool,
    /// The orders that wait for a holder.
    pub(super) on_hold: Vec<oneshot::Sender<()>>,
    /// The locks that a process must still get, the last one first. With them is the answer to the order that asks for them.
    pub(super) serving: Option<(Vec<ContendedLock>, Option<oneshot::Sender<()>>)>,
    pub(super) can: Abilities,
    pub(super) contenders: Vec<ContenderOfProcess>,
    pub(super) operations: HashMap<u64, Operation>,
    pub(super) count: u64,
}

impl ProcessTask {
    pub(super) fn new(settings: ContenderSettings, shared: RoundShared) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(settings.seed);
        draws.set_stream(1 + settings.number as u64);
        ProcessTask {
            settings,
            shared,
            draws,
            process: None,
            is_frozen: false,
            is_contending: false,
            holds_on: false,
            on_hold: Vec::new(),
            serving: None,
            can: Abilities::default(),
            contenders: (0..CONTENDERS)
                .map(|_| ContenderOfProcess { state: ContenderState::Idle, due: Instant::now() })
                .collect(),
            operations: HashMap::new(),
            count: 0,
        }
    }

    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<ProcessOrder>) {
        loop {
            let due = self.contenders.iter().map(|contender| contender.due).min().unwrap_or_else(Instant::now);
            let is_awake = self.process.is_some() && !self.is_frozen;
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => break,
                },
                line = listen(&mut self.process), if self.process.is_some() => match line {
                    Some(line) => self.hear(&line),
                    None => self.gone(),
                },
                () = sleep_until(due), if is_awake => self.act(),
            }
        }
        if let Some(process) = self.process.take() {
            let _ = process.resume();
            let _ = process.stop().await;
        }
        self.gone();
    }

    async fn obey(&mut self, order: ProcessOrder) {
        // Nobody may wait for an answer any more.
        match order {
            ProcessOrder::Contend(is_contending) => self.is_contending = is_contending,
            ProcessOrder::HoldOn(holds_on, answer) => {
                self.holds_on = holds_on;
                if holds_on {
                    self.on_hold.push(answer);
                    self.tell_holders();
                } else {
                    let _ = answer.send(());
                }
            }
            ProcessOrder::Pause(answer) => {
                let paused = self.process.as_ref().map_or(Ok(()), Process::pause);
                self.is_frozen = paused.is_ok();
                let _ = answer.send(paused);
            }
            ProcessOrder::Resume(answer) => {
                self.is_frozen = false;
                let _ = answer.send(self.process.as_ref().map_or(Ok(()), Process::resume));
            }
            ProcessOrder::Kill(answer) => {
                let killed = match self.process.take() {
                    Some(process) => process.kill().await,
                    None => Ok(()),
                };
                self.gone();
                let _ = answer.send(killed);
            }
            ProcessOrder::Stop(answer) => {
                let stopped = match self.process.take() {
                    Some(process) => process.stop().await.map(drop),
                    None => Ok(()),
                };
                self.gone();
                let _ = answer.send(stopped);
            }
            ProcessOrder::Launch(answer) => {
                let launched = if self.process.is_some() { Ok(()) } else { self.launch().await };
                let _ = answer.send(launched);
            }
            ProcessOrder::Serve(answer) => {
                self.is_contending = false;
                self.holds_on = false;
                if self.can.locks.is_empty() {
                    let _ = answer.send(());
                } else {
                    self.serving = Some((self.can.locks.clone(), Some(answer)));
                }
            }
            ProcessOrder::Missing(answer) => {
                let _ = answer.send(self.missing());
            }
        }
    }

    /// Starts the process, and waits for its first line.
    pub(super) async fn launch(&mut self) -> Result<(), testbed::Error> {
        let ContenderSettings { library, connect_string, session_timeout, mutex_only, .. } = &self.settings;
        let mut process = Process::spawn(library.config(connect_string, *session_timeout))?;
        loop {
            let Some(line) = process.line(READY_WITHIN).await? else {
                let name = format!("the adapter of {}", library.name);
                return Err(testbed::Error::NotReady { name, within: READY_WITHIN, log: process.log_tail() });
            };
            match serde_json::from_str(&line) {
                Ok(Said::Ready { locks, version, reenters, cancels }) => {
                    let is_wanted = |lock: &ContendedLock| {
                        locks.contains(&lock.kind) && (!mutex_only || lock.kind == LockKind::Mutex)
                    };
                    let locks = LOCKS.into_iter().filter(is_wanted).collect();
                    if let Some(version) = version {
                        self.shared.versions.lock().insert(library.name.clone(), version);
                    }
                    self.can = Abilities { locks, reenters, cancels };
                    break;
                }
                Ok(Said::Session { session }) => {
                    self.shared.sessions.lock().push(OpenedSession { session, process: self.settings.number })
                }
                _ => {}
            }
        }
        self.process = Some(process);
        self.is_frozen = false;
        self.contenders.iter_mut().for_each(|contender| contender.due = Instant::now());
        Ok(())
    }

    /// Writes down that the process has ended, and all that it held.
    fn gone(&mut self) {
        self.process = None;
        self.is_frozen = false;
        let at = now();
        let ids: Vec<u64> = self.operations.keys().copied().collect();
        for id in ids {
            self.ended(id, at, Some("its process has ended".to_owned()));
        }
    }

    /// Returns what is still waited for.
    fn missing(&self) -> Vec<MissingLock> {
        let own = format!("process {}", self.settings.number);
        if self.process.is_none() {
            return vec![MissingLock { what: format!("{own} has ended"), paths: Vec::new() }];
        }
        let asked = self.contenders.iter().filter_map(|contender| match contender.state {
            ContenderState::Asked(id, _) | ContenderState::Leaves(id) => self.operations.get(&id),
            ContenderState::Holds(..) | ContenderState::Idle => None,
        });
        let unanswered = asked.map(|operation| MissingLock {
            what: format!("{own} has no answer about {:?}", operation.lock),
            paths: operation.paths.clone(),
        });
        let wanted = self.serving.iter().flat_map(|(locks, _)| locks).map(|lock| MissingLock {
            what: format!("{own} did not get {:?}", lock.kind),
            paths: lock.paths.iter().map(|path| (*path).to_owned()).collect(),
        });
        unanswered.chain(wanted).collect()
    }
}

/// Returns the next line of a process. `None`: it has ended.
async fn listen(process: &mut Option<Process>) -> Option<String> {
    match process {
        Some(process) => loop {
            // Silence for an hour is no end.
            if let Ok(line) = process.line(LISTENING).await {
                return line;
            }
        },
        None => std::future::pending().await,
    }
}
