//! The record of a round of `loadgen torture`.

use std::time::Duration;

use buyers::sample::ByOutcome;
use serde::{Deserialize, Serialize};
use weather::Fault;

use crate::audit::history::{HistoryAudit, Section};
use crate::audit::trial::{Audit, LabFacts};
use crate::lab::strategy::Promise;
use crate::lab::technique::Technique;
use crate::lab::toll::Toll;

/// Timeout of the ZooKeeper sessions: so short that faults outlast it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// Time to live of a lock in Redis, which its holder renews: so short that faults outlast it.
pub(crate) const REDIS_LOCK_TTL: Duration = Duration::from_secs(5);

/// The settings that all rounds of a run have in common. They bound how soon a strategy can sell again after a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TortureSettings {
    /// Buyers a second.
    pub(crate) rate_per_s: f64,
    /// Instances of the service.
    pub(crate) instances: u16,
    /// Timeout of a ZooKeeper session, in milliseconds.
    pub(crate) session_timeout_ms: f64,
    /// The unit of time of the ZooKeeper servers, in milliseconds: they end sessions at whole ticks.
    pub(crate) tick_ms: f64,
    /// Deadline of a deduction at the database, `--db-timeout`, in milliseconds.
    pub(crate) db_timeout_ms: f64,
    /// Time to live of a lock in Redis, in milliseconds.
    pub(crate) redis_lock_ttl_ms: f64,
}

/// A fault that has struck. Times count from the release of the buyers, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultRecord {
    /// What went wrong, and where.
    pub(crate) fault: Fault,
    /// The instance that it struck, counted from zero. Without meaning for a fault of a server.
    pub(crate) instance: usize,
    /// The ZooKeeper server that it struck, counted from zero. Absent: all of them. Without meaning for other faults.
    pub(crate) server: Option<usize>,
    /// How slow or how narrow a link was, from 0 to 1.
    pub(crate) strength: f64,
    /// Whether no other fault struck at the same time.
    pub(crate) is_alone: bool,
    /// When it began.
    pub(crate) begun_ms: f64,
    /// When it had ended.
    pub(crate) ended_ms: f64,
    /// Whether units were left at its end. Otherwise nothing can be said of the next order.
    pub(crate) had_units: bool,
    /// From its end to the next commit of an order. Absent if none came.
    pub(crate) next_sale_ms: Option<f64>,
    /// The same for orders of which the instance that it struck told a buyer. Another instance may have written them. Absent also for a fault of a server.
    pub(crate) next_sale_there_ms: Option<f64>,
    /// Why it could not be made or ended. It counts as unchecked.
    pub(crate) failed: Option<String>,
}

/// What was seen in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundSeen {
    /// Units on sale.
    pub(crate) stock: i64,
    /// The faults, in the order in which they began.
    pub(crate) faults: Vec<FaultRecord>,
    /// Requests to buy by outcome.
    pub(crate) answers: ByOutcome<u64>,
    /// Requests that repeated one of these under its key.
    #[serde(default)]
    pub(crate) repeated: u64,
    /// Requests that were not sent, as too many buyers were waiting for their answers.
    pub(crate) dropped: u64,
    /// What was really sold.
    pub(crate) audit: Audit,
    /// Critical sections that were entered while the lock had no free permit, as far as instances have kept their history. Absent for
    /// a strategy whose sections may overlap.
    pub(crate) overlaps: Option<u64>,
    /// What the faults cost the instances, as they count it.
    #[serde(default)]
    pub(crate) toll: Toll,
    /// What did not serve again after the faults, one line each.
    pub(crate) unserved: Vec<String>,
    /// Whether nothing moved any more when the books were read. Otherwise promised orders may still have come.
    pub(crate) at_rest: bool,
    /// Evidence that is missing, one line each.
    pub(crate) gaps: Vec<String>,
    /// The first few different problems of the buyers.
    pub(crate) problems: Vec<String>,
    /// From the end of the load until every server and instance served again, in milliseconds.
    pub(crate) calm_after_ms: f64,
    /// From the release to the last answer, in milliseconds.
    pub(crate) length_ms: f64,
}

/// What a round is judged by, so that it can be judged again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RoundEvidence {
    /// The promise of the strategy.
    pub(crate) promise: Promise,
    /// How many critical sections of a SKU may be inside at once; any number if absent.
    pub(crate) permits: Option<u32>,
    /// The books of each SKU, and what its buyers were told.
    pub(crate) facts: Vec<LabFacts>,
    /// The critical sections that the instances still knew. Empty without a common clock.
    pub(crate) sections: Vec<Section>,
    /// Records that they had dropped.
    pub(crate) missing: u64,
    /// Orders of the round without lines.
    pub(crate) orders_without_lines: u64,
}

impl RoundEvidence {
    /// Audits the books again.
    pub(crate) fn audit(&self) -> Audit {
        let audit = Audit::sum(self.facts.iter().map(|facts| Audit::of(facts).0));
        Audit { orders_without_lines: self.orders_without_lines, ..audit }
    }

    /// Counts the critical sections that overlapped.
    pub(crate) fn overlaps(&self) -> Option<u64> {
        HistoryAudit::of(&self.sections, self.permits, self.missing).overlaps
    }
}

/// A round that is kept with its evidence.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptRound {
    /// `seckill-torture-round/2`.
    pub(crate) schema: String,
    /// What was found.
    pub(crate) round: Round,
    /// What it was found by.
    pub(crate) evidence: RoundEvidence,
}

/// A round, and how it is made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The strategy.
    pub(crate) strategy: String,
    /// Its promise.
    pub(crate) promise: Promise,
    /// What guards its deductions.
    pub(crate) kind: Technique,
    /// Its seed: `loadgen torture --seed` makes the same choices again.
    pub(crate) seed: u64,
    /// What was seen.
    #[serde(flatten)]
    pub(crate) seen: RoundSeen,
    /// What must not have happened, one line each. Empty if nothing was found.
    pub(crate) broken: Vec<String>,
    /// What the promise of the strategy leaves open and was seen, one line each.
    pub(crate) hazards: Vec<String>,
    /// What could not be checked, one line each.
    pub(crate) unchecked: Vec<String>,
}

impl Round {
    /// Tells whether nothing was found, everything was checked, and each fault was made and ended.
    pub(crate) fn is_whole(&self) -> bool {
        let was_made = self.seen.faults.iter().all(|fault| fault.failed.is_none());
        self.broken.is_empty() && self.hazards.is_empty() && self.unchecked.is_empty() && was_made
    }
}

#[cfg(test)]
impl FaultRecord {
    /// Returns the record of a fault that struck alone and lasted so long, in milliseconds.
    pub(crate) fn example(lasted_ms: f64) -> FaultRecord {
        FaultRecord {
            fault: Fault::at(&crate::lab::storm::SITES).next().expect("BUG: there is no fault"),
            instance: 0,
            server: None,
            strength: 0.5,
            is_alone: true,
            begun_ms: 1000.0,
            ended_ms: 1000.0 + lasted_ms,
            had_units: true,
            next_sale_ms: None,
            next_sale_there_ms: None,
            failed: None,
        }
    }
}

#[cfg(test)]
impl RoundSeen {
    /// Returns a round of a stock of 100 units with these faults and these findings, at rest and with nothing missing.
    pub(crate) fn example(faults: Vec<FaultRecord>, audit: Audit) -> RoundSeen {
        RoundSeen {
            stock: 100,
            faults,
            answers: ByOutcome::default(),
            repeated: 0,
            dropped: 0,
            audit,
            overlaps: None,
            toll: Toll::default(),
            unserved: Vec::new(),
            at_rest: true,
            gaps: Vec::new(),
            problems: Vec::new(),
            calm_after_ms: 0.0,
            length_ms: 0.0,
        }
    }
}
