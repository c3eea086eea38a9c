//! The table: each fault strikes each library alone, amid a hold.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, SystemTime};

use clap::Args;
use program::{Exit, Interrupt, print};
use serde::{Deserialize, Serialize};
use weather::{ComingFault, Fault, Site, parse_seed, written};

use crate::TortureError;
use crate::flags::{ChosenStand, StandFlags};
use crate::judge::Findings;
use crate::library::{Library, LibraryServer, WORKSPACE};
use crate::report::{self, verdict};
use crate::round::{FaultRecord, RoundPlan, RoundRecord, round};
use crate::stand::StandServers;

/// Processes of the library.
const PROCESSES: usize = 3;
/// When the fault begins.
const BEGINS: Duration = Duration::from_secs(1);
/// How long it lasts: longer than a session.
const LASTS: Duration = Duration::from_secs(7);
/// How bad it is, where that can be chosen.
const STRENGTH: f64 = 0.5;

#[derive(Debug, Args)]
#[command(mut_arg("libraries", |arg| arg.default_value("zk-recipes,curator,kazoo,zookeeper-client,redis-py")))]
pub(crate) struct TableArgs {
    #[command(flatten)]
    stand: StandFlags,
    /// How often each fault strikes each library
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Seed of the first round
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed)]
    seed: u64,
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
    /// The libraries behind whose nodes a process waited in vain after the fault.
    pub(crate) in_vain_behind: BTreeSet<String>,
    /// Why it could not be made.
    pub(crate) failed: Option<String>,
}

/// The cells, by fault and library.
pub(crate) type Cells = BTreeMap<String, BTreeMap<String, Cell>>;

/// A table as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredTable {
    /// [`TABLE_SCHEMA`].
    pub(crate) schema: String,
    /// When its last round ended, in UTC (RFC 3339).
    pub(crate) ended_at: String,
    /// The seed of the first round of each cell.
    pub(crate) seed: String,
    /// The commit of the checkout that has the campaign and our library.
    pub(crate) commit: Option<String>,
    /// The versions of the libraries and of ZooKeeper, as far as they tell.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) cells: Cells,
}

/// The format of a stored table.
pub(crate) const TABLE_SCHEMA: &str = "lock-torture-table/2";

/// Runs the rounds, and writes the table.
pub(crate) async fn table(args: &TableArgs, interrupt: &Interrupt) -> Result<Exit, TortureError> {
    let ChosenStand { libraries, faults, mut servers, progress } = args.stand.start(interrupt, false).await?;
    let mut table = StoredTable {
        schema: TABLE_SCHEMA.to_owned(),
        ended_at: String::new(),
        seed: written(args.seed),
        commit: commit(),
        versions: BTreeMap::new(),
        cells: Cells::new(),
    };
    let mut broken = String::new();
    let mut unchecked = String::new();
    for fault in &faults {
        for library in libraries.iter().filter(|library| can_strike(fault, library)) {
            for seed in args.seed..args.seed + args.repeats {
                progress.stage(&format!("{fault} strikes {}", library.name));
                let record = interrupt.or(one(&mut servers, library, *fault, seed)).await?;
                let findings = args.stand.judge(&format!("{fault}-{}-{seed}", library.name), &record)?;
                let of_round = format!("{fault}, {}, seed {seed}", library.name);
                if library.is_ours() {
                    broken.extend(findings.broken.iter().map(|line| format!("BROKEN: {of_round}: {line}\n")));
                }
                let not_made = record.faults.iter().filter_map(|record| record.failed.as_ref());
                for line in findings.unchecked.iter().chain(not_made) {
                    unchecked += &format!("unchecked: {of_round}: {line}\n");
                }
                table.versions.extend(record.versions.clone());
                let row = table.cells.entry(fault.to_string()).or_default();
                row.entry(library.name.clone()).or_default().add(&record, &findings);
            }
        }
        // A campaign lasts for hours, and may end in any way.
        table.ended_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        report::store(&args.stand.out, "table.json", &table)?;
    }
    progress.finish();
    print(&(report::table(&table.cells) + &unchecked + &broken)).map_err(TortureError::Output)?;
    Ok(verdict(broken.is_empty(), unchecked.is_empty()))
}

/// Returns the commit of the checkout, with `-dirty` behind it if files differ.
fn commit() -> Option<String> {
    let described = Command::new("git")
        .args(["-C", WORKSPACE, "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"])
        .output()
        .ok()?;
    let text = String::from_utf8(described.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|_| described.status.success())
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
    // The nodes of the mutex.
    let strength = if fault.site == Site::Nodes { 0.0 } else { STRENGTH };
    let coming = [ComingFault { fault, begins: BEGINS, ends, process: 0, server: None, strength, is_alone: true }];
    let plan = RoundPlan { libraries: &libraries, seed, coming: &coming, length: ends, mutex_only: true };
    round(servers, plan).await
}

impl Cell {
    /// Adds the rounds of another cell.
    pub(crate) fn merge(&mut self, other: &Cell) {
        self.rounds = self.rounds.saturating_add(other.rounds);
        self.met = self.met.saturating_add(other.met);
        self.two_holders = self.two_holders.max(other.two_holders);
        for (figure, others) in
            [(&mut self.told, other.told), (&mut self.others, other.others), (&mut self.again, other.again)]
        {
            others.into_iter().for_each(|other| worst(figure, other));
        }
        self.in_vain_behind.extend(other.in_vain_behind.iter().cloned());
        if other.failed.is_some() {
            self.failed.clone_from(&other.failed);
        }
    }

    fn add(&mut self, record: &RoundRecord, findings: &Findings) {
        self.rounds += 1;
        self.in_vain_behind.extend(record.unserved.iter().map(|unserved| unserved.behind_whom().to_owned()));
        let Some(FaultRecord { sent, ended, failed, .. }) = record.faults.first() else { return };
        if failed.is_some() {
            self.failed.clone_from(failed);
            return;
        }
        let operations = &record.history.operations;
        let seconds = |from: i64, to: i64| Duration::from_nanos(to.abs_diff(from)).as_secs_f64();
        let two: f64 = findings.two_holders.values().map(Duration::as_secs_f64).sum();
        self.two_holders = self.two_holders.max(two);
        // A process that a fault kills holds no more when the fault is in force.
        let held = operations.iter().find(|operation| {
            let is_over = [operation.lost, operation.ended].iter().flatten().any(|at| at <= sent);
            operation.process == 0 && operation.acquired.is_some_and(|at| at < *sent) && !is_over
        });
        self.met += u64::from(held.is_some());
        if let Some(lost) = held.and_then(|held| held.lost) {
            worst(&mut self.told, seconds(*sent, lost));
        }
        let granted = |is_struck: bool, after: i64| {
            let those = operations.iter().filter(|operation| (operation.process == 0) == is_struck);
            those.filter_map(|operation| operation.acquired).filter(|at| *at >= after).min()
        };
        if let Some(at) = granted(false, *sent).filter(|at| at < ended) {
            worst(&mut self.others, seconds(*sent, at));
        }
        if let Some(at) = granted(true, *ended) {
            worst(&mut self.again, seconds(*ended, at));
        }
    }
}

fn worst(figure: &mut Option<f64>, other: f64) {
    *figure = Some(figure.map_or(other, |figure| figure.max(other)));
}
