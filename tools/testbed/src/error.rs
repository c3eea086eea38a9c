//! The one error type of this crate.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use program::{Exit, ProgramError, SystemError};

/// Why a server, a child process or a test namespace could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program or a library that a server needs is not on this machine.
    #[error("{what} not found (looked in {searched}); install it with {remedy}")]
    NotInstalled {
        /// What was looked for.
        what: &'static str,
        /// Where it was looked for.
        searched: &'static str,
        /// The commands that install it.
        remedy: &'static str,
    },
    /// A variable of the environment names a folder that lacks a program or a library of a server.
    #[error("{variable} names {}, but there is no {lacks}; name another folder, or unset {variable}", folder.display())]
    Misnamed {
        /// The variable.
        variable: &'static str,
        /// Its value.
        folder: PathBuf,
        /// What was looked for in the folder.
        lacks: &'static str,
    },
    /// The program of a [`ProcessConfig`](crate::ProcessConfig) does not exist or may not be run.
    #[error("program {program} not found, or not executable")]
    NoSuchProgram {
        /// The program as it was given.
        program: PathBuf,
    },
    /// No server can run with this setting.
    #[error("invalid setting: {0}")]
    Setting(String),
    /// The operating system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The child ended before it was ready.
    #[error("{name} ended while it was starting ({status}); its log ends with:\n{log}")]
    Ended {
        /// The server or program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The tail of what it wrote to its log.
        log: String,
    },
    /// The child runs, but does not answer.
    #[error("{name} did not answer within {within:?}; its log ends with:\n{log}")]
    NotReady {
        /// The server or program.
        name: String,
        /// How long it was waited for.
        within: Duration,
        /// The tail of what it wrote to its log.
        log: String,
    },
    /// A program that works on the data of a server failed.
    #[error("could not {action} ({status}): {log}")]
    Failed {
        /// What was attempted.
        action: String,
        /// How the program ended.
        status: ExitStatus,
        /// The tail of what it wrote.
        log: String,
    },
    /// A statement against Postgres failed.
    #[error("could not {action}")]
    Postgres {
        /// What was attempted.
        action: String,
        /// The database's or the driver's answer.
        #[source]
        source: sqlx::Error,
    },
    /// A certificate could not be made.
    #[error("could not make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// Another user owns a node of ZooKeeper.
    #[error("{path} at {servers} belongs to another user of ZooKeeper")]
    NotAuthorized {
        /// The node.
        path: String,
        /// The servers that were asked.
        servers: String,
    },
    /// A request to ZooKeeper failed.
    #[error("could not {action}")]
    ZooKeeper {
        /// What was attempted.
        action: String,
        /// The server's or the client's answer.
        #[source]
        source: zookeeper_client::Error,
    },
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        // The environment or an argument has to be corrected first.
        if matches!(self, Self::Misnamed { .. } | Self::Setting(_)) { Exit::Usage } else { Exit::Setup }
    }
}
