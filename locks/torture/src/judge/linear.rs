//! Whether the holds of a lock are linearizable: whether one order of all acquires and releases is right, in which each takes effect at
//! a moment between its call and its return. The models are those of Jepsen's locks: owner-aware, re-entrant, fenced, and permits.

use std::time::Duration;

use porcupine_rs::{CheckResult, Model, Operation as Call, check_operations_timeout};

use crate::history::{Operation, Rule};
use crate::lines::Token;

/// How long an order is looked for.
const WITHIN: Duration = Duration::from_secs(20);

/// Whether an order of the holds is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linearization {
    Exists,
    None,
    Unknown,
}

/// A lock as its users see it.
#[derive(Debug, Clone)]
struct Lock;

/// The holders of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Holders {
    /// The exclusive holder, and how often it holds.
    owner: Option<(u64, u8)>,
    /// Readers, or permits that are taken.
    shared: u32,
    /// The greatest token so far.
    token: Token,
}

#[derive(Debug, Clone, Copy)]
enum LockStep {
    Acquire {
        owner: u64,
        token: Option<Token>,
    },
    Reenter {
        owner: u64,
    },
    Leave {
        owner: u64,
    },
    Release {
        owner: u64,
    },
    /// Takes a number of permits of which there are `of`. A reader takes one of very many.
    Take {
        permits: u32,
        of: u32,
    },
    Give {
        permits: u32,
    },
}

impl Model for Lock {
    type State = Holders;
    type Op = LockStep;
    type Metadata = ();

    fn init() -> Holders {
        Holders::default()
    }

    fn step(state: &Holders, step: &LockStep) -> (bool, Holders) {
        let Holders { owner, shared, token } = state.clone();
        let next = match *step {
            LockStep::Acquire { owner: new, token: fence } if owner.is_none() && shared == 0 => {
                let is_newer = fence.is_none_or(|fence| fence > token);
                is_newer.then(|| Holders { owner: Some((new, 1)), shared, token: fence.unwrap_or(token) })
            }
            LockStep::Reenter { owner: again } if owner == Some((again, 1)) => {
                Some(Holders { owner: Some((again, 2)), shared, token })
            }
            LockStep::Leave { owner: again } if owner == Some((again, 2)) => {
                Some(Holders { owner: Some((again, 1)), shared, token })
            }
            LockStep::Release { owner: old } if owner == Some((old, 1)) => Some(Holders { owner: None, shared, token }),
            LockStep::Take { permits, of } if owner.is_none() => {
                let taken = shared.checked_add(permits).filter(|taken| *taken <= of);
                taken.map(|shared| Holders { owner, shared, token })
            }
            LockStep::Give { permits } if shared >= permits => Some(Holders { owner, shared: shared - permits, token }),
            _ => None,
        };
        match next {
            Some(next) => (true, next),
            None => (false, state.clone()),
        }
    }
}

/// Checks the certain holds of a path.
pub(super) fn check(path: &str, rule: Rule, holds: &[(&Operation, (i64, i64))]) -> Linearization {
    let calls: Vec<Call<Lock>> =
        holds.iter().flat_map(|(hold, interval)| calls_of(path, rule, hold, *interval)).collect();
    match check_operations_timeout(&calls, WITHIN) {
        CheckResult::Ok => Linearization::Exists,
        CheckResult::Illegal => Linearization::None,
        CheckResult::Unknown => Linearization::Unknown,
    }
}

/// Returns the calls of a hold. A release takes effect between the last moment at which the hold was certain and its answer; a hold that
/// was lost ends before its contender was told.
fn calls_of(path: &str, rule: Rule, hold: &Operation, (from, to): (i64, i64)) -> Vec<Call<Lock>> {
    let owner = hold.id;
    let end = [hold.lost, hold.ended].into_iter().flatten().min().unwrap_or(i64::MAX).max(to);
    let call = |(call_time, return_time): (i64, i64), op: LockStep| Call {
        client_id: u32::try_from(owner & u64::from(u32::MAX)).ok(),
        call_time,
        return_time,
        op,
        metadata: None,
    };
    let shares = match rule {
        Rule::Exclusive => None,
        Rule::ReadersShare => hold.is_shared().then_some((1, u32::MAX / 2)),
        Rule::Permits(of) => Some((hold.permits, of)),
    };
    if let Some((permits, of)) = shares {
        let step = LockStep::Take { permits, of };
        return vec![call((hold.asked, from), step), call((to, end), LockStep::Give { permits })];
    }
    let token = hold.token(path);
    let mut calls = vec![call((hold.asked, from), LockStep::Acquire { owner, token })];
    if let Some((at, _)) = hold.reentered.as_ref().filter(|(at, _)| *at < to) {
        calls.push(call((from, *at), LockStep::Reenter { owner }));
        calls.push(call((*at, end), LockStep::Leave { owner }));
    }
    calls.push(call((to, end), LockStep::Release { owner }));
    calls
}
