//! What goes wrong, and what the program exits with.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How the program ends. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Head is no worse than base, as far as that can be said.
    Passed = 0,
    /// Head is regressed.
    Regressed = 1,
    /// The comparison could not be made.
    Setup = 3,
    /// The command line makes no sense.
    Usage = 64,
    /// Ctrl-C, `SIGTERM` or `SIGHUP`.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The revision is none.
    #[error("there is no revision {0:?} here; name a commit, a branch or a tag, and fetch it first if it is not local")]
    UnknownRevision(String),
    /// The current folder is in no work tree.
    #[error("the current folder is in no git work tree; run bench-compare in a clone of the repository: {0}")]
    NoRepository(String),
    /// A revision has nothing to compare.
    #[error("{0} has no benches: it has no package named bench with bench targets")]
    NoBenches(String),
    /// The filter fits nothing.
    #[error("no bench has a name with {0:?} in it")]
    NothingMatches(String),
    /// Nothing was recorded.
    #[error("there are no results in {}; name a folder that bench-compare has written", .0.display())]
    NoResults(PathBuf),
    /// All that was asked for are instruction counts, and there are none.
    #[error("instructions were not checked: {0}")]
    InstructionsUnavailable(String),
    /// Two comparisons would overwrite each other's results.
    #[error("another comparison is running in {}; wait for it, or stop it", .0.display())]
    Busy(PathBuf),
    /// A program failed.
    #[error("{what} failed ({status}){}", tail(.output))]
    Failed { what: String, status: String, output: String },
    /// A program said what cannot be understood.
    #[error("cannot read {what}: {reason}")]
    Unreadable { what: String, reason: String },
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    System {
        action: String,
        #[source]
        source: io::Error,
    },
    /// The user stopped the program.
    #[error("interrupted")]
    Interrupted,
}

/// The end of what a program has said, to be appended.
fn tail(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it said last:\n{output}") }
}

impl Error {
    /// For `map_err`: an operating-system error while doing something to a file.
    pub(crate) fn file(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |source| Self::System { action, source }
    }

    /// For `map_err`: a text that is not what it should be.
    pub(crate) fn unreadable(what: impl ToString, reason: impl ToString) -> Self {
        Self::Unreadable { what: what.to_string(), reason: reason.to_string() }
    }

    /// What the program exits with because of this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::UnknownRevision(_) | Self::NothingMatches(_) => Exit::Usage,
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::Setup,
        }
    }
}
