//! What to bear in mind when reading the figures.

use crate::report::{Environment, Parameters, answers};
use crate::trial::{ByOutcome, PROBLEMS_MAX, Trial};

/// Everything that the conditions and the trials give cause to.
pub(crate) fn of(environment: &Environment, parameters: &Parameters, trials: &[Trial]) -> Vec<String> {
    let mut warnings = Vec::new();
    if environment.generator_shares_host == Some(true) {
        warnings
            .push("generator, service and servers shared one machine: compare the rows, not the figures".to_owned());
    }
    if parameters.zk_sessions_total.is_some_and(|sessions| sessions < u64::from(parameters.users)) {
        warnings.push(
            "fewer ZooKeeper sessions than users: a server notifies a session once, so part of the herd does not show"
                .to_owned(),
        );
    }
    let count = |is: fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let unsettled = count(|trial| !trial.settled);
    if unsettled > 0 {
        warnings.push(format!("{unsettled} trials had not come to rest when they were audited"));
    }
    warnings.extend(undecided(trials));
    if trials.iter().any(|trial| trial.zookeeper.watches_fired.deleted.is_none()) {
        warnings
            .push("ZooKeeper did not answer `mntr`; notifications are those that the instances received".to_owned());
    }
    warnings
}

/// What became of the buyers without a decision, and what that costs.
fn undecided(trials: &[Trial]) -> Vec<String> {
    let ByOutcome { refused, error, timeout, .. } = answers(&trials.iter().collect::<Vec<_>>());
    let mut warnings = Vec::new();
    if refused + error + timeout > 0 {
        warnings.push(format!(
            "buyers without a decision: {refused} refused, {error} errors, {timeout} timeouts; a longer --lock-wait \
             lets everyone be served, and the service's log says more"
        ));
    }
    let mut problems: Vec<&str> = Vec::new();
    for problem in trials.iter().flat_map(|trial| &trial.problems) {
        if problems.len() < PROBLEMS_MAX && !problems.contains(&problem.as_str()) {
            problems.push(problem);
        }
    }
    if !problems.is_empty() {
        warnings.push(format!("problems that buyers met: {}", problems.join("; ")));
    }
    let uncounted = trials.iter().filter(|trial| trial.zookeeper.releases.is_none()).count();
    if uncounted > 0 {
        warnings.push(format!(
            "{uncounted} trials have no notifications per release: a buyer that gives up wakes others without a release"
        ));
    }
    warnings
}
