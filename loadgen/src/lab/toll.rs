//! What a round of faults cost the instances, as they count it themselves.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lab::service::Service;

/// What a round of faults cost. An instance that was killed takes its counts along, so each number but the last is at least that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Toll {
    /// Sessions of ZooKeeper that ended while their instance ran.
    pub(crate) sessions_ended: u64,
    /// Holds that were lost before their release.
    pub(crate) holds_lost: u64,
    /// Late writes that a fence has refused.
    pub(crate) late_writes_refused: u64,
    /// The most open descriptors of an instance after the round.
    pub(crate) descriptors_max: u64,
}

/// What an instance has counted since its start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InstanceCounts {
    /// When its process started. Another one counts from zero.
    started: String,
    sessions_ended: u64,
    holds_lost: u64,
    fenced: u64,
    descriptors: u64,
}

impl InstanceCounts {
    /// Reads the counts of all instances, in their order.
    pub(crate) async fn of_all(service: &Service) -> Result<Vec<InstanceCounts>, Error> {
        let mut counts = Vec::new();
        for instance in service.urls() {
            counts.push(InstanceCounts::from_prometheus(&service.metrics_text(instance).await?));
        }
        Ok(counts)
    }

    fn from_prometheus(text: &str) -> InstanceCounts {
        let values = |name: &str, label: &str| {
            let of_name = move |line: &&str| line.starts_with(name) && line.contains(label);
            text.lines().filter(of_name).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>()
        };
        let started = text.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
        InstanceCounts {
            started: started.unwrap_or_default().to_owned(),
            sessions_ended: values("zookeeper_sessions_ended_total ", ""),
            holds_lost: values("seckill_lock_lost_total{", ""),
            fenced: values("seckill_deductions_total{", "outcome=\"fenced\""),
            descriptors: values("process_open_fds ", ""),
        }
    }
}

impl Toll {
    /// Returns what the instances have counted in between.
    pub(crate) fn between(before: &[InstanceCounts], after: &[InstanceCounts]) -> Toll {
        let grown = |of: fn(&InstanceCounts) -> u64| {
            let of_each = after.iter().zip(before).map(|(now, then)| {
                let is_same = now.started == then.started;
                of(now).saturating_sub(if is_same { of(then) } else { 0 })
            });
            of_each.sum()
        };
        Toll {
            sessions_ended: grown(|counts| counts.sessions_ended),
            holds_lost: grown(|counts| counts.holds_lost),
            late_writes_refused: grown(|counts| counts.fenced),
            descriptors_max: after.iter().map(|counts| counts.descriptors).max().unwrap_or_default(),
        }
    }

    /// Adds what another round cost.
    pub(crate) fn add(&mut self, other: &Toll) {
        self.sessions_ended = self.sessions_ended.saturating_add(other.sessions_ended);
        self.holds_lost = self.holds_lost.saturating_add(other.holds_lost);
        self.late_writes_refused = self.late_writes_refused.saturating_add(other.late_writes_refused);
        self.descriptors_max = self.descriptors_max.max(other.descriptors_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(started: u64, of_each: u64) -> InstanceCounts {
        InstanceCounts::from_prometheus(&format!(
            "# TYPE process_open_fds gauge\nprocess_open_fds {of_each}\nprocess_start_time_seconds {started}\n\
             zookeeper_sessions_ended_total {of_each}\n\
             seckill_lock_lost_total{{strategy=\"a\",reason=\"expired\"}} {of_each}\n\
             seckill_lock_lost_total{{strategy=\"b\",reason=\"silence\"}} 1\n\
             seckill_deductions_total{{strategy=\"a\",outcome=\"fenced\"}} {of_each}\n\
             seckill_deductions_total{{strategy=\"a\",outcome=\"sold\"}} 900\n"
        ))
    }

    #[test]
    fn an_instance_that_started_again_counts_from_zero() {
        let before = [counts(1, 10), counts(1, 40)];
        let after = [counts(1, 12), counts(2, 3)];
        let toll = Toll::between(&before, &after);
        let expected = Toll { sessions_ended: 5, holds_lost: 2 + 4, late_writes_refused: 5, descriptors_max: 12 };
        assert_eq!(toll, expected);
        let mut sum = toll;
        sum.add(&Toll { sessions_ended: 1, descriptors_max: 11, ..Toll::default() });
        assert_eq!((sum.sessions_ended, sum.descriptors_max), (6, 12));
    }
}
