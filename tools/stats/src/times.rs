//! Latencies as histograms, and the quantiles that a sample can carry.
//!
//! One definition everywhere: the quantile `q` is the smallest recorded value with a share `q` of the sample at or below
//! it. This is the nearest rank, as an HDR histogram reports it. Requests that were never served are a part of the sample:
//! each of them counts as longer than every time. A quantile among them is infinite, and is written "not reached".

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::as_f64;
use super::reached::Reached;

/// Longest time of a histogram, in microseconds. Longer times are recorded as this.
const TIME_MAX_US: u64 = 3_600_000_000;

/// Upper bound of the values that are read: eleven days at a million a second. So the counts of all trials together fit into 64 bits.
const VALUES_MAX: u64 = 1_000_000_000_000;

/// A quantile is printed only when at least this many values are expected above it.
const VALUES_ABOVE_MIN: u64 = 10;

/// Times in microseconds with three significant digits, and a count of requests that were never served. Those of several
/// trials can be merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Distribution", try_from = "Distribution")]
pub struct Times {
    served: Histogram<u64>,
    unserved: u64,
}

/// The written form of [`Times`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Times")]
struct Distribution {
    /// Number of times.
    n: u64,
    /// Requests that were never served, such as dropped arrivals. Each of them counts as longer than every time.
    unserved: u64,
    /// The median in milliseconds, of the times and the unserved together. It is "not reached" if it lies among the
    /// unserved. It is absent if the sample does not carry it: at least ten values must be expected above it.
    p50: Option<Reached>,
    /// The 90th percentile in milliseconds.
    p90: Option<Reached>,
    /// The 99th percentile in milliseconds.
    p99: Option<Reached>,
    /// The 99.9th percentile in milliseconds.
    p999: Option<Reached>,
    /// The longest time in milliseconds. It is "not reached" if a request was not served.
    max: Option<Reached>,
    /// All times in microseconds, to three significant digits: an HDR histogram (V2, compressed, base64), which other
    /// tools can read. Absent without times.
    hdr: Option<String>,
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, TIME_MAX_US, 3);
        Times { served: histogram.expect("BUG: the bounds of the histogram are constants and in order"), unserved: 0 }
    }
}

impl Times {
    /// Returns a histogram without times.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one time in whole microseconds, at least one.
    pub fn record(&mut self, time: Duration) {
        self.record_n(time, 1);
    }

    /// Adds the same time `n` times.
    pub fn record_n(&mut self, time: Duration, n: u64) {
        self.served.saturating_record_n(whole_us(time), n);
    }

    /// Adds requests that were never served.
    pub fn record_unserved(&mut self, n: u64) {
        self.unserved += n;
    }

    /// Adds all times and all unserved of another histogram.
    ///
    /// # Panics
    ///
    /// Never: all of these histograms have the same bounds.
    pub fn merge(&mut self, other: &Times) {
        let merged = self.served.add(&other.served);
        merged.expect("BUG: histograms of equal bounds can always be added");
        self.unserved += other.unserved;
    }

    /// Returns all times of several histograms as one.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Times>) -> Times {
        let mut merged = Times::new();
        for times in all {
            merged.merge(times);
        }
        merged
    }

    /// Returns the times as wrk corrects them for coordinated omission. For each time above `interval`, it adds the times of
    /// the requests that a user would have made meanwhile, one in every interval.
    pub fn corrected(&self, interval: Duration) -> Times {
        Times { served: self.served.clone_correct(whole_us(interval)), unserved: self.unserved }
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.served.len()
    }

    /// Returns the number of times above a limit. A time that has the same three significant digits is not above it. The unserved
    /// are none of them.
    pub fn later_than(&self, limit: Duration) -> u64 {
        self.served.count_between(self.served.highest_equivalent(whole_us(limit)) + 1, TIME_MAX_US)
    }

    /// Returns the number of times and unserved together.
    fn sample(&self) -> u64 {
        self.count() + self.unserved
    }

    /// Returns the quantile in milliseconds. It is infinite if it lies among the unserved. `None` if the sample is too small
    /// for it.
    pub fn quantile_ms(&self, permille: u16) -> Option<f64> {
        let rank = (self.sample() * u64::from(permille)).div_ceil(1000).max(1);
        quantile_is_carried(self.sample(), permille).then(|| self.ranked_ms(rank))
    }

    /// Returns the median of the times in milliseconds. It leaves out the unserved, and also exists for a small sample:
    /// it is for judging, and not for a report. `None` without times.
    pub fn median_served_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.ranked_ms(self.count().div_ceil(2)))
    }

    /// Returns the time in milliseconds that has this rank in the sample, counted from one.
    fn ranked_ms(&self, rank: u64) -> f64 {
        if rank > self.count() {
            return f64::INFINITY;
        }
        // The middle of the rank, so that no rounding leads to the next one.
        as_f64(self.served.value_at_quantile((as_f64(rank) - 0.5) / as_f64(self.count()))) / 1e3
    }

    /// Returns the longest time in milliseconds. It is infinite if a request was not served. `None` without a sample.
    pub fn max_ms(&self) -> Option<f64> {
        (self.sample() > 0).then(|| if self.unserved > 0 { f64::INFINITY } else { as_f64(self.served.max()) / 1e3 })
    }

    /// Returns points of the distribution for a chart: quantiles and their times in milliseconds, denser towards the end.
    /// The last one is the quantile of the longest time, which is below one if a request was not served.
    pub fn points(&self) -> Vec<(f64, f64)> {
        if self.count() == 0 {
            return Vec::new();
        }
        let served = self.share_served();
        let points = self.served.iter_quantiles(5);
        points.map(|step| (step.quantile() * served, as_f64(step.value_iterated_to()) / 1e3)).collect()
    }

    fn share_served(&self) -> f64 {
        as_f64(self.count()) / as_f64(self.sample().max(1))
    }

    /// Returns the distribution in the text format of HdrHistogram's plotters, `.hgrm`, in milliseconds.
    pub fn hgrm(&self) -> String {
        let mut text =
            format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
        let mut total = 0;
        for step in self.served.iter_quantiles(5) {
            total += step.count_since_last_iteration();
            let value = as_f64(step.value_iterated_to()) / 1e3;
            let quantile = step.quantile_iterated_to() * self.share_served();
            // Writing into a String cannot fail.
            let _ = if quantile < 1.0 {
                writeln!(text, "{value:>12.3} {quantile:>14.12} {total:>10} {:>14.2}", 1.0 / (1.0 - quantile))
            } else {
                writeln!(text, "{value:>12.3} {quantile:>14.12} {total:>10}")
            };
        }
        let histogram = &self.served;
        let [mean, deviation, max] = [histogram.mean(), histogram.stdev(), as_f64(histogram.max())].map(|us| us / 1e3);
        let _ = writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
        let _ = writeln!(text, "#[Max     = {max:>12.3}, Total count    = {:>12}]", self.count());
        let _ = writeln!(text, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", histogram.buckets(), 2048);
        if self.unserved > 0 {
            let _ = writeln!(text, "#[Never served, and in the percentiles: {}]", self.unserved);
        }
        text
    }
}

fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(TIME_MAX_US).clamp(1, TIME_MAX_US)
}

/// Tells whether `n` values carry a quantile.
pub fn quantile_is_carried(n: u64, permille: u16) -> bool {
    n >= sample_needed(permille)
}

/// Returns the smallest number of values *n* that carries a quantile: n(1 − q) is at least ten.
pub fn sample_needed(permille: u16) -> u64 {
    match u64::from(1000_u16.saturating_sub(permille)) {
        0 => u64::MAX,
        above => (VALUES_ABOVE_MIN * 1000).div_ceil(above),
    }
}

impl From<Times> for Distribution {
    fn from(times: Times) -> Distribution {
        let mut bytes = Vec::new();
        // Writing into memory cannot fail.
        let written = V2DeflateSerializer::new().serialize(&times.served, &mut bytes);
        let quantile = |permille| times.quantile_ms(permille).map(Reached::from);
        Distribution {
            n: times.count(),
            unserved: times.unserved,
            p50: quantile(500),
            p90: quantile(900),
            p99: quantile(990),
            p999: quantile(999),
            max: times.max_ms().map(Reached::from),
            hdr: (written.is_ok() && times.count() > 0).then(|| BASE64_STANDARD.encode(bytes)),
        }
    }
}

impl TryFrom<Distribution> for Times {
    type Error = String;

    fn try_from(distribution: Distribution) -> Result<Times, String> {
        for (name, number) in [("n", distribution.n), ("unserved", distribution.unserved)] {
            if number > VALUES_MAX {
                return Err(format!("{name} is {number}, and no trial has more than {VALUES_MAX}"));
            }
        }
        let mut times = Times { unserved: distribution.unserved, ..Times::new() };
        if let Some(hdr) = distribution.hdr {
            let bytes = BASE64_STANDARD.decode(hdr).map_err(|error| format!("hdr is not base64: {error}"))?;
            let histogram: Histogram<u64> = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .map_err(|error| format!("hdr is no histogram: {error}"))?;
            // The histogram may have other bounds.
            for step in histogram.iter_recorded() {
                let us = step.value_iterated_to().clamp(1, TIME_MAX_US);
                times.served.saturating_record_n(us, step.count_at_value());
            }
        }
        if times.count() == distribution.n {
            Ok(times)
        } else {
            Err(format!("hdr has {} values, but n is {}", times.count(), distribution.n))
        }
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(values_ms: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::new();
        for value in values_ms {
            times.record(Duration::from_millis(value));
        }
        times
    }

    #[test]
    fn times_above_a_limit_are_counted() {
        let mut times = Times::new();
        [100, 200, 300].into_iter().for_each(|ms| times.record(Duration::from_millis(ms)));
        times.record_unserved(7);
        let later = |ms| times.later_than(Duration::from_millis(ms));
        assert_eq!((later(99), later(100), later(250), later(301)), (3, 2, 1, 0));
    }

    #[test]
    fn a_quantile_needs_ten_values_above_it() {
        assert!(!quantile_is_carried(19, 500));
        assert!(quantile_is_carried(20, 500));
        assert!(!quantile_is_carried(99, 900));
        assert!(quantile_is_carried(100, 900));
        assert!(!quantile_is_carried(999, 990));
        assert!(quantile_is_carried(1000, 990));
    }

    #[test]
    fn a_small_sample_has_a_maximum_but_no_quantiles() {
        let small = times([5, 7, 9]);
        assert_eq!((small.quantile_ms(500), small.quantile_ms(990), small.count()), (None, None, 3));
        assert!((small.max_ms().unwrap() - 9.0).abs() < 0.01);
        assert_eq!(times([]).max_ms(), None);
    }

    #[test]
    fn merged_times_have_the_quantiles_of_the_whole() {
        let merged = Times::merged([&times(1..=100), &times(901..=1000)]);
        assert_eq!(merged.count(), 200);
        assert!((merged.quantile_ms(500).unwrap() - 100.0).abs() < 0.2);
        assert!((merged.quantile_ms(900).unwrap() - 980.0).abs() < 1.0);
        assert_eq!(merged.quantile_ms(990), None);
    }

    // C15
    #[test]
    fn the_unserved_are_slower_than_every_time() {
        let mut few = times(1..=900);
        few.record_unserved(100);
        assert_eq!(few.quantile_ms(500), times(1..=1000).quantile_ms(500));
        assert_eq!(
            [few.quantile_ms(900), few.quantile_ms(990), few.max_ms()].map(Option::unwrap)[1..],
            [f64::INFINITY; 2]
        );
        assert!((few.quantile_ms(900).unwrap() - 900.0).abs() < 1.0);
        assert_eq!(few.quantile_ms(910), Some(f64::INFINITY));
        let mut nobody = Times::new();
        nobody.record_unserved(20);
        assert_eq!((nobody.quantile_ms(500), nobody.count()), (Some(f64::INFINITY), 0));
        let both = Times::merged([&few, &nobody]);
        assert_eq!((both.count(), both.unserved), (900, 120));
        assert!(
            both.points().last().unwrap().0 < 0.9 && both.hgrm().contains("Never served, and in the percentiles: 120")
        );
    }

    #[test]
    fn a_time_beyond_the_bounds_is_kept_at_the_bound() {
        let mut times = Times::new();
        times.record(Duration::ZERO);
        times.record(Duration::from_secs(u64::MAX));
        assert_eq!(times.count(), 2);
    }

    #[test]
    fn a_correction_adds_the_requests_that_were_not_made_meanwhile() {
        // A request every 14 ms: after the one of 56 ms, the next three would have taken 42, 28 and 14 ms.
        let mut measured = times([56]);
        measured.record_n(Duration::from_millis(1), 1000);
        let corrected = measured.corrected(Duration::from_millis(14));
        assert_eq!((measured.count(), corrected.count()), (1001, 1004));
        assert_eq!((corrected.quantile_ms(500), corrected.max_ms()), (Some(1.0), measured.max_ms()));
        let slow: Vec<u64> =
            corrected.served.iter_recorded().map(|step| step.value_iterated_to() / 1000).skip(1).collect();
        assert_eq!(slow, [14, 28, 42, 56]);
    }

    #[test]
    fn plotters_read_the_text_of_a_distribution() {
        insta::assert_snapshot!(times(1..=20).hgrm());
    }

    #[test]
    fn a_histogram_that_is_none_is_refused() {
        for (json, expected) in [
            (r#"{"n":1,"unserved":0,"hdr":"?"}"#, "hdr is not base64"),
            (r#"{"n":1,"unserved":0,"hdr":"AAAA"}"#, "hdr is no histogram"),
            (r#"{"n":1,"unserved":0}"#, "hdr has 0 values, but n is 1"),
        ] {
            let error = serde_json::from_str::<Times>(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            values in prop::collection::vec(0_u64..4_000_000_000, 0..200),
            unserved in 0_u64..200,
        ) {
            let mut times = Times::new();
            times.record_unserved(unserved);
            values.iter().for_each(|us| times.record(Duration::from_micros(*us)));
            let read: Times = serde_json::from_str(&serde_json::to_string(&times).unwrap()).unwrap();
            prop_assert_eq!(read, times);
        }
    }
}
