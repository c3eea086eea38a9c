//! What to bear in mind when reading the figures.

use buyers::sample::{ByOutcome, problems};
use stats::figures::count;
use stats::{BLOCKS_MIN, Difference, Ratio};

use crate::judge::finding::{Finding, count_of};
use crate::judge::metrics::{Column, DROPPED, METRICS};
use crate::judge::result::StrategyResult;
use crate::lab::environment::Environment;
use crate::trial::plan::Plan;
use crate::trial::record::Trial;

/// Everything that the conditions and the trials give cause to.
pub(crate) fn of(environment: &Environment, plan: &Plan, results: &[StrategyResult], trials: &[Trial]) -> Vec<String> {
    let mut caveats = Vec::new();
    if environment.generator_shares_host == Some(true) {
        caveats.push("generator, service and servers shared one machine: compare the rows, not the figures".to_owned());
    }
    let fewest = results.iter().filter(|result| result.trials > 0).map(|result| result.measured_trials).min();
    if let Some(fewest) = fewest.filter(|fewest| usize::try_from(*fewest).is_ok_and(|fewest| fewest < BLOCKS_MIN)) {
        let measured = count_of(u64::from(fewest), "trial");
        let beside = if trials.iter().any(|trial| trial.warm_up) { " beside the warm-up" } else { "" };
        caveats.push(format!(
            "only {measured} per strategy{beside}: no intervals and no significance; use at least {BLOCKS_MIN}, better 10"
        ));
    } else if results.iter().filter_map(|result| result.ratio_to_reference.as_ref()).any(is_undecidable) {
        caveats.push("too few trials for significance with this many strategies (?); use at least 10".to_owned());
    }
    let users_max = plan.users.iter().max().copied().unwrap_or(0);
    if plan.zk_sessions_total.is_some_and(|sessions| sessions < u64::from(users_max)) {
        caveats.push(
            "fewer ZooKeeper sessions than users: a server notifies a session once, so the herd looks smaller than it is"
                .to_owned(),
        );
    }
    if !plan.model.is_one_shot() && !matches!(plan.model, buyers::model::LoadModel::Open { .. }) {
        caveats.push(
            "closed loop: a slow answer delays its user's next request, so the latencies belong to this many users, and to no \
             arrival rate"
                .to_owned(),
        );
    }
    let dropped: f64 = results.iter().filter_map(|result| DROPPED.value(result)).sum();
    if dropped > 0.0 {
        caveats.push(format!(
            "{} arrivals found every user busy and were never started, so the latencies are those of the others; raise \
             --users or lower --rate",
            DROPPED.write(Some(dropped))
        ));
    }
    caveats.extend(of_some_trials(results));
    caveats.extend(of_trials(trials));
    // The verdict tells it of those that are not kept because of it.
    let unchecked =
        results.iter().filter(|result| !result.unchecked.is_empty() && result.finding != Finding::Unchecked);
    caveats
        .extend(unchecked.map(|result| format!("not checked of {}: {}", result.strategy, result.unchecked.join(", "))));
    caveats
}

/// The figures of the narrow table that only some of the trials have.
fn of_some_trials(results: &[StrategyResult]) -> Option<String> {
    let narrow = METRICS.iter().filter(|metric| metric.column == Column::Narrow);
    let parts = results.iter().flat_map(|result| {
        let of = move |key: &str| Some(format!("{key} of {} in {}", result.strategy, result.partial.get(key)?));
        narrow.clone().filter_map(move |metric| of(metric.key))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("figures of some trials only: {}", parts.join("; ")))
}

fn is_undecidable(ratio: &Ratio) -> bool {
    ratio.difference == Difference::TooFewBlocks
}

fn of_trials(trials: &[Trial]) -> Vec<String> {
    let mut caveats = Vec::new();
    let count = |is: fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let unsettled = count(|trial| !trial.settled);
    if unsettled > 0 {
        let trials = count_of(unsettled as u64, "trial");
        caveats.push(format!("{trials} had not come to rest when the database was audited"));
    }
    caveats.extend(undecided(trials));
    if trials.iter().any(|trial| trial.zookeeper.watches_fired.deleted.is_none()) {
        caveats.push("ZooKeeper did not answer `mntr`; notifications are those that the instances received".to_owned());
    }
    caveats
}

/// What became of the buyers without a decision, and what that costs.
fn undecided(trials: &[Trial]) -> Vec<String> {
    let answers: Vec<&ByOutcome<u64>> = trials.iter().map(|trial| &trial.answers).collect();
    let ByOutcome { refused, error, timeout, .. } = ByOutcome::fold(&answers, |counts| counts.sum::<u64>());
    let mut caveats = Vec::new();
    if refused + error + timeout > 0 {
        caveats.push(format!(
            "buyers without a decision: {} refused, {} errors, {} timeouts; a longer --lock-wait lets everyone be served, and \
             the service's log says more",
            count(refused),
            count(error),
            count(timeout)
        ));
    }
    let problems = problems(trials.iter().flat_map(|trial| &trial.problems));
    if !problems.is_empty() {
        caveats.push(format!("problems that buyers met: {}", problems.join("; ")));
    }
    let uncounted = trials.iter().filter(|trial| trial.zookeeper.releases.is_none()).count();
    if uncounted > 0 {
        caveats.push(format!(
            "no notifications per release for {}: a buyer that gives up wakes others without a release",
            count_of(uncounted as u64, "trial")
        ));
    }
    caveats
}
