//! The words of a report, and what they mean: general terms, then every figure that is shown.

use crate::judge::metrics::{Column, Metric};

/// A word and its meaning.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Term {
    pub(crate) fn new(name: &str, text: impl Into<String>) -> Term {
        Term { name: name.to_owned(), text: text.into() }
    }
}

/// Terms that no single figure explains.
const GENERAL: [(&str, &str); 8] = [
    (
        "Kept",
        "Whether the strategy did what it promises. A control must oversell; if it does not, the load was too weak to prove \
         anything. \"Refused or failed\": too many buyers got no decision, or the books of a trial that had not come to rest do \
         not balance, so nothing is proved either way.",
    ),
    (
        "Trial, block, warm-up",
        "A trial is one sale under load. A block has one trial of each strategy and number of users, in random order. The first \
         block warms up: what it sold is audited, its figures are left out.",
    ),
    (
        "Response time",
        "From the instant at which a request was meant to start to the last byte of its answer, so that no wait is left out (no \
         coordinated omission). A quantile with fewer than ten values above it is left out: –.",
    ),
    (
        "Interval",
        "95 % bootstrap interval over the blocks, from six blocks on. Requests of one trial depend on each other, trials do not.",
    ),
    (
        "Reference",
        "The strategy that ratios refer to: `zk-mutex` if it took part and sold correctly, or else the first safe strategy that did.",
    ),
    (
        "Rank",
        "Place by median response time, only among strategies that sold no unit too many and none too few in every trial: speed at \
         selling what is not there is no merit.",
    ),
    ("Release", "A purchase that held a ZooKeeper lock and gave it back, whether it sold a unit or found none left."),
    (
        "Herd",
        "All waiters of one lock, woken by one release although only one of them can hold the lock next. N waiters cost N(N − 1)/2 \
         notifications; a queue, which wakes the next waiter only, costs N − 1.",
    ),
];

/// The general terms, and the figures that a table of this width shows.
pub(crate) fn terms(metrics: &[&Metric], column: Column) -> Vec<Term> {
    let general = GENERAL.iter().map(|(name, text)| Term::new(name, *text));
    let shown = metrics.iter().filter(|metric| metric.column <= column);
    general.chain(shown.map(|metric| Term { name: metric.name(), text: metric.definition.to_owned() })).collect()
}
