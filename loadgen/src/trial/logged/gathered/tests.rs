use std::path::PathBuf;

use super::*;
use crate::engines::{LogFormat, LoggedOutcome};

const SHOP: &str = "a shop";

/// A purchase that is meant to start and starts at this second.
fn purchase(trial: Option<u32>, at_s: u64, buyer: usize) -> LoggedRequest {
    let at = UNIX_EPOCH + Duration::from_secs(at_s);
    LoggedRequest {
        label: SHOP.into(),
        trial,
        intended: Some(at),
        started: at,
        duration: Duration::from_millis(5),
        outcome: Some(LoggedOutcome::Sold),
        status: Some(200),
        buyer: Some(buyer.to_string()),
        order: None,
    }
}

fn log(name: &str, requests: Vec<LoggedRequest>) -> TimedLog {
    let log = EngineLog {
        path: PathBuf::from(name),
        format: LogFormat::K6Json,
        resolution: Duration::from_nanos(1),
        answers_seen: true,
        requests,
    };
    TimedLog { log, clock_ahead_ms: None }
}

/// A log that has only statuses.
fn plain(name: &str, requests: Vec<LoggedRequest>) -> TimedLog {
    let TimedLog { mut log, .. } = log(name, requests);
    log.answers_seen = false;
    TimedLog { log, clock_ahead_ms: None }
}

/// Reads the logs of one shop.
const ONE: Gathering<'static> = Gathering { shops: Vec::new(), label: None, users: None, warm_ups: 0 };

fn one() -> Gathering<'static> {
    Gathering { shops: vec![SHOP], ..ONE }
}

fn gathered(logs: Vec<TimedLog>, gathering: &Gathering<'_>) -> (Vec<LoggedTrial>, Vec<JudgedLog>) {
    gather(logs, gathering).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(logs: Vec<TimedLog>, gathering: &Gathering<'_>) -> String {
    gather(logs, gathering).unwrap_err().to_string()
}

#[test]
fn the_parts_of_a_burst_are_one_trial() {
    let later = LoggedRequest { started: UNIX_EPOCH + Duration::from_millis(10_007), ..purchase(Some(7), 10, 2) };
    let logs = vec![log("a", vec![purchase(Some(7), 10, 0), purchase(Some(7), 10, 1)]), log("b", vec![later])];
    let (trials, judged) = gathered(logs, &one());
    let [trial] = &trials[..] else { panic!("{trials:?}") };
    assert_eq!((trial.users, trial.is_burst, trial.missing, trial.requests.len()), (3, true, 0, 3));
    assert_eq!(trial.released_at, UNIX_EPOCH + Duration::from_secs(10));
    assert_eq!(judged.iter().map(|log| log.first_start_ms).collect::<Vec<_>>(), [Some(0.0), Some(7.0)]);
}

#[test]
fn trials_are_blocks_in_the_order_of_time() {
    let logs = || vec![log("a", vec![purchase(Some(2), 900, 0), purchase(Some(1), 500, 0)])];
    let (trials, _) = gathered(logs(), &one());
    let blocks: Vec<_> = trials.iter().map(|trial| (trial.block, trial.requests[0].trial)).collect();
    assert_eq!(blocks, [(0, Some(1)), (1, Some(2))]);
    let all = refusal(logs(), &Gathering { warm_ups: 2, ..one() });
    assert_eq!(
        all,
        "a shop has 2 trials with 1 user, so none is left after --warm-ups 2; if buyers are missing in a log, --users says how many there \
         were"
    );
}

#[test]
fn numbers_of_users_are_levels_of_bursts_alone() {
    let of = |second_at_s| {
        let few = vec![purchase(Some(1), 10, 0)];
        let many = vec![purchase(Some(2), 500, 0), purchase(Some(2), second_at_s, 1)];
        let (trials, _) = gathered(vec![log("a", few), log("b", many)], &one());
        trials.iter().map(|trial| (trial.users, trial.block)).collect::<Vec<_>>()
    };
    assert_eq!(of(500), [(1, 0), (2, 0)]);
    assert_eq!(of(501), [(2, 0), (2, 1)], "the number of arrivals is chance");
}

#[test]
fn a_buyer_in_no_log_is_missing() {
    let logs = || vec![log("a", vec![purchase(None, 10, 0), purchase(None, 10, 3)])];
    let missing = |gathering| gathered(logs(), &gathering).0[0].missing;
    assert_eq!(missing(one()), 2, "buyers 1 and 2");
    assert_eq!(missing(Gathering { users: Some(10), ..one() }), 8);
}

#[test]
fn numbers_with_large_gaps_are_names() {
    let missing = |buyers: [&str; 2]| {
        let of = |buyer: &str| LoggedRequest { buyer: Some(buyer.to_owned()), ..purchase(None, 10, 0) };
        gathered(vec![log("a", buyers.map(of).to_vec())], &one()).0[0].missing
    };
    assert_eq!(missing(["1", "2"]), 0, "buyers may be numbered from 1");
    assert_eq!(missing(["5", "18446744073709551615"]), 0);
    assert_eq!(missing(["ann", "7"]), 0);
    assert_eq!(missing(["7", "10"]), 2);
}

#[test]
fn a_purchase_in_two_logs_is_refused() {
    let refused = |first: Vec<LoggedRequest>, second: Vec<LoggedRequest>| {
        refusal(vec![log("a", first), log("b", second)], &one())
    };
    let expected = "buyer 4 of a shop buys in a and in b; name each log once, and give no two machines the same buyers";
    assert_eq!(refused(vec![purchase(Some(1), 10, 4)], vec![purchase(Some(1), 10, 4)]), expected);
    let ramp = || vec![purchase(Some(1), 10, 4), purchase(Some(1), 11, 5)];
    assert_eq!(refused(ramp(), ramp()), expected);
    let twice = refusal(vec![log("a", vec![purchase(None, 10, 4), purchase(None, 10, 4)])], &one());
    assert!(twice.starts_with("a has buyer 4 of a shop twice in one burst; use a new file"), "{twice}");
    let looped = vec![purchase(None, 10, 4), purchase(None, 11, 4)];
    assert!(!gathered(vec![log("a", looped)], &one()).0[0].is_once);
}

#[test]
fn trials_that_overlap_are_refused() {
    let without_number = purchase(None, 10, 1);
    let refused = refusal(vec![log("a", vec![purchase(Some(7), 10, 0)]), log("b", vec![without_number])], &one());
    assert!(refused.starts_with("two trials of a shop overlap, and it has one sale at a time; give all"), "{refused}");
}

#[test]
fn two_runs_without_numbers_are_no_single_trial() {
    let runs = || [purchase(None, 10, 0), purchase(None, 70, 1)];
    let [first, second] = runs();
    let refused = refusal(vec![log("a", vec![first]), log("b", vec![second])], &one());
    assert!(
        refused.starts_with("a and b have the same trial in which nobody bought for 59 s: it looks like"),
        "{refused}"
    );
    assert!(refused.ends_with("or judge each by itself; --clock names a clock that is wrong"), "{refused}");
    let appended = refusal(vec![log("a", runs().to_vec())], &one());
    assert!(appended.starts_with("a has one trial in which nobody bought for 59 s"), "{appended}");
    let [first, second] = runs();
    let long = LoggedRequest { duration: Duration::from_secs(55), ..first };
    gathered(vec![log("a", vec![long, second])], &one());
}

#[test]
fn a_clock_that_was_ahead_is_set_right() {
    let mut ahead = log("b", vec![purchase(Some(1), 10, 1)]);
    ahead.clock_ahead_ms = Some(250.0);
    let (trials, judged) = gathered(vec![log("a", vec![purchase(Some(1), 10, 0)]), ahead], &one());
    assert!(trials[0].is_burst, "by the clock of each machine, all began at one instant");
    assert_eq!(trials[0].released_at, UNIX_EPOCH + Duration::from_millis(9750));
    assert_eq!(judged.iter().map(|log| log.first_start_ms).collect::<Vec<_>>(), [Some(250.0), Some(0.0)]);
}

#[test]
fn purchases_of_another_shop_are_refused() {
    let refused = refusal(vec![log("a", vec![purchase(None, 10, 0)])], &Gathering { shops: vec!["b", "c"], ..ONE });
    let expected =
        "a has purchases at \"a shop\", and --shop describes \"b\", \"c\"; name the file of that shop by --shop";
    assert_eq!(refused, expected);
}

#[test]
fn a_log_of_statuses_needs_the_name_of_the_purchase() {
    let named = |label: &str| LoggedRequest { label: label.into(), ..purchase(None, 10, 0) };
    let logs = || vec![plain("a", vec![named("buy"), named("log in")])];
    let refused = refusal(logs(), &one());
    assert_eq!(
        refused,
        "a has requests named \"buy\", \"log in\", and only statuses; name the purchase by --label, and let the engine \
                    give all of them one name"
    );
    let wrong = refusal(logs(), &Gathering { label: Some("pay"), ..one() });
    assert_eq!(wrong, "a has no request named \"pay\"; it has \"buy\", \"log in\"; name one of them by --label");
    let (trials, _) = gathered(logs(), &Gathering { label: Some("buy"), ..one() });
    assert_eq!((trials[0].requests.len(), trials[0].answers_seen), (1, false));
    let two = refusal(vec![plain("a", vec![named("buy")])], &Gathering { shops: vec![SHOP, "b"], ..ONE });
    assert_eq!(two, "a has only statuses and does not name its shop; judge it with one --shop");
}
