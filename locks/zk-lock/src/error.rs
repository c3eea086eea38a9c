//! Why the program could not do what it was asked to do, and its exit statuses.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use zk_recipes::Error as LockError;

/// The statuses are those of `sysexits.h`, which commands rarely use themselves: the caller must be able to tell ours
/// from COMMAND's.
///
/// The command line is wrong (`EX_USAGE`).
pub(crate) const EXIT_USAGE: u8 = 64;
/// ZooKeeper did not answer, refused, or ended the session (`EX_UNAVAILABLE`).
pub(crate) const EXIT_UNAVAILABLE: u8 = 69;
/// The operating system refused something (`EX_OSERR`).
pub(crate) const EXIT_SYSTEM: u8 = 71;
/// The lock was not granted in time (`EX_TEMPFAIL`).
pub(crate) const EXIT_NOT_GRANTED: u8 = 75;
/// The hold was lost while COMMAND ran (`EX_PROTOCOL`).
pub(crate) const EXIT_LOST: u8 = 76;
/// COMMAND cannot be run, as shells say it.
pub(crate) const EXIT_NOT_EXECUTABLE: u8 = 126;
/// There is no such COMMAND, as shells say it.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;

/// Why the program could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The environment or a file asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The credentials cannot be read.
    #[error("cannot read the credentials in {file}: {source}; make it readable, or leave --auth-file out")]
    Credentials {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A certificate or a key cannot be read.
    #[error("cannot read {file}: {source}; make it readable, or name another with --ca, --cert or --key")]
    Pem {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The server did not prove who it is, or was not content with who we are.
    #[error(
        "cannot open an encrypted ZooKeeper session: {}; check --zookeeper (ZOOKEEPER_CONNECT), --ca, --cert and --key",
        chain(.0)
    )]
    Tls(#[source] LockError),
    /// The server did not authenticate us.
    #[error("cannot open a ZooKeeper session: {}; check the credentials (ZK_LOCK_AUTH, --auth-file)", chain(.0))]
    Authentication(#[source] LockError),
    /// No session could be opened.
    #[error("cannot open a ZooKeeper session: {}; check --zookeeper (ZOOKEEPER_CONNECT)", chain(.0))]
    Connect(#[source] LockError),
    /// The nodes of the lock belong to others.
    #[error(
        "cannot {action} {path}: {}; check that the credentials (ZK_LOCK_AUTH, --auth-file) may read, create and delete there",
        chain(.source)
    )]
    NotAuthorized {
        action: &'static str,
        path: String,
        #[source]
        source: LockError,
    },
    /// ZooKeeper answered, but not as it should.
    #[error("cannot {action} {path}")]
    Refused {
        action: &'static str,
        path: String,
        #[source]
        source: LockError,
    },
    /// The session ended, or somebody deleted our node, before the grant.
    #[error("lost the place in the queue of {path}: {}; run zk-lock again", chain(.source))]
    PlaceLost {
        path: String,
        #[source]
        source: LockError,
    },
    /// ZooKeeper was too slow.
    #[error("cannot {action} {path}: {}; try again when ZooKeeper is less busy", chain(.source))]
    NoAnswer {
        action: &'static str,
        path: String,
        #[source]
        source: LockError,
    },
    /// Somebody else held the lock all the time. `list` is the command that shows the holder.
    #[error(
        "did not get {path} within {}: somebody else has it; see `{list}`",
        humantime::format_duration(*.within)
    )]
    NotGranted { path: String, within: Duration, list: String },
    /// Somebody else holds the lock, and we were not to wait.
    #[error("did not get {path}: somebody else has it; see `{list}`")]
    Taken { path: String, list: String },
    /// There is no such program.
    #[error("there is no command {command:?}; check its name and PATH")]
    NotFound { command: String },
    /// There is no such program: the word is a line for a shell.
    #[error("there is no command {line:?}; for a line of the shell, write: -- sh -c {}", quoted(.line))]
    Line { line: String },
    /// The program cannot be run.
    #[error("cannot run {command:?}")]
    NotExecutable {
        command: String,
        #[source]
        source: io::Error,
    },
    /// The operating system refused something.
    #[error("cannot {action}")]
    System {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Makes an error for `map_err`: the operating system refused `action`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// Makes an error for `map_err`: no session could be opened.
    pub(crate) fn connect(source: LockError) -> Self {
        match source {
            LockError::InvalidConnectString { .. } => {
                Self::Usage(format!("{}; correct --zookeeper (ZOOKEEPER_CONNECT)", chain(&source)))
            }
            LockError::InvalidTls { .. } => Self::Usage(format!("{}; correct --ca, --cert or --key", chain(&source))),
            LockError::TlsRefused { .. } => Self::Tls(source),
            LockError::CredentialsMissing { .. } | LockError::CredentialsRefused { .. } => Self::Authentication(source),
            source => Self::Connect(source),
        }
    }

    /// Makes an error for `map_err`: the library failed to do `action` with `path`.
    pub(crate) fn lock(action: &'static str, path: &str) -> impl FnOnce(LockError) -> Self {
        let path = path.to_owned();
        move |source| match source {
            LockError::InvalidPath { .. } => Self::Usage(chain(&source)),
            LockError::SessionEnded { .. } | LockError::NodeDeleted { .. } => Self::PlaceLost { path, source },
            LockError::NoAnswer { .. } | LockError::Unconfirmed { .. } => Self::NoAnswer { action, path, source },
            LockError::NotAuthorized { .. } => Self::NotAuthorized { action, path, source },
            source => Self::Refused { action, path, source },
        }
    }

    /// Returns the exit status of the program for this error.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Credentials { .. } | Self::Pem { .. } => EXIT_USAGE,
            Self::Connect(_)
            | Self::Tls(_)
            | Self::Authentication(_)
            | Self::NotAuthorized { .. }
            | Self::Refused { .. }
            | Self::PlaceLost { .. }
            | Self::NoAnswer { .. } => EXIT_UNAVAILABLE,
            Self::NotGranted { .. } | Self::Taken { .. } => EXIT_NOT_GRANTED,
            Self::NotFound { .. } | Self::Line { .. } => EXIT_NOT_FOUND,
            Self::NotExecutable { .. } => EXIT_NOT_EXECUTABLE,
            Self::System { .. } => EXIT_SYSTEM,
        }
    }
}

/// Returns a text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Returns an error and its causes in one line, outermost first. A cause that repeats what was said is left out.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let lines = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string));
    let lines = lines.map(|line| line.replace('\n', " "));
    lines.reduce(|text, said| if text.contains(&said) { text } else { format!("{text}: {said}") }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let source = io::Error::other("disk\nfull");
        assert_eq!(chain(&Error::system("start the runtime")(source)), "cannot start the runtime: disk full");
    }

    #[test]
    fn an_invalid_path_is_a_wrong_command_line() {
        let source = zk_recipes::validate_path("locks").unwrap_err();
        let error = Error::lock("wait for", "locks")(source);
        assert_eq!(error.exit_status(), EXIT_USAGE);
        assert_eq!(chain(&error), "invalid lock path \"locks\": it must start with /");
    }

    #[test]
    fn an_error_says_how_long_the_lock_was_waited_for() {
        let within = Duration::from_millis(1500);
        let list = "zk-lock --list /locks/a".to_owned();
        let error = Error::NotGranted { path: "/locks/a".to_owned(), within, list };
        assert!(chain(&error).starts_with("did not get /locks/a within 1s 500ms:"), "{}", chain(&error));
        assert_eq!(error.exit_status(), EXIT_NOT_GRANTED);
    }
}
