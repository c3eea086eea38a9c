//! The one error type of the program.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use program::{Exit, Interrupted, ProgramError, SystemError};

/// Why the program could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The user stopped the program.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// What a rival needs is not there.
    #[error("{rival} cannot be measured; {remedy}, or leave it out with --only: {what}")]
    RivalMissing { rival: &'static str, remedy: String, what: String },
    /// A worker did not start.
    #[error("the worker for {rival} {what}; its log ends with:\n{log}")]
    Worker { rival: &'static str, what: String, log: String },
    /// A throwaway server or a worker process failed.
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    /// The orchestrator's own requests to ZooKeeper failed.
    #[error("could not {action} in zookeeper")]
    ZooKeeper {
        action: &'static str,
        #[source]
        source: zookeeper_client::Error,
    },
    /// ZooKeeper said nothing.
    #[error("zookeeper did not answer within {0:?}")]
    ZooKeeperSilent(Duration),
    /// The report cannot be written.
    #[error("cannot write the report into {}; name another folder with --out", .folder.display())]
    ReportFolder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A figure or a chart could not be written down.
    #[error("could not draw up {what}: {reason}")]
    Report { what: &'static str, reason: String },
    /// The operating system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl Error {
    /// For `map_err`: a request to ZooKeeper that failed.
    pub(crate) fn zookeeper(action: &'static str) -> impl FnOnce(zookeeper_client::Error) -> Self {
        move |source| Self::ZooKeeper { action, source }
    }
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Testbed(error) if error.is_usage() => Exit::Usage,
            _ => Exit::Setup,
        }
    }
}
