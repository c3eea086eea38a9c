//! Whether the load generator kept up. If it did not, the times are its own and not those of the strategies.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::times::Times;
use stats::{as_f64, as_ms};

use crate::sample::Sample;

/// Above this share of the median response time, the wait for the generator itself dominates what was measured.
const LAG_SHARE_MAX: f64 = 0.5;
/// A start with at most this delay is on time for any response time, because a scheduler needs as long to wake a task.
pub(crate) const LATE: Duration = Duration::from_millis(5);
/// Above this share of late arrivals, the load was not the open model that was asked for.
const LATE_SHARE_MAX: f64 = 0.01;
/// Above this share of the median response time, the lateness of the heartbeat is a part of what was measured.
const LATENESS_SHARE_MAX: f64 = 0.1;
/// The quantile of the lateness that is judged, in permille. On two cores that the servers keep busy, a few beats in a
/// hundred are late by as long as others run at a time.
const LATENESS_PERMILLE: u16 = 900;
/// Above this share of all cores the generator leaves the machine no room, its own work included.
const CPU_SHARE_MAX: f64 = 0.8;

/// How the generator did in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Requests that were started.
    pub requests: u64,
    /// Requests that were started more than five milliseconds later than they were meant to be.
    pub late: u64,
    /// Arrivals of an open model that found no user free, and were never started. In the response times of the sold and the
    /// sold out they count as the slowest.
    pub dropped: u64,
    /// Dropped arrivals that found all users waiting for answers: the service was too slow, or there were too few users.
    pub dropped_busy: u64,
    /// Requests and arrivals that the generator itself delayed: it handled them more than five milliseconds late
    /// although a user was idle.
    pub late_idle: u64,
    /// Median time from the intended start of a request to the actual one, in milliseconds.
    pub start_lag_p50_ms: Option<f64>,
    /// Longest time from the intended start of a request to the actual one, in milliseconds.
    pub start_lag_max_ms: Option<f64>,
    /// From the first user's first request to the last user's, in milliseconds.
    pub start_spread_ms: f64,
    /// Processor time of the generator from the release to the last answer, as a share of all cores. Absent if another engine
    /// made the load.
    pub cpu_share: Option<f64>,
    /// The same for each request, in microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// How late each beat of a heartbeat was. It beats every five milliseconds while the buyers buy, and is late whenever an
    /// answer that has arrived waits for the generator to read it. If all users begin together, beats during their starts
    /// are left out: that delay is the start lag.
    pub heartbeat: Times,
    /// Time in which threads of the generator waited for a processor, as a share of that time and of their time on one. Absent
    /// where the system does not tell.
    pub run_queue_share: Option<f64>,
    /// Time in which some program of the generator's machine was ready and had no processor, as a share of the load. It
    /// includes the load of other programs, so it is reported and not judged. Absent where the system does not tell.
    pub pressure_share: Option<f64>,
    /// Whether the generator was the bottleneck. One of these makes it so:
    ///
    /// * Half of the requests started more than five milliseconds late although a user was idle, and later than half the median
    ///   response time.
    /// * In an open model, it handled more than one arrival in a hundred late although a user was idle.
    /// * A tenth of the beats of its heartbeat were more than five milliseconds late, and later than a tenth of the median
    ///   response time.
    /// * The generator used more than four fifths of all cores.
    pub limited: bool,
}

/// Arrivals of an open model that were not started, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// All users were waiting for answers: the service was too slow for the rate, or there were too few users.
    pub busy: u64,
    /// The generator was late, and at the intended instant a user was idle.
    pub idle: u64,
}

/// When the requests of a load started, and how late. All instants count from the release.
#[derive(Debug, Clone, Default)]
pub struct Starts {
    /// From the intended to the actual start of each request.
    lag: Times,
    lag_max: Duration,
    /// The part of it in which a user was idle.
    idle_lag: Times,
    /// Requests that started late.
    late: u64,
    /// Requests that started late although a user was idle.
    late_idle: u64,
    /// Users that have started a request.
    users: usize,
    /// The first of them.
    first_user: Option<Duration>,
    /// The last of them.
    last_user: Duration,
}

impl Starts {
    /// Adds a request.
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.lag.record(sample.start_lag());
        self.lag_max = self.lag_max.max(sample.start_lag());
        self.idle_lag.record(sample.idle_lag());
        self.late += u64::from(sample.start_lag() > LATE);
        self.late_idle += u64::from(sample.idle_lag() > LATE);
    }

    /// Notes that a user starts its first request.
    pub(crate) fn add_user(&mut self, started: Duration) {
        self.users += 1;
        self.first_user = Some(self.first_user.map_or(started, |first| first.min(started)));
        self.last_user = self.last_user.max(started);
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> u64 {
        self.lag.count()
    }

    /// Returns when the last user started. `None` if fewer than `users` have started.
    pub(crate) fn last_of(&self, users: usize) -> Option<Duration> {
        (self.users == users).then_some(self.last_user)
    }
}

/// Processor time of all threads of the process, and their wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Threads {
    /// Time on a processor.
    pub ran: Duration,
    /// Time in which a thread was ready to run and had no processor.
    pub waited: Duration,
}

/// What the system says of the processors during a load, as far as it tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Processors {
    /// What the threads of the generator did.
    pub threads: Option<Threads>,
    /// Time in which some program of the machine was ready and had no processor.
    pub pressed: Option<Duration>,
}

impl Processors {
    /// Returns the growth since `before`.
    pub(crate) fn since(self, before: Processors) -> Processors {
        let of_threads = |(before, after): (Threads, Threads)| Threads {
            ran: after.ran.saturating_sub(before.ran),
            waited: after.waited.saturating_sub(before.waited),
        };
        let pressed = before.pressed.zip(self.pressed);
        Processors {
            threads: before.threads.zip(self.threads).map(of_threads),
            pressed: pressed.map(|(before, after)| after.saturating_sub(before)),
        }
    }
}

/// What the judgement is based on.
#[derive(Debug, Clone)]
pub struct Effort {
    /// When the requests started, and how late.
    pub starts: Starts,
    /// Arrivals that were not started.
    pub dropped: Dropped,
    /// Whether the requests were to arrive at a rate.
    pub is_open: bool,
    /// Median response time over all answers, in milliseconds.
    pub response_p50_ms: Option<f64>,
    /// From the release to the last answer.
    pub length: Duration,
    /// Processor time, user and system, that the generator used meanwhile. Unknown of another engine.
    pub cpu_time: Option<Duration>,
    /// Cores of the machine.
    pub cores: usize,
    /// How late each beat of the heartbeat was.
    pub heartbeat: Times,
    /// What the system says of the processors.
    pub processors: Processors,
}

impl Generator {
    /// Judges one load.
    pub fn judge(effort: Effort) -> Generator {
        let Effort { starts, dropped: Dropped { busy, idle }, heartbeat, .. } = effort;
        let requests = starts.count();
        let dropped = busy + idle;
        let late_idle = starts.late_idle + idle;
        let start_lag_p50_ms = starts.lag.median_served_ms();
        let cpu_share = effort.cpu_time.map(|time| share(time, effort.length, effort.cores));
        let dominates = |delay_ms: Option<f64>, share: f64| match (delay_ms, effort.response_p50_ms) {
            (Some(delay), Some(response)) => delay > as_ms(LATE) && delay > share * response,
            _ => false,
        };
        // A start that waited for a busy user waited for the service.
        let lag_dominates = dominates(starts.idle_lag.median_served_ms(), LAG_SHARE_MAX);
        let is_starved = dominates(heartbeat.quantile_ms(LATENESS_PERMILLE), LATENESS_SHARE_MAX);
        let lags_behind = effort.is_open && as_f64(late_idle) > LATE_SHARE_MAX * as_f64(requests + dropped);
        Generator {
            requests,
            late: starts.late,
            dropped,
            dropped_busy: busy,
            late_idle,
            start_lag_p50_ms,
            start_lag_max_ms: (requests > 0).then(|| as_ms(starts.lag_max)),
            start_spread_ms: starts.first_user.map_or(0.0, |first| as_ms(starts.last_user) - as_ms(first)),
            cpu_share,
            cpu_us_per_request: (effort.cpu_time.filter(|_| requests > 0))
                .map(|time| time.as_secs_f64() * 1e6 / as_f64(requests)),
            run_queue_share: effort.processors.threads.and_then(|Threads { ran, waited }| {
                let all = (ran + waited).as_secs_f64();
                (all > 0.0).then(|| waited.as_secs_f64() / all)
            }),
            // The pressure is read a moment after the last answer, so it may exceed the length of the load.
            pressure_share: effort.processors.pressed.map(|pressed| share(pressed, effort.length, 1).min(1.0)),
            heartbeat,
            limited: lag_dominates || lags_behind || is_starved || cpu_share.is_some_and(|share| share > CPU_SHARE_MAX),
        }
    }
}

/// Returns a time as a share of the time of all cores.
fn share(cpu_time: Duration, length: Duration, cores: usize) -> f64 {
    let cores = f64::from(u32::try_from(cores.max(1)).unwrap_or(u32::MAX));
    if length.is_zero() { 0.0 } else { cpu_time.as_secs_f64() / (length.as_secs_f64() * cores) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Outcome;
    use crate::tally::tests::sample;

    /// Requests of one user each that were meant to start at the release. All users were idle, or none.
    fn starts(lags_ms: &[u64], are_idle: bool) -> Starts {
        let mut starts = Starts::default();
        for lag_ms in lags_ms {
            let started = Duration::from_millis(*lag_ms);
            starts.add_user(started);
            let idle_since = if are_idle { Duration::ZERO } else { started };
            starts.add(&Sample { idle_since, ..sample(Outcome::SoldOut, *lag_ms, *lag_ms) });
        }
        starts
    }

    fn effort(lags_ms: &[u64], response_ms: u32, cpu_ms: u64) -> Effort {
        Effort {
            starts: starts(lags_ms, true),
            dropped: Dropped::default(),
            is_open: false,
            response_p50_ms: Some(f64::from(response_ms)),
            length: Duration::from_millis(1000),
            cpu_time: Some(Duration::from_millis(cpu_ms)),
            cores: 2,
            heartbeat: Times::new(),
            processors: Processors::default(),
        }
    }

    fn burst(lags_ms: &[u64], response_ms: u32, cpu_ms: u64) -> Generator {
        Generator::judge(effort(lags_ms, response_ms, cpu_ms))
    }

    #[test]
    fn a_generator_with_time_to_spare_is_not_limited() {
        let generator = burst(&[1, 4, 9], 400, 500);
        assert!((generator.start_lag_p50_ms.unwrap() - 4.0).abs() < 0.01, "three digits are kept");
        assert!((generator.start_spread_ms - 8.0).abs() < 1e-9);
        assert!((generator.cpu_share.unwrap() - 0.25).abs() < 1e-9);
        assert_eq!((generator.requests, generator.late, generator.start_lag_max_ms), (3, 1, Some(9.0)));
        assert!((generator.cpu_us_per_request.unwrap() - 500_000.0 / 3.0).abs() < 1e-6);
        assert!(!generator.limited);
    }

    #[test]
    fn the_pressure_of_all_programs_is_told_and_not_judged() {
        let processors = Processors { threads: None, pressed: Some(Duration::from_millis(400)) };
        let generator = Generator::judge(Effort { processors, ..effort(&[0], 10, 0) });
        assert_eq!((generator.pressure_share, generator.limited), (Some(0.4), false));
    }

    // C17
    #[test]
    fn starts_late_for_their_response_time_limit_the_generator() {
        assert!(burst(&[100, 210, 300], 400, 500).limited);
        assert!(!burst(&[100, 190, 300], 400, 500).limited);
    }

    #[test]
    fn the_delay_of_a_scheduler_never_limits_the_generator() {
        assert!(!burst(&[2, 4, 5], 4, 500).limited);
    }

    // C17
    #[test]
    fn a_generator_that_uses_up_the_machine_is_limited() {
        assert!(burst(&[1], 400, 1700).limited);
        assert!(!burst(&[1], 400, 1500).limited);
    }

    // C17
    #[test]
    fn an_open_model_is_limited_by_one_late_arrival_in_a_hundred() {
        let open = |late: usize, dropped| {
            let lags: Vec<u64> = (0..1000).map(|i| if i < late { 6 } else { 1 }).collect();
            Generator::judge(Effort { is_open: true, dropped, ..effort(&lags, 400, 500) })
        };
        assert!(!open(10, Dropped::default()).limited);
        assert!(open(11, Dropped::default()).limited);
        assert!(open(0, Dropped { busy: 0, idle: 11 }).limited);
    }

    // C17
    #[test]
    fn a_generator_whose_heartbeat_is_late_is_limited() {
        let judged = |late_beats: u64, response_ms| {
            let mut heartbeat = Times::new();
            heartbeat.record_n(Duration::from_millis(30), late_beats);
            heartbeat.record_n(Duration::from_millis(1), 1000 - late_beats);
            Generator::judge(Effort { heartbeat, ..effort(&[1, 100], response_ms, 500) })
        };
        assert!(!judged(100, 250).limited, "a tenth of the beats may be late");
        assert!(judged(101, 250).limited);
        assert!(!judged(101, 400).limited, "it is a small part of the response time");
    }

    // C16
    #[test]
    fn a_slow_service_is_no_fault_of_the_generator() {
        // One start was late, but every user was busy until then.
        let lags: Vec<u64> = (0..49).map(|i| if i == 0 { 80 } else { 1 }).collect();
        let dropped = Dropped { busy: 3951, idle: 0 };
        let slow = Effort { is_open: true, starts: starts(&lags, false), dropped, ..effort(&[1], 400, 500) };
        let generator = Generator::judge(slow);
        assert_eq!((generator.late, generator.late_idle), (1, 0));
        assert_eq!((generator.dropped, generator.dropped_busy, generator.limited), (3951, 3951, false));
    }

    #[test]
    fn a_burst_without_answers_is_not_judged() {
        let nothing = Effort { response_p50_ms: None, length: Duration::ZERO, ..effort(&[], 0, 0) };
        let generator = Generator::judge(nothing);
        assert!(!generator.limited && generator.start_lag_p50_ms.is_none());
    }
}
