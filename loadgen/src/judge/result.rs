//! What came out for one strategy with so many users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::times::{Times, quantile_estimate};
use stats::{Estimate, Ratio, as_f64, median, median_estimate, rate};

use crate::judge::finding::Finding;
use crate::judge::herd::notifications_expected;
use crate::lab::cpu::GENERATOR;
use crate::lab::strategy::{Mechanism, Promise, Strategy, Wakes};
use crate::load::sample::ByOutcome;
use crate::trial::plan::Plan;
use crate::trial::record::{Latency, Trial};

/// What came out for one strategy with so many users. What was sold is judged from all trials, the warm-up included; all
/// other figures leave the warm-up out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StrategyResult {
    /// Its name.
    pub(crate) strategy: String,
    /// How many users.
    pub(crate) users: u32,
    /// What it does, in the service's words.
    pub(crate) summary: String,
    /// What it promises about the stock.
    pub(crate) promise: Promise,
    /// What keeps the deductions of one SKU apart.
    #[serde(alias = "guard")]
    pub(crate) mechanism: Mechanism,
    /// Whom a release wakes through ZooKeeper.
    pub(crate) wakes: Wakes,
    /// Whether the promise was kept; absent when no trial was run, or when the trials do not tell.
    pub(crate) kept: Option<bool>,
    /// What the trials show.
    pub(crate) finding: Finding,
    /// Place by median response time of the sold, among those with as many users that sold no unit too many and none too
    /// few in every trial.
    pub(crate) rank: Option<usize>,
    /// Trials that were run to their end, the warm-up included.
    pub(crate) trials: u32,
    /// Those of them that count: all but the warm-up.
    #[serde(default)]
    pub(crate) measured_trials: u32,
    /// Trials that sold a unit too many or too few, lost an update, or whose books did not balance; in a trial that had not
    /// come to rest only a unit too many and the books count.
    pub(crate) bad_trials: u32,
    /// Trials that prove nothing: undecided buyers left units, or books did not balance before all was at rest.
    pub(crate) inconclusive_trials: u32,
    /// Exact (Clopper-Pearson) one-sided 95 % upper bound of the rate of bad trials among those that prove anything.
    pub(crate) bad_trial_rate_upper_95: f64,
    /// Units sold beyond the stock, worst trial.
    pub(crate) oversold_max: i64,
    /// Units sold beyond the stock, median over the trials.
    pub(crate) oversold_median: Option<f64>,
    /// The oversell rate: units sold beyond the stock divided by the stock, worst trial.
    pub(crate) oversell_rate_max: f64,
    /// Units that buyers wanted and that were left, although a buyer was told that nothing was left or enough were sold theirs
    /// to take them all; worst trial.
    pub(crate) undersold_max: i64,
    /// Initial − final − sold; of all trials the figure farthest from zero. Negative: orders whose deduction was
    /// overwritten. Positive: stock gone without an order.
    pub(crate) lost_updates_max: i64,
    /// Orders for a unit that another order had been written for already, worst trial.
    pub(crate) double_sales_max: u64,
    /// Whether in every trial the orders were exactly those that buyers were told of, indeterminate ones apart.
    pub(crate) ledger_balanced: bool,
    /// Orders whose buyers saw an error or nothing, over all trials.
    pub(crate) indeterminate: u64,
    /// Critical sections that were entered while others were inside, as many as the lock permits; over all trials. Absent
    /// where sections may overlap, or without a history.
    pub(crate) overlaps: Option<u64>,
    /// Most visitors of the critical section of one SKU at one instant.
    pub(crate) inside_max: Option<u64>,
    /// Holds with a fencing token that is not above those of all holds before it, over all trials; absent without tokens, and
    /// of a lock that does not admit one at a time.
    pub(crate) token_regressions: Option<u64>,
    /// Share of the pairs of buyers that were served in another order than they asked in: 0 for a queue, about a half for a
    /// lock that lets in whom it likes. Median over the trials.
    pub(crate) inversion_share: Option<f64>,
    /// Requests by outcome.
    pub(crate) answers: ByOutcome<u64>,
    /// Buyers who were told neither "sold" nor "sold out", over all trials, the warm-up included.
    #[serde(default)]
    pub(crate) undecided: u64,
    /// Requests that started more than five milliseconds later than they were meant to.
    pub(crate) late: u64,
    /// Arrivals of an open model that were never started as every user was busy.
    pub(crate) dropped: u64,
    /// Units of the stock sold a second, median over the trials.
    pub(crate) goodput_per_s: Option<Estimate>,
    /// From the release until the last unit of the stock was sold, in milliseconds, median over the trials.
    pub(crate) sold_out_after_ms: Option<Estimate>,
    /// Latencies, all trials merged.
    pub(crate) latency: Latency,
    /// Median response time of the sold in milliseconds, all trials merged.
    pub(crate) p50_ms: Option<Estimate>,
    /// What 99 of 100 sold took at most, in milliseconds, all trials merged.
    pub(crate) p99_ms: Option<Estimate>,
    /// From each release of the lock to the next entry of one who waited, in milliseconds, all trials merged.
    pub(crate) handovers: Times,
    /// The strategy that `ratio_to_reference` refers to: `zk-mutex` if it took part and sold correctly, or else the first
    /// safe strategy that did.
    pub(crate) reference: Option<String>,
    /// Median response time of the sold, divided by the reference's in the same block. Absent for the reference itself and
    /// for a strategy that sold wrongly or was not decided.
    pub(crate) ratio_to_reference: Option<Ratio>,
    /// Watch notifications a trial, median over the trials: as the servers count them, or else the instances' sessions.
    pub(crate) notifications: Option<f64>,
    /// The same when all *N* users wait before the first of them releases: *N*(*N* − 1)/2 if a release wakes all, *N* − 1 if
    /// it wakes one. With fewer sessions than waiters a release wakes the sessions. Absent when not all wait at once.
    pub(crate) notifications_expected: Option<u64>,
    /// Watch notifications a release, median over the trials in which every buyer had a decision.
    pub(crate) notifications_per_release: Option<Estimate>,
    /// The same when all users wait at once; absent without a ZooKeeper lock.
    pub(crate) notifications_per_release_expected: Option<f64>,
    /// Watch notifications that the instances' sessions received a release, median over the trials.
    pub(crate) client_notifications_per_release: Option<f64>,
    /// Most connections that one deletion woke, if it was more than ever before on that server.
    pub(crate) wake_max: Option<u64>,
    /// Requests to ZooKeeper a unit sold, median over the trials.
    pub(crate) requests_per_sale: Option<Estimate>,
    /// Bytes to and from ZooKeeper a unit sold, median over the trials.
    pub(crate) bytes_per_sale: Option<Estimate>,
    /// Commits of Postgres a unit sold, median over the trials.
    pub(crate) commits_per_sale: Option<Estimate>,
    /// Bytes of Postgres' write-ahead log a unit sold, median over the trials.
    pub(crate) wal_bytes_per_sale: Option<Estimate>,
    /// Time that connections waited for locks of Postgres a unit sold, in milliseconds, median over the trials.
    pub(crate) lock_wait_ms_per_sale: Option<Estimate>,
    /// Processor time of all processes that are known, the generator apart, for each request in milliseconds; median over
    /// the trials.
    pub(crate) cpu_ms_per_request: Option<f64>,
    /// Trials that had not come to rest when they were audited.
    pub(crate) unsettled_trials: u32,
    /// Trials that count in which the generator was the bottleneck.
    pub(crate) client_limited_trials: u32,
}

/// Makes a result of the trials of one strategy and number of users.
struct Figures<'a> {
    /// All of them.
    all: Vec<&'a Trial>,
    /// Those that count.
    measured: Vec<&'a Trial>,
    seed: u64,
}

impl Figures<'_> {
    /// The median over the trials that have the figure.
    fn median(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        median(&self.of_each(figure))
    }

    /// The median with its interval.
    fn estimate(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<Estimate> {
        median_estimate(&self.of_each(figure), self.seed)
    }

    /// The median of a figure a unit sold, with its interval.
    fn per_sale(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<Estimate> {
        self.estimate(|trial| Some(figure(trial)? / trial.units_sold()?))
    }

    fn of_each(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Vec<f64> {
        self.measured.iter().filter_map(|trial| figure(trial)).collect()
    }

    /// A quantile of the response times of the sold, all trials merged, with its interval.
    fn quantile(&self, permille: u16) -> Option<Estimate> {
        let blocks: Vec<&Times> = self.measured.iter().map(|trial| &trial.latency.response.sold).collect();
        quantile_estimate(&blocks, permille, self.seed)
    }

    /// How many of all trials are so.
    fn count(&self, is: impl Fn(&Trial) -> bool) -> u32 {
        u32::try_from(self.all.iter().filter(|trial| is(trial)).count()).unwrap_or(u32::MAX)
    }

    /// The largest figure of all trials.
    fn max<T: Ord>(&self, figure: impl Fn(&Trial) -> T) -> Option<T> {
        self.all.iter().map(|trial| figure(trial)).max()
    }

    /// The sum over all trials that have the figure; nothing when none has it.
    fn sum(&self, figure: impl Fn(&Trial) -> Option<u64>) -> Option<u64> {
        self.all.iter().filter_map(|trial| figure(trial)).reduce(|a, b| a + b)
    }
}

impl StrategyResult {
    /// Draws the result of the trials of one strategy with so many users.
    #[expect(clippy::too_many_lines, reason = "it is one list of figures, each in a line or two")]
    pub(crate) fn of(strategy: &Strategy, users: u32, plan: &Plan, trials: &[Trial]) -> StrategyResult {
        let all: Vec<&Trial> =
            trials.iter().filter(|trial| trial.strategy == strategy.name && trial.users == users).collect();
        let measured: Vec<&Trial> = all.iter().copied().filter(|trial| !trial.warm_up).collect();
        let figures = Figures { all, measured, seed: u64::from(plan.seed) };
        let (run, bad_trials) = (figures.count(|_| true), figures.count(Trial::is_bad));
        let inconclusive_trials = figures.count(Trial::is_inconclusive);
        let finding = Finding::of(strategy.promise, plan.instances, &figures.all);
        let stock_total = i64::from(plan.stock) * i64::from(plan.goods);
        let oversold_max = figures.max(|trial| trial.audit.oversold).unwrap_or(0);
        let expected = plan
            .model
            .is_burst()
            .then(|| notifications_expected(strategy.wakes, u64::from(users), plan.zk_sessions_total));
        let answers: Vec<&ByOutcome<u64>> = figures.measured.iter().map(|trial| &trial.answers).collect();
        StrategyResult {
            strategy: strategy.name.clone(),
            users,
            summary: strategy.summary.clone(),
            promise: strategy.promise,
            mechanism: strategy.mechanism,
            wakes: strategy.wakes,
            kept: match finding {
                Finding::Kept => Some(true),
                Finding::Broken => Some(false),
                Finding::Inconclusive | Finding::LoadTooWeak | Finding::NotRun => None,
            },
            finding,
            rank: None,
            trials: run,
            measured_trials: figures.count(|trial| !trial.warm_up),
            bad_trials,
            inconclusive_trials,
            bad_trial_rate_upper_95: rate::upper_95(bad_trials, run - inconclusive_trials),
            oversold_max,
            oversold_median: median(&figures.all.iter().map(|trial| as_f64(trial.audit.oversold)).collect::<Vec<_>>()),
            oversell_rate_max: as_f64(oversold_max) / as_f64(stock_total.max(1)),
            undersold_max: figures.max(|trial| trial.audit.undersold).unwrap_or(0),
            lost_updates_max: figures
                .all
                .iter()
                .map(|t| t.audit.lost_updates)
                .max_by_key(|n| n.unsigned_abs())
                .unwrap_or(0),
            double_sales_max: figures.max(|trial| trial.audit.double_sales).unwrap_or(0),
            ledger_balanced: figures.all.iter().all(|trial| trial.audit.ledger_balanced()),
            indeterminate: figures.sum(|trial| Some(trial.audit.indeterminate)).unwrap_or(0),
            overlaps: figures.sum(|trial| trial.history.as_ref()?.overlaps),
            inside_max: figures.max(|trial| trial.history.as_ref().map(|history| history.inside_max)).flatten(),
            token_regressions: figures.sum(|trial| trial.history.as_ref()?.token_regressions),
            inversion_share: figures.median(|trial| trial.history.as_ref()?.inversion_share()),
            answers: ByOutcome::fold(&answers, |counts| counts.sum()),
            undecided: figures.all.iter().map(|trial| trial.answers.undecided()).sum(),
            late: figures.measured.iter().map(|trial| trial.generator.late).sum(),
            dropped: figures.measured.iter().map(|trial| trial.generator.dropped).sum(),
            goodput_per_s: figures.estimate(|trial| trial.goodput_per_s),
            sold_out_after_ms: figures.estimate(|trial| trial.sold_out_after_ms),
            latency: Latency::merged(&figures.measured.iter().map(|trial| &trial.latency).collect::<Vec<_>>()),
            p50_ms: figures.quantile(500),
            p99_ms: figures.quantile(990),
            handovers: Times::merged(figures.measured.iter().map(|trial| &trial.handovers)),
            reference: None,
            ratio_to_reference: None,
            notifications: figures.median(|trial| trial.zookeeper.notifications().map(as_f64)),
            notifications_expected: expected,
            notifications_per_release: figures.estimate(|trial| trial.zookeeper.notifications_per_release()),
            notifications_per_release_expected: expected
                .filter(|_| strategy.mechanism == Mechanism::Zookeeper)
                .map(|expected| as_f64(expected) / f64::from(users)),
            client_notifications_per_release: figures
                .median(|trial| trial.zookeeper.client_notifications_per_release()),
            wake_max: figures.max(|trial| trial.zookeeper.wake_max).flatten(),
            requests_per_sale: figures.per_sale(|trial| trial.zookeeper.client_requests.map(as_f64)),
            bytes_per_sale: figures.per_sale(|trial| trial.zookeeper.client_bytes().map(as_f64)),
            commits_per_sale: figures.per_sale(|trial| trial.postgres.commits.map(as_f64)),
            wal_bytes_per_sale: figures.per_sale(|trial| trial.postgres.wal_bytes.map(as_f64)),
            lock_wait_ms_per_sale: figures.per_sale(|trial| trial.postgres.lock_wait_ms),
            cpu_ms_per_request: figures.median(cpu_ms_per_request),
            unsettled_trials: figures.count(|trial| !trial.settled),
            client_limited_trials: figures.count(|trial| !trial.warm_up && trial.generator.limited),
        }
    }

    /// Whether its times may be compared: it sold no unit too many and none too few, every time, and its lock excluded.
    pub(crate) fn is_comparable(&self) -> bool {
        let excluded = self.overlaps.unwrap_or(0) == 0 && self.token_regressions.unwrap_or(0) == 0;
        self.trials > 0 && self.bad_trials == 0 && self.inconclusive_trials == 0 && excluded
    }
}

fn cpu_ms_per_request(trial: &Trial) -> Option<f64> {
    let others: Vec<f64> = trial.cpu.iter().filter(|cpu| cpu.process != GENERATOR).map(|cpu| cpu.cpu_s * 1e3).collect();
    (!others.is_empty() && trial.generator.requests > 0)
        .then(|| others.iter().sum::<f64>() / as_f64(trial.generator.requests))
}

/// The median response time of the sold in each block that counts, where the sample can carry it.
pub(crate) fn medians_by_block(trials: &[Trial], strategy: &str, users: u32, plan: &Plan) -> Vec<Option<f64>> {
    let measured = plan.blocks.iter().enumerate().filter(|(_, block)| !block.warm_up);
    let in_block = |number: usize| {
        trials.iter().find(|trial| trial.block == number && trial.strategy == strategy && trial.users == users)
    };
    measured.map(|(number, _)| in_block(number)?.latency.response.sold.quantile_ms(500)).collect()
}
