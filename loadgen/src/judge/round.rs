//! Whether a strategy kept its promise in a round of faults.

use std::time::Duration;

use weather::{Fault, Harm, Site};

use crate::lab::strategy::Promise;
use crate::trial::round::{FaultRecord, KeptRound, REDIS_LOCK_TTL, Round, RoundSeen, SESSION_TIMEOUT};

/// How long a commit may be on its way, in milliseconds: the longest deadline of an instance.
const COMMIT_MS: f64 = 20_000.0;

/// What a round found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundFindings {
    /// What the promise forbids, one line each.
    pub(crate) broken: Vec<String>,
    /// What the promise leaves open, one line each.
    pub(crate) hazards: Vec<String>,
    /// What could not be checked, one line each.
    pub(crate) unchecked: Vec<String>,
}

/// Judges a round by the stock, by the orders and by the answers to buyers.
///
/// Faults may cost units, buyers and time. A promise says what else they may cost. A lock that depends on a session or on a time to
/// live may let two holders write, if a fault of the round may end it. A gate may tell "sold" without an order, if a fault may make
/// Redis forget it. Controls promise nothing about the stock. Under every promise, the database must agree with the answers.
///
/// No promise says that a buyer is served during a fault. So buyers without a decision break none, whatever they leave unsold. But
/// without sales the round has tested nothing, and without the last unit no oversale can show. Both are told as unchecked.
pub(crate) fn judge(promise: Promise, seen: &RoundSeen) -> RoundFindings {
    let audit = &seen.audit;
    let count = |count: i64, what: &str| (count != 0).then(|| format!("{what}: {count}"));
    let unsigned = |number: u64, what: &str| count(i64::try_from(number).unwrap_or(i64::MAX), what);
    let of_stock = [
        count(audit.oversold, "units sold beyond the stock"),
        count(audit.undersold, "units left although a buyer was told that nothing was"),
        count(audit.lost_updates, "units whose deduction was overwritten, or that are gone without an order"),
        unsigned(audit.double_sales, "units sold twice"),
        unsigned(audit.out_of_sequence.unwrap_or(0), "orders out of sequence"),
        unsigned(audit.tokens_out_of_order.unwrap_or(0), "orders with an older token than an earlier order"),
        unsigned(audit.misplaced.unwrap_or(0), "units whose rows disagree with the orders"),
    ];
    let of_answers = [
        unsigned(audit.confirmations_repeated, "buyers told the same order as another buyer"),
        unsigned(audit.confirmations_wrong, "buyers told another order than they have"),
        unsigned(
            audit.orders_unexplained,
            "orders that no buyer was told of, while their own buyer had another answer",
        ),
        unsigned(audit.orders_without_lines, "orders without lines"),
    ];
    let unfounded = unsigned(audit.confirmations_unfounded, "buyers told \"sold\" without an order");
    let over_limit = unsigned(audit.over_limit, "buyers with more units than one may have");
    let overlaps = unsigned(seen.overlaps.unwrap_or(0), "critical sections that overlapped");
    let mut findings = RoundFindings { broken: seen.unserved.clone(), hazards: Vec::new(), unchecked: unchecked(seen) };
    findings.broken.extend(of_answers.into_iter().flatten());
    let oversells = matches!(promise, Promise::Oversells | Promise::OversellsOnManyInstances);
    let may_sell_wrongly = oversells || excuse_of(promise).is_some_and(|excuse| may_end_a_hold(seen, &excuse));
    // The Redis of these rounds logs every write, so it forgets no order. While something moves, orders may still come.
    let unfounded = unfounded.filter(|_| seen.at_rest);
    for (lines, is_open) in [
        (&mut unfounded.into_iter() as &mut dyn Iterator<Item = String>, false),
        (&mut of_stock.into_iter().flatten(), may_sell_wrongly),
        (&mut over_limit.into_iter(), promise == Promise::ExceedsLimit),
        // Under other promises a late holder may overlap: its fence or the row refuses what it writes.
        (&mut overlaps.into_iter(), may_sell_wrongly || excuse_of(promise).is_none()),
    ] {
        let side = if is_open { &mut findings.hazards } else { &mut findings.broken };
        side.extend(lines);
    }
    findings
}

/// Judges a round by what was kept of it, its books included.
pub(crate) fn judge_kept(kept: &KeptRound) -> RoundFindings {
    let KeptRound { round, evidence, .. } = kept;
    let overlaps = evidence.overlaps().filter(|_| round.seen.overlaps.is_some());
    judge(evidence.promise, &RoundSeen { audit: evidence.audit(), overlaps, ..round.seen.clone() })
}

impl RoundFindings {
    /// Returns what was found when the round was run.
    pub(crate) fn then(round: &Round) -> RoundFindings {
        let Round { broken, hazards, unchecked, .. } = round.clone();
        RoundFindings { broken, hazards, unchecked }
    }

    /// Returns all lines, each with what it is.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let RoundFindings { broken, hazards, unchecked } = self;
        let of = |what: &'static str, lines: &[String]| {
            lines.iter().map(|line| format!("{what}: {line}")).collect::<Vec<_>>()
        };
        [of("BROKEN", broken), of("hazard", hazards), of("not checked", unchecked)].into_iter().flatten()
    }
}

/// Returns what a round could not check: by missing evidence, and by what its buyers did not do.
fn unchecked(seen: &RoundSeen) -> Vec<String> {
    let RoundSeen { audit, dropped, stock, answers, .. } = seen;
    let requests = i64::try_from(answers.total().saturating_add(*dropped)).unwrap_or(i64::MAX);
    let of_buyers = [
        (audit.sold == 0).then(|| "the sale: no unit was sold".to_owned()),
        (*dropped > 0).then(|| format!("requests that were not sent, as too many others had no answer: {dropped}")),
        (audit.unsold_undecided > 0 && *stock < requests).then(|| {
            let left = audit.unsold_undecided;
            format!("the end of the stock: units that buyers left who were refused or had no answer: {left}")
        }),
    ];
    seen.gaps.iter().cloned().chain(of_buyers.into_iter().flatten()).collect()
}

/// What may end the holds of a lock, so that a promise which depends on it leaves a finding open.
struct Excuse {
    /// The sites of faults that may end its holds.
    sites: &'static [Site],
    /// How long the servers keep a hold whose holder is silent.
    lives: Duration,
}

/// Returns what may end the holds of the lock on which a promise depends, if it depends on one.
fn excuse_of(promise: Promise) -> Option<Excuse> {
    match promise {
        Promise::SafeWhileLockLives => Some(Excuse { sites: &[Site::Redis, Site::RedisLink], lives: REDIS_LOCK_TTL }),
        Promise::SafeWhileSessionLives => {
            Some(Excuse { sites: &[Site::Zookeeper, Site::ZookeeperLink, Site::Nodes], lives: SESSION_TIMEOUT })
        }
        Promise::NeverOversells
        | Promise::ExceedsLimit
        | Promise::MayPromiseWithoutOrder
        | Promise::Oversells
        | Promise::OversellsOnManyInstances => None,
    }
}

/// Tells whether a promise leaves open that something is seen after this fault alone.
pub(crate) fn leaves_open(promise: Promise, fault: Fault) -> bool {
    promise.is_of_control() || excuse_of(promise).is_some_and(|excuse| ends_a_hold(fault, &excuse))
}

/// Tells whether a fault alone may end a hold before its write: an instance stands still, or somebody deletes the node of the hold.
fn ends_a_hold(fault: Fault, excuse: &Excuse) -> bool {
    match (fault.site, fault.harm) {
        (Site::Instance, Harm::Frozen) => true,
        (Site::Nodes, _) => excuse.sites.contains(&Site::Nodes),
        _ => false,
    }
}

/// Tells whether a fault lasted long enough to end a hold. The servers may have heard nothing of it for a while before the instance stood
/// still, and for longer if another fault came beside, or if a fault of the round shortened timeouts.
fn lasted(fault: &FaultRecord, seen: &RoundSeen, excuse: &Excuse) -> bool {
    let is_short = fault.ended_ms - fault.begun_ms < excuse.lives.as_secs_f64() * 1e3 / 2.0;
    // The time to live of a lock in Redis stays.
    let is_shortened = excuse.sites.contains(&Site::Zookeeper)
        && seen.faults.iter().any(|fault| fault.fault.harm == Harm::OtherTimeouts);
    fault.fault.site == Site::Nodes || !is_short || !fault.is_alone || is_shortened
}

/// Tells whether a hold may have ended before its write, by the faults of a round. Either one of them ends holds, or one at these sites or of
/// the instance came while a commit was on its way.
fn may_end_a_hold(seen: &RoundSeen, excuse: &Excuse) -> bool {
    // One that was made by half may have ended holds, too.
    let made = || seen.faults.iter().filter(|fault| fault.failed.as_deref() != Some(weather::NEVER_BEGAN));
    let meets = |one: &FaultRecord, other: &FaultRecord| {
        one.begun_ms <= other.ended_ms + COMMIT_MS && other.begun_ms <= one.ended_ms + COMMIT_MS
    };
    let of_database = || made().filter(|fault| matches!(fault.fault.site, Site::Postgres | Site::PostgresLink));
    let of_hold =
        || made().filter(|fault| fault.fault.site == Site::Instance || excuse.sites.contains(&fault.fault.site));
    made().any(|fault| ends_a_hold(fault.fault, excuse) && lasted(fault, seen, excuse))
        || of_hold().any(|one| of_database().any(|other| meets(one, other)))
}

#[cfg(test)]
mod tests {
    use buyers::sample::ByOutcome;

    use super::*;
    use crate::audit::trial::Audit;
    use crate::lab::storm::SITES;

    /// Returns a round in which this has failed for 5 s.
    fn seen(fault: &str, audit: Audit) -> RoundSeen {
        let fault = Fault::matching(&SITES, &[fault.to_owned()]).unwrap()[0];
        RoundSeen::example(vec![FaultRecord { fault, ..FaultRecord::example(5000.0) }], audit)
    }

    #[test]
    fn faults_may_cost_what_the_promise_leaves_open() {
        let oversold = |fault| seen(fault, Audit { oversold: 2, ..Audit::default() });
        let counts = |promise, seen: &RoundSeen| {
            let RoundFindings { broken, hazards, .. } = judge(promise, seen);
            (broken.len(), hazards.len())
        };
        let [frozen, cut] = ["instance-frozen", "postgres-link-cut"];
        assert_eq!(counts(Promise::NeverOversells, &oversold(frozen)), (1, 0));
        assert_eq!(counts(Promise::MayPromiseWithoutOrder, &oversold(frozen)), (1, 0));
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold(frozen)), (0, 1));
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold(cut)), (1, 0), "no hold was in danger");
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold("zookeeper-killed")), (1, 0), "holders notice");
        let deleted = oversold("nodes-deleted");
        assert_eq!(counts(Promise::SafeWhileSessionLives, &deleted), (0, 1));
        assert_eq!(counts(Promise::SafeWhileLockLives, &deleted), (1, 0), "the lock is in Redis");
        assert_eq!(counts(Promise::Oversells, &oversold(cut)), (0, 1));
        let unfounded = |fault| seen(fault, Audit { confirmations_unfounded: 1, ..Audit::default() });
        let moving = RoundSeen { at_rest: false, ..unfounded("redis-killed") };
        assert_eq!(counts(Promise::MayPromiseWithoutOrder, &moving), (0, 0), "orders may still come");
        let unserved = RoundSeen { unserved: vec!["nobody".to_owned()], ..seen(cut, Audit::default()) };
        assert_eq!(counts(Promise::Oversells, &unserved), (1, 0), "even a control serves again");
        assert_eq!(counts(Promise::MayPromiseWithoutOrder, &unfounded(cut)), (1, 0));
        assert_eq!(counts(Promise::Oversells, &unfounded(cut)), (1, 0), "even a control writes what it confirms");
        let over_limit = seen(cut, Audit { over_limit: 1, ..Audit::default() });
        assert_eq!(counts(Promise::ExceedsLimit, &over_limit), (0, 1));
        assert_eq!(counts(Promise::NeverOversells, &over_limit), (1, 0));
        let overlapped = RoundSeen { overlaps: Some(1), ..seen(frozen, Audit::default()) };
        assert_eq!(counts(Promise::NeverOversells, &overlapped), (0, 1));
        assert_eq!(counts(Promise::SafeWhileSessionLives, &overlapped), (0, 1));
        let overlapped = RoundSeen { overlaps: Some(1), ..seen(cut, Audit::default()) };
        assert_eq!(counts(Promise::SafeWhileSessionLives, &overlapped), (1, 0), "no hold was in danger");
    }

    #[test]
    fn a_short_pause_ends_no_hold() {
        let broken = |promise, lasted_ms: f64, is_alone, beside: &[&str]| {
            let mut round = seen("instance-frozen", Audit { oversold: 2, ..Audit::default() });
            round.faults[0].ended_ms = round.faults[0].begun_ms + lasted_ms;
            round.faults[0].is_alone = is_alone;
            round.faults.extend(beside.iter().flat_map(|fault| seen(fault, Audit::default()).faults));
            judge(promise, &round).broken.len()
        };
        assert_eq!(broken(Promise::SafeWhileSessionLives, 1000.0, true, &[]), 1);
        assert_eq!(broken(Promise::SafeWhileSessionLives, 2000.0, true, &[]), 0);
        assert_eq!(broken(Promise::SafeWhileSessionLives, 1000.0, false, &[]), 0, "the other fault may have begun it");
        assert_eq!(broken(Promise::SafeWhileSessionLives, 1000.0, true, &["instance-other-timeouts"]), 0);
        assert_eq!(broken(Promise::SafeWhileLockLives, 2000.0, true, &[]), 1, "a lock in Redis lives longer");
        assert_eq!(broken(Promise::SafeWhileLockLives, 2000.0, true, &["instance-other-timeouts"]), 1, "it stays so");
    }

    #[test]
    fn an_order_of_a_refused_buyer_breaks_every_promise() {
        let seen = seen("buyers-link-cut", Audit { sold: 1, orders_unexplained: 1, ..Audit::default() });
        for promise in [Promise::NeverOversells, Promise::SafeWhileSessionLives, Promise::Oversells] {
            let found = judge(promise, &seen);
            assert_eq!((found.broken.len(), found.hazards.len()), (1, 0), "{promise:?}");
            assert!(found.broken[0].contains("their own buyer had another answer: 1"), "{:?}", found.broken);
        }
    }

    #[test]
    fn what_the_buyers_of_a_round_did_not_try_is_unchecked() {
        let answers = ByOutcome { sold: 40, refused: 100, ..ByOutcome::default() };
        let audit = Audit { sold: 40, unsold_undecided: 60, ..Audit::default() };
        let left = RoundSeen { answers, ..seen("postgres-frozen", audit) };
        let unchecked = |seen: &RoundSeen| judge(Promise::NeverOversells, seen).unchecked;
        let told = unchecked(&left);
        assert!(
            told.len() == 1 && told[0].starts_with("the end of the stock: ") && told[0].ends_with(": 60"),
            "{told:?}"
        );
        assert_eq!(unchecked(&RoundSeen { stock: 140, ..left.clone() }), [""; 0], "the stock was to last");
        let nothing = RoundSeen { answers: ByOutcome::default(), ..seen("postgres-frozen", Audit::default()) };
        assert_eq!(unchecked(&nothing), ["the sale: no unit was sold"]);
        let told = unchecked(&RoundSeen { stock: 140, dropped: 3, gaps: vec!["a gap".to_owned()], ..left });
        assert!(told.len() == 3 && told[0] == "a gap" && told[1].ends_with("had no answer: 3"), "{told:?}");
        let found = judge(Promise::NeverOversells, &nothing);
        assert!(found.broken.is_empty() && found.hazards.is_empty(), "a fault may cost every sale");
    }
}
