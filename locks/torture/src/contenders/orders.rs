//! What the task of a process is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::history::History;
use crate::library::Library;

/// What the storm and the round order.
pub(crate) enum ProcessOrder {
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
    Missing(oneshot::Sender<Vec<MissingLock>>),
}

/// What a process waits for.
pub(crate) struct MissingLock {
    pub(crate) what: String,
    /// The paths of the lock.
    pub(crate) paths: Vec<String>,
}

/// What all processes of a round share.
#[derive(Clone, Default)]
pub(crate) struct RoundShared {
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) sessions: Arc<Mutex<Vec<OpenedSession>>>,
    /// The version of each library.
    pub(crate) versions: Arc<Mutex<BTreeMap<String, String>>>,
    /// What adapters said that makes no sense, one line each.
    pub(crate) nonsense: Arc<Mutex<Vec<String>>>,
}

/// A session that was opened.
#[derive(Clone, Copy)]
pub(crate) struct OpenedSession {
    /// Its number, where the server has sessions.
    pub(crate) session: Option<i64>,
    /// The number of its process.
    pub(crate) process: usize,
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
