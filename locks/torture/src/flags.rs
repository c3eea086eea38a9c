//! What `storms` and `table` have in common: the choice of libraries and faults, and the rounds that they keep.

use std::path::PathBuf;

use clap::Args;
use program::{Interrupt, Progress};
use weather::Fault;

use crate::TortureError;
use crate::judge::Findings;
use crate::library::{Library, LibraryServer};
use crate::report;
use crate::round::RoundRecord;
use crate::stand::{SERVERS, SITES, StandServers};

#[derive(Debug, Args)]
pub(crate) struct StandFlags {
    /// Libraries. In storms, each process has the one at its position. NAME=PROGRAM is an adapter of yours
    #[arg(long, value_name = "LIBRARY,…", value_delimiter = ',')]
    libraries: Vec<String>,
    /// Faults: names, or patterns such as 'zookeeper-*' [default: all that can strike]
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Folder for the rounds in which something was found, and for the table
    #[arg(long, value_name = "DIR", default_value = "lock-torture")]
    pub(crate) out: PathBuf,
    /// Stores each round
    #[arg(long)]
    store_all: bool,
}

/// What was chosen, and the servers for it.
pub(crate) struct ChosenStand {
    pub(crate) libraries: Vec<Library>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) servers: StandServers,
    pub(crate) progress: Progress,
}

impl StandFlags {
    /// Starts the servers. `together`: the libraries contend for the same locks, so they must have the same server.
    pub(crate) async fn start(&self, interrupt: &Interrupt, together: bool) -> Result<ChosenStand, TortureError> {
        let libraries = self.libraries.iter().map(|name| Library::named(name));
        let libraries: Vec<Library> = libraries.collect::<Result<_, _>>()?;
        let with_redis = libraries.iter().any(|library| library.server == LibraryServer::Redis);
        let with_zookeeper = libraries.iter().any(|library| library.server == LibraryServer::Zookeeper);
        if together && with_redis && with_zookeeper {
            return Err(TortureError::TwoServers);
        }
        let mut faults = match &self.faults {
            Some(patterns) => Fault::matching(&SITES, patterns)?,
            None => Fault::at(&SITES).collect(),
        };
        faults.retain(|fault| with_redis || !fault.site.needs_redis());
        let progress = Progress::new(false);
        progress.stage(&format!("starting {SERVERS} ZooKeeper servers"));
        let servers = interrupt.or(StandServers::start(with_redis)).await?;
        Ok(ChosenStand { libraries, faults, servers, progress })
    }

    /// Judges a round, and stores it if something was found.
    pub(crate) fn judge(&self, name: &str, record: &RoundRecord) -> Result<Findings, TortureError> {
        let findings = record.findings();
        if self.store_all || findings != Findings::default() {
            report::store(&self.out, &format!("{name}.json"), record)?;
        }
        Ok(findings)
    }
}
