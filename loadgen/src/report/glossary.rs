//! The words of a report, and what they mean: general terms, then every figure that is shown.

use stats::glossary::{self as words, Term};

use crate::judge::metrics::{Metric, TableWidth};
use crate::report::Report;

/// A word and its meaning.
#[derive(Debug)]
pub(crate) struct ShownTerm {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl ShownTerm {
    pub(crate) fn new(name: &str, text: impl Into<String>) -> ShownTerm {
        ShownTerm { name: name.to_owned(), text: text.into() }
    }
}

/// What the times of buyers are.
const RESPONSE_TIME: Term = Term {
    name: "Response time",
    text: "From the instant at which a request was meant to start to the last byte of its answer. In a burst, a ramp and an \
           open model no wait is left out. A user of a closed loop who waits makes no other request, so a stall counts once \
           for each user (coordinated omission). The corrected times have the requests that were not made.",
};

/// What a quantile among dropped arrivals is.
const NOT_REACHED: Term = Term {
    name: "Not reached",
    text: "A quantile that lies among arrivals that were never served. Each of them counts as slower than every answer.",
};

/// Terms beyond the definitions of the figures.
const GENERAL: [Term; 15] = [
    Term {
        name: "Kept",
        text: "Whether the strategy kept its promise. A control must oversell; if it does not, the load was too weak to \
               prove anything. \"Refused or failed\": too many buyers got no decision, or the books of a trial that had \
               not come to rest do not balance, so nothing is proved either way. \"Arrivals dropped\": their outcome is \
               unknown, so nothing is proved either way.",
    },
    Term {
        name: "Trial, block, warm-up",
        text: "A trial is one sale under load. A block has one trial of each strategy and number of users, in random \
               order. The first block warms up: its sales are audited, but its figures are left out.",
    },
    RESPONSE_TIME,
    words::QUANTILES,
    NOT_REACHED,
    words::INTERVAL,
    Term {
        name: "Reference",
        text: "The strategy that ratios refer to: `zk-mutex` if it took part and sold correctly, or else the first safe \
               strategy that did.",
    },
    Term {
        name: "Rank",
        text: "Position by median response time, only among strategies that sold no unit too many and none too few in \
               every trial: speed is no merit of a strategy that sells units beyond the stock.",
    },
    words::RELEASE,
    words::HANDOVER,
    words::HERD,
    words::NOTIFICATIONS,
    words::REQUESTS,
    words::BYTES,
    words::DRAIN,
];

/// The same for shops that files describe.
const OF_SHOPS: [Term; 9] = [
    Term {
        name: "Kept",
        text: "Whether the shop sold exactly its stock in every trial, as far as that was checked. \"Refused or failed\": too \
               many buyers got no decision, or the books did not come to rest and do not balance, so nothing is proved either \
               way. \"Arrivals dropped\": their outcome is unknown, so nothing is proved either way.",
    },
    Term {
        name: "Evidence",
        text: "What the verdict stands on. By answers alone: only what buyers were told; the figures of the books are absent. By the shop's own pages: also pages \
               with its stock or its orders. By the database: also its rows. The weakest evidence of all trials counts.",
    },
    Term {
        name: "Not checked",
        text: "What nothing could show, because the shop file does not say how to see it. It is no fault of the shop. A key of \
               the shop file makes it visible.",
    },
    Term {
        name: "Books",
        text: "The stock and the orders of the shop, by its pages and its database. A trial waits until they have come to rest. \
               Orders that were there before the sale do not count.",
    },
    Term {
        name: "Trial, block, warm-up",
        text: "A trial is one sale under load. A block has one trial of each shop and number of users, in random order. The \
               first block warms up: its sales are audited, but its figures are left out.",
    },
    RESPONSE_TIME,
    words::QUANTILES,
    NOT_REACHED,
    words::INTERVAL,
];

/// Terms of several shops.
const RELATED: [Term; 2] = [
    Term { name: "Reference", text: "The shop that ratios refer to: the first one that sold right in every trial." },
    Term {
        name: "Rank",
        text: "Position by median response time, only among shops that sold no unit too many and none too few in every trial: \
               speed is no merit of a shop that sells units beyond its stock.",
    },
];

/// Terms of a comparison of two builds.
const BUILDS: Term = Term {
    name: "Build, pair",
    text: "Two builds of the service were measured side by side, each with its own instances, database and locks, on \
           the same servers. A pair is two trials of one strategy in one block, one of each build, in random order. A \
           figure of the second build is worse or better if it differs within the pairs, corrected for all times or all \
           counts together. At least six pairs are needed. Ranks and ratios to the reference are of each build by \
           itself.",
};

/// Returns the general terms, and the figures that a table of this width shows.
pub(crate) fn terms(report: &Report, metrics: &[&Metric], column: TableWidth) -> Vec<ShownTerm> {
    let of_builds = report.builds.as_ref().map(|_| &BUILDS);
    let words: Vec<&Term> = if report.is_of_lab() {
        GENERAL.iter().collect()
    } else {
        let related = RELATED.iter().filter(|_| report.schedule.has_relations());
        OF_SHOPS.iter().chain(related).collect()
    };
    let general = words.into_iter().chain(of_builds).map(|word| ShownTerm::new(word.name, word.text));
    let shown = metrics.iter().filter(|metric| metric.column <= column);
    general
        .chain(shown.map(|metric| ShownTerm { name: metric.name(), text: metric.meaning(&report.schedule).to_owned() }))
        .collect()
}
