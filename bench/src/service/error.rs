//! The one error type of the program.

use std::io;
use std::path::PathBuf;

use loadgen::report::Report;
use program::{Exit, Interrupted, ProgramError, SystemError};

/// Why the program could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The user stopped the program.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The service or our load generator was not built.
    #[error("{} is not there; run `cargo build --release`, or name another service with --demo-service", .0.display())]
    ProgramMissing(PathBuf),
    /// A load generator was not installed.
    #[error("{program} cannot be run; {remedy}")]
    GeneratorMissing {
        program: PathBuf,
        remedy: &'static str,
        #[source]
        source: io::Error,
    },
    /// A load generator did not do what it was told to, or said something else than it does.
    #[error("{program} {what}:\n{said}")]
    Generator { program: &'static str, what: &'static str, said: String },
    /// Our load generator was told to buy, and nothing was sold.
    #[error("loadgen sold nothing within {within:?}")]
    NothingSold { within: std::time::Duration },
    /// A process of ours did not start.
    #[error("{process} did not come up within {within:?}; its log ends with:\n{log}")]
    Process { process: &'static str, within: std::time::Duration, log: String },
    /// A throwaway server or a process failed.
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    /// Postgres refused.
    #[error("could not {action} in postgres")]
    Postgres {
        action: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// The operating system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl Error {
    /// Our load generator has measured nothing, for which its report may have the reason.
    pub(crate) fn of_loadgen(what: &'static str, report: &Report) -> Self {
        Self::Generator { program: "loadgen", what, said: report.caveats.join("\n") }
    }

    /// For `map_err`: a statement that failed.
    pub(crate) fn postgres(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Postgres { action, source }
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
