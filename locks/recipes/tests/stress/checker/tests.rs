use super::*;

const LOCK: &str = "/lock";
const READ_WRITE: &str = "/read-write";
const TWO: &str = "/two";

fn history() -> History {
    History::new([(LOCK, Rule::Exclusive), (READ_WRITE, Rule::ReadersShare), (TWO, Rule::Permits(2))])
}

fn hold(lock: &'static str, czxid: i64, first: u64, last: u64) -> CertainHold {
    CertainHold {
        lock,
        who: format!("the contender with token {czxid}"),
        session_number: 0,
        node: format!("{lock}/lock-{czxid:010}"),
        token: (czxid, 0),
        is_reader: false,
        first: Duration::from_millis(first),
        last: Duration::from_millis(last),
    }
}

fn read(czxid: i64, first: u64, last: u64) -> CertainHold {
    CertainHold { is_reader: true, ..hold(READ_WRITE, czxid, first, last) }
}

/// Returns what is found when these are closed one after the other.
fn judge(history: &mut History, holds: impl IntoIterator<Item = CertainHold>) -> Vec<Breach> {
    let ids: Vec<u64> = holds.into_iter().map(|hold| history.open(hold)).collect();
    ids.into_iter().flat_map(|id| history.close(id)).map(|violation| violation.what).collect()
}

#[test]
fn overlapping_holds_are_found_and_touching_ones_are_not() {
    for (other, expected) in [
        (hold(LOCK, 2, 19, 30), vec![Breach::Overlap]),
        (hold(LOCK, 2, 12, 14), vec![Breach::Overlap]),
        (hold(LOCK, 2, 15, 15), vec![Breach::Overlap]),
        (hold(LOCK, 2, 5, 25), vec![Breach::Overlap]),
        (hold(LOCK, 2, 20, 30), vec![]),
        (hold(LOCK, 2, 21, 30), vec![]),
        (hold(LOCK, 0, 5, 10), vec![]),
        (hold(LOCK, 0, 5, 9), vec![]),
    ] {
        let one = hold(LOCK, 1, 10, 20);
        assert_eq!(judge(&mut history(), [one.clone(), other.clone()]), expected, "{other}");
        assert_eq!(judge(&mut history(), [other.clone(), one]), expected, "{other}");
    }
}

#[test]
fn a_hold_lasts_until_it_was_seen_last() {
    let mut history = history();
    let one = history.open(hold(LOCK, 1, 10, 10));
    let other = history.open(hold(LOCK, 2, 15, 15));
    history.extend(one, Duration::from_millis(16));
    history.extend(other, Duration::from_millis(17));
    assert!(history.close(one).is_empty());
    let found = history.close(other);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].holds.iter().map(|hold| hold.token.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn readers_share_and_writers_exclude_everybody() {
    assert_eq!(judge(&mut history(), [read(1, 10, 20), read(2, 15, 25)]), []);
    assert_eq!(judge(&mut history(), [read(1, 10, 20), hold(READ_WRITE, 2, 15, 25)]), [Breach::Overlap]);
    assert_eq!(judge(&mut history(), [hold(READ_WRITE, 1, 10, 20), hold(READ_WRITE, 2, 15, 25)]), [Breach::Overlap]);
    assert_eq!(judge(&mut history(), [read(2, 10, 20), read(1, 25, 30)]), [], "readers may be granted in any order");
}

#[test]
fn a_permit_too_many_is_found() {
    let two = [hold(TWO, 1, 10, 20), hold(TWO, 2, 15, 25), hold(TWO, 3, 20, 30), hold(TWO, 4, 25, 30)];
    assert_eq!(judge(&mut history(), two), []);
    let three = [hold(TWO, 1, 10, 20), hold(TWO, 2, 15, 25), hold(TWO, 3, 19, 30)];
    assert_eq!(judge(&mut history(), three), [Breach::Overlap]);
    let apart = [hold(TWO, 1, 10, 12), hold(TWO, 2, 13, 15), hold(TWO, 3, 11, 14)];
    assert_eq!(judge(&mut history(), apart), [], "never three at one instant");
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    assert_eq!(judge(&mut history(), [hold(LOCK, 2, 10, 20), hold(LOCK, 1, 30, 40)]), [Breach::TokenRegression]);
    let handed_over = |handover, first, last| CertainHold { token: (1, handover), ..hold(LOCK, 1, first, last) };
    assert_eq!(judge(&mut history(), [handed_over(0, 10, 20), handed_over(1, 30, 40)]), []);
    assert_eq!(judge(&mut history(), [handed_over(1, 10, 20), handed_over(1, 30, 40)]), [Breach::TokenRegression]);
}

#[test]
fn a_hold_is_certain_until_the_delete_of_its_node_is_sent() {
    let delete = |at| {
        let mut history = history();
        history.deleting(1, "/lock/lock-0000000001", Duration::from_millis(at), false);
        history
    };
    let holds = || [hold(LOCK, 1, 10, 30), hold(LOCK, 2, 20, 40)];
    assert_eq!(judge(&mut delete(20), holds()), []);
    assert_eq!(judge(&mut delete(21), holds()), [Breach::Overlap]);
    assert_eq!(judge(&mut delete(5), holds()), []);
    assert!(delete(5).was_deleted("/lock/lock-0000000001"));
}

#[test]
fn a_grant_without_a_node_is_found_only_if_it_is_certain() {
    let ms = Duration::from_millis;
    let holds = || [hold(LOCK, 1, 10, 30), hold(LOCK, 2, 35, 40)];
    let found = |may_be_passed_on, answered: Option<u64>| {
        let mut history = history();
        history.deleting(2, "/lock/lock-0000000002", ms(20), may_be_passed_on);
        if let Some(answered) = answered {
            history.deleted(2, ms(answered));
        }
        judge(&mut history, holds())
    };
    assert_eq!(found(false, Some(25)), [Breach::GrantWithoutNode]);
    assert_eq!(found(false, Some(31)), [], "the look that granted may be older than the delete");
    assert_eq!(found(false, None), []);
    assert_eq!(found(true, Some(25)), [], "its session may have passed the hold on");
}
