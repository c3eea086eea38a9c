//! The judge of a history. Pure: it can judge a stored history again.
//!
//! # Why a finding is no false alarm
//!
//! All times are of one monotonic clock. A hold is certain from its grant to the last time at which its library was asked and said that
//! it lives; the clock is read before the question, and after the grant. So a contender that stands still makes no hold longer. Two
//! certain holds of an exclusive lock that overlap were held at once by two contenders that both had to rely on their libraries.
//!
//! # Which library is to blame
//!
//! The earlier holder, whose library still said "held" although another had been granted. If that is another library than ours, the
//! finding is a hazard of that library, provided that a fault of the round may have ended its session. Otherwise it is ours: either our
//! hold outlived its end, or we were granted what another held.

mod linear;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{History, Operation, Rule};

/// The library whose promise is judged.
pub(crate) const OURS: &str = "zk-recipes";

/// What a history shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What our library promises never to happen, one line each.
    pub(crate) broken: Vec<String>,
    /// What other libraries let happen, one line each.
    pub(crate) hazards: Vec<String>,
    /// What could not be checked, one line each.
    pub(crate) unchecked: Vec<String>,
    /// How long two were told that they hold together whose locks exclude that, by the library of the earlier holder. Holds whose nodes
    /// somebody deleted count, too.
    pub(crate) two_holders: BTreeMap<String, Duration>,
}

impl Findings {
    /// Returns all of them, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let kinds = [("BROKEN", &self.broken), ("hazard", &self.hazards), ("unchecked", &self.unchecked)];
        kinds.iter().flat_map(|(kind, lines)| lines.iter().map(move |line| format!("{kind}: {line}"))).collect()
    }
}

/// Judges a history. `may_be_excused` tells whether a fault may have ended the hold of this contender without its knowledge.
pub(crate) fn judge(history: &History, may_be_excused: impl Fn(&Operation) -> bool) -> Findings {
    let mut findings = Findings::default();
    for (path, rule) in &history.rules {
        let of_path = || history.operations.iter().filter(|operation| operation.paths.contains(path));
        let told = of_path().filter_map(|operation| Some((operation, operation.told()?)));
        let mut together: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for (earlier, _, interval) in overlaps(&sorted(told), *rule) {
            let Operation { library, .. } = earlier;
            together.entry(library).or_default().push(interval);
        }
        for (library, intervals) in together {
            *findings.two_holders.entry(library.to_owned()).or_default() += covered(intervals);
        }
        let certain = of_path().filter_map(|operation| Some((operation, operation.certain(path, history)?)));
        let holds = sorted(certain);
        let before = findings.broken.len() + findings.hazards.len();
        for (earlier, later, interval) in overlaps(&holds, *rule) {
            let together = covered(vec![interval]);
            let line = format!("{path}: {earlier} held for {together:?} on when {later} held");
            let Operation { library, .. } = earlier;
            if library != OURS && may_be_excused(earlier) {
                findings.hazards.push(line);
            } else {
                findings.broken.push(line);
            }
        }
        findings.broken.extend(older_tokens(path, &holds, *rule));
        findings.broken.extend(other_owners(path, &holds));
        // Where two held at once, no order of the history can be right.
        if findings.broken.len() + findings.hazards.len() == before {
            match linear::check(path, *rule, &holds) {
                linear::Linearization::Exists => {}
                linear::Linearization::None => findings.broken.push(format!("{path}: no order of its holds is right")),
                linear::Linearization::Unknown => {
                    findings.unchecked.push(format!("{path}: an order of its holds was not found in time"));
                }
            }
        }
    }
    findings
}

/// Returns holds in the order of their begins.
fn sorted<'a>(holds: impl Iterator<Item = (&'a Operation, (i64, i64))>) -> Vec<(&'a Operation, (i64, i64))> {
    let mut holds: Vec<_> = holds.collect();
    holds.sort_by_key(|(_, interval)| *interval);
    holds
}

/// Returns how much time these intervals cover.
fn covered(mut intervals: Vec<(i64, i64)>) -> Duration {
    intervals.sort_unstable();
    let mut until = i64::MIN;
    let mut covered = 0;
    for (from, to) in intervals {
        let from = from.max(until);
        covered += if from < to { to.abs_diff(from) } else { 0 };
        until = until.max(to);
    }
    Duration::from_nanos(covered)
}

/// Returns the pairs of holds that must not overlap and do, and when. Holds come in the order of their begins.
fn overlaps<'a>(holds: &[(&'a Operation, (i64, i64))], rule: Rule) -> Vec<(&'a Operation, &'a Operation, (i64, i64))> {
    let mut found = Vec::new();
    let mut open: Vec<(&Operation, (i64, i64))> = Vec::new();
    for (later, (from, to)) in holds {
        open.retain(|(_, (_, end))| end > from);
        let excluded: Vec<_> = match rule {
            Rule::Exclusive => open.clone(),
            Rule::ReadersShare => {
                open.iter().filter(|(earlier, _)| !(earlier.is_shared() && later.is_shared())).copied().collect()
            }
            Rule::Permits(permits) => {
                let taken: u64 = open.iter().map(|(earlier, _)| u64::from(earlier.permits)).sum();
                // The one that ends first is the one whose end was overdue.
                let first = open.iter().min_by_key(|(_, (_, end))| *end);
                first.filter(|_| taken + u64::from(later.permits) > u64::from(permits)).into_iter().copied().collect()
            }
        };
        for (earlier, (_, end)) in excluded {
            found.push((earlier, *later, (*from, end.min(*to))));
        }
        open.push((*later, (*from, *to)));
    }
    found
}

/// Returns the holds of an exclusive lock that have no greater token than the hold before.
fn older_tokens(path: &str, holds: &[(&Operation, (i64, i64))], rule: Rule) -> Vec<String> {
    if matches!(rule, Rule::Permits(_)) {
        return Vec::new();
    }
    let with_tokens = holds.iter().filter_map(|(hold, interval)| Some((*hold, *interval, hold.token(path)?)));
    let with_tokens: Vec<_> = with_tokens.collect();
    let pairs = with_tokens.iter().zip(with_tokens.iter().skip(1));
    pairs
        .filter(|((one, (_, end), before), (other, (from, _), after))| {
            !(one.is_shared() && other.is_shared()) && end < from && after <= before
        })
        .map(|((one, _, before), (other, _, after))| {
            format!("{path}: {other} has the token {after:?} after {before:?} of {one}")
        })
        .collect()
}

/// Returns the holds whose owner acquired again and got another token.
fn other_owners(path: &str, holds: &[(&Operation, (i64, i64))]) -> Vec<String> {
    holds
        .iter()
        .filter_map(|(hold, _)| {
            let (_, tokens) = hold.reentered.as_ref()?;
            (*tokens != hold.tokens).then(|| format!("{path}: {hold} acquired again with another token"))
        })
        .collect()
}

#[cfg(test)]
mod tests;
