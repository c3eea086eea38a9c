//! The record of a round of `loadgen torture`.

use buyers::sample::ByOutcome;
use serde::{Deserialize, Serialize};

use crate::audit::history::{HistoryAudit, Section};
use crate::audit::trial::{Audit, LabFacts};
use crate::lab::strategy::Promise;
use weather::Fault;

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
    /// The same for orders of the instance that it struck. Absent also for a fault of a server.
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
    /// Buyers that came while too many others were waiting, and were not let in.
    pub(crate) dropped: u64,
    /// What was really sold.
    pub(crate) audit: Audit,
    /// Critical sections that were entered while the lock had no free permit, as far as instances have kept their history. Absent for
    /// a strategy whose sections may overlap.
    pub(crate) overlaps: Option<u64>,
    /// What did not serve again after the faults, one line each.
    pub(crate) unserved: Vec<String>,
    /// Whether nothing moved any more when the books were read. Otherwise promised orders may still have come.
    pub(crate) at_rest: bool,
    /// What could not be checked, one line each.
    pub(crate) unchecked: Vec<String>,
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
    /// `seckill-torture-round/1`.
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
    /// Its seed: `loadgen torture --seed` makes the same choices again.
    pub(crate) seed: u64,
    /// What was seen.
    #[serde(flatten)]
    pub(crate) seen: RoundSeen,
    /// What must not have happened, one line each. Empty if nothing was found.
    pub(crate) broken: Vec<String>,
    /// What the promise of the strategy leaves open and was seen, one line each.
    pub(crate) hazards: Vec<String>,
}
