//! A figure: what it means, how trials give its value, and how it is written.

use std::fmt;

use stats::figures as format;
use stats::times::{Times, sample_needed};
use stats::{Estimate, as_f64, median_estimate};

use crate::audit::shop::BooksRead;
use crate::judge::result::{Part, StrategyResult};
use crate::lab::strategy::Mechanism;
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// One figure.
pub(crate) struct Metric {
    /// Name in thresholds and in `report.json`, such as `requests_per_sale`.
    pub(crate) key: &'static str,
    /// Heading of its column. A soft hyphen stands where a narrow heading may break.
    pub(crate) title: &'static str,
    /// The line beneath the heading: the unit, or the trials that the figure covers.
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
    pub(crate) better: Better,
    /// Meaning of the figure, for the page, the schema and `docs/reports.md`.
    pub(crate) definition: &'static str,
    pub(crate) source: FigureSource,
    /// Whether a strategy of this nature can have it.
    pub(crate) needs: fn(Nature) -> bool,
    /// A note on the value, such as an upper bound or the expected value.
    pub(crate) beside: fn(&StrategyResult) -> Option<String>,
    /// Table of the page that shows it.
    pub(crate) table: PageTable,
    pub(crate) column: TableWidth,
    /// How `diff` compares it. Every further comparison tightens the correction for all of its kind.
    pub(crate) compared: Compared,
    /// Whether a trial has it only if it sets a new record. Then trials without it do not contradict it.
    pub(crate) is_record: bool,
    /// How k6 can check it, if the answers to buyers suffice.
    pub(crate) k6: Option<K6>,
    /// Whether only the service of the lab tells it.
    pub(crate) lab_only: bool,
    /// Meaning of the figure in a report of shops that files describe, if the other one is not about them.
    pub(crate) of_shops: Option<&'static str>,
    /// Whether a report with this plan shows it.
    pub(crate) is_shown: fn(&Schedule) -> bool,
}

/// Values of most rows.
pub(crate) const ROW: Metric = Metric {
    key: "",
    title: "",
    unit: "",
    kind: Kind::Number,
    better: Better::Lower,
    definition: "",
    source: FigureSource::Median(|_| None),
    needs: |_| true,
    beside: |_| None,
    table: PageTable::Sold,
    column: TableWidth::Page,
    compared: Compared::Never,
    is_record: false,
    k6: None,
    lab_only: false,
    of_shops: None,
    is_shown: |_| true,
};

/// Names rows of the table of figures, and lists them in their order as `ROWS`.
macro_rules! rows {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        $(pub(crate) static $name: Metric = Metric { $($field: $value,)* ..ROW };)*

        pub(super) const ROWS: &[&Metric] = &[$(&$name),*];
    };
}

pub(super) use rows;

/// The kind of number, which decides how a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole number, written exactly.
    Count,
    /// A number, written with three significant digits.
    Number,
    /// Milliseconds. A threshold may give the unit: `250ms`, `1.5s`.
    Time,
    /// A part of one, written in percent. A threshold may give `0.05` or `5%`.
    Share,
    /// A multiple of the reference's figure, with a sign if it does not differ significantly.
    Ratio,
}

/// Which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// Anything but zero is a fault.
    Zero,
    Neither,
}

/// How `diff` compares a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Not at all.
    Never,
    /// Block by block. It counts what the strategy does, so the state of the machine does not matter. A figure that is a
    /// fault unless it is zero is compared only for strategies that were broken on the old side.
    Exact,
    /// The cost of a sale. It is exact if all trials of the old side agree on it. Otherwise it depends on timing, like the
    /// size of a batch, and is compared like times.
    Cost,
    /// Run by run, because the blocks of a run share the speed of the machine.
    Times,
}

/// How the value follows from trials. *Measured* trials are all but the warm-ups.
pub(crate) enum FigureSource {
    /// Median over the measured trials, with an interval.
    Median(fn(&Trial) -> Option<f64>),
    /// The value of all trials that is farthest from zero.
    Worst(fn(&Trial) -> Option<f64>),
    /// The largest value of the measured trials.
    Largest(fn(&Trial) -> Option<f64>),
    /// Sum over all trials.
    Sum(fn(&Trial) -> Option<f64>),
    /// Sum over the measured trials.
    SumMeasured(fn(&Trial) -> Option<f64>),
    /// A part and its whole, each added up over the measured trials.
    Share(fn(&Trial) -> (u64, u64)),
    /// A quantile in permille of the merged times of the measured trials.
    ///
    /// It has no interval. A bootstrap over the blocks would cover a p99 in only 57 to 89 % of all samples, because the p99
    /// lies in the slowest trials, and they are few.
    Quantile(fn(&Trial) -> &Times, u16),
    /// The longest of these times.
    Longest(fn(&Trial) -> &Times),
    /// Follows from the other fields of a result.
    Result(fn(&StrategyResult) -> Option<Estimate>),
}

/// The nature of a strategy, apart from its trials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nature {
    pub(crate) mechanism: Mechanism,
    /// How many critical sections of one SKU may be inside at once; any number if absent.
    pub(crate) permits: Option<u32>,
    /// Whether it is expected to oversell.
    pub(crate) oversells: bool,
}

impl Nature {
    /// Tells whether its lock is in ZooKeeper.
    pub(super) fn has_zookeeper_lock(self) -> bool {
        self.mechanism == Mechanism::Zookeeper
    }

    /// Tells whether its critical sections exclude each other.
    pub(super) fn excludes(self) -> bool {
        self.permits == Some(1)
    }
}

/// Table of the page that shows a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageTable {
    Sold,
    Response,
    Confirmed,
    Outcomes,
    Handover,
    Herd,
    Database,
    Processors,
    Generator,
    /// In no table, but in thresholds and `report.json`.
    Rules,
}

/// Which tables of text show a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableWidth {
    /// The terminal, in 100 columns.
    Narrow,
    /// Markdown, and the terminal with `--wide`.
    Wide,
    /// The page alone.
    Page,
}

/// How k6 can check a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum K6 {
    /// By this aggregate of the times of the sold.
    SoldTime(&'static str),
    /// As the rate of this name.
    Rate(&'static str),
    /// As the count of this name.
    Count(&'static str),
    /// A bound of zero says that at most the stock was sold.
    SoldAtMost,
    /// A bound of zero says that at least the stock was sold.
    SoldAtLeast,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl Metric {
    /// Tells whether a shop that a file describes can have it.
    pub(crate) fn is_of_any_shop(&self) -> bool {
        let of_lab = matches!(self.table, PageTable::Handover | PageTable::Herd | PageTable::Database);
        !of_lab && !self.lab_only
    }

    /// Returns title and unit in one text.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.title, self.unit).replace('\u{ad}', "")
    }

    /// Returns its meaning in a report with this plan.
    pub(crate) fn meaning(&self, schedule: &Schedule) -> &'static str {
        self.of_shops.filter(|_| schedule.is_of_shops()).unwrap_or(self.definition)
    }

    /// Returns title, unit and definition in one text.
    pub(crate) fn described(&self) -> String {
        format!("{}. {}", self.name(), self.definition)
    }

    /// Returns the value of one trial. `None` if the trial does not have it.
    pub(crate) fn of_trial(&self, trial: &Trial) -> Option<f64> {
        match self.source {
            FigureSource::Median(of)
            | FigureSource::Worst(of)
            | FigureSource::Largest(of)
            | FigureSource::Sum(of)
            | FigureSource::SumMeasured(of) => of(trial),
            FigureSource::Share(of) => share(of(trial)),
            FigureSource::Quantile(times, permille) => times(trial).quantile_ms(permille),
            FigureSource::Longest(times) => times(trial).max_ms(),
            FigureSource::Result(_) => None,
        }
    }

    /// Returns the value of the trials of one strategy and number of users. `None` if it follows from other fields.
    pub(crate) fn over(&self, trials: &TrialsOfStrategy<'_>) -> Option<Estimate> {
        let all = |of: fn(&Trial) -> Option<f64>| trials.all.iter().filter_map(move |trial| of(trial));
        let measured = |of: fn(&Trial) -> Option<f64>| trials.measured().filter_map(of);
        match self.source {
            FigureSource::Median(of) => median_estimate(&measured(of).collect::<Vec<_>>()),
            FigureSource::Worst(of) => all(of).reduce(|a, b| if b.abs() > a.abs() { b } else { a }).map(exact),
            FigureSource::Largest(of) => measured(of).reduce(f64::max).map(exact),
            FigureSource::Sum(of) => all(of).reduce(|a, b| a + b).map(exact),
            FigureSource::SumMeasured(of) => measured(of).reduce(|a, b| a + b).map(exact),
            FigureSource::Share(of) => {
                share(trials.measured().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))).map(exact)
            }
            FigureSource::Quantile(times, permille) => {
                Times::merged(trials.measured().map(times)).quantile_ms(permille).map(exact)
            }
            FigureSource::Longest(times) => {
                trials.measured().filter_map(|trial| times(trial).max_ms()).reduce(f64::max).map(exact)
            }
            FigureSource::Result(_) => None,
        }
    }

    /// Counts the trials that have the figure. `None` if all or none of them have it.
    pub(crate) fn part(&self, trials: &TrialsOfStrategy<'_>) -> Option<Part> {
        let has = |trial: &Trial| match self.source {
            FigureSource::Quantile(times, _) | FigureSource::Longest(times) => times(trial).count() > 0,
            _ => self.of_trial(trial).is_some(),
        };
        let is_over_all = matches!(self.source, FigureSource::Worst(_) | FigureSource::Sum(_));
        let is_of = |trial: &Trial| is_over_all || !trial.warm_up;
        let part = Part { trials: trials.count(|trial| is_of(trial) && has(trial)), of: trials.count(is_of) };
        let is_part = part.trials > 0 && part.trials < part.of;
        (is_part && !self.is_record && !matches!(self.source, FigureSource::Result(_))).then_some(part)
    }

    /// Returns the value of a result. `None` if no trial was run, or none had it.
    pub(crate) fn of(&self, result: &StrategyResult) -> Option<Estimate> {
        match self.source {
            _ if result.trials == 0 => None,
            FigureSource::Result(of) => of(result),
            _ => result.figures.get(self.key),
        }
    }

    /// Returns the value of a result without its interval.
    pub(crate) fn value(&self, result: &StrategyResult) -> Option<f64> {
        self.of(result).map(|estimate| estimate.value)
    }

    /// Writes a value, alike in all outputs.
    pub(crate) fn write(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return format::ABSENT.to_owned() };
        match self.kind {
            Kind::Count => format::whole(value),
            Kind::Number | Kind::Time | Kind::Ratio => format::figure(value),
            Kind::Share => format::percent(value),
        }
    }

    /// Writes the value of a result without its interval, alike in all outputs.
    pub(crate) fn text(&self, result: &StrategyResult) -> String {
        match (self.kind, &result.ratio_to_reference) {
            (Kind::Ratio, Some(ratio)) => {
                format!("{} {}", format::figure(ratio.estimate), format::sign(ratio)).trim_end().to_owned()
            }
            (Kind::Ratio, None) if result.is_reference() => "reference".to_owned(),
            _ => self.write(self.value(result)),
        }
    }

    /// Writes the notes on the value of a result: its interval, a bound, the expected value, and the trials if not all of
    /// them have it.
    pub(crate) fn aside(&self, result: &StrategyResult) -> Option<String> {
        let estimate = self.of(result)?;
        let interval = format::interval(estimate.low, estimate.high);
        let of_some = result.partial.get(self.key).map(|part| format!("in {part}"));
        let parts: Vec<String> = interval.into_iter().chain((self.beside)(result)).chain(of_some).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Tells whether a strategy of this nature can have the figure.
    pub(crate) fn is_had_by(&self, nature: Nature) -> bool {
        (self.needs)(nature)
    }

    /// Returns the units that have to be sold for the figure, if it is a quantile of the times of buyers who got a unit.
    pub(crate) fn sold_needed(&self) -> Option<SoldNeeded> {
        match (&self.source, self.k6) {
            (FigureSource::Quantile(_, permille), Some(K6::SoldTime(_))) => {
                Some(SoldNeeded::InAll(sample_needed(*permille)))
            }
            (FigureSource::Median(_), Some(K6::SoldTime(_))) => Some(SoldNeeded::InEach(sample_needed(500))),
            _ => None,
        }
    }

    /// Tells whether the value of a result is a fault.
    pub(crate) fn is_fault(&self, result: &StrategyResult) -> bool {
        self.better == Better::Zero && self.value(result).is_some_and(|value| value != 0.0)
    }
}

/// Units that have to be sold for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SoldNeeded {
    /// In all measured trials together.
    InAll(u64),
    /// In each of them.
    InEach(u64),
}

/// The trials of one strategy and number of users.
pub(crate) struct TrialsOfStrategy<'a> {
    /// All of them, those that warm up included.
    pub(crate) all: Vec<&'a Trial>,
}

impl<'a> TrialsOfStrategy<'a> {
    /// Returns the trials that count: all but the warm-ups.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &'a Trial> {
        self.all.iter().copied().filter(|trial| !trial.warm_up)
    }

    /// Counts the trials that match.
    pub(crate) fn count(&self, is: impl Fn(&Trial) -> bool) -> u32 {
        u32::try_from(self.all.iter().filter(|trial| is(trial)).count()).unwrap_or(u32::MAX)
    }
}

/// Leaves out a zero of books that were not read: nobody has seen it.
pub(super) fn of_books(trial: &Trial, book: fn(BooksRead) -> bool, value: f64) -> Option<f64> {
    (value != 0.0 || trial.books_read.is_none_or(book)).then_some(value)
}

/// Makes an estimate without an interval.
pub(super) fn exact(value: f64) -> Estimate {
    Estimate { value, low: None, high: None }
}

fn share((part, whole): (u64, u64)) -> Option<f64> {
    (whole > 0).then(|| as_f64(part) / as_f64(whole))
}
