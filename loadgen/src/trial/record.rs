//! The record of one trial.

use std::time::{Duration, SystemTime};

use buyers::health::Generator;
pub(crate) use buyers::latency::Latency;
use buyers::load::LoadResult;
use buyers::sample::ByOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::times::Times;
use stats::{as_f64, as_ms};

use crate::audit::history::HistoryAudit;
use crate::audit::shop::{BooksRead, Evidence};
use crate::audit::trial::Audit;
use crate::lab::cpu::ProcessCpu;
use crate::lab::hazard::Hazard;
use crate::lab::postgres_load::PostgresLoad;
use crate::lab::strike::Strike;
use crate::lab::traffic::Traffic;
use crate::trial::schedule::{Limits, Subject, named};

/// How a count grew: `count[i]` at `at_ms[i]`, at most a hundred steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Curve {
    /// Instants in milliseconds, in order.
    pub(crate) at_ms: Vec<f64>,
    /// The count at each of them.
    pub(crate) count: Vec<u64>,
}

/// Steps of a [`Curve`].
const CURVE_STEPS: usize = 100;

impl Curve {
    /// Adds the events up over time.
    pub(crate) fn of(mut events: Vec<Duration>) -> Curve {
        events.sort_unstable();
        let steps = events.len().min(CURVE_STEPS);
        // The last event of each hundredth, so that the curve ends with the last event of all.
        let chosen = (1..=steps).map(|step| step * events.len() / steps);
        let (at_ms, count) = chosen.map(|count| (as_ms(events[count - 1]), count as u64)).unzip();
        Curve { at_ms, count }
    }
}

/// The strike of a hazard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StrikeRecord {
    /// From the release of the buyers to the strike, in milliseconds.
    pub(crate) at_ms: f64,
    /// From the strike until all processes ran again, in milliseconds.
    pub(crate) over_after_ms: f64,
    /// Units of each SKU that another channel of sale took then.
    pub(crate) withdrawn: i64,
    /// Longest time from the strike on in which no buyer was told of a sale, in milliseconds. It ends with the stock, or with the first
    /// buyer who is told "sold out" after the last sale, or with the last answer.
    pub(crate) stall_ms: f64,
    /// From the strike until the database had every order that a buyer had been told of, in milliseconds; "not reached" if an order
    /// that a buyer was told of never came. Absent where buyers are answered at the commit.
    #[serde(default, with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) books_agree_ms: Option<f64>,
}

impl StrikeRecord {
    /// Records a strike. The books agreed this many milliseconds after it, if that was measured. `has_left`: whether units were left.
    pub(crate) fn of(strike: Strike, bought: &LoadResult, has_left: bool, books_agree_ms: Option<f64>) -> StrikeRecord {
        let since = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default();
        let at = since(bought.released_at, strike.at);
        StrikeRecord {
            at_ms: as_ms(at),
            over_after_ms: as_ms(since(strike.at, strike.over_at)),
            withdrawn: strike.withdrawn,
            stall_ms: as_ms(stall(at, bought.tally.told_at.clone(), has_left.then(|| bought.tally.sales_over()))),
            books_agree_ms,
        }
    }
}

/// Returns the longest time without a sale from an instant on. The sales are in no order. `over`: the end of the sales, if units were
/// left then.
fn stall(from: Duration, mut sold_at: Vec<Duration>, over: Option<Duration>) -> Duration {
    sold_at.sort_unstable();
    let mut last = from;
    let mut longest = Duration::ZERO;
    for at in sold_at.into_iter().chain(over).filter(|at| *at > from) {
        // The answers were noted in the order of a lock, so the end of the sales may be a moment before the last of them.
        longest = longest.max(at.saturating_sub(last));
        last = at;
    }
    longest
}

/// One trial.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number of its block, from zero.
    pub(crate) block: usize,
    /// Whether it only warmed up: its sales are audited, but its figures do not count.
    pub(crate) warm_up: bool,
    /// Its strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// Name of the build that it tried, if two are compared.
    pub build: Option<String>,
    /// The hazard that was to strike, if hazards are compared.
    #[serde(default)]
    pub(crate) hazard: Option<Hazard>,
    /// Its strike. Absent if the load was over before.
    #[serde(default)]
    pub(crate) strike: Option<StrikeRecord>,
    /// The sale that the service opened for each SKU; their orders stay in the database.
    pub(crate) sales: Vec<i64>,
    /// Requests to buy by outcome.
    pub(crate) answers: ByOutcome<u64>,
    /// The audit: what was really sold.
    pub(crate) audit: Audit,
    /// Whether the orders are exactly those that buyers were told of, apart from indeterminate ones.
    pub(crate) ledger_balanced: bool,
    /// What the audit could not check, one line each with its count. Empty if everything was checked.
    pub(crate) unchecked: Vec<String>,
    /// What the audit of a shop that a file describes stands on. Absent for the service of the lab, whose database and history
    /// are read.
    #[serde(default)]
    pub(crate) evidence: Option<Evidence>,
    /// The books that were read of a shop that a file describes. Absent for the service of the lab, of which all are read.
    #[serde(default)]
    pub(crate) books_read: Option<BooksRead>,
    /// What nothing could show of a shop that a file describes, one line each. It is no fault of the trial: the file does not
    /// say how to see it.
    #[serde(default)]
    pub(crate) unseen: Vec<String>,
    /// The findings about the lock in the instances' history; absent if their times cannot be compared.
    pub(crate) history: Option<HistoryAudit>,
    /// Hand-over times in milliseconds, if the history tells them: from a release to the entry of the next waiter.
    pub(crate) handovers: Times,
    /// Units sold per second, from the first start to the last sale, without those beyond the stock; absent if nothing was
    /// sold.
    pub(crate) goodput_per_s: Option<f64>,
    /// From the release until the buyer of the last unit had the answer, in milliseconds; absent when not every unit was
    /// confirmed.
    pub(crate) sold_out_after_ms: Option<f64>,
    /// Units of orders committed per second, from the first start to the last commit, without those beyond the stock; absent if
    /// the commits of the shop are not known.
    #[serde(default)]
    pub(crate) confirmed_per_s: Option<f64>,
    /// Orders that were promised and not committed at the last answer "sold"; absent if the commits of the shop are not known.
    #[serde(default)]
    pub(crate) backlog: Option<u64>,
    /// From the last answer "sold" to the last commit, in milliseconds; absent if the commits of the shop are not known.
    #[serde(default)]
    pub(crate) backlog_ms: Option<f64>,
    /// From the release to the last answer, in milliseconds.
    pub duration_ms: f64,
    /// Longest time in which a buyer waited for an answer and none got one, in milliseconds; absent without a request.
    pub(crate) silence_max_ms: Option<f64>,
    /// Latencies.
    pub latency: Latency,
    /// Traffic on ZooKeeper, from before the release until the trial had come to rest.
    pub(crate) zookeeper: Traffic,
    /// Its cost for Postgres.
    pub(crate) postgres: PostgresLoad,
    /// Processor time of each process, as far as it is known.
    pub(crate) cpu: Vec<ProcessCpu>,
    /// Whether everything had come to rest in time, before the counters were read and the books were balanced.
    pub(crate) settled: bool,
    /// State of the load generator.
    pub generator: Generator,
    /// Up to five different problems that caused refusals and errors.
    pub(crate) problems: Vec<String>,
    /// Observations that failed or were not kept, each with the reason. Their figures are absent. The audit needs none of
    /// them.
    pub(crate) left_out: Vec<String>,
    /// Units sold over time, by the times at which buyers learnt of it, from the release on.
    pub(crate) sold_over_time: Curve,
    /// Critical sections entered over time, if the history tells them. The time counts from the first request for the lock.
    pub(crate) entered_over_time: Curve,
}

impl Trial {
    /// Names its strategy, with its build or its hazard if several are compared.
    pub(crate) fn name(&self) -> String {
        named(&self.strategy, self.build.as_deref(), self.hazard)
    }

    /// Tells whether this was its subject.
    pub(crate) fn is_of(&self, subject: &Subject) -> bool {
        let Subject { strategy, users, build, hazard } = subject;
        self.strategy == *strategy && self.users == *users && self.build == *build && self.hazard == *hazard
    }

    /// Tells whether the strategy sold wrongly for certain. Units left and lost updates count only once all is at rest, because
    /// a deduction under way may set them right. A unit too many or an unfounded answer counts at any time.
    pub(crate) fn is_bad(&self) -> bool {
        self.audit.over_limit > 0 || self.sells_wrongly()
    }

    /// Tells the same, whatever the buyers have by the limit per buyer. Under a hazard, units may be left and sold in any sequence.
    pub(crate) fn sells_wrongly(&self) -> bool {
        let audit = &self.audit;
        if self.hazard.is_some() {
            return audit.oversold > 0 || audit.lost_updates != 0 || !audit.ledger_balanced();
        }
        let at_rest = self.settled && (audit.undersold > 0 || audit.lost_updates != 0);
        let is_out_of_order = !audit.is_in_sequence() || audit.misplaced.unwrap_or(0) > 0;
        let stock = audit.oversold > 0 || audit.double_sales > 0 || is_out_of_order;
        // Only a shop of another kind may answer before it writes the order.
        let may_be_written = self.evidence.is_some() && !self.settled;
        stock || at_rest || !(audit.ledger_balanced() || may_be_written)
    }

    /// Tells whether the order in which buyers were served breaks a promise. The lock did not exclude, an order has an older
    /// token than an order before it, or a batch did not keep to the order of arrival.
    pub(crate) fn is_order_violated(&self) -> bool {
        let is_found = |orders: Option<u64>| orders.is_some_and(|orders| orders > 0);
        is_found(self.audit.tokens_out_of_order)
            || is_found(self.audit.overtaken_in_batch)
            || self.history.as_ref().is_some_and(HistoryAudit::is_violated)
    }

    /// Tells whether the trial proves nothing either way: undecided buyers left units, or the books of a trial that had not
    /// come to rest do not balance.
    pub(crate) fn is_inconclusive(&self) -> bool {
        !self.is_bad() && (self.audit.unsold_undecided > 0 || !self.audit.is_clean())
    }

    /// Tells whether the trial proves nothing for the strategy, although nothing wrong was found.
    pub(crate) fn proves_nothing(&self, limits: &Limits) -> bool {
        self.is_undecided(limits) || (!self.is_bad() && !self.unchecked.is_empty())
    }

    /// Tells whether the trial proves nothing because of dropped arrivals or failed requests.
    pub(crate) fn is_undecided(&self, limits: &Limits) -> bool {
        self.is_inconclusive() || self.drops_too_many(limits) || self.fails_too_many(limits)
    }

    /// Tells whether too many arrivals were dropped for the trial to prove anything. A buyer that was never served might
    /// have exposed a fault.
    pub(crate) fn drops_too_many(&self, limits: &Limits) -> bool {
        let Generator { requests, dropped, .. } = self.generator;
        !self.is_bad() && as_f64(dropped) > limits.dropped_share_max * as_f64(requests + dropped)
    }

    /// Tells whether too many requests failed for the trial to prove anything. Its times would be only those of the lucky
    /// buyers.
    pub(crate) fn fails_too_many(&self, limits: &Limits) -> bool {
        let answers = &self.answers;
        !self.is_bad() && as_f64(answers.failed()) > limits.errors_share_max * as_f64(answers.total())
    }

    /// Divides a figure by the units sold. `None` if none was.
    pub(crate) fn per_sale(&self, figure: Option<f64>) -> Option<f64> {
        (self.audit.sold > 0).then(|| as_f64(self.audit.sold)).and_then(|sold| Some(figure? / sold))
    }
}

/// The fewest buyers that were found to make a shop sell wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reproduction {
    /// The name of the shop.
    pub(crate) shop: String,
    /// How many buyers bought at the same instant.
    pub(crate) buyers: u32,
    /// The same in words, with the purchases of each buyer if there are several.
    #[serde(default)]
    pub(crate) crowd: String,
    /// Tries in which they were sold wrongly.
    pub(crate) wrong: u32,
    /// All tries with this number of buyers.
    pub(crate) tries: u32,
    /// A shell script that does the same.
    pub(crate) script: String,
}

impl Reproduction {
    /// Describes how many buyers were enough.
    pub(crate) fn describe(&self) -> String {
        let Reproduction { shop, buyers, crowd, wrong, tries, .. } = self;
        let were = if *buyers == 1 { "was" } else { "were" };
        format!("{crowd} {were} enough: {shop} sold wrongly in {wrong} of {tries} tries. This script does the same.")
    }
}

/// Returns units of the stock sold a second between the first start and the last of these sales, which are in order.
pub(crate) fn goodput_per_s(first_start: Option<Duration>, sold_at: &[Duration], stock: usize) -> Option<f64> {
    let units = sold_at.len().min(stock);
    let last = units.checked_sub(1).and_then(|last| sold_at.get(last))?;
    let seconds = last.checked_sub(first_start?)?.as_secs_f64();
    (seconds > 0.0).then(|| stats::as_f64(units) / seconds)
}

/// Returns when the buyer of the last unit of the stock had the answer.
pub(crate) fn sold_out_after_ms(sold_at: &[Duration], stock: usize) -> Option<f64> {
    stock.checked_sub(1).and_then(|last| sold_at.get(last)).map(|at| as_ms(*at))
}

#[cfg(test)]
mod tests {
    use buyers::health::{Dropped, Processors};
    use buyers::tally::Tally;

    use super::*;

    #[test]
    fn goodput_runs_from_the_first_start_to_the_last_sale() {
        let [start, first, second] = [100, 300, 600].map(Duration::from_millis);
        let sold = [first, second];
        assert_eq!(goodput_per_s(Some(start), &sold, 10), Some(4.0));
        assert_eq!(goodput_per_s(Some(start), &sold, 1), Some(5.0), "a unit too many is no good");
        assert_eq!(goodput_per_s(Some(start), &[], 10), None);
        assert_eq!(goodput_per_s(None, &[], 10), None);
        assert_eq!((sold_out_after_ms(&sold, 2), sold_out_after_ms(&sold, 3)), (Some(600.0), None));
    }

    #[test]
    fn a_stall_lasts_until_the_next_sale_or_the_end_of_the_sales() {
        let ms = Duration::from_millis;
        let sold = vec![ms(50), ms(400), ms(120), ms(430)];
        let first = || sold[..1].to_vec();
        assert_eq!(stall(ms(100), sold.clone(), None), ms(280));
        assert_eq!(stall(ms(100), sold.clone(), Some(ms(900))), ms(470), "units are left");
        assert_eq!(stall(ms(100), first(), Some(ms(900))), ms(800));
        assert_eq!(stall(ms(100), first(), None), Duration::ZERO);
        assert_eq!(stall(ms(100), sold, Some(ms(429))), ms(280), "two answers crossed");
    }

    #[test]
    fn a_stall_counts_what_buyers_were_told_after_the_strike() {
        let ms = Duration::from_millis;
        let released_at = SystemTime::UNIX_EPOCH;
        let strike = Strike { at: released_at + ms(100), over_at: released_at + ms(150), withdrawn: 0 };
        // Two tickets were answered at once, and told their orders later. The last answer came much later than "sold out".
        let mut tally = Tally::of(1, 2, false, 0);
        tally.told[0].sold_out_since = Some(ms(450));
        tally.sold_at = vec![ms(20), ms(30)];
        tally.told_at = vec![ms(390), ms(120)];
        tally.length = ms(2000);
        let dropped = Dropped::default();
        let processors = Processors::default();
        let bought = LoadResult { tally, is_open: true, dropped, released_at, cpu_time: None, processors };
        let stall = |has_left| StrikeRecord::of(strike, &bought, has_left, None).stall_ms;
        assert_eq!((stall(false), stall(true)), (270.0, 270.0));
        let late = Strike { at: released_at + ms(300), ..strike };
        assert_eq!(StrikeRecord::of(late, &bought, true, None).stall_ms, 90.0);
    }

    #[test]
    fn a_curve_has_at_most_100_steps_and_ends_with_the_last_event() {
        let curve = Curve::of((0..1500).map(Duration::from_millis).collect());
        assert_eq!((curve.at_ms.len(), curve.count[0], curve.at_ms[0]), (100, 15, 14.0));
        assert_eq!((curve.count.last(), curve.at_ms.last()), (Some(&1500), Some(&1499.0)));
        let few = Curve::of([3, 1, 2].map(Duration::from_millis).to_vec());
        assert_eq!(few, Curve { at_ms: vec![1.0, 2.0, 3.0], count: vec![1, 2, 3] });
        assert_eq!(Curve::of(Vec::new()), Curve::default());
    }
}
