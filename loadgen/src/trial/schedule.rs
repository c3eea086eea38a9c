//! The order of the trials: every block runs each subject once, in an order drawn from the seed.
//!
//! A slow moment of the machine then falls on all subjects alike, and the same seed repeats the order. The first block warms
//! up what the others measure: its figures do not count, but its sales are audited like all others.
//!
//! Two builds of one strategy run one after the other, and chance says which of them is first. So they make a pair.

use buyers::habits::PaymentHabits;
use buyers::model::LoadModel;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures::{count, ms, things};

use crate::lab::hazard::Hazard;
use crate::lab::strategy::{ExpectedFault, Promise, Strategy};

/// The settings and the plan of a comparison.
// `report.json` calls both together its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub(crate) struct Schedule {
    /// The seed that the order and the arrivals were drawn from; `--seed` repeats them. Zero if other engines made the load.
    pub(crate) seed: u32,
    /// The load model. Absent if another engine made the load, and the load was no burst.
    pub(crate) model: Option<LoadModel>,
    /// The model in words, for the largest number of users.
    pub(crate) model_described: String,
    /// Numbers of users. Every strategy was run with each of them.
    pub(crate) users: Vec<u32>,
    /// Units on sale of each SKU.
    pub(crate) stock: u32,
    /// Most units that one buyer may have of each SKU, if the sales have such a limit. A shop that a file describes has its own.
    #[serde(default)]
    pub(crate) per_buyer: Option<u32>,
    /// Which shares of the buyers do not pay at once, if some do not. They hold their units until those expire.
    #[serde(default)]
    pub(crate) habits: Option<PaymentHabits>,
    /// The hazards that strike the strategies, if some do. A strategy has a result for each hazard that can strike it.
    #[serde(default)]
    pub(crate) hazards: Vec<Hazard>,
    /// The first SKU on sale. Zero for shops that files describe.
    pub(crate) goods_no: i64,
    /// Number of SKUs, from the first one on; the users take turns.
    pub(crate) goods: u32,
    /// Trials planned for each strategy and number of users, the warm-up apart.
    pub(crate) trials: u32,
    /// The two builds of the service that were compared: the second is judged against the first. Empty if there was one.
    pub(crate) builds: Vec<NamedBuild>,
    /// The shops that were checked, if files describe them. Empty for the service of the lab.
    #[serde(default)]
    pub(crate) shops: Vec<CheckedShop>,
    /// The logs of the engines that made the load, if `loadgen judge` read them. Empty if this program made it.
    #[serde(default)]
    pub(crate) logs: Vec<JudgedLog>,
    /// Instances of the service, or of each build. Of shops that files describe, the most addresses that one has.
    pub(crate) instances: usize,
    /// ZooKeeper sessions over all instances, or over those of each build.
    pub(crate) zk_sessions_total: Option<u64>,
    /// Business time inside the critical section; unknown of a service that ran already.
    pub(crate) business_time: Option<String>,
    /// How long a buyer waits for the lock before the service refuses, in milliseconds; unknown of a service that ran
    /// already.
    pub(crate) lock_wait_ms: Option<u64>,
    /// Further arguments that the instances were started with.
    pub(crate) service_args: Vec<String>,
    /// Limits beyond which a trial proves nothing.
    pub(crate) limits: Limits,
    /// The blocks of trials, in order.
    pub(crate) blocks: Vec<Block>,
}

/// A build of the service that was compared with another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamedBuild {
    /// The name that the command line gave it.
    pub(crate) name: String,
    /// The path of its program.
    pub(crate) program: String,
}

/// A shop that a file describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CheckedShop {
    /// Its name, which stands for its strategy.
    pub(crate) name: String,
    /// Its addresses.
    pub(crate) urls: Vec<String>,
    /// The most units that one buyer may have.
    pub(crate) per_buyer: Option<u32>,
    /// What its file lets nobody see, one line each.
    pub(crate) unseen: Vec<String>,
}

/// A log of an engine that made a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JudgedLog {
    /// The file.
    pub(crate) file: String,
    /// The engine, and the format of the file.
    pub(crate) engine: String,
    /// The purchases in it.
    pub(crate) purchases: u64,
    /// The unit of its times, in milliseconds.
    pub(crate) resolution_ms: f64,
    /// Whether it has the answers, and not only their statuses.
    pub(crate) answers_seen: bool,
    /// Whether each of its purchases has an intended start.
    pub(crate) is_intended: bool,
    /// Longest time from the first purchase of a trial in any log to the first in this one, in milliseconds, by the clock of each
    /// machine. Absent if no trial is in several logs.
    pub(crate) first_start_ms: Option<f64>,
    /// How far the clock of its machine was ahead of a common clock, in milliseconds. Absent if nobody compared them.
    pub(crate) clock_ahead_ms: Option<f64>,
}

impl JudgedLog {
    /// Describes the log in words.
    pub(crate) fn describe(&self) -> String {
        let JudgedLog { engine, answers_seen, clock_ahead_ms, .. } = self;
        let purchases = things(count(self.purchases), "purchase");
        let answers = if *answers_seen { "with the answers" } else { "statuses only" };
        let clock = match clock_ahead_ms {
            Some(ahead) => format!("clock {} ahead", ms(*ahead)),
            None => "clock not compared".to_owned(),
        };
        let start = self.first_start_ms.map_or_else(String::new, |after| format!("began up to {} late, ", ms(after)));
        format!("{engine}, {purchases}, {answers}; {start}{clock}")
    }
}

/// Limits beyond which a trial proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Limits {
    /// A trial with a larger share of dropped arrivals is undecided.
    pub(crate) dropped_share_max: f64,
    /// A trial with a larger share of requests that ended in an error or a timeout is undecided.
    pub(crate) errors_share_max: f64,
}

/// One round of all subjects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Block {
    /// Whether it only warms up, so that its figures do not count.
    pub(crate) warm_up: bool,
    /// Its trials, in order.
    #[serde(rename = "trials")]
    pub(crate) subjects: Vec<Subject>,
}

/// The subject of a trial: a strategy with a number of users, and a build or a hazard if several are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Subject {
    /// Name of the strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// Name of the build, if two are compared.
    pub(crate) build: Option<String>,
    /// The hazard that strikes it, if hazards are compared.
    #[serde(default)]
    pub(crate) hazard: Option<Hazard>,
}

/// Names a strategy, with its build or its hazard if several are compared.
pub(crate) fn named(strategy: &str, build: Option<&str>, hazard: Option<Hazard>) -> String {
    let of_build = build.map_or_else(String::new, |build| format!(" of {build}"));
    let under = hazard.map_or_else(String::new, |hazard| format!(", {}", hazard.described()));
    format!("{strategy}{of_build}{under}")
}

impl Subject {
    pub(crate) fn of(strategy: &Strategy, users: u32) -> Subject {
        let Strategy { name, build, hazard, .. } = strategy;
        Subject { strategy: name.clone(), users, build: build.clone(), hazard: *hazard }
    }

    /// Names the strategy, with its build or its hazard if several are compared.
    pub(crate) fn name(&self) -> String {
        named(&self.strategy, self.build.as_deref(), self.hazard)
    }

    /// Names the strategy and the number of users.
    pub(crate) fn described(&self) -> String {
        format!("{} with {}", self.name(), things(self.users, "user"))
    }

    /// Tells whether both are one strategy with one number of users, of whatever build.
    fn pairs_with(&self, other: &Subject) -> bool {
        self.strategy == other.strategy && self.users == other.users && self.hazard == other.hazard
    }
}

/// One trial of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduledTrial<'a> {
    /// Number of the block, from zero.
    pub(crate) block: usize,
    /// Whether it only warms up, so that its figures do not count.
    pub(crate) warm_up: bool,
    pub(crate) subject: &'a Subject,
}

impl Schedule {
    /// Returns the trials in their order.
    pub(crate) fn trials(&self) -> impl Iterator<Item = ScheduledTrial<'_>> {
        self.blocks.iter().enumerate().flat_map(|(block, Block { warm_up, subjects })| {
            subjects.iter().map(move |subject| ScheduledTrial { block, warm_up: *warm_up, subject })
        })
    }

    /// Returns the names of the two builds, if two are compared. The second is judged against the first.
    pub(crate) fn pair(&self) -> Option<[&str; 2]> {
        match self.builds.as_slice() {
            [first, second] => Some([&first.name, &second.name]),
            _ => None,
        }
    }

    /// Tells whether other engines made the load. Then nothing was drawn from the seed.
    pub(crate) fn is_logged(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Tells whether hazards are compared.
    pub(crate) fn has_hazards(&self) -> bool {
        !self.hazards.is_empty()
    }

    /// Tells whether no hazards are compared. Then units that are left and times of buyers say something of the strategy.
    pub(crate) fn has_no_hazards(&self) -> bool {
        !self.has_hazards()
    }

    /// Lists the hazards, if there are some.
    pub(crate) fn hazards_described(&self) -> Option<String> {
        let described = || self.hazards.iter().map(|hazard| hazard.described()).collect::<Vec<_>>().join(", ");
        self.has_hazards().then(described)
    }

    /// Tells whether one of its sales limits the units of a buyer.
    pub(crate) fn limits_buyers(&self) -> bool {
        self.per_buyer.is_some() || self.shops.iter().any(|shop| shop.per_buyer.is_some())
    }

    /// Returns what a strategy of this promise has to do wrong for the load to prove anything.
    pub(crate) fn expects(&self, promise: Promise) -> ExpectedFault {
        let asks = self.model.map_or(1, |model| model.requests_per_buyer());
        promise.expects(
            self.instances,
            self.per_buyer.is_some_and(|limit| usize::try_from(limit).is_ok_and(|limit| asks > limit)),
        )
    }

    /// Returns the number of trials.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.subjects.len()).sum()
    }
}

/// Draws random orders of the subjects from the seed: a block that warms up, if there is to be one, and `trials` more. Two
/// builds of one strategy stand side by side among the subjects, and stay side by side.
pub(crate) fn blocks(subjects: &[Subject], warm_up: bool, trials: u32, seed: u32) -> Vec<Block> {
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed));
    let mut block = |warm_up| {
        let mut pairs: Vec<Vec<Subject>> = subjects.chunk_by(Subject::pairs_with).map(<[Subject]>::to_vec).collect();
        pairs.shuffle(&mut random);
        pairs.iter_mut().for_each(|builds| builds.shuffle(&mut random));
        Block { warm_up, subjects: pairs.concat() }
    };
    let measured: Vec<Block> = (0..trials).map(|_| block(false)).collect();
    warm_up.then(|| block(true)).into_iter().chain(measured).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subjects(count: u32) -> Vec<Subject> {
        (0..count)
            .map(|i| Subject { strategy: format!("strategy-{i}"), users: 10, build: None, hazard: None })
            .collect()
    }

    fn of_two_builds(count: u32) -> Vec<Subject> {
        let both =
            |subject: Subject| ["A", "B"].map(|build| Subject { build: Some(build.to_owned()), ..subject.clone() });
        subjects(count).into_iter().flat_map(both).collect()
    }

    fn names(block: &Block) -> Vec<&str> {
        block.subjects.iter().map(|subject| subject.strategy.as_str()).collect()
    }

    #[test]
    fn the_same_seed_repeats_the_order() {
        let drawn = |seed| blocks(&subjects(5), true, 4, seed);
        assert_eq!(drawn(42), drawn(42));
        assert_ne!(drawn(42), drawn(43));
    }

    #[test]
    fn the_order_of_a_seed_never_changes() {
        // A recorded seed must repeat a run with later versions of the program as well, with and without a warm-up.
        let drawn = blocks(&subjects(3), true, 2, 7);
        assert_eq!(names(&drawn[1]), ["strategy-0", "strategy-2", "strategy-1"]);
        assert_eq!(names(&drawn[2]), ["strategy-1", "strategy-2", "strategy-0"]);
        assert_eq!(blocks(&subjects(3), false, 2, 7), drawn[1..]);
    }

    #[test]
    fn only_the_first_block_warms_up() {
        let warm_ups: Vec<bool> = blocks(&subjects(2), true, 3, 1).iter().map(|block| block.warm_up).collect();
        assert_eq!(warm_ups, [true, false, false, false]);
    }

    #[test]
    fn blocks_differ_from_one_another() {
        let drawn = blocks(&subjects(6), true, 20, 1);
        assert!(drawn.iter().any(|block| block.subjects != drawn[0].subjects));
    }

    // C13
    #[test]
    fn two_builds_stand_side_by_side_in_random_order() {
        let drawn = blocks(&of_two_builds(3), false, 40, 1);
        let mut first_is_a = 0;
        for pair in drawn.iter().flat_map(|block| block.subjects.chunks(2)) {
            assert!(pair[0].pairs_with(&pair[1]) && pair[0].build != pair[1].build, "{pair:?}");
            first_is_a += u32::from(pair[0].name().ends_with(" of A"));
        }
        assert!((30..90).contains(&first_is_a), "of 120 pairs, {first_is_a} began with A");
    }

    proptest! {
        #[test]
        fn every_block_has_every_subject_once(count in 1_u32..8, trials in 0_u32..6, seed: u32, two_builds: bool) {
            let subjects = if two_builds { of_two_builds(count) } else { subjects(count) };
            let drawn = blocks(&subjects, true, trials, seed);
            prop_assert_eq!(drawn.len(), trials as usize + 1);
            for block in &drawn {
                let mut sorted = block.subjects.clone();
                sorted.sort();
                prop_assert_eq!(&sorted, &subjects);
            }
        }
    }
}
