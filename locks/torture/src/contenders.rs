//! The contenders of one process: an adapter, what it is asked for, and what it answers.
//!
//! One task has the process. It keeps a few contenders at work, writes down what they say, and carries out what the storm orders.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use testbed::Process;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::history::{History, Operation};
use crate::library::{ContendedLock, LOCKS, Library, PERMITS};
use crate::lines::{Answer, LockKind, Request, now};

/// Contenders of a process.
const CONTENDERS: usize = 3;
/// How long an adapter may take from its start to its first line, on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a process is listened to at a time.
const LISTENING: Duration = Duration::from_secs(3600);
/// The longest time of a hold that is to meet a fault.
const EXPOSED: Duration = Duration::from_secs(12);
/// The pause after a failed acquire.
const AGAIN: Duration = Duration::from_millis(100);

/// What the storm and the round order.
pub(crate) enum Order {
    /// Contend, or begin nothing new.
    Contend(bool),
    /// Hold on, as a fault is about to come; the answer comes as soon as somebody holds. `false` ends that.
    HoldOn(bool, oneshot::Sender<()>),
    Pause(oneshot::Sender<Result<(), testbed::Error>>),
    Resume(oneshot::Sender<Result<(), testbed::Error>>),
    Kill(oneshot::Sender<Result<(), testbed::Error>>),
    Stop(oneshot::Sender<Result<(), testbed::Error>>),
    Launch(oneshot::Sender<Result<(), testbed::Error>>),
    /// Acquire each lock once; the answer comes when all were had.
    Serve(oneshot::Sender<()>),
    /// Tell what is still waited for.
    Missing(oneshot::Sender<Vec<String>>),
}

/// A handle to the task of a process.
pub(crate) struct Contenders {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// What all processes of a round share.
#[derive(Clone)]
pub(crate) struct RoundShared {
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) sessions: Arc<Mutex<u64>>,
}

/// How a process is started, and what it draws.
pub(crate) struct ContenderSettings {
    pub(crate) library: Library,
    pub(crate) connect_string: String,
    pub(crate) session_timeout: Duration,
    pub(crate) number: usize,
    pub(crate) seed: u64,
    /// Whether each contender asks for the mutex only.
    pub(crate) mutex_only: bool,
}

impl Contenders {
    /// Starts the process, and waits until it takes requests.
    pub(crate) async fn start(settings: ContenderSettings, shared: RoundShared) -> Result<Contenders, testbed::Error> {
        let mut draws = ChaCha8Rng::seed_from_u64(settings.seed);
        draws.set_stream(1 + settings.number as u64);
        let mut task = Task {
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
            slots: (0..CONTENDERS).map(|_| Slot { state: SlotState::Idle, due: Instant::now() }).collect(),
            operations: HashMap::new(),
            count: 0,
        };
        task.launch().await?;
        let (orders, received) = mpsc::unbounded_channel();
        Ok(Contenders { orders, task: tokio::spawn(task.run(received)) })
    }

    /// Begins or ends to contend.
    pub(crate) fn contend(&self, is_contending: bool) {
        let _ = self.orders.send(Order::Contend(is_contending));
    }

    /// Gives an order, and waits for its answer.
    pub(crate) async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        // A task that has ended answers nothing.
        let _ = self.orders.send(order(sender));
        answer.await.ok()
    }

    /// Ends the process, and writes down what was not over.
    pub(crate) async fn end(self) {
        drop(self.orders);
        let _ = self.task.await;
    }
}

#[derive(Debug, Default)]
struct Abilities {
    locks: Vec<ContendedLock>,
    reenters: bool,
    cancels: bool,
}

/// A contender.
struct Slot {
    state: SlotState,
    /// When it does what comes next.
    due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Idle,
    /// It was asked to acquire, and may be cancelled when it is due.
    Asked(u64, bool),
    /// It holds. The flag: it holds on while a fault strikes.
    Holds(u64, bool),
    /// It was asked to release.
    Leaves(u64),
}

struct Task {
    settings: ContenderSettings,
    shared: RoundShared,
    draws: ChaCha8Rng,
    process: Option<Process>,
    is_frozen: bool,
    is_contending: bool,
    holds_on: bool,
    /// Who waits for a holder.
    on_hold: Vec<oneshot::Sender<()>>,
    /// The locks that are still to be had, the last one first, and who waits for that.
    serving: Option<(Vec<ContendedLock>, Option<oneshot::Sender<()>>)>,
    can: Abilities,
    slots: Vec<Slot>,
    operations: HashMap<u64, Operation>,
    count: u64,
}

impl Task {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let due = self.slots.iter().map(|slot| slot.due).min().unwrap_or_else(Instant::now);
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

    async fn obey(&mut self, order: Order) {
        // Whoever gave an order may have stopped to wait.
        match order {
            Order::Contend(is_contending) => self.is_contending = is_contending,
            Order::HoldOn(holds_on, answer) => {
                self.holds_on = holds_on;
                if holds_on {
                    self.on_hold.push(answer);
                    self.tell_holders();
                } else {
                    let _ = answer.send(());
                }
            }
            Order::Pause(answer) => {
                let paused = self.process.as_ref().map_or(Ok(()), Process::pause);
                self.is_frozen = paused.is_ok();
                let _ = answer.send(paused);
            }
            Order::Resume(answer) => {
                self.is_frozen = false;
                let _ = answer.send(self.process.as_ref().map_or(Ok(()), Process::resume));
            }
            Order::Kill(answer) => {
                let killed = match self.process.take() {
                    Some(process) => process.kill().await,
                    None => Ok(()),
                };
                self.gone();
                let _ = answer.send(killed);
            }
            Order::Stop(answer) => {
                let stopped = match self.process.take() {
                    Some(process) => process.stop().await.map(drop),
                    None => Ok(()),
                };
                self.gone();
                let _ = answer.send(stopped);
            }
            Order::Launch(answer) => {
                let launched = if self.process.is_some() { Ok(()) } else { self.launch().await };
                let _ = answer.send(launched);
            }
            Order::Serve(answer) => {
                self.is_contending = false;
                self.holds_on = false;
                if self.can.locks.is_empty() {
                    let _ = answer.send(());
                } else {
                    self.serving = Some((self.can.locks.clone(), Some(answer)));
                }
            }
            Order::Missing(answer) => {
                let _ = answer.send(self.missing());
            }
        }
    }

    /// Starts the process, and waits for its first line.
    async fn launch(&mut self) -> Result<(), testbed::Error> {
        let ContenderSettings { library, connect_string, session_timeout, mutex_only, .. } = &self.settings;
        let mut process = Process::spawn(library.config(connect_string, *session_timeout))?;
        loop {
            let Some(line) = process.line(READY_WITHIN).await? else {
                let name = format!("the adapter of {}", library.name);
                return Err(testbed::Error::NotReady { name, within: READY_WITHIN, log: process.log_tail() });
            };
            match serde_json::from_str(&line) {
                Ok(Answer::Ready { locks, reenters, cancels }) => {
                    let is_wanted = |lock: &ContendedLock| {
                        locks.contains(&lock.kind) && (!mutex_only || lock.kind == LockKind::Mutex)
                    };
                    let locks = LOCKS.into_iter().filter(is_wanted).collect();
                    self.can = Abilities { locks, reenters, cancels };
                    break;
                }
                Ok(Answer::Session) => *self.shared.sessions.lock() += 1,
                _ => {}
            }
        }
        self.process = Some(process);
        self.is_frozen = false;
        self.slots.iter_mut().for_each(|slot| slot.due = Instant::now());
        Ok(())
    }

    /// Does what is due.
    fn act(&mut self) {
        let time = Instant::now();
        for position in 0..self.slots.len() {
            if self.slots[position].due > time {
                continue;
            }
            match self.slots[position].state {
                SlotState::Idle => self.begin(position),
                SlotState::Asked(id, true) => {
                    self.slots[position].state = SlotState::Asked(id, false);
                    self.wait(position, LISTENING);
                    self.say(&Request::Cancel { id });
                }
                SlotState::Holds(id, holds_on) => {
                    let acquired = self.operations.get(&id).and_then(|operation| operation.acquired);
                    let held = Duration::from_nanos((now() - acquired.unwrap_or_default()).unsigned_abs());
                    if holds_on && self.holds_on && held < EXPOSED {
                        self.wait(position, AGAIN);
                    } else {
                        self.leave(position, id);
                    }
                }
                SlotState::Asked(..) | SlotState::Leaves(_) => self.wait(position, LISTENING),
            }
        }
    }

    fn wait(&mut self, position: usize, time: Duration) {
        self.slots[position].due = Instant::now() + time;
    }

    fn leave(&mut self, position: usize, id: u64) {
        self.slots[position].state = SlotState::Leaves(id);
        self.wait(position, LISTENING);
        self.say(&Request::Release { id });
    }

    /// Asks for a lock, if there is one to ask for.
    fn begin(&mut self, position: usize) {
        let wanted = match &self.serving {
            Some((locks, _)) if position == 0 => locks.last().copied(),
            None if self.is_contending => {
                self.can.locks.choose_weighted(&mut self.draws, |lock| lock.weight).ok().copied()
            }
            _ => None,
        };
        let Some(ContendedLock { kind, paths, .. }) = wanted else { return self.wait(position, AGAIN) };
        self.count += 1;
        let id = ((self.settings.number as u64) << 32) | self.count;
        let within_ms = match self.draws.random_range(0..100) {
            _ if self.serving.is_some() => 10_000,
            0..55 => 8000,
            55..70 => 2000,
            70..85 => self.draws.random_range(1..500),
            _ => 0,
        };
        let permits = if kind == LockKind::Semaphore { self.draws.random_range(1..PERMITS) } else { 1 };
        let is_cancelled = self.can.cancels && self.serving.is_none() && self.draws.random_ratio(1, 8);
        let cancelled_after = if is_cancelled { self.draws.random_range(0..400) } else { 3_600_000 };
        self.slots[position].state = SlotState::Asked(id, is_cancelled);
        self.wait(position, Duration::from_millis(cancelled_after));
        self.operations.insert(
            id,
            Operation {
                id,
                library: self.settings.library.name.clone(),
                process: self.settings.number,
                lock: kind,
                paths: paths.iter().map(|path| (*path).to_owned()).collect(),
                permits,
                asked: now(),
                acquired: None,
                tokens: Vec::new(),
                last: None,
                reentered: None,
                lost: None,
                ended: None,
                error: None,
            },
        );
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let permits = (kind == LockKind::Semaphore).then_some((PERMITS, permits));
        self.say(&Request::Acquire { id, lock: kind, paths, within_ms, permits });
    }

    /// Writes down what the process says.
    fn hear(&mut self, line: &str) {
        let Ok(answer) = serde_json::from_str::<Answer>(line) else { return };
        match answer {
            Answer::Ready { .. } | Answer::Left { .. } => {}
            Answer::Session => *self.shared.sessions.lock() += 1,
            Answer::Acquired { id, at, tokens } => self.acquired(id, at, tokens),
            Answer::Holding { id, at } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.last = Some(at);
                }
            }
            Answer::Reentered { id, at, tokens } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.reentered = Some((at, tokens));
                }
                self.say(&Request::Leave { id });
            }
            Answer::Lost { id, at } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.lost = Some(at);
                }
                if let Some(slot) =
                    self.slots.iter_mut().find(|slot| matches!(slot.state, SlotState::Holds(own, _) if own == id))
                {
                    slot.state = SlotState::Holds(id, false);
                    slot.due = Instant::now();
                }
            }
            Answer::Released { id, at, error } => {
                let is_served = error.is_none();
                self.ended(id, at, error);
                if let Some((locks, answer)) = self.serving.as_mut().filter(|_| is_served) {
                    locks.pop();
                    if locks.is_empty()
                        && let Some(answer) = answer.take()
                    {
                        let _ = answer.send(());
                    }
                }
            }
            Answer::Failed { id, at, error } => self.ended(id, at, error),
        }
    }

    fn acquired(&mut self, id: u64, at: i64, tokens: Vec<crate::lines::Token>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.acquired = Some(at);
        operation.tokens = tokens;
        let kind = operation.lock;
        let Some(position) =
            self.slots.iter().position(|slot| matches!(slot.state, SlotState::Asked(own, _) if own == id))
        else {
            return;
        };
        let is_serving = self.serving.is_some();
        let holds_on = !is_serving && self.draws.random();
        let held_ms = match self.draws.random_range(0..100) {
            _ if is_serving => 0,
            0..60 => self.draws.random_range(0..20),
            60..95 => self.draws.random_range(20..300),
            _ => self.draws.random_range(1000..4000),
        };
        self.slots[position].state = SlotState::Holds(id, holds_on);
        self.wait(position, Duration::from_millis(held_ms));
        let has_owners = matches!(kind, LockKind::Mutex | LockKind::Handoff);
        if self.can.reenters && has_owners && !is_serving && self.draws.random_ratio(1, 10) {
            self.say(&Request::Reenter { id });
        }
        self.tell_holders();
    }

    /// Answers those that wait for a holder, if there is one that holds on.
    fn tell_holders(&mut self) {
        if self.holds_on && self.slots.iter().any(|slot| matches!(slot.state, SlotState::Holds(_, true))) {
            for answer in self.on_hold.drain(..) {
                let _ = answer.send(());
            }
        }
    }

    /// Writes down that an acquire is over.
    fn ended(&mut self, id: u64, at: i64, error: Option<String>) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        let pause = if error.is_some() { AGAIN } else { Duration::from_millis(self.draws.random_range(0..30)) };
        operation.ended = Some(at);
        operation.error = error;
        self.shared.history.lock().operations.push(operation);
        let is_its = |slot: &&mut Slot| match slot.state {
            SlotState::Asked(own, _) | SlotState::Holds(own, _) | SlotState::Leaves(own) => own == id,
            SlotState::Idle => false,
        };
        if let Some(slot) = self.slots.iter_mut().find(is_its) {
            slot.state = SlotState::Idle;
            slot.due = Instant::now() + pause;
        }
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
    fn missing(&self) -> Vec<String> {
        let own = format!("process {} of {}", self.settings.number, self.settings.library.name);
        if self.process.is_none() {
            return vec![format!("{own} has ended")];
        }
        let waiting = self.slots.iter().filter(|slot| slot.state != SlotState::Idle);
        let stuck = waiting.filter_map(|slot| match slot.state {
            SlotState::Asked(id, _) => Some(format!("{own} was not answered whether it has {}", self.lock_of(id))),
            SlotState::Leaves(id) => {
                Some(format!("{own} was not answered whether it has released {}", self.lock_of(id)))
            }
            SlotState::Holds(..) | SlotState::Idle => None,
        });
        let unserved = self.serving.iter().flat_map(|(locks, _)| locks);
        stuck.chain(unserved.map(|lock| format!("{own} did not get {:?}", lock.kind))).collect()
    }

    fn lock_of(&self, id: u64) -> String {
        self.operations.get(&id).map_or_else(String::new, |operation| format!("{:?}", operation.lock))
    }

    fn say(&mut self, request: &Request) {
        if let (Some(process), Ok(line)) = (&self.process, serde_json::to_string(request)) {
            // A process that has ended is noticed by its silence.
            let _ = process.say(&line);
        }
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
