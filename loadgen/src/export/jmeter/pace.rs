//! How JMeter starts and paces the threads of a run.

use std::fmt;

use buyers::model::LoadModel;

use crate::error::Error;

/// How the threads of one run start and ask.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    pub(super) threads: u32,
    /// Requests of each thread. `None`: until the duration ends.
    pub(super) loops: Option<u64>,
    /// Seconds from the start of the first thread to the start of the last thread.
    pub(super) rampup_s: u64,
    /// Time in which threads start requests, in seconds. `None`: each thread starts one.
    pub(super) duration_s: Option<u64>,
    /// The rate of all threads together, if it is limited.
    pub(super) rate: Option<PaceRate>,
}

/// The rate of all threads together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PaceRate {
    pub(super) per_s: Number,
    /// Time from one request of a thread to its next one, in seconds.
    pub(super) round_s: Number,
    /// Requests of one thread per minute.
    pub(super) throughput: Number,
    /// Requests of each thread.
    pub(super) loops: u64,
    /// Requests of all threads.
    pub(super) requests_max: u64,
    /// Whether requests are evenly spaced.
    pub(super) is_even: bool,
}

/// A number that is written with at most six decimals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.6}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Pace {
    pub(super) fn of(model: LoadModel, users: u32) -> Result<Pace, Error> {
        let pace = Pace { threads: users, loops: Some(1), rampup_s: 0, duration_s: None, rate: None };
        match model {
            // A rendezvous follows, so the ramp of one second delays no buyer. It keeps JMeter from starting all threads at
            // once.
            LoadModel::Burst { .. } => Ok(Pace { rampup_s: 1, ..pace }),
            LoadModel::Ramp { ramp_up_ms, .. } => Ok(Pace { rampup_s: seconds("--ramp-up", ramp_up_ms)?, ..pace }),
            LoadModel::Loop { duration_ms, ramp_up_ms } => {
                let duration_s = Some(seconds("--duration", duration_ms)?);
                let rampup_s = seconds("--ramp-up", ramp_up_ms)?;
                Ok(Pace { loops: None, rampup_s, duration_s, ..pace })
            }
            LoadModel::Open { rate_per_s, duration_ms, .. } => {
                let duration_s = seconds("--duration", duration_ms)?;
                Ok(paced(rate_per_s, duration_s, users))
            }
        }
    }
}

/// Divides a rate among threads: all have the same pace, and they start one after another within one round.
///
/// JMeter can also pace all threads together. That does not delay the first request of a thread, so all threads would
/// ask at the beginning.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "both lie far within the bounds: a rate is at most a million, a duration is one of a load"
)]
fn paced(rate_per_s: f64, duration_s: u64, users: u32) -> Pace {
    let arrivals = (rate_per_s * duration_s as f64).ceil().max(1.0);
    // With more threads than arrivals, some would have nothing to do.
    let most = users.min(arrivals as u32);
    // JMeter starts threads over whole seconds. So requests are evenly spaced if a round takes whole seconds.
    let whole_s = (f64::from(most) / rate_per_s).floor();
    let threads = if whole_s < 1.0 { most } else { (rate_per_s * whole_s).round() as u32 };
    let round_s = f64::from(threads) / rate_per_s;
    let loops = (arrivals / f64::from(threads)).ceil() as u64;
    let rate = PaceRate {
        per_s: Number(rate_per_s),
        round_s: Number(round_s),
        throughput: Number(60.0 / round_s),
        loops,
        requests_max: u64::from(threads) * loops,
        // Threads are whole and a rate need not be: at 33.3 requests per second, 33 threads are even enough.
        is_even: f64::from(threads) >= rate_per_s.round(),
    };
    Pace {
        threads,
        // A thread of 2.13 that waits for its next turn does not notice the end of the duration.
        loops: Some(loops),
        rampup_s: round_s.round().max(1.0) as u64,
        duration_s: Some(duration_s),
        rate: Some(rate),
    }
}

/// Converts a time to the whole seconds that JMeter counts in.
fn seconds(flag: &str, ms: u64) -> Result<u64, Error> {
    if ms.is_multiple_of(1000) {
        return Ok(ms / 1000);
    }
    Err(Error::Usage(format!("JMeter counts in whole seconds; write {flag} {}s instead of {ms}ms", ms.div_ceil(1000))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use buyers::model::Arrivals;

    /// Threads, requests of each, ramp-up in seconds, and requests of one thread per minute.
    fn paced(rate_per_s: f64, duration_s: u64, users: u32) -> (u32, u64, u64, String) {
        let model = LoadModel::Open { rate_per_s, arrivals: Arrivals::Poisson, duration_ms: duration_s * 1000 };
        let pace = Pace::of(model, users).unwrap();
        assert_eq!(pace.duration_s, Some(duration_s));
        (pace.threads, pace.loops.unwrap(), pace.rampup_s, pace.rate.unwrap().throughput.to_string())
    }

    #[test]
    fn a_rate_has_as_many_threads_as_make_a_round_of_whole_seconds() {
        assert_eq!(paced(200.0, 10, 300), (200, 10, 1, "60".to_owned()));
        assert_eq!(paced(100.0, 10, 300), (300, 4, 3, "20".to_owned()));
        // Threads are whole, so this round is a little longer than its seconds.
        assert_eq!(paced(0.3, 60, 5), (5, 4, 17, "3.6".to_owned()));
    }

    #[test]
    fn a_rate_has_no_more_threads_than_arrivals() {
        assert_eq!(paced(0.5, 10, 300), (5, 1, 10, "6".to_owned()));
        assert_eq!(paced(1000.0, 10, 300), (300, 34, 1, "200".to_owned()));
    }
}
