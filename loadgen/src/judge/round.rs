//! Whether a strategy kept its promise in a round of faults.

use crate::lab::strategy::Promise;
use crate::trial::round::{FaultRecord, RoundSeen};
use weather::{Harm, Site};

/// How long a commit may be on its way, in milliseconds: the longest deadline of an instance.
const COMMIT_MS: f64 = 20_000.0;

/// What a round found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundFindings {
    /// What the promise forbids, one line each.
    pub(crate) broken: Vec<String>,
    /// What the promise leaves open, one line each.
    pub(crate) hazards: Vec<String>,
}

/// Judges a round by the stock, by the orders and by the answers to buyers.
///
/// Faults may cost units, buyers and time. A promise says what else they may cost. A lock that depends on a session or on a time to
/// live may let two holders write, if a fault of the round may end it. A gate may tell "sold" without an order, if a fault may make
/// Redis forget it. Controls promise nothing about the stock. Under every promise, the database must agree with the answers.
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
        unsigned(audit.orders_unexplained, "orders of refused buyers"),
        unsigned(audit.orders_without_lines, "orders without lines"),
    ];
    let unfounded = unsigned(audit.confirmations_unfounded, "buyers told \"sold\" without an order");
    let over_limit = unsigned(audit.over_limit, "buyers with more units than one may have");
    let overlaps = unsigned(seen.overlaps.unwrap_or(0), "critical sections that overlapped");
    let mut findings = RoundFindings { broken: seen.unserved.clone(), ..RoundFindings::default() };
    findings.broken.extend(of_answers.into_iter().flatten());
    let may_sell_wrongly = match promise {
        Promise::NeverOversells | Promise::ExceedsLimit | Promise::MayPromiseWithoutOrder => false,
        Promise::Oversells | Promise::OversellsOnManyInstances => true,
        Promise::SafeWhileLockLives => may_end_a_hold(seen, &[Site::Redis, Site::RedisLink]),
        Promise::SafeWhileSessionLives => may_end_a_hold(seen, &[Site::Zookeeper, Site::ZookeeperLink]),
    };
    // The Redis of these rounds logs every write, so it forgets no order. While something moves, orders may still come.
    let unfounded = unfounded.filter(|_| seen.at_rest);
    for (lines, is_open) in [
        (&mut unfounded.into_iter() as &mut dyn Iterator<Item = String>, false),
        (&mut of_stock.into_iter().flatten(), may_sell_wrongly),
        (&mut over_limit.into_iter(), promise == Promise::ExceedsLimit),
    ] {
        let side = if is_open { &mut findings.hazards } else { &mut findings.broken };
        side.extend(lines);
    }
    // A fence lets no late holder write, so an overlap alone does no harm.
    findings.hazards.extend(overlaps);
    findings
}

/// Tells whether a hold may have ended before its write, by the faults of a round. Either an instance stood still, or a fault at one of these
/// sites or of the instance came while a commit was on its way.
fn may_end_a_hold(seen: &RoundSeen, of_lock: &[Site]) -> bool {
    let made = || seen.faults.iter().filter(|fault| fault.failed.is_none());
    let is_frozen = |fault: &FaultRecord| fault.fault.site == Site::Instance && fault.fault.harm == Harm::Frozen;
    let meets = |one: &FaultRecord, other: &FaultRecord| {
        one.begun_ms <= other.ended_ms + COMMIT_MS && other.begun_ms <= one.ended_ms + COMMIT_MS
    };
    let of_database = || made().filter(|fault| matches!(fault.fault.site, Site::Postgres | Site::PostgresLink));
    let of_hold = || made().filter(|fault| fault.fault.site == Site::Instance || of_lock.contains(&fault.fault.site));
    made().any(is_frozen) || of_hold().any(|one| of_database().any(|other| meets(one, other)))
}

#[cfg(test)]
mod tests {
    use buyers::sample::ByOutcome;

    use super::*;
    use crate::audit::trial::Audit;
    use weather::Fault;

    /// Returns a round in which this has failed.
    fn seen(fault: &str, audit: Audit) -> RoundSeen {
        let fault = FaultRecord {
            fault: Fault::matching(&crate::lab::storm::SITES, &[fault.to_owned()]).unwrap()[0],
            instance: 0,
            server: None,
            strength: 0.5,
            is_alone: true,
            begun_ms: 1000.0,
            ended_ms: 2000.0,
            had_units: true,
            next_sale_ms: None,
            next_sale_there_ms: None,
            failed: None,
        };
        RoundSeen {
            stock: 100,
            faults: vec![fault],
            answers: ByOutcome::default(),
            dropped: 0,
            audit,
            overlaps: None,
            unserved: Vec::new(),
            at_rest: true,
            unchecked: Vec::new(),
            problems: Vec::new(),
            calm_after_ms: 0.0,
            length_ms: 0.0,
        }
    }

    #[test]
    fn faults_may_cost_what_the_promise_leaves_open() {
        let oversold = |fault| seen(fault, Audit { oversold: 2, ..Audit::default() });
        let counts = |promise, seen: &RoundSeen| {
            let RoundFindings { broken, hazards } = judge(promise, seen);
            (broken.len(), hazards.len())
        };
        let [frozen, cut] = ["instance-frozen", "postgres-link-cut"];
        assert_eq!(counts(Promise::NeverOversells, &oversold(frozen)), (1, 0));
        assert_eq!(counts(Promise::MayPromiseWithoutOrder, &oversold(frozen)), (1, 0));
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold(frozen)), (0, 1));
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold(cut)), (1, 0), "no hold was in danger");
        assert_eq!(counts(Promise::SafeWhileSessionLives, &oversold("zookeeper-killed")), (1, 0), "holders notice");
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
    }
}
