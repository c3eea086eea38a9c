use super::*;
use crate::history::Deletion;
use crate::lines::LockKind;

const PATH: &str = "/locks/a";

fn hold(id: u64, library: &str, (from, to): (i64, i64), czxid: i64) -> Operation {
    Operation {
        id,
        library: library.to_owned(),
        process: 0,
        lock: LockKind::Mutex,
        paths: vec![PATH.to_owned()],
        permits: 1,
        asked: 0,
        acquired: Some(from),
        tokens: if czxid == 0 { Vec::new() } else { vec![(czxid, 0)] },
        last: Some(to),
        reentered: None,
        lost: None,
        ended: Some(to + 5),
        error: None,
    }
}

fn history(rule: Rule, operations: Vec<Operation>) -> History {
    History { rules: [(PATH.to_owned(), rule)].into(), operations, deletions: Vec::new() }
}

fn judged(rule: Rule, operations: Vec<Operation>) -> (usize, usize) {
    let Findings { broken, hazards, unchecked, .. } = judge(&history(rule, operations), |_| true);
    assert_eq!(unchecked, [""; 0]);
    (broken.len(), hazards.len())
}

#[test]
fn holds_of_one_lock_must_not_overlap() {
    assert_eq!(judged(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 1), hold(2, OURS, (21, 30), 2)]), (0, 0));
    assert_eq!(judged(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 1), hold(2, OURS, (19, 30), 2)]), (1, 0));
}

#[test]
fn the_library_of_the_earlier_holder_is_to_blame() {
    let theirs_first = vec![hold(1, "curator", (10, 20), 0), hold(2, OURS, (15, 30), 2)];
    assert_eq!(judged(Rule::Exclusive, theirs_first.clone()), (0, 1));
    let unexcused = judge(&history(Rule::Exclusive, theirs_first), |_| false);
    assert_eq!(unexcused.broken.len(), 1, "no fault explains it, so we took what another held");
    assert_eq!(unexcused.two_holders["curator"], Duration::from_nanos(5));
    assert_eq!(judged(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 1), hold(2, "curator", (15, 30), 0)]), (1, 0));
}

#[test]
fn tokens_grow_from_hold_to_hold() {
    assert_eq!(judged(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 5), hold(2, OURS, (21, 30), 5)]).0, 1);
    assert_eq!(judged(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 5), hold(2, OURS, (21, 30), 4)]).0, 1);
}

#[test]
fn an_owner_that_acquires_again_has_the_same_token() {
    let again = |tokens| Operation { reentered: Some((12, tokens)), ..hold(1, OURS, (10, 20), 1) };
    assert_eq!(judged(Rule::Exclusive, vec![again(vec![(1, 0)])]), (0, 0));
    assert_eq!(judged(Rule::Exclusive, vec![again(vec![(2, 0)])]).0, 1);
}

#[test]
fn readers_share_and_permits_are_counted() {
    let reader = |id, interval| Operation { lock: LockKind::Read, ..hold(id, OURS, interval, 0) };
    assert_eq!(judged(Rule::ReadersShare, vec![reader(1, (10, 20)), reader(2, (15, 30))]), (0, 0));
    assert_eq!(judged(Rule::ReadersShare, vec![reader(1, (10, 20)), hold(2, OURS, (15, 30), 0)]), (1, 0));
    let takes = |id, permits, interval| Operation { permits, ..hold(id, OURS, interval, 0) };
    assert_eq!(judged(Rule::Permits(3), vec![takes(1, 2, (10, 20)), takes(2, 1, (15, 30))]), (0, 0));
    assert_eq!(judged(Rule::Permits(3), vec![takes(1, 2, (10, 20)), takes(2, 2, (15, 30))]), (1, 0));
}

#[test]
fn a_hold_whose_node_was_deleted_is_certain_until_then() {
    let mut deleted = history(Rule::Exclusive, vec![hold(1, OURS, (10, 20), 7), hold(2, OURS, (15, 30), 8)]);
    assert_eq!(judge(&deleted, |_| true).broken.len(), 1);
    deleted.deletions.push(Deletion { path: PATH.to_owned(), sent: 12, answered: 14, czxids: vec![7] });
    let found = judge(&deleted, |_| true);
    assert_eq!(found.lines(), [""; 0]);
    assert_eq!(found.two_holders[OURS], Duration::from_nanos(5), "both were told that they hold");
    deleted.operations.push(hold(3, OURS, (16, 22), 9));
    deleted.deletions[0].czxids.push(8);
    assert_eq!(judge(&deleted, |_| true).two_holders[OURS], Duration::from_nanos(7), "from 15 to 22");
}
