//! Whether the load generator kept up, so that the times can be laid at the strategies' door.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{as_f64, as_ms, median};

/// Above this share of the median response time, the wait for the generator itself dominates what was measured.
const LAG_SHARE_MAX: f64 = 0.5;
/// Starts this close to when they were meant to be are on time whatever the response time: a scheduler needs as long to
/// wake a task.
const LAG_TOLERATED_MS: f64 = 5.0;
/// Above this share of late starts an open model has not had the arrivals that it was asked for.
const LATE_SHARE_MAX: f64 = 0.01;
/// Above this share of all cores the generator leaves the machine no room, its own work included.
const CPU_SHARE_MAX: f64 = 0.8;

/// How the generator did in one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Requests that were started.
    pub requests: u64,
    /// Requests that were started more than five milliseconds later than they were meant to be.
    pub late: u64,
    /// Arrivals of an open model that found every user busy, and were never started: the response times are those of the
    /// others alone.
    pub dropped: u64,
    /// Median time from the intended start of a request to the actual one, in milliseconds.
    pub start_lag_p50_ms: Option<f64>,
    /// Longest time from the intended start of a request to the actual one, in milliseconds.
    pub start_lag_max_ms: Option<f64>,
    /// From the first user's first request to the last user's, in milliseconds.
    pub start_spread_ms: f64,
    /// Processor time of the generator from the release to the last answer, as a share of all cores.
    pub cpu_share: f64,
    /// The same for each request, in microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// Whether the generator was the bottleneck. One of these makes it so:
    ///
    /// * Half of the requests started more than five milliseconds late, and later than half the median response time.
    /// * In an open model, more than one request in a hundred started late.
    /// * The generator used more than four fifths of all cores.
    pub limited: bool,
}

/// What the judgement is based on.
#[derive(Debug, Clone)]
pub struct Effort {
    /// For each request, the time from its intended to its actual start.
    pub start_lags: Vec<Duration>,
    /// For each user, when its first request started.
    pub first_starts: Vec<Duration>,
    /// Arrivals that were not started.
    pub dropped: u64,
    /// Whether the requests were to arrive at a rate.
    pub is_open: bool,
    /// Median response time over all answers.
    pub response_p50: Option<Duration>,
    /// From the release to the last answer.
    pub length: Duration,
    /// Processor time, user and system, that the generator used meanwhile.
    pub cpu_time: Duration,
    /// Cores of the machine.
    pub cores: usize,
}

impl Generator {
    /// Judges one load.
    pub fn judge(effort: &Effort) -> Generator {
        let lags_ms: Vec<f64> = effort.start_lags.iter().copied().map(as_ms).collect();
        let starts_ms: Vec<f64> = effort.first_starts.iter().copied().map(as_ms).collect();
        let largest = |values: &[f64]| values.iter().copied().reduce(f64::max);
        let smallest = |values: &[f64]| values.iter().copied().reduce(f64::min);
        let requests = lags_ms.len() as u64;
        let late = lags_ms.iter().filter(|lag| **lag > LAG_TOLERATED_MS).count() as u64;
        let start_lag_p50_ms = median(&lags_ms);
        let cpu_share = share(effort.cpu_time, effort.length, effort.cores);
        let lag_dominates = match (start_lag_p50_ms, effort.response_p50) {
            (Some(lag), Some(response)) => lag > LAG_TOLERATED_MS && lag > LAG_SHARE_MAX * as_ms(response),
            _ => false,
        };
        let lags_behind = effort.is_open && as_f64(late) > LATE_SHARE_MAX * as_f64(requests);
        Generator {
            requests,
            late,
            dropped: effort.dropped,
            start_lag_p50_ms,
            start_lag_max_ms: largest(&lags_ms),
            start_spread_ms: largest(&starts_ms).unwrap_or(0.0) - smallest(&starts_ms).unwrap_or(0.0),
            cpu_share,
            cpu_us_per_request: (requests > 0).then(|| effort.cpu_time.as_secs_f64() * 1e6 / as_f64(lags_ms.len())),
            limited: lag_dominates || lags_behind || cpu_share > CPU_SHARE_MAX,
        }
    }
}

/// Processor time as a share of the time of all cores.
fn share(cpu_time: Duration, length: Duration, cores: usize) -> f64 {
    let cores = f64::from(u32::try_from(cores.max(1)).unwrap_or(u32::MAX));
    if length.is_zero() { 0.0 } else { cpu_time.as_secs_f64() / (length.as_secs_f64() * cores) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(lags_ms: &[u64], response_ms: u64, cpu_ms: u64) -> Effort {
        let lags: Vec<Duration> = lags_ms.iter().copied().map(Duration::from_millis).collect();
        Effort {
            start_lags: lags.clone(),
            first_starts: lags,
            dropped: 0,
            is_open: false,
            response_p50: Some(Duration::from_millis(response_ms)),
            length: Duration::from_millis(1000),
            cpu_time: Duration::from_millis(cpu_ms),
            cores: 2,
        }
    }

    fn burst(lags_ms: &[u64], response_ms: u64, cpu_ms: u64) -> Generator {
        Generator::judge(&effort(lags_ms, response_ms, cpu_ms))
    }

    #[test]
    fn a_generator_with_time_to_spare_is_not_limited() {
        let generator = burst(&[1, 4, 9], 400, 500);
        assert_eq!(generator.start_lag_p50_ms, Some(4.0));
        assert!((generator.start_spread_ms - 8.0).abs() < 1e-9);
        assert!((generator.cpu_share - 0.25).abs() < 1e-9);
        assert_eq!((generator.requests, generator.late, generator.start_lag_max_ms), (3, 1, Some(9.0)));
        assert!((generator.cpu_us_per_request.unwrap() - 500_000.0 / 3.0).abs() < 1e-6);
        assert!(!generator.limited);
    }

    #[test]
    fn users_that_start_late_compared_with_their_response_time_limit_it() {
        assert!(burst(&[100, 210, 300], 400, 500).limited);
        assert!(!burst(&[100, 190, 300], 400, 500).limited);
    }

    #[test]
    fn a_scheduler_s_delay_never_limits_it() {
        assert!(!burst(&[2, 4, 5], 4, 500).limited);
    }

    #[test]
    fn a_generator_that_uses_up_the_machine_is_limited() {
        assert!(burst(&[1], 400, 1700).limited);
        assert!(!burst(&[1], 400, 1500).limited);
    }

    #[test]
    fn an_open_model_is_limited_by_one_late_start_in_a_hundred() {
        let open = |late: usize| {
            let lags: Vec<u64> = (0..1000).map(|i| if i < late { 6 } else { 1 }).collect();
            Generator::judge(&Effort { is_open: true, ..effort(&lags, 400, 500) })
        };
        assert!(!open(10).limited);
        assert!(open(11).limited);
    }

    #[test]
    fn a_burst_without_answers_is_not_judged() {
        let nothing = Effort { response_p50: None, length: Duration::ZERO, ..effort(&[], 0, 0) };
        let generator = Generator::judge(&nothing);
        assert!(!generator.limited && generator.start_lag_p50_ms.is_none());
    }
}
