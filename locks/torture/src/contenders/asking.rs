//! What contenders ask for, and what becomes of it.

use std::time::Duration;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use tokio::time::Instant;

use super::orders::{ContenderSettings, OpenedSession};
use super::task::{ContenderOfProcess, ContenderState, LISTENING, ProcessTask};
use crate::history::Operation;
use crate::library::{ContendedLock, PERMITS};
use crate::lines::{Asked, LockKind, Said, Token, now};

/// The longest time of a hold that is to meet a fault.
const EXPOSED: Duration = Duration::from_secs(12);
/// How long a process waits for a lock after the faults before it tries the next one, in milliseconds.
const SERVED_MS: u64 = 3000;
/// How much nonsense of adapters is told.
const NONSENSE_MAX: usize = 5;
/// The pause after a failed acquire.
const AGAIN: Duration = Duration::from_millis(100);

impl ProcessTask {
    /// Does what is due.
    pub(super) fn act(&mut self) {
        let time = Instant::now();
        for position in 0..self.contenders.len() {
            if self.contenders[position].due > time {
                continue;
            }
            match self.contenders[position].state {
                ContenderState::Idle => self.begin(position),
                ContenderState::Asked(id, true) => {
                    self.contenders[position].state = ContenderState::Asked(id, false);
                    self.wait(position, LISTENING);
                    self.say(&Asked::Cancel { id });
                }
                ContenderState::Holds(id, holds_on) => {
                    let acquired = self.operations.get(&id).and_then(|operation| operation.acquired);
                    let held = Duration::from_nanos((now() - acquired.unwrap_or_default()).unsigned_abs());
                    if holds_on && self.holds_on && held < EXPOSED {
                        self.wait(position, AGAIN);
                    } else {
                        self.leave(position, id);
                    }
                }
                ContenderState::Asked(..) | ContenderState::Leaves(_) => self.wait(position, LISTENING),
            }
        }
    }

    fn wait(&mut self, position: usize, time: Duration) {
        self.contenders[position].due = Instant::now() + time;
    }

    fn leave(&mut self, position: usize, id: u64) {
        self.contenders[position].state = ContenderState::Leaves(id);
        self.wait(position, LISTENING);
        self.say(&Asked::Release { id });
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
            _ if self.serving.is_some() => SERVED_MS,
            0..55 => 8000,
            55..70 => 2000,
            70..85 => self.draws.random_range(1..500),
            _ => 0,
        };
        let permits = if kind == LockKind::Semaphore { self.draws.random_range(1..PERMITS) } else { 1 };
        let is_cancelled = self.can.cancels && self.serving.is_none() && self.draws.random_ratio(1, 8);
        let cancelled_after = if is_cancelled { self.draws.random_range(0..400) } else { 3_600_000 };
        self.contenders[position].state = ContenderState::Asked(id, is_cancelled);
        self.wait(position, Duration::from_millis(cancelled_after));
        let ContenderSettings { library, number: process, .. } = &self.settings;
        self.operations.insert(
            id,
            Operation {
                id,
                library: library.name.clone(),
                process: *process,
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
        self.say(&Asked::Acquire { id, lock: kind, paths, within_ms, permits });
    }

    /// Writes down what the process says.
    pub(super) fn hear(&mut self, line: &str) {
        let said = match serde_json::from_str::<Said>(line) {
            Ok(said) => said,
            Err(error) => return self.nonsense(&format!("{error} in {line}")),
        };
        match said {
            Said::Ready { .. } | Said::Left { .. } => {}
            Said::Session { session } => {
                self.shared.sessions.lock().push(OpenedSession { session, process: self.settings.number })
            }
            Said::Acquired { id, at, tokens } => self.acquired(id, at, tokens),
            Said::Holding { id, at } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.last = Some(at);
                }
            }
            Said::Reentered { id, at, tokens } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.reentered = Some((at, tokens));
                }
                self.say(&Asked::Leave { id });
            }
            Said::Lost { id, at } => {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.lost = Some(at);
                }
                if let Some(contender) = self
                    .contenders
                    .iter_mut()
                    .find(|contender| matches!(contender.state, ContenderState::Holds(own, _) if own == id))
                {
                    contender.state = ContenderState::Holds(id, false);
                    contender.due = Instant::now();
                }
            }
            Said::Released { id, at, error } => {
                self.served(id, error.is_none());
                self.ended(id, at, error);
            }
            Said::Failed { id, at, error } => {
                self.served(id, false);
                self.ended(id, at, error);
            }
        }
    }

    /// Writes down that the adapter said what makes no sense. Once is enough.
    fn nonsense(&self, what: &str) {
        let ContenderSettings { library, .. } = &self.settings;
        let line = format!("the adapter of {}: {what}", library.name);
        let mut told = self.shared.nonsense.lock();
        if !told.contains(&line) && told.len() < NONSENSE_MAX {
            told.push(line);
        }
    }

    /// Goes on to the next lock that the process must still get, if this was one of them.
    fn served(&mut self, id: u64, is_had: bool) {
        let Some((locks, answer)) = self.serving.as_mut() else { return };
        let wanted = locks.last().map(|lock| lock.kind);
        if self.operations.get(&id).map(|operation| operation.lock) != wanted {
            return;
        }
        if is_had {
            locks.pop();
        } else {
            // The others may be free.
            locks.rotate_right(1);
        }
        if locks.is_empty()
            && let Some(answer) = answer.take()
        {
            // Nobody may wait for it any more.
            let _ = answer.send(());
        }
    }

    fn acquired(&mut self, id: u64, at: i64, tokens: Vec<Token>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let is_sane = operation.asked <= at && at <= now();
        // A hold without a time proves nothing.
        operation.acquired = Some(at).filter(|_| is_sane);
        operation.tokens = tokens;
        let kind = operation.lock;
        if !is_sane {
            self.nonsense("its times are not those of the monotonic clock");
        }
        let Some(position) = self
            .contenders
            .iter()
            .position(|contender| matches!(contender.state, ContenderState::Asked(own, _) if own == id))
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
        self.contenders[position].state = ContenderState::Holds(id, holds_on);
        self.wait(position, Duration::from_millis(held_ms));
        let has_owners = matches!(kind, LockKind::Mutex | LockKind::Handoff);
        if self.can.reenters && has_owners && !is_serving && self.draws.random_ratio(1, 10) {
            self.say(&Asked::Reenter { id });
        }
        self.tell_holders();
    }

    /// Answers those that wait for a holder, if there is one that holds on.
    pub(super) fn tell_holders(&mut self) {
        if self.holds_on
            && self.contenders.iter().any(|contender| matches!(contender.state, ContenderState::Holds(_, true)))
        {
            for answer in self.on_hold.drain(..) {
                let _ = answer.send(());
            }
        }
    }

    /// Writes down that an acquire is over.
    pub(super) fn ended(&mut self, id: u64, at: i64, error: Option<String>) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        let pause = if error.is_some() { AGAIN } else { Duration::from_millis(self.draws.random_range(0..30)) };
        operation.ended = Some(at);
        operation.error = error;
        self.shared.history.lock().operations.push(operation);
        let is_its = |contender: &&mut ContenderOfProcess| match contender.state {
            ContenderState::Asked(own, _) | ContenderState::Holds(own, _) | ContenderState::Leaves(own) => own == id,
            ContenderState::Idle => false,
        };
        if let Some(contender) = self.contenders.iter_mut().find(is_its) {
            contender.state = ContenderState::Idle;
            contender.due = Instant::now() + pause;
        }
    }

    fn say(&mut self, request: &Asked) {
        if let (Some(process), Ok(line)) = (&self.process, serde_json::to_string(request)) {
            // A process that has ended is noticed by its silence.
            let _ = process.say(&line);
        }
    }
}
