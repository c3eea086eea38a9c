//! The table: each fault strikes each library alone, amid a hold.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use program::{Exit, Interrupt, Progress, print};
use serde::{Deserialize, Serialize};
use weather::{ComingFault, Fault, Harm, Site, parse_seed};

use crate::TortureError;
use crate::judge::Findings;
use crate::library::{Library, LibraryServer};
use crate::report;
use crate::round::{FaultRecord, RoundPlan, RoundRecord, round};
use crate::stand::{SERVERS, SITES, StandServers};

/// Processes of the library.
const PROCESSES: usize = 3;
/// When the fault begins.
const BEGINS: Duration = Duration::from_secs(1);
/// How long it lasts: longer than a session.
const LASTS: Duration = Duration::from_secs(7);
/// How long contenders go on after it.
const TAIL: Duration = Duration::from_secs(2);
/// How bad it is, where that can be chosen.
const STRENGTH: f64 = 0.5;

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Libraries. NAME=PROGRAM is an adapter of yours
    #[arg(
        long,
        value_name = "LIBRARY,…",
        value_delimiter = ',',
        default_value = "zk-recipes,curator,kazoo,zookeeper-client,redis-py"
    )]
    libraries: Vec<String>,
    /// Faults: names, or patterns such as 'zookeeper-*' [default: all]
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// How often each fault strikes each library
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Seed of the first round
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed)]
    seed: u64,
    /// Folder for table.json, table.md, and the rounds in which something was found
    #[arg(long, value_name = "DIR", default_value = "lock-torture")]
    out: PathBuf,
}

/// What a fault did to a library. Seconds; the worst of its rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) rounds: u64,
    /// How many of the rounds had a holder when the fault began.
    pub(crate) met: u64,
    /// How long two held together.
    pub(crate) two_holders: f64,
    /// From the begin of the fault until its holder was told that the hold is lost. Absent if it was not lost.
    pub(crate) told: Option<f64>,
    /// From the begin of the fault until another process held. Absent if none did before the fault was over.
    pub(crate) others: Option<f64>,
    /// From the end of the fault until the struck process held again.
    pub(crate) again: Option<f64>,
    /// Why it could not be made.
    pub(crate) failed: Option<String>,
}

/// The cells, by fault and library.
pub(crate) type Cells = BTreeMap<String, BTreeMap<String, Cell>>;

/// Runs the rounds, and writes the table.
pub(crate) async fn table(args: &TableArgs, interrupt: &Interrupt) -> Result<Exit, TortureError> {
    let libraries: Vec<Library> = args.libraries.iter().map(|name| Library::named(name)).collect::<Result<_, _>>()?;
    let faults: Vec<Fault> = match &args.faults {
        Some(patterns) => Fault::matching(&SITES, patterns)?,
        None => Fault::at(&SITES).collect(),
    };
    let with_redis = libraries.iter().any(|library| library.server == LibraryServer::Redis);
    let progress = Progress::new(false);
    progress.stage(&format!("starting {SERVERS} ZooKeeper servers"));
    let mut servers = interrupt.or(StandServers::start(with_redis)).await?;
    let mut cells = Cells::new();
    let mut broken = Vec::new();
    for fault in &faults {
        for library in libraries.iter().filter(|library| can_strike(fault, library)) {
            for seed in args.seed..args.seed + args.repeats {
                progress.stage(&format!("{fault} strikes {}", library.name));
                let record = interrupt.or(one(&mut servers, library, *fault, seed)).await?;
                let findings = record.findings();
                if findings != Findings::default() {
                    report::store(&args.out, &format!("{fault}-{}-{seed}.json", library.name), &record)?;
                }
                if library.is_ours() {
                    broken.extend(findings.broken.iter().map(|line| format!("{fault}, seed {seed}: {line}")));
                }
                let row = cells.entry(fault.to_string()).or_default();
                row.entry(library.name.clone()).or_default().add(&record, &findings);
            }
            // A campaign lasts for hours, and may end in any way.
            report::store(&args.out, "table.json", &cells)?;
        }
    }
    progress.finish();
    let text = report::table(&cells, &args.libraries);
    report::write(&args.out.join("table.md"), &text)?;
    let broken: String = broken.iter().map(|line| format!("BROKEN: {line}\n")).collect();
    print(&format!("{text}{broken}")).map_err(TortureError::Output)?;
    Ok(if broken.is_empty() { Exit::Passed } else { Exit::PromiseBroken })
}

/// Tells whether a fault concerns the server of a library.
fn can_strike(fault: &Fault, library: &Library) -> bool {
    match fault.site {
        Site::Contender => true,
        site => site.needs_redis() == (library.server == LibraryServer::Redis),
    }
}

async fn one(
    servers: &mut StandServers,
    library: &Library,
    fault: Fault,
    seed: u64,
) -> Result<RoundRecord, TortureError> {
    let libraries = vec![library.clone(); PROCESSES];
    let ends = if fault.harm.is_instant() { BEGINS } else { BEGINS + LASTS };
    // All links of a process, but one server of three: what a majority survives.
    let server = (fault.site == Site::Zookeeper).then(|| usize::try_from(seed).unwrap_or_default() % SERVERS);
    // The nodes of the mutex.
    let strength = if fault.harm == Harm::Deleted { 0.0 } else { STRENGTH };
    let coming = [ComingFault { fault, begins: BEGINS, ends, process: 0, server, strength, is_alone: true }];
    let plan = RoundPlan { libraries: &libraries, seed, coming: &coming, length: ends + TAIL, mutex_only: true };
    round(servers, plan).await
}

impl Cell {
    fn add(&mut self, record: &RoundRecord, findings: &Findings) {
        self.rounds += 1;
        let Some(FaultRecord { begun, ended, failed, .. }) = record.faults.first() else { return };
        if failed.is_some() {
            self.failed.clone_from(failed);
            return;
        }
        let operations = &record.history.operations;
        let seconds = |from: i64, to: i64| Duration::from_nanos((to - from).unsigned_abs()).as_secs_f64();
        let two: f64 = findings.two_holders.values().map(Duration::as_secs_f64).sum();
        self.two_holders = self.two_holders.max(two);
        let held = operations.iter().find(|operation| {
            operation.process == 0
                && operation.acquired.is_some_and(|at| at < *begun)
                && operation.ended.is_none_or(|at| at > *begun)
        });
        self.met += u64::from(held.is_some());
        if let Some(lost) = held.and_then(|held| held.lost) {
            worst(&mut self.told, seconds(*begun, lost.max(*begun)));
        }
        let granted = |is_struck: bool, after: i64| {
            let those = operations.iter().filter(|operation| (operation.process == 0) == is_struck);
            those.filter_map(|operation| operation.acquired).filter(|at| *at >= after).min()
        };
        if let Some(at) = granted(false, *begun).filter(|at| at < ended) {
            worst(&mut self.others, seconds(*begun, at));
        }
        if let Some(at) = granted(true, *ended) {
            worst(&mut self.again, seconds(*ended, at));
        }
    }
}

fn worst(figure: &mut Option<f64>, other: f64) {
    *figure = Some(figure.map_or(other, |figure| figure.max(other)));
}
