//! The purchases of one trial, added up as if this program had made the load.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use buyers::sample::{Confirmation, Outcome, Sample};
use buyers::tally::Tally;
use stats::figures::things;

use super::gathered::LoggedTrial;
use crate::engines::{LoggedOutcome, LoggedRequest};

/// Adds up the purchases of a trial, in the order in which they started and ended.
pub(super) fn replay(trial: &LoggedTrial) -> Tally {
    let mut samples = samples(trial);
    let users = samples.iter().map(|sample| sample.user + 1).max().unwrap_or(0);
    let mut tally = Tally::of(1, users, trial.is_burst, 0);
    let starts: Vec<(Duration, usize)> = samples.iter().map(|sample| (sample.started, sample.user)).collect();
    let mut starts = starts.into_iter().peekable();
    samples.sort_by_key(|sample| sample.ended);
    for sample in samples {
        while let Some((at, user)) = starts.next_if(|(at, _)| *at <= sample.ended) {
            tally.start(user, at);
        }
        tally.end(sample);
    }
    if trial.missing > 0 {
        // Nobody knows what these buyers were told, as of a purchase without an answer.
        tally.told.iter_mut().for_each(|told| told.answers.error += trial.missing);
        tally.problems.push(format!("{} in no log", things(trial.missing, "buyer")));
    }
    tally
}

/// Makes the purchases of a trial samples, in the order of their starts.
fn samples<'a>(trial: &'a LoggedTrial) -> Vec<Sample> {
    let mut requests: Vec<&LoggedRequest> = trial.requests.iter().collect();
    requests.sort_by_key(|request| request.started);
    let since_release = |at: SystemTime| at.duration_since(trial.released_at).unwrap_or_default();
    // The user of each buyer that has a name, and when it was idle again.
    let mut known: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    let mut users = 0..;
    let sample = |request: &'a LoggedRequest| {
        let intended = since_release(request.intended.unwrap_or(request.started));
        let started = since_release(request.started);
        let ended = since_release(request.started + request.duration).max(started);
        let mut next = || users.next().unwrap_or(usize::MAX);
        let (user, idle_since) = match request.buyer.as_deref() {
            Some(buyer) => {
                let (user, idle_at) = known.entry(buyer).or_insert_with(|| (next(), Duration::ZERO));
                (*user, std::mem::replace(idle_at, ended))
            }
            None => (next(), Duration::ZERO),
        };
        let outcome = outcome(request);
        Sample {
            user,
            buyer: user,
            goods: 0,
            outcome,
            confirmation: (outcome == Outcome::Sold)
                .then(|| Confirmation::Shop(request.order.as_deref().map(Into::into))),
            intended,
            idle_since: idle_since.max(intended),
            started,
            first_byte: None,
            ended,
            decided: None,
            is_committed: false,
            status: request.status,
            instance: None,
            received_bytes: 0,
            problem: problem(request, outcome),
        }
    };
    requests.into_iter().map(sample).collect()
}

fn outcome(request: &LoggedRequest) -> Outcome {
    match request.outcome {
        Some(LoggedOutcome::Sold) => Outcome::Sold,
        Some(LoggedOutcome::SoldOut) => Outcome::SoldOut,
        Some(LoggedOutcome::OverLimit) => Outcome::OverLimit,
        Some(LoggedOutcome::Unpaid) => Outcome::Unpaid,
        Some(LoggedOutcome::Refused) => Outcome::Refused,
        Some(LoggedOutcome::Error) | None => Outcome::Error,
        Some(LoggedOutcome::Timeout) => Outcome::Timeout,
    }
}

/// Says what a log tells of a purchase that went wrong.
fn problem(request: &LoggedRequest, outcome: Outcome) -> Option<String> {
    let told = match request.status {
        Some(status) if request.outcome.is_none() => {
            format!("status {status} does not tell the outcome, and the answer is not in the log")
        }
        Some(status) => format!("answered {status}"),
        None => "no answer".to_owned(),
    };
    match outcome {
        Outcome::Sold | Outcome::SoldOut | Outcome::OverLimit | Outcome::Unpaid | Outcome::Timeout => None,
        Outcome::Refused => Some(format!("refused: {told}")),
        Outcome::Error => Some(told),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A purchase that was intended at 0, and started and ended at these instants in milliseconds.
    fn request(outcome: Option<LoggedOutcome>, [started, ended]: [u64; 2], buyer: Option<&str>) -> LoggedRequest {
        LoggedRequest {
            label: "a".into(),
            trial: Some(1),
            intended: Some(UNIX_EPOCH + ms(1000)),
            started: UNIX_EPOCH + ms(1000 + started),
            duration: ms(ended - started),
            outcome,
            status: Some(200),
            buyer: buyer.map(str::to_owned),
            order: (outcome == Some(LoggedOutcome::Sold)).then(|| format!("o-{ended}")),
        }
    }

    fn trial(requests: Vec<LoggedRequest>) -> LoggedTrial {
        LoggedTrial {
            shop: "a".into(),
            block: 0,
            users: 2,
            is_burst: true,
            is_once: true,
            requests,
            missing: 0,
            is_complete: false,
            answers_seen: true,
            released_at: UNIX_EPOCH + ms(1000),
            ended_at: UNIX_EPOCH + ms(2000),
        }
    }

    const SOLD: Option<LoggedOutcome> = Some(LoggedOutcome::Sold);

    #[test]
    fn a_response_counts_from_the_intended_start() {
        let trial = trial(vec![request(SOLD, [5, 30], Some("0")), request(SOLD, [10, 90], Some("1"))]);
        let tally = replay(&trial);
        let longest = |times: &stats::times::Times| times.max_ms().unwrap().round();
        assert_eq!((longest(&tally.latency.response.sold), longest(&tally.latency.service.sold)), (90.0, 80.0));
        assert_eq!((tally.length, tally.sold_at.clone()), (ms(90), vec![ms(30), ms(90)]));
        let orders: Vec<_> = tally.told[0].sold_to.iter().map(|receipt| receipt.order.as_deref().unwrap()).collect();
        assert_eq!(orders, ["o-30", "o-90"]);
    }

    #[test]
    fn a_buyer_of_two_purchases_is_one_user() {
        let again = LoggedRequest { intended: Some(UNIX_EPOCH + ms(1020)), ..request(SOLD, [60, 70], Some("7")) };
        let trial = trial(vec![again, request(SOLD, [0, 50], Some("7"))]);
        let samples = samples(&trial);
        assert_eq!(samples.iter().map(|sample| (sample.user, sample.buyer)).collect::<Vec<_>>(), [(0, 0), (0, 0)]);
        assert_eq!((samples[1].start_lag(), samples[1].idle_lag()), (ms(40), ms(10)));
    }

    #[test]
    fn a_status_that_tells_no_outcome_is_an_error() {
        let tally = replay(&trial(vec![request(None, [0, 5], None)]));
        assert_eq!(tally.answers().error, 1);
        assert_eq!(tally.problems, ["status 200 does not tell the outcome, and the answer is not in the log"]);
    }

    #[test]
    fn buyers_in_no_log_may_have_bought() {
        let one = trial(vec![request(SOLD, [0, 5], Some("0"))]);
        let tally = replay(&LoggedTrial { missing: 3, ..one });
        assert_eq!((tally.answers().error, tally.answers().sold), (3, 1));
        assert_eq!(tally.problems, ["3 buyers in no log"]);
    }
}
