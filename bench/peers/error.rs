//! The one error type of the program, and its exit codes.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// How the program ends. The numbers are part of its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was measured, or could not be within its bounds, which the report says.
    Measured = 0,
    /// An implementation failed, which the report says.
    Failed = 1,
    /// The servers, the peers or the machine did not do their part.
    Setup = 3,
    /// The command line makes no sense.
    Usage = 64,
    /// Ctrl-C, `SIGTERM` or `SIGHUP`.
    Interrupted = 130,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Why the program could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The user stopped the program.
    #[error("interrupted")]
    Interrupted,
    /// What a peer needs is not there.
    #[error("{peer} cannot be measured: {what}; `make deps-test` installs what it needs, and --only leaves it out")]
    PeerMissing { peer: &'static str, what: String },
    /// A worker did not start.
    #[error("the worker for {peer} {what}; its log ends with:\n{log}")]
    Worker { peer: &'static str, what: String, log: String },
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
    /// A figure or a chart could not be written down.
    #[error("could not draw up {what}: {reason}")]
    Report { what: &'static str, reason: String },
    /// The operating system refused something.
    #[error("could not {action}")]
    System {
        action: String,
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an operating-system error while doing `action`.
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// For `map_err`: a request to ZooKeeper that failed.
    pub(crate) fn zookeeper(action: &'static str) -> impl FnOnce(zookeeper_client::Error) -> Self {
        move |source| Self::ZooKeeper { action, source }
    }

    /// What the program exits with because of this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::Setup,
        }
    }
}

/// An error and its causes in one line; a cause that repeats what was said is left out.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
