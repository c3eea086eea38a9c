//! The words for what is on trial: strategies of the service of the lab, or shops that files describe.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::schedule::Schedule;

/// The kind of all subjects of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SubjectKind {
    /// Strategies of the service of the lab.
    #[default]
    Strategy,
    /// Shops that files describe.
    Shop,
}

/// The words of a report that depend on the kind of its subjects.
#[derive(Debug)]
pub(crate) struct Nouns {
    /// One subject.
    pub(crate) one: &'static str,
    /// Several subjects.
    pub(crate) many: &'static str,
    /// One subject, as a heading.
    pub(crate) title: &'static str,
    /// Several subjects, as a heading.
    pub(crate) titles: &'static str,
    /// What answers the buyers.
    pub(crate) service: &'static str,
    /// What the command does.
    pub(crate) run: &'static str,
    /// A rule as an example.
    pub(crate) rule: &'static str,
    /// What the generator shared its machine with, and what follows from it.
    pub(crate) shared_machine: &'static str,
    /// What occupied the processors if the generator did not.
    pub(crate) occupants: &'static str,
    /// What is done after a trial at rest.
    pub(crate) audited: &'static str,
    /// The heading of results without a rank.
    pub(crate) unranked: &'static str,
    /// Why the times of a subject are not compared.
    pub(crate) untimed: &'static str,
    /// What became of requests that failed.
    pub(crate) failures: &'static str,
    /// The reason of exit status 1, as a banner.
    pub(crate) failed: &'static str,
    pub(crate) advice: Advice,
    pub(crate) commands: Commands,
}

/// Remedies, each the end of a sentence.
#[derive(Debug)]
pub(crate) struct Advice {
    /// Buyers had no decision, or the books did not come to rest.
    pub(crate) inconclusive: &'static str,
    /// Requests failed.
    pub(crate) failing: &'static str,
    /// Most requests came after everything was sold. The number of units follows.
    pub(crate) sold_out: &'static str,
    /// Buyers had no decision.
    pub(crate) undecided: &'static str,
}

/// Commands that give what a report lacks.
#[derive(Debug)]
pub(crate) struct Commands {
    /// Any trials.
    pub(crate) again: &'static str,
    /// More trials.
    pub(crate) more_trials: &'static str,
    /// More trials with enough units.
    pub(crate) more_units: &'static str,
    /// Several numbers of users.
    pub(crate) scale: &'static str,
}

static STRATEGIES: Nouns = Nouns {
    one: "strategy",
    many: "strategies",
    title: "Strategy",
    titles: "Strategies",
    service: "service",
    run: "comparison",
    rule: "zk-mutex p99<250ms",
    shared_machine: "generator, service and servers shared one machine: compare the rows, not the figures",
    occupants: "the service, the servers or other programs",
    audited: "the database was audited",
    unranked: "Sold wrongly, did not exclude, undecided, or unchecked: shown, never ranked",
    untimed: "sold wrongly, did not exclude, was not decided",
    failures: "requests ended in an error or a timeout",
    failed: "A rule was not met, or the load proved nothing",
    advice: Advice {
        inconclusive: "raise --lock-wait, or look at the service's log",
        failing: "look at the service's log",
        sold_out: "raise --stock above",
        undecided: "a longer --lock-wait lets all buyers be served, and the service's log has the causes",
    },
    commands: Commands {
        again: "loadgen compare --preset quick",
        more_trials: "loadgen compare --trials 10",
        more_units: "loadgen compare --trials 10 --stock 100",
        scale: "loadgen compare --preset scale --users 10,30,100,300",
    },
};

const SHOPS: Nouns = Nouns {
    one: "shop",
    many: "shops",
    title: "Shop",
    titles: "Shops",
    service: "shop",
    run: "check",
    rule: "p99<250ms",
    shared_machine: "the load generator and a shop shared the processors of one machine, so the times are of both together",
    occupants: "the shop or other programs",
    audited: "the books were read",
    unranked: "Sold wrongly, undecided, or unchecked: shown, never ranked",
    untimed: "sold wrongly, was not decided",
    failures: "requests ended in an error or a timeout",
    failed: "A rule was not met",
    advice: Advice {
        inconclusive: "look at the shop's log, or give fewer --users",
        failing: "look at the shop's log, or give fewer --users",
        sold_out: "raise stock in the shop file above",
        undecided: "the shop's log may have the causes, and fewer --users may all be served",
    },
    commands: Commands {
        again: "loadgen check SHOP",
        more_trials: "loadgen check SHOP --trials 10",
        more_units: "loadgen check SHOP --trials 10",
        scale: "loadgen check SHOP --users 10,30,100,300",
    },
};

/// The words for shops whose load other engines made. Buyers in no log have no decision either.
const LOGGED_SHOPS: Nouns = Nouns {
    failures: "buyers are in no log, or their requests ended in an error or a timeout",
    advice: Advice {
        inconclusive: "name the logs of all machines, or look at the shop's log",
        failing: "name the logs of all machines, or look at the shop's log",
        undecided: "buyers in no log count as errors, and the shop's log may have the causes of the rest",
        ..SHOPS.advice
    },
    commands: Commands {
        again: "loadgen judge LOG… --shop SHOP",
        more_trials: "loadgen judge LOG… --shop SHOP",
        more_units: "loadgen judge LOG… --shop SHOP",
        scale: "loadgen judge LOG… --shop SHOP",
    },
    ..SHOPS
};

impl SubjectKind {
    /// Returns the words for subjects of this kind.
    pub(crate) fn nouns(self) -> &'static Nouns {
        match self {
            SubjectKind::Strategy => &STRATEGIES,
            SubjectKind::Shop => const { &SHOPS },
        }
    }
}

impl Schedule {
    /// Returns the kind of its subjects.
    pub(crate) fn kind(&self) -> SubjectKind {
        if self.shops.is_empty() { SubjectKind::Strategy } else { SubjectKind::Shop }
    }

    /// Tells whether it is about shops that files describe.
    pub(crate) fn is_of_shops(&self) -> bool {
        self.kind() == SubjectKind::Shop
    }

    /// Returns the words for its subjects.
    pub(crate) fn nouns(&self) -> &'static Nouns {
        if self.is_logged() { const { &LOGGED_SHOPS } } else { self.kind().nouns() }
    }

    /// Tells whether it has several subjects that can be set in relation.
    pub(crate) fn has_relations(&self) -> bool {
        self.shops.len() != 1 && !self.has_hazards()
    }
}
