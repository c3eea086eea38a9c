//! The results for one strategy and number of users: the types, as `report.json` has them.

use std::collections::BTreeMap;
use std::fmt;

use buyers::sample::ByOutcome;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Estimate, Ratio};

use crate::audit::shop::Evidence;
use crate::judge::finding::Finding;
use crate::lab::hazard::Hazard;
use crate::lab::strategy::{ExpectedFault, Mechanism, Promise, Wakes};
use crate::trial::record::Latency;
use crate::trial::schedule::{Subject, named};

/// The results for one strategy and number of users. Sold units are judged from all trials, the warm-up included; all other
/// figures leave the warm-up out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct StrategyResult {
    /// Name of the strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// Name of the build, if two are compared.
    pub(crate) build: Option<String>,
    /// The hazard that struck it, if hazards are compared.
    pub(crate) hazard: Option<Hazard>,
    /// Description of the strategy by the service.
    pub(crate) summary: String,
    /// Its promise about the stock.
    pub(crate) promise: Promise,
    /// The mechanism that keeps the deductions of one SKU apart.
    pub(crate) mechanism: Mechanism,
    /// How many critical sections of one SKU may be inside at once; any number if absent.
    pub(crate) permits: Option<u32>,
    /// The waiters that a release wakes through ZooKeeper.
    pub(crate) wakes: Wakes,
    /// Whether the promise was kept; absent when no trial was run, or when the trials do not tell.
    pub(crate) kept: Option<bool>,
    /// The finding of the trials.
    pub(crate) finding: Finding,
    /// Position by median response time of the sold. It ranks the results of the same build and number of users that sold
    /// exactly in every trial.
    pub(crate) rank: Option<usize>,
    /// Units on sale in a trial, of all SKUs.
    pub(crate) stock: u64,
    /// Trials that were run to their end, the warm-up included.
    pub(crate) trials: u32,
    /// Trials without the warm-up.
    pub(crate) measured_trials: u32,
    /// Trials that sold a unit too many or too few, lost an update, sold a unit twice or out of sequence, or whose books did
    /// not balance. Units that were left and lost updates count only in a trial that had come to rest.
    pub(crate) bad_trials: u32,
    /// Trials that prove nothing: undecided buyers left units, the books did not balance before all was at rest, or more
    /// arrivals were dropped or more requests failed than the plan allows.
    pub(crate) inconclusive_trials: u32,
    /// Trials in which nothing wrong was found, but not everything was checked.
    pub(crate) unchecked_trials: u32,
    /// The checks that were missing in them, at most five lines.
    pub(crate) unchecked: Vec<String>,
    /// What the audit of a shop that a file describes stands on: the weakest evidence of its trials. Absent for the service of the
    /// lab, and without a trial.
    pub(crate) evidence: Option<Evidence>,
    /// What nothing could show of a shop that a file describes, in any of its trials, one line each.
    pub(crate) unseen: Vec<String>,
    /// What a shop that a file describes did wrong, one line for each kind of fault, with its size in the worst trial. Empty for
    /// the service of the lab, whose figures tell it.
    pub(crate) faults: Vec<String>,
    /// Exact (Clopper-Pearson) one-sided 95 % upper bound of the rate of bad trials, among the trials that prove something.
    pub(crate) bad_trial_rate_upper_95: f64,
    /// Trials that had not come to rest when they were audited.
    pub(crate) unsettled_trials: u32,
    /// Measured trials in which the generator was the bottleneck.
    pub(crate) client_limited_trials: u32,
    /// Whether its times may be compared: it sold no unit too many and none too few in every trial, its lock excluded, and all of
    /// that was checked.
    pub(crate) is_comparable: bool,
    /// Units sold beyond the stock, median over all trials.
    pub(crate) oversold_median: Option<f64>,
    /// Requests by outcome.
    pub(crate) answers: ByOutcome<u64>,
    /// Buyers who were told neither "sold" nor "sold out", over all trials, the warm-up included.
    pub(crate) undecided: u64,
    /// The part of them whose request ended in an error or a timeout.
    pub(crate) failed: u64,
    /// Requests and arrivals that were dropped, over all trials, the warm-up included.
    pub(crate) arrivals: u64,
    /// The part of them that was dropped.
    pub(crate) dropped: u64,
    /// The part that was dropped because all users were waiting for answers.
    pub(crate) dropped_busy: u64,
    /// Latencies, all trials merged.
    pub(crate) latency: Latency,
    /// The strategy that `ratio_to_reference` refers to: `zk-mutex` if it took part and sold correctly, or else the first
    /// safe strategy that did. Of two builds, each has its own reference.
    pub(crate) reference: Option<String>,
    /// Median response time of the sold, divided by the reference's in the same block. Absent for the reference itself and
    /// for a strategy that sold wrongly or was not decided.
    pub(crate) ratio_to_reference: Option<Ratio>,
    /// Watch notifications to expect in a trial when all *N* users wait before the first of them releases: *N*(*N* − 1)/2
    /// if a release wakes all, *N* − 1 if it wakes one. With fewer sessions than waiters, each release wakes the sessions.
    /// Absent when not all users wait at once.
    pub(crate) notifications_expected: Option<u64>,
    /// The same per release; absent without a ZooKeeper lock.
    pub(crate) notifications_per_release_expected: Option<f64>,
    /// Every other figure, by its key.
    pub(crate) figures: Figures,
    /// Figures that only some of the trials have, by their keys. They meet no threshold.
    pub(crate) partial: BTreeMap<String, Part>,
}

/// The number of trials that have a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Part {
    /// Trials that have it.
    pub(crate) trials: u32,
    /// Trials that should have it.
    pub(crate) of: u32,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} trials", self.trials, self.of)
    }
}

/// The figures of a result by their keys, each with its 95 % interval where it has one. A figure that no trial had is
/// `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Figures(pub(super) BTreeMap<String, Option<Estimate>>);

impl Figures {
    /// Returns the figure of this key, if a trial had it.
    pub(crate) fn get(&self, key: &str) -> Option<Estimate> {
        self.0.get(key).copied().flatten()
    }
}

impl StrategyResult {
    /// Returns what it is the result of.
    pub(crate) fn subject(&self) -> Subject {
        let StrategyResult { strategy, users, build, hazard, .. } = self;
        Subject { strategy: strategy.clone(), users: *users, build: build.clone(), hazard: *hazard }
    }

    /// Tells whether the load generator was the bottleneck in more than half of the measured trials.
    pub(crate) fn is_client_limited(&self) -> bool {
        self.client_limited_trials * 2 > self.measured_trials
    }

    /// Names the strategy, with its build or its hazard if several are compared.
    pub(crate) fn name(&self) -> String {
        named(&self.strategy, self.build.as_deref(), self.hazard)
    }

    /// Returns what a control did wrong, as it has to.
    pub(crate) fn shown(&self) -> ExpectedFault {
        match self.promise {
            _ if self.kept != Some(true) || self.bad_trials == 0 || self.hazard.is_some() => ExpectedFault::Nothing,
            Promise::ExceedsLimit => ExpectedFault::OverLimit,
            _ => ExpectedFault::Oversold,
        }
    }

    /// Tells whether it is the reference of the others.
    pub(crate) fn is_reference(&self) -> bool {
        self.reference.as_ref() == Some(&self.strategy)
    }
}
