//! The one error type of the benches and of the programs of this package.

use std::error::Error as StdError;
use std::num::TryFromIntError;

use program::{Exit, Interrupted, ProgramError, SystemError, chain};
use tokio::task::JoinError;

/// Why a bench or a program cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user stopped the program.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A throwaway server or a child process failed.
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    /// The operating system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A recipe or its session failed.
    #[error(transparent)]
    Recipe(#[from] zk_recipes::Error),
    /// A request without a recipe failed.
    #[error(transparent)]
    ZooKeeper(#[from] zookeeper_client::Error),
    /// A task panicked.
    #[error(transparent)]
    Task(#[from] JoinError),
    /// A count or a time is too large for its type.
    #[error(transparent)]
    TooLarge(#[from] TryFromIntError),
    /// A server or a library refused something.
    #[error("could not {action}")]
    Refused {
        /// What was attempted.
        action: &'static str,
        /// The answer.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The machine lacks something that the user can provide.
    #[error("could not {action}: {}; {remedy}", chain(&**source))]
    Setup {
        /// What was attempted.
        action: String,
        /// What is lacking.
        source: Box<dyn StdError + Send + Sync>,
        /// What helps.
        remedy: String,
    },
    /// A program or a contender did not do its part. The text says what it did.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Makes an error for `map_err`: a server or a library refused `action`.
    pub fn refused<E: Into<Box<dyn StdError + Send + Sync>>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Refused { action, source: source.into() }
    }
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Testbed(error) => error.exit(),
            _ => Exit::Setup,
        }
    }
}
