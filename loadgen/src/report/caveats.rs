//! Limits of the figures, as sentences.

mod logged;

use buyers::model::LoadModel;
use buyers::sample::{ByOutcome, problems};
use stats::figures::{self, count, things};
use stats::{BLOCKS_MIN, Difference, Ratio};

use crate::judge::finding::Finding;
use crate::judge::metrics::{
    DROPPED, LATE, METRICS, Metric, P90, P90_CORRECTED, P99, P99_CORRECTED, PRESSURE, RUN_QUEUE, SILENCE_MAX,
    START_LAG_SHARE, START_SPREAD, TableWidth,
};
use crate::judge::nouns::Nouns;
use crate::judge::result::StrategyResult;
use crate::lab::environment::Environment;
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// Above this share, late starts are reported.
const LATE_SHARE_TOLD: f64 = 0.01;

/// Above this share of a trial, the wait of all programs for a processor is reported.
const PRESSURE_TOLD: f64 = 0.1;

/// Returns the caveats that follow from the conditions and the trials.
pub(crate) fn of(
    environment: &Environment,
    schedule: &Schedule,
    results: &[StrategyResult],
    trials: &[Trial],
) -> Vec<String> {
    let nouns = schedule.nouns();
    let mut caveats = Vec::new();
    if environment.generator_shares_host == Some(true) {
        caveats.push(nouns.shared_machine.to_owned());
    }
    caveats.extend(logged::of(&schedule.logs));
    let fewest = results.iter().filter(|result| result.trials > 0).map(|result| result.measured_trials).min();
    if let Some(fewest) = fewest.filter(|fewest| usize::try_from(*fewest).is_ok_and(|fewest| fewest < BLOCKS_MIN)) {
        let measured = things(fewest, "trial");
        let beside = if trials.iter().any(|trial| trial.warm_up) { " beside the warm-up" } else { "" };
        caveats.push(format!(
            "only {measured} per {}{beside}: no intervals and no significance; use at least {BLOCKS_MIN}, better 10",
            nouns.one
        ));
    } else if results.iter().filter_map(|result| result.ratio_to_reference.as_ref()).any(is_undecidable) {
        caveats.push(format!("too few trials for significance with this many {} (?); use at least 10", nouns.many));
    }
    let users_max = schedule.users.iter().max().copied().unwrap_or(0);
    if schedule.zk_sessions_total.is_some_and(|sessions| sessions < u64::from(users_max)) {
        caveats.push(
            "fewer ZooKeeper sessions than users: a server notifies a session once, so the herd looks smaller than it is"
                .to_owned(),
        );
    }
    if matches!(schedule.model, Some(LoadModel::Loop { .. })) {
        caveats.push(
            "closed loop: a slow answer delays its user's next request (coordinated omission), so the latencies belong to this \
             many users, and to no arrival rate"
                .to_owned(),
        );
        caveats.extend(results.iter().filter_map(stalled));
    }
    let is_open = matches!(schedule.model, Some(LoadModel::Open { .. }));
    if !is_open && !schedule.is_logged() {
        caveats.extend(late_starts(results, nouns));
    }
    caveats.extend(pressure(results));
    let dropped: f64 = results.iter().filter_map(|result| DROPPED.value(result)).sum();
    if dropped > 0.0 {
        caveats.push(format!(
            "{} arrivals found no user free and were never started: they count as the slowest of all; raise --users or \
             lower --rate",
            DROPPED.write(Some(dropped))
        ));
    }
    caveats.extend(of_some_trials(results));
    caveats.extend(sold_out_shop(schedule, results));
    caveats.extend(of_trials(trials, nouns));
    if !schedule.is_of_shops() {
        caveats.extend(of_zookeeper(trials));
    }
    // If the promise is not kept because of it, the verdict already says so.
    let unchecked =
        results.iter().filter(|result| !result.unchecked.is_empty() && result.finding != Finding::Unchecked);
    caveats
        .extend(unchecked.map(|result| format!("not checked of {}: {}", result.name(), result.unchecked.join(", "))));
    caveats
}

/// Names the figures of the narrow table that only some of the trials have.
fn of_some_trials(results: &[StrategyResult]) -> Option<String> {
    let narrow = METRICS.iter().filter(|metric| metric.column == TableWidth::Narrow);
    let parts = results.iter().flat_map(|result| {
        let of = move |key: &str| Some(format!("{key} of {} in {}", result.name(), result.partial.get(key)?));
        narrow.clone().filter_map(move |metric| of(metric.key))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("figures of some trials only: {}", parts.join("; ")))
}

/// Lists the results of which more than one request in a hundred started late, each with the generator's part of its p50.
/// Results during which the generator occupied the processors are listed apart from those during which other programs did.
fn late_starts(results: &[StrategyResult], nouns: &Nouns) -> Vec<String> {
    let is_late = |result: &&StrategyResult| LATE.value(result).is_some_and(|late| late > LATE_SHARE_TOLD);
    let late: Vec<&StrategyResult> = results.iter().filter(is_late).collect();
    let of = |others_had_them: Option<bool>| {
        let is_of = |result: &&StrategyResult| RUN_QUEUE.value(result).map(|waited| waited > 0.5) == others_had_them;
        let of_these: Vec<&StrategyResult> = late.iter().copied().filter(is_of).collect();
        let rows: Vec<String> = of_these.iter().map(|result| late_start(result)).collect();
        let waited = of_these.iter().filter_map(|result| RUN_QUEUE.value(result)).reduce(f64::max);
        // If other programs occupy the processors, they are the bottleneck.
        let who = match others_had_them {
            Some(true) => format!("{} occupied the processors", nouns.occupants),
            _ => "it was busy itself".to_owned(),
        };
        let bottleneck = waited.map(|waited| {
            format!("; it waited for a processor for up to {} of its time: {who}", figures::percent(waited))
        });
        (!rows.is_empty()).then(|| {
            format!(
                "late starts: the load generator needs time to start this many requests, and that is a part of each p50: {}{}",
                rows.join(", "),
                bottleneck.unwrap_or_default()
            )
        })
    };
    [Some(true), Some(false), None].into_iter().filter_map(of).collect()
}

/// Tells how busy the whole machine was.
fn pressure(results: &[StrategyResult]) -> Option<String> {
    let most = results.iter().filter_map(|result| PRESSURE.value(result)).reduce(f64::max)?;
    let share = figures::percent(most);
    let told = format!(
        "for up to {share} of a trial, some program on the load generator's machine was ready and had no processor"
    );
    (most > PRESSURE_TOLD).then_some(told)
}

fn late_start(result: &StrategyResult) -> String {
    let users = things(result.users, "user");
    let late = LATE.value(result).map_or_else(String::new, figures::percent);
    let of_p50 = START_LAG_SHARE.value(result).map(|share| format!(", {} of the p50", figures::percent(share)));
    let spread = START_SPREAD.value(result).map(|spread| format!(", first starts within {}", figures::ms(spread)));
    let [of_p50, spread] = [of_p50, spread].map(Option::unwrap_or_default);
    format!("{} with {users} ({late} late{of_p50}{spread})", result.name())
}

/// Tells of a stall of a closed loop that the measured times hide.
fn stalled(result: &StrategyResult) -> Option<String> {
    let both = |(name, raw, corrected): &(&'static str, &Metric, &Metric)| {
        Some((*name, raw.value(result)?, corrected.value(result)?))
    };
    let (name, raw, corrected) =
        [("p99", &P99, &P99_CORRECTED), ("p90", &P90, &P90_CORRECTED)].iter().find_map(both)?;
    let hides = corrected > 2.0 * raw;
    let [silence, raw, corrected] = [SILENCE_MAX.value(result)?, raw, corrected].map(figures::ms);
    hides.then(|| {
        format!(
            "{} with {}: no buyer got an answer for up to {silence}; {name} {raw}, and {corrected} with the requests \
             that were not made meanwhile",
            result.name(),
            things(result.users, "user")
        )
    })
}

/// Strategies that got most requests after everything was sold. In a burst, that is normal for a flash sale.
fn sold_out_shop(schedule: &Schedule, results: &[StrategyResult]) -> Option<String> {
    // Under hazards, the stock is to be sold out, and the times of the sold are not compared.
    let is_meant = schedule.has_hazards() || schedule.model.is_some_and(|model| model.is_one_shot());
    let is_late = |result: &&StrategyResult| 2 * result.answers.sold_out > result.answers.total() && !is_meant;
    let late: Vec<&StrategyResult> = results.iter().filter(is_late).collect();
    let wanted = |result: &&StrategyResult| result.answers.total().div_ceil(u64::from(result.measured_trials.max(1)));
    let most = late.iter().map(wanted).max()?.div_ceil(u64::from(schedule.goods));
    let mut names: Vec<String> = late.iter().map(|result| result.name()).collect();
    names.dedup();
    Some(format!(
        "most requests came after everything was sold, so the times of the sold cover only the beginning ({}); {} {}",
        names.join(", "),
        schedule.nouns().advice.sold_out,
        count(most)
    ))
}

fn is_undecidable(ratio: &Ratio) -> bool {
    ratio.difference == Difference::TooFewBlocks
}

fn of_trials(trials: &[Trial], nouns: &Nouns) -> Vec<String> {
    let mut caveats = Vec::new();
    let count = |is: fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let unsettled = count(|trial| !trial.settled);
    if unsettled > 0 {
        let trials = things(unsettled, "trial");
        caveats.push(format!("{trials} had not come to rest when {}", nouns.audited));
    }
    let left_out: Vec<&Trial> = trials.iter().filter(|trial| !trial.left_out.is_empty()).collect();
    if !left_out.is_empty() {
        let lines = left_out.iter().flat_map(|trial| &trial.left_out);
        caveats.push(format!("left out of {}: {}", things(left_out.len(), "trial"), problems(lines).join("; ")));
    }
    caveats.extend(undecided(trials, nouns));
    caveats
}

/// Tells what is not known of the traffic on ZooKeeper.
fn of_zookeeper(trials: &[Trial]) -> Vec<String> {
    let mut caveats = Vec::new();
    let uncounted = trials.iter().filter(|trial| trial.zookeeper.releases.is_none()).count();
    if uncounted > 0 {
        caveats.push(format!(
            "no notifications per release for {}: a buyer that gives up wakes others without a release",
            things(uncounted, "trial")
        ));
    }
    if trials.iter().any(|trial| trial.zookeeper.watches_fired.deleted.is_none()) {
        caveats.push("ZooKeeper did not answer `mntr`; notifications are those that the instances received".to_owned());
    }
    caveats
}

/// Counts the buyers without a decision, and names the consequence.
fn undecided(trials: &[Trial], nouns: &Nouns) -> Vec<String> {
    let answers: Vec<&ByOutcome<u64>> = trials.iter().map(|trial| &trial.answers).collect();
    let ByOutcome { refused, error, timeout, .. } = ByOutcome::fold(&answers, |counts| counts.sum::<u64>());
    let mut caveats = Vec::new();
    if refused + error + timeout > 0 {
        caveats.push(format!(
            "buyers without a decision: {} refused, {} errors, {} timeouts; {}",
            count(refused),
            count(error),
            count(timeout),
            nouns.advice.undecided
        ));
    }
    let problems = problems(trials.iter().flat_map(|trial| &trial.problems));
    if !problems.is_empty() {
        caveats.push(format!("problems that buyers met: {}", problems.join("; ")));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use buyers::model::LoadModel;
    use stats::times::Times;

    use crate::report::{Report, fixture, shop_fixture};

    #[test]
    fn what_was_left_out_is_told_with_the_reason() {
        let mut trials = fixture::report().trials;
        for trial in &mut trials[..2] {
            trial.left_out = vec!["waits for locks of Postgres: pool timed out".to_owned()];
        }
        let caveats = Report::of(fixture::findings(None, trials)).caveats;
        let expected = "left out of 2 trials: waits for locks of Postgres: pool timed out";
        assert!(caveats.iter().any(|caveat| caveat == expected), "{caveats:?}");
    }

    #[test]
    fn caveats_of_shops_give_advice_for_shops() {
        let mut findings = shop_fixture::of_shops(&["Flask"]);
        for trial in &mut findings.trials {
            trial.settled = trial.block != 3;
            trial.answers.refused = 3;
        }
        findings.schedule.model = Some(LoadModel::Loop { duration_ms: 1000, ramp_up_ms: 0 });
        for trial in &mut findings.trials {
            trial.answers.sold_out = 500;
        }
        let caveats = Report::of(findings).caveats;
        for expected in [
            "the load generator and a shop shared the processors of one machine, so the times are of both together",
            "1 trial had not come to rest when the books were read",
            "raise stock in the shop file above 603",
            "27 refused, 0 errors, 0 timeouts; the shop's log may have the causes, and fewer --users may all be served",
        ] {
            assert!(caveats.iter().any(|caveat| caveat.ends_with(expected)), "{expected}: {caveats:?}");
        }
        for word in ["ZooKeeper", "mntr", "notifications", "strateg", "--lock-wait", "--stock"] {
            assert!(caveats.iter().all(|caveat| !caveat.contains(word)), "{word}: {caveats:?}");
        }
    }

    // C17
    #[test]
    fn late_starts_name_their_part_of_the_p50() {
        let told = |report: &Report| -> Vec<String> {
            report.caveats.iter().filter(|caveat| caveat.starts_with("late starts")).cloned().collect()
        };
        assert_eq!(told(&fixture::report()), [""; 0]);
        let mut trials = fixture::report().trials;
        for trial in &mut trials {
            trial.generator.late = 30;
            trial.latency.service.sold = Times::new();
            trial.latency.service.sold.record_n(Duration::from_millis(110), 100);
            if trial.strategy != "zk-mutex" {
                trial.generator.run_queue_share = Some(0.75);
            }
        }
        let caveats = told(&Report::of(fixture::findings(None, trials)));
        let [of_others, own] = caveats.as_slice() else { panic!("one for each side: {caveats:?}") };
        let expected = ": zk-mutex with 300 users (10\u{202f}% late, 50\u{202f}% of the p50, first starts within ";
        assert!(own.contains(expected) && !of_others.contains(expected), "{caveats:?}");
        assert!(
            own.ends_with("; it waited for a processor for up to 25\u{202f}% of its time: it was busy itself"),
            "{own}"
        );
        assert!(of_others.ends_with(
            "75\u{202f}% of its time: the service, the servers or other programs occupied the \
                                     processors"
        ));
    }
}
