//! Messages about the progress of a comparison.

use stats::figures::{self, things};

use crate::lab::servers::is_set;
use crate::lab::source::ServiceSettings;
use crate::trial::record::Trial;
use crate::trial::schedule::ScheduledTrial;

/// Announces the start of the servers and instances, which takes some seconds.
pub(crate) fn starting(service: &ServiceSettings) -> String {
    let of_each = if service.programs.len() > 1 { " of each build" } else { "" };
    let instances = format!("{}{of_each}", things(service.instances, "instance"));
    match (is_set("DATABASE_URL"), is_set("ZOOKEEPER_CONNECT")) {
        (false, false) => format!("starting Postgres, ZooKeeper and {instances}"),
        (false, true) => format!("starting Postgres and {instances}"),
        (true, false) => format!("starting ZooKeeper and {instances}"),
        (true, true) => format!("starting {instances}"),
    }
}

/// Announces a trial.
pub(crate) fn scheduled(scheduled: ScheduledTrial<'_>) -> String {
    let what = if scheduled.warm_up { "warm-up".to_owned() } else { format!("block {}", scheduled.block) };
    format!("{what}: {}", scheduled.subject.described())
}

/// Writes the result of a trial in a line.
pub(crate) fn ended(trial: &Trial) -> String {
    let audit = &trial.audit;
    let warm_up = if trial.warm_up { " (warm-up)" } else { "" };
    let mut text = format!(
        "{} with {}{warm_up}: sold {}, oversold {}, undersold {}, in {}",
        trial.name(),
        things(trial.users, "user"),
        figures::signed(audit.sold),
        figures::signed(audit.oversold),
        figures::signed(audit.undersold),
        figures::ms(trial.duration_ms)
    );
    if let Some(per_release) = trial.zookeeper.notifications_per_release() {
        text += &format!(", {} notifications per release", figures::figure(per_release));
    }
    let answers = &trial.answers;
    for (count, what) in [(answers.refused, "refused"), (answers.error, "errors"), (answers.timeout, "timeouts")] {
        if count > 0 {
            text += &format!(", {} {what}", figures::count(count));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_line_says_what_a_trial_brought() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        let expected = "zk-mutex with 300 users (warm-up): sold 100, oversold 0, undersold 0, in 600\u{202f}ms, \
            0.997 notifications per release";
        assert_eq!(ended(&trial), expected);
        trial.answers.refused = 3;
        trial.answers.timeout = 1;
        assert!(ended(&trial).ends_with(", 3 refused, 1 timeouts"));
    }
}
