//! What goes wrong, and what the program exits with.

use std::io;
use std::path::{Path, PathBuf};

use program::{Exit, Interrupted, ProgramError};

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The revision is none.
    #[error("there is no revision {0:?} here; name a commit, a branch or a tag, and fetch it first if it is not local")]
    UnknownRevision(String),
    /// The current folder is in no work tree.
    #[error("git finds no work tree in the current folder; run bench-compare in a clone of the repository: {0}")]
    NoRepository(String),
    /// A revision has nothing to compare.
    #[error("{0} has no benches (a package named bench with bench targets); compare with one that has")]
    NoBenches(String),
    /// The filter fits nothing.
    #[error("no bench has a name with {0:?} in it; without a filter the table has all names")]
    NothingMatches(String),
    /// Nothing was recorded.
    #[error("there are no results in {}; name a folder that bench-compare has written", .0.display())]
    NoResults(PathBuf),
    /// The benches ran and left nothing.
    #[error("the benches have recorded nothing; what they said is in {}", .0.display())]
    NothingRecorded(PathBuf),
    /// All that was asked for are instruction counts, and there are none.
    #[error("instructions were not checked: {0}")]
    InstructionsUnavailable(String),
    /// Two comparisons would overwrite each other's results.
    #[error("another comparison is running in {}; wait for it, or stop it", .0.display())]
    Busy(PathBuf),
    /// A program is not on this machine.
    #[error("{0} not found; install it, or add its folder to PATH")]
    NoProgram(String),
    /// The results cannot be kept.
    #[error("cannot write into {}; name another target folder with CARGO_TARGET_DIR", .folder.display())]
    TargetFolder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{what} failed ({status}){}", tail(.output))]
    Failed { what: String, status: String, output: String },
    /// A program said what cannot be understood.
    #[error("cannot read {what}: {reason}")]
    Unreadable { what: String, reason: String },
    /// The operating system refused something.
    #[error("cannot {action}")]
    System {
        action: String,
        #[source]
        source: io::Error,
    },
    /// The user stopped the program.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// The end of what a program has said, to be appended.
fn tail(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it said last:\n{output}") }
}

impl Error {
    /// For `map_err`: an operating-system error while doing `action`.
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// For `map_err`: an operating-system error while doing something to a file.
    pub(crate) fn file(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::system(format!("{action} {}", path.display()))
    }

    /// For `map_err`: the folder of the results cannot be used.
    pub(crate) fn target_folder(folder: &Path) -> impl FnOnce(io::Error) -> Self {
        let folder = folder.to_owned();
        move |source| Self::TargetFolder { folder, source }
    }

    /// For `map_err`: a text that is not what it should be.
    pub(crate) fn unreadable(what: impl ToString, reason: impl ToString) -> Self {
        Self::Unreadable { what: what.to_string(), reason: reason.to_string() }
    }
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        match self {
            Self::UnknownRevision(_) | Self::NothingMatches(_) => Exit::Usage,
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Setup,
        }
    }
}
