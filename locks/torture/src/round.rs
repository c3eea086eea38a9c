//! A round: contenders contend while faults strike, then everybody must be served, and nothing may be left.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use weather::{ComingFault, Fault, Harm, Site, Struck, storm};

use crate::TortureError;
use crate::contenders::{MissingLock, ProcessOrder, RoundShared};
use crate::history::{History, Operation, Rule};
use crate::judge::{Findings, OURS, judge};
use crate::library::{LOCKS, Library, PERMITS};
use crate::lines::{LockKind, now};
use crate::stand::{LockStand, SESSION_TIMEOUT, StandServers};

/// How long each process may take to have each of its locks after the faults.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// How long nodes, watches and connections of processes that have ended may last beyond their session timeout.
const GONE_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(200);
/// How long contenders go on after the last fault.
const TAIL: Duration = Duration::from_secs(2);

/// How long after a fault a session may still end by it, in nanoseconds.
const LATE_NS: i64 = 10_000_000_000;

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundPlan<'a> {
    pub(crate) libraries: &'a [Library],
    pub(crate) seed: u64,
    pub(crate) coming: &'a [ComingFault],
    /// How long contenders contend at least, if no fault ends later. They go on for a little after that.
    pub(crate) length: Duration,
    /// Whether each contender asks for the mutex only.
    pub(crate) mutex_only: bool,
}

/// A fault of a round. Times are nanoseconds of the machine's monotonic clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultRecord {
    /// What struck.
    pub(crate) fault: Fault,
    /// The process that it struck, itself or by its links.
    pub(crate) process: usize,
    /// The ZooKeeper server that it struck, or all.
    pub(crate) server: Option<usize>,
    /// When it was about to be made.
    pub(crate) sent: i64,
    /// When it was in force.
    pub(crate) begun: i64,
    /// When it was over.
    pub(crate) ended: i64,
    /// Why it could not be made, or not be ended as it should.
    pub(crate) failed: Option<String>,
}

/// A process that did not get a lock after the faults, or no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unserved {
    /// The library of the process.
    pub(crate) library: String,
    /// What it waited for.
    pub(crate) what: String,
    /// The first node of the queue in which it waited, and the library of its session.
    pub(crate) behind: Option<(String, String)>,
}

/// A round and all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundRecord {
    /// The version of this format.
    pub(crate) schema: String,
    /// The seed, with the version of its draws.
    pub(crate) seed: String,
    /// The library of each process.
    pub(crate) libraries: Vec<String>,
    /// The versions of the libraries and of ZooKeeper, as far as they tell.
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
    /// The faults, in the order in which they began.
    pub(crate) faults: Vec<FaultRecord>,
    /// The processes that were not served after the faults.
    pub(crate) unserved: Vec<Unserved>,
    /// What was left of processes that had ended, one line each.
    pub(crate) left: Vec<String>,
    /// Sessions that were opened in the place of others.
    pub(crate) sessions_replaced: u64,
    /// What adapters said that makes no sense, one line each.
    pub(crate) nonsense: Vec<String>,
    /// What the judge of that time found, one line each.
    pub(crate) found: Vec<String>,
    /// The history of the locks.
    pub(crate) history: History,
}

/// The format of a stored round.
pub(crate) const SCHEMA: &str = "lock-torture-round/2";

/// Runs a round. Everything that it has started for itself has ended then.
pub(crate) async fn round(servers: &mut StandServers, plan: RoundPlan<'_>) -> Result<RoundRecord, TortureError> {
    let shared = RoundShared::default();
    shared.history.lock().rules = rules();
    let mut stand = LockStand::start(servers, plan.libraries, shared.clone(), (plan.seed, plan.mutex_only)).await?;
    let clock = (now(), SystemTime::now());
    stand.processes.iter().for_each(|process| process.contenders.contend(true));
    let struck = storm(&mut stand, plan.coming, std::future::pending()).await;
    // The storm ends with its last fault.
    let contended = Duration::from_nanos((now() - clock.0).unsigned_abs());
    sleep(plan.length.saturating_sub(contended) + TAIL).await;
    stand.calm().await?;
    let unserved = served(&stand, plan.libraries).await?;
    let sessions_replaced = (shared.sessions.lock().len() as u64).saturating_sub(plan.libraries.len() as u64);
    let LockStand { processes, servers, .. } = stand;
    for process in processes {
        process.contenders.end().await;
    }
    let left = left(servers).await?;
    let history = shared.history.lock().clone();
    let nonsense = shared.nonsense.lock().clone();
    let mut versions = shared.versions.lock().clone();
    versions.extend(servers.version().await.map(|version| ("ZooKeeper".to_owned(), version)));
    let mut record = RoundRecord {
        schema: SCHEMA.to_owned(),
        seed: weather::written(plan.seed),
        libraries: plan.libraries.iter().map(|library| library.name.clone()).collect(),
        versions,
        faults: struck.iter().map(|struck| recorded(struck, clock)).collect(),
        unserved,
        left,
        sessions_replaced,
        nonsense,
        found: Vec::new(),
        history,
    };
    record.found = record.findings().lines();
    Ok(record)
}

fn rules() -> BTreeMap<String, Rule> {
    let rule = |kind: LockKind| match kind {
        LockKind::Read | LockKind::Write => Rule::ReadersShare,
        LockKind::Semaphore => Rule::Permits(PERMITS),
        _ => Rule::Exclusive,
    };
    LOCKS.iter().flat_map(|lock| lock.paths.iter().map(move |path| ((*path).to_owned(), rule(lock.kind)))).collect()
}

/// Lets each process acquire each of its locks once. Returns the processes that could not.
async fn served(stand: &LockStand<'_>, libraries: &[Library]) -> Result<Vec<Unserved>, TortureError> {
    let each = stand.processes.iter().zip(libraries).map(async |(process, library)| {
        let missing = match timeout(SERVED_WITHIN, process.contenders.order(ProcessOrder::Serve)).await {
            Ok(_) => Vec::new(),
            Err(_) => process.contenders.order(ProcessOrder::Missing).await.unwrap_or_default(),
        };
        (library, missing)
    });
    let mut unserved = Vec::new();
    for (library, missing) in join_all(each).await.into_iter().filter(|(_, missing)| !missing.is_empty()) {
        let first = stand.servers.first_nodes().await?;
        for MissingLock { what, paths } in missing {
            let is_its = |node: &str| paths.iter().any(|path| node.starts_with(&format!("{path}/")));
            let behind = first.iter().find(|(node, _)| is_its(node)).map(|(node, session)| {
                let opened = stand.shared.sessions.lock();
                let owner = opened.iter().find(|opened| opened.session == Some(*session));
                let owner = owner.and_then(|opened| libraries.get(opened.process));
                (node.clone(), owner.map_or_else(|| "nobody".to_owned(), |owner| owner.name.clone()))
            });
            unserved.push(Unserved { library: library.name.clone(), what, behind });
        }
    }
    Ok(unserved)
}

/// Waits until nothing is left of the processes. Returns what stays, one line each.
async fn left(servers: &StandServers) -> Result<Vec<String>, TortureError> {
    let gone = async {
        loop {
            let left = left_now(servers).await?;
            if left.is_empty() {
                return Ok::<_, TortureError>(());
            }
            sleep(POLL).await;
        }
    };
    match timeout(SESSION_TIMEOUT + GONE_WITHIN, gone).await {
        Ok(gone) => gone.map(|()| Vec::new()),
        Err(_) => left_now(servers).await,
    }
}

async fn left_now(servers: &StandServers) -> Result<Vec<String>, TortureError> {
    let mut left: Vec<String> =
        servers.nodes().await?.into_iter().map(|node| format!("the node {node} is left")).collect();
    let mut watches = 0;
    let mut connections = 0;
    for server in 0..servers.ensemble.size() {
        watches += servers.ensemble.metric(server, "zk_watch_count").await?;
        connections += servers.ensemble.metric(server, "zk_num_alive_connections").await?;
    }
    if watches > 0 {
        left.push(format!("{watches} watches are left"));
    }
    // One connection asks for the counter, and one is the campaign's own.
    let own = servers.ensemble.size() as u64 + 1;
    if connections > own {
        left.push(format!("{} connections are left", connections - own));
    }
    Ok(left)
}

fn recorded(struck: &Struck, (monotonic, wall): (i64, SystemTime)) -> FaultRecord {
    let time = |at: SystemTime| {
        let since = at.duration_since(wall).unwrap_or_default();
        monotonic + i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    };
    FaultRecord {
        fault: struck.coming.fault,
        process: struck.coming.process,
        server: struck.coming.server,
        sent: time(struck.sent_at),
        begun: time(struck.begun_at),
        ended: time(struck.ended_at),
        failed: struck.failed.clone(),
    }
}

impl Unserved {
    /// Returns the library of the node behind which it waited, or its own if there was none.
    pub(crate) fn behind_whom(&self) -> &str {
        let Unserved { library, behind, .. } = self;
        behind.as_ref().map_or(library, |(_, owner)| owner)
    }
}

impl RoundRecord {
    /// Judges the round.
    #[must_use]
    pub(crate) fn findings(&self) -> Findings {
        let mut findings = judge(&self.history, |operation| self.may_excuse(operation));
        findings.broken.extend(self.left.iter().cloned());
        findings.unchecked.extend(self.nonsense.iter().cloned());
        for unserved @ Unserved { library, what, behind } in &self.unserved {
            let node = behind.as_ref().map_or("no node", |(node, _)| node);
            let owner = unserved.behind_whom();
            // What waits behind a node of another library waits because of that library.
            let side = if owner == OURS || owner == "nobody" { &mut findings.broken } else { &mut findings.hazards };
            side.push(format!("{what} of {library}, behind {node} of {owner}"));
        }
        findings
    }

    /// Tells whether a fault of the round may have ended the session of a contender without its knowledge.
    fn may_excuse(&self, operation: &Operation) -> bool {
        let begin = operation.acquired.unwrap_or(operation.asked);
        let end = operation.ended.unwrap_or(i64::MAX);
        let meets = |fault: &&FaultRecord| {
            fault.failed.is_none() && fault.sent <= end && begin <= fault.ended.saturating_add(LATE_NS)
        };
        self.faults.iter().filter(meets).any(|fault| {
            let is_its = fault.process == operation.process;
            match fault.fault.site {
                Site::Zookeeper | Site::Redis | Site::Nodes => true,
                Site::Contender => is_its && fault.fault.harm == Harm::Frozen,
                _ => is_its,
            }
        })
    }
}

#[cfg(test)]
mod tests;
