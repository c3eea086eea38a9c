//! Lock libraries in several processes, under real faults of real servers: who holds together with whom, who is told, and how long it
//! takes until everybody is served again.

mod contend;
mod contenders;
mod flags;
mod history;
mod judge;
mod library;
mod lines;
mod report;
mod round;
mod stand;
mod storms;
mod table;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use program::{Epilogue, Exit, Interrupt, Interrupted, ProgramError, print, run_program};

/// Lets faults strike lock libraries in several processes.
#[derive(Debug, Parser)]
#[command(name = "lock-torture", max_term_width = 80, after_help = epilogue().to_string())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lets libraries contend for the same locks while faults strike
    Storms(storms::StormsArgs),
    /// Lets each fault strike each library alone, and writes a table
    Table(table::TableArgs),
    /// Judges stored rounds again. Starts nothing
    Judge {
        /// Rounds that `storms` or `table` has stored
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Prints stored tables as one document. Starts nothing
    Results {
        /// Files table.json that `table` has stored
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Prints the faults
    Faults,
    /// Contends as lines on standard input ask
    #[command(hide = true)]
    Contend { library: String, connect_string: String, session_timeout_ms: u64 },
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("three libraries under all faults for ten minutes", "lock-torture storms --for 10m"),
            ("a round again, with the same choices", "lock-torture storms --seed 7 --rounds 1"),
            ("a library of your own", "lock-torture table --libraries zk-recipes,mine=./adapter"),
        ])
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a stored round is judged otherwise than before"),
            (Exit::PromiseBroken, ": two held together who must not, or somebody was not served"),
            (Exit::Setup, ", a fault could not be made, or an adapter said what makes no sense"),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Why a campaign ends before it has run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TortureError {
    #[error(
        "there is no library {name:?}{meant}; zk-recipes, curator, kazoo, zookeeper-client and redis-py are, and NAME=PROGRAM is yours"
    )]
    UnknownLibrary { name: String, meant: String },
    #[error(
        "a lock in Redis and a lock in ZooKeeper exclude nobody from each other; let them contend apart, or use `table`"
    )]
    TwoServers,
    #[error(transparent)]
    UnknownFault(#[from] weather::UnknownFault),
    #[error("{} not found; `make deps-test` installs it", .0.display())]
    NotInstalled(PathBuf),
    #[error("could not find the file of this program")]
    Program(#[source] io::Error),
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    #[error("a request of the campaign itself failed")]
    Client(#[from] zookeeper_client::Error),
    #[error("a fault is to strike what was not started for it")]
    NothingToStrike,
    #[error("could not read or write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is no round or table of this program: {why}", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error("could not handle signals")]
    Signals(#[source] io::Error),
    #[error("could not write to standard output")]
    Output(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Adapter(String),
}

impl From<Interrupted> for TortureError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl ProgramError for TortureError {
    fn exit(&self) -> Exit {
        match self {
            Self::UnknownLibrary { .. } | Self::TwoServers | Self::UnknownFault(_) => Exit::Usage,
            Self::Interrupted => Exit::Interrupted,
            _ => Exit::Setup,
        }
    }
}

fn main() -> ExitCode {
    run_program(|cli: Cli| {
        let runtime = tokio::runtime::Runtime::new().map_err(TortureError::Program)?;
        runtime.block_on(run(cli.command))
    })
}

async fn run(command: Command) -> Result<Exit, TortureError> {
    match command {
        Command::Contend { library, connect_string, session_timeout_ms } => {
            let session_timeout = Duration::from_millis(session_timeout_ms);
            let contended = contend::contend(&library, &connect_string, session_timeout).await;
            contended.map(|()| Exit::Passed).map_err(TortureError::Adapter)
        }
        Command::Faults => {
            let list: String = weather::Fault::at(&stand::SITES).map(|fault| format!("{fault}\n")).collect();
            print(&list).map(|()| Exit::Passed).map_err(TortureError::Output)
        }
        Command::Judge { files } => report::judge_again(&files),
        Command::Results { files } => report::results(&files),
        Command::Storms(args) => storms::storms(&args, &install()?).await,
        Command::Table(args) => table::table(&args, &install()?).await,
    }
}

fn install() -> Result<Interrupt, TortureError> {
    Interrupt::install().map_err(TortureError::Signals)
}
