//! Whether the load generator kept up, so that the times can be laid at the strategies' door.

use std::time::Duration;

use loadgen::stats::{as_ms, median};
use serde::Serialize;

/// Above this share of the median response time, the wait for the generator itself dominates what was measured.
const LAG_SHARE_MAX: f64 = 0.5;
/// Starts this close to the release are on time whatever the response time: a scheduler needs as long to wake a task.
const LAG_TOLERATED_MS: f64 = 5.0;
/// Above this share of all cores the generator leaves the machine no room, its own work included.
const CPU_SHARE_MAX: f64 = 0.8;

/// How the generator did in one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Generator {
    /// Median time from the release of the users to the moment one of them began its request.
    pub(crate) start_lag_p50_ms: Option<f64>,
    /// From the first user's start to the last one's.
    pub(crate) start_spread_ms: f64,
    /// Processor time of the generator during the burst, as a share of all cores.
    pub(crate) cpu_share: f64,
    /// Whether the generator was the bottleneck.
    pub(crate) limited: bool,
}

/// What the judgement is based on.
#[derive(Debug, Clone)]
pub(crate) struct Burst {
    /// For each user, the time from the release to the start of its request.
    pub(crate) start_lags: Vec<Duration>,
    /// Median response time over all answers, counted from the release.
    pub(crate) response_p50: Option<Duration>,
    /// From the release to the last answer.
    pub(crate) length: Duration,
    /// Processor time, user and system, that the generator used meanwhile.
    pub(crate) cpu_time: Duration,
    /// Cores of the machine.
    pub(crate) cores: usize,
}

impl Generator {
    /// Judges one burst.
    ///
    /// The generator was the bottleneck when half of the users had spent more than half of the median response time
    /// before they even started (and more than a scheduler's delay), or when the generator alone used more than four
    /// fifths of the machine.
    pub(crate) fn judge(burst: &Burst) -> Generator {
        let lags_ms: Vec<f64> = burst.start_lags.iter().copied().map(as_ms).collect();
        let first = lags_ms.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let last = lags_ms.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let start_lag_p50_ms = median(&lags_ms);
        let cpu_share = share(burst.cpu_time, burst.length, burst.cores);
        let late = match (start_lag_p50_ms, burst.response_p50) {
            (Some(lag), Some(response)) => lag > LAG_TOLERATED_MS && lag > LAG_SHARE_MAX * as_ms(response),
            _ => false,
        };
        Generator {
            start_lag_p50_ms,
            start_spread_ms: last - first,
            cpu_share,
            limited: late || cpu_share > CPU_SHARE_MAX,
        }
    }
}

/// Processor time as a share of what so many cores had to offer.
fn share(cpu_time: Duration, length: Duration, cores: usize) -> f64 {
    let cores = f64::from(u32::try_from(cores.max(1)).unwrap_or(u32::MAX));
    if length.is_zero() { 0.0 } else { cpu_time.as_secs_f64() / (length.as_secs_f64() * cores) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(lags_ms: &[u64], response_ms: u64, cpu_ms: u64) -> Generator {
        Generator::judge(&Burst {
            start_lags: lags_ms.iter().copied().map(Duration::from_millis).collect(),
            response_p50: Some(Duration::from_millis(response_ms)),
            length: Duration::from_millis(1000),
            cpu_time: Duration::from_millis(cpu_ms),
            cores: 2,
        })
    }

    #[test]
    fn a_generator_with_time_to_spare_is_not_limited() {
        let generator = burst(&[1, 4, 9], 400, 500);
        assert_eq!(generator.start_lag_p50_ms, Some(4.0));
        assert!((generator.start_spread_ms - 8.0).abs() < 1e-9);
        assert!((generator.cpu_share - 0.25).abs() < 1e-9);
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
    fn a_burst_without_answers_is_not_judged() {
        let generator = Generator::judge(&Burst {
            start_lags: Vec::new(),
            response_p50: None,
            length: Duration::ZERO,
            cpu_time: Duration::ZERO,
            cores: 2,
        });
        assert!(!generator.limited && generator.start_lag_p50_ms.is_none());
    }
}
