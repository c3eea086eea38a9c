//! The one error type of the program.

use std::io;
use std::path::PathBuf;

pub(crate) use program::Exit;
use program::{Interrupted, ProgramError, SystemError};

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line or the environment asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The user stopped the program before there was anything to report.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The program of the service does not exist at its path.
    #[error("demo-service not found at {0}; build it with `cargo build --release`, or name it with --demo-service")]
    ServiceMissing(PathBuf),
    /// The program of the service did not list its strategies.
    #[error("{} did not list its strategies: {what}", program.display())]
    ServiceProgram { program: PathBuf, what: String },
    /// Another program listens where an instance should.
    #[error("port {port} is in use; choose another with --port, or leave --port out for any free one")]
    PortInUse { port: u16 },
    /// The system grants fewer open files than the load needs.
    #[error(
        "the load needs more open files than the system grants ({needs}; the limit is {limit}); \
         raise it with `ulimit -n {needed}`, or give fewer --users"
    )]
    TooFewFiles { needs: String, needed: u64, limit: u64 },
    /// A throwaway server or an instance could not be started.
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    /// An instance ended, or never became ready.
    #[error("instance {number} of {of} {what}; its log ends with:\n{log}")]
    Instance { number: usize, of: String, what: String, log: String },
    /// A request to the service's administrative routes had no or the wrong answer.
    #[error("{method} {url} {what}")]
    Service {
        method: &'static str,
        url: String,
        what: String,
        #[source]
        source: Option<reqwest::Error>,
    },
    /// A database did not answer, or refused a statement.
    #[error("could not {action} in {database}")]
    Database {
        action: String,
        database: String,
        #[source]
        source: sqlx::Error,
    },
    /// No database answers at the address that was given.
    #[error("could not connect to {address}: {}; {remedy}", program::chain(source))]
    DatabaseUnreachable {
        address: String,
        remedy: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// The server of `DATABASE_URL` has too few connections.
    #[error(
        "postgres of DATABASE_URL accepts {max} connections, and the instances and this program may open {needed}; raise \
         max_connections of the server, or lower --instances"
    )]
    ConnectionsMax { max: i64, needed: u32 },
    /// A shop that a file describes did not do its part.
    #[error("{0}")]
    Shop(String),
    /// The stock differs from the reset.
    #[error("{0}")]
    Reset(String),
    /// An order of the sale differs from what the buyers asked for.
    #[error(
        "every buyer asked for 1 unit by {asked}, but order {order_id} is for {quantity} by {found}; does a proxy drop \
         ?strategy=, or does another program sell this SKU?"
    )]
    ForeignOrder { asked: String, order_id: i64, quantity: i64, found: String },
    /// The load of a trial could not be made.
    #[error(transparent)]
    Load(#[from] buyers::Error),
    /// Another comparison writes into the folder.
    #[error("another loadgen writes into {}; wait until it has ended, or choose another folder with --out", .0.display())]
    FolderInUse(PathBuf),
    /// Another comparison writes its log of requests into the file.
    #[error("another loadgen writes into {}; wait until it has ended, or name another file with --request-log", .0.display())]
    FileInUse(PathBuf),
    /// The folder of the report belongs to another user.
    #[error(
        "could not write into the folder {}: it belongs to user {owner}; {remedy}",
        folder.display()
    )]
    ForeignFolder {
        folder: PathBuf,
        owner: String,
        remedy: String,
        #[source]
        source: io::Error,
    },
    /// A file is no report that this program can read.
    #[error("{} is no report that can be read: {what}", path.display())]
    NoReport { path: PathBuf, what: String },
    /// A report could not be written where it should be.
    #[error("{}; the report is in {}", program::chain(.source), folder.display())]
    ReportElsewhere { folder: PathBuf, source: Box<Error> },
    /// A drain failed: not every waiter was granted the lock.
    #[error("could not measure {recipe} with {waiters} waiters; smaller numbers with --measure may help")]
    Drain {
        recipe: &'static str,
        waiters: u32,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The load generator's own machinery failed.
    #[error("the load generator failed: {0}")]
    Generator(String),
    /// The operating system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl Error {
    /// Makes the error of a failed statement in the service's database, for `map_err`.
    pub(crate) fn postgres(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Error::Database { action: action.to_owned(), database: "postgres".to_owned(), source }
    }
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Usage(_) | Error::NoReport { .. } => Exit::Usage,
            Error::Testbed(error) => error.exit(),
            Error::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Setup,
        }
    }
}

#[cfg(test)]
mod tests {
    use program::FromSystem as _;

    use super::*;

    #[test]
    fn an_error_is_printed_with_its_causes() {
        let cause = io::Error::other("disk full");
        let error = Error::system("write report/report.json")(cause);
        assert_eq!(program::chain(&error), "could not write report/report.json: disk full");
        assert_eq!(error.exit(), Exit::Setup);
    }
}
