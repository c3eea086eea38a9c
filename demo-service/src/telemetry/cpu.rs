//! The processor time that the service costs.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// The time that processors have spent on this process since it began, with all of its threads, ended ones too: for itself
/// and for the system on its behalf.
pub fn cpu_time() -> Duration {
    let microseconds =
        |time: TimeVal| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or_default());
    // It cannot fail for the process that asks.
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    usage.map(|usage| microseconds(usage.user_time()) + microseconds(usage.system_time())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn work_costs_processor_time() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() < before + Duration::from_millis(20) {
            sum = black_box((0..10_000).fold(sum, |sum, number| sum.wrapping_mul(31) ^ number));
        }
        assert!(cpu_time() > before && !before.is_zero());
    }
}
