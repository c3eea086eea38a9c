use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use zk_recipes_protocol::names::{Mode, Names, Sequence};
use zk_recipes_protocol::queue::Queue;

/// What a listing says to one contender.
#[derive(Debug, PartialEq, Eq)]
enum QueueVerdict {
    Granted,
    /// The node to watch.
    Behind(String),
    Missing,
}

fn verdict<S: AsRef<str>>(queue: &Queue<S>, own: &str) -> QueueVerdict {
    match queue.predecessor_of(own) {
        Some(predecessor) => QueueVerdict::Behind(predecessor.name),
        None if queue.has(own) => QueueVerdict::Granted,
        None => QueueVerdict::Missing,
    }
}

fn names(numbers: impl IntoIterator<Item = i32>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("_c_x{number}-lock-{number:010}")).collect()
}

#[test]
fn the_lowest_number_holds_in_any_order_of_the_listing() {
    let children = names([7, 3, 5]);
    let queue = Queue::from_children(&children, Names::MUTEX);
    assert_eq!(verdict(&queue, &children[1]), QueueVerdict::Granted);
    assert_eq!(verdict(&queue, &children[2]), QueueVerdict::Behind(children[1].to_string()));
    assert_eq!(verdict(&queue, &children[0]), QueueVerdict::Behind(children[2].to_string()));
}

// L24
#[test]
fn a_missing_own_node_is_never_a_grant() {
    let children = names([1, 2]);
    assert_eq!(verdict(&Queue::from_children(&children, Names::MUTEX), "_c_x9-lock-0000000000"), QueueVerdict::Missing);
    assert_eq!(
        verdict(&Queue::<&str>::from_children([], Names::MUTEX), "_c_x9-lock-0000000000"),
        QueueVerdict::Missing
    );
}

#[test]
fn a_foreign_child_that_sorts_first_does_not_block_the_queue() {
    let mut children = names([4]);
    children.push("0".to_owned());
    let queue = Queue::from_children(&children, Names::MUTEX);
    assert_eq!(verdict(&queue, &children[0]), QueueVerdict::Granted);
    assert_eq!(queue.foreign(), Some(&&children[1]));
}

#[test]
fn the_holder_before_the_wrap_keeps_the_lock_after_it() {
    let children = names([i32::MAX, i32::MIN, i32::MIN + 1]);
    let queue = Queue::from_children(&children, Names::MUTEX);
    assert_eq!(verdict(&queue, &children[0]), QueueVerdict::Granted);
    assert_eq!(verdict(&queue, &children[1]), QueueVerdict::Behind(children[0].to_string()));
    assert_eq!(verdict(&queue, &children[2]), QueueVerdict::Behind(children[1].to_string()));
    assert!(queue.into_order().iter().map(|(contender, _)| contender.name).eq(&children));
}

/// Returns the names of a queue of readers (`r`) and writers (`w`).
fn readers_and_writers(kinds: &str) -> Vec<String> {
    let marker = |kind| if kind == 'r' { "__READ__" } else { "__WRIT__" };
    kinds.chars().enumerate().map(|(i, kind)| format!("_c_x{i}-{}{i:010}", marker(kind))).collect()
}

#[test]
fn readers_share_and_wait_for_the_nearest_writer_ahead() {
    let children = readers_and_writers("rrwrwr");
    let queue = Queue::from_children(&children, Names::READ_WRITE);
    let verdicts: Vec<QueueVerdict> = children.iter().map(|own| verdict(&queue, own)).collect();
    let behind = |i: usize| QueueVerdict::Behind(children[i].clone());
    assert_eq!(verdicts, [QueueVerdict::Granted, QueueVerdict::Granted, behind(1), behind(2), behind(3), behind(4)]);
    assert!(!queue.admits(Mode::Shared) && !queue.admits(Mode::Exclusive));
    let held: Vec<bool> = queue.into_order().into_iter().map(|(_, holds)| holds).collect();
    assert_eq!(held, [true, true, false, false, false, false]);
}

#[test]
fn a_newcomer_shares_with_readers_or_wants_an_empty_queue() {
    let readers = readers_and_writers("rr");
    let queue = Queue::from_children(&readers, Names::READ_WRITE);
    assert!(queue.admits(Mode::Shared) && !queue.admits(Mode::Exclusive));
    let empty = Queue::<&str>::from_children([], Names::READ_WRITE);
    assert!(empty.admits(Mode::Shared) && empty.admits(Mode::Exclusive));
}

#[test]
fn a_downgraded_reader_stands_where_its_writer_stands() {
    let children = ["_c_a-__WRIT__0000000003", "_c_b-__READ__0000000003", "_c_c-__WRIT__0000000004"];
    let queue = Queue::from_children(&children, Names::READ_WRITE);
    assert_eq!(verdict(&queue, children[0]), QueueVerdict::Granted);
    assert_eq!(verdict(&queue, children[1]), QueueVerdict::Granted);
    assert!(matches!(verdict(&queue, children[2]), QueueVerdict::Behind(_)));
    assert!(queue.has(children[0]));
    let queue = Queue::from_children(&children[1..], Names::READ_WRITE);
    assert_eq!(verdict(&queue, children[2]), QueueVerdict::Behind(children[1].to_string()));
    assert!(!queue.has(children[0]), "no contender shares the place of a missing hold");
}

proptest! {
    #[test]
    fn the_order_of_the_queue_and_the_verdict_agree(kinds in "[rw]{0,8}") {
        let children = readers_and_writers(&kinds);
        for (contender, holds) in Queue::from_children(&children, Names::READ_WRITE).into_order() {
            let alone = verdict(&Queue::from_children(&children, Names::READ_WRITE), contender.name);
            prop_assert_eq!(holds, alone == QueueVerdict::Granted);
        }
    }

    /// Other clients may give their nodes any number.
    #[test]
    fn the_nearest_ahead_is_found_whatever_the_numbers(numbers in prop::collection::vec(any::<i32>(), 0..100)) {
        let number = |i: usize| Sequence::new(numbers[i]);
        let marker = |i: usize| if i.is_multiple_of(3) { "__WRIT__" } else { "__READ__" };
        let all = 0..numbers.len();
        let children: Vec<String> = all.clone().map(|i| format!("_c_x{i}-{}{}", marker(i), number(i))).collect();
        let queue = Queue::from_children(&children, Names::READ_WRITE);
        let mut verdicts = BTreeMap::new();
        for own in all.clone() {
            let ahead = all.clone().filter(|&other| number(other).queue_cmp(number(own)).is_lt());
            let bars = ahead.filter(|other| [own, *other].iter().any(|i| i.is_multiple_of(3)));
            let nearest = bars.max_by(|one, other| number(*one).queue_cmp(number(*other)));
            let expected = nearest.map_or(QueueVerdict::Granted, |nearest| QueueVerdict::Behind(children[nearest].clone()));
            prop_assert_eq!(verdict(&queue, &children[own]), expected);
            verdicts.insert(&children[own], nearest.is_none());
        }
        let order: BTreeMap<_, _> = queue.into_order().into_iter().map(|(own, holds)| (own.name, holds)).collect();
        prop_assert_eq!(order, verdicts);
    }

    #[test]
    fn a_newcomer_is_admitted_if_it_would_be_granted_at_the_end(kinds in "[rw]{0,8}", newcomer in "[rw]") {
        let before = readers_and_writers(&kinds);
        let after = readers_and_writers(&format!("{kinds}{newcomer}"));
        let mode = if newcomer == "r" { Mode::Shared } else { Mode::Exclusive };
        let granted = verdict(&Queue::from_children(&after, Names::READ_WRITE), &after[kinds.len()]);
        prop_assert_eq!(Queue::from_children(&before, Names::READ_WRITE).admits(mode), granted == QueueVerdict::Granted);
    }
}

/// Removes contenders in every order. After each removal, only the waiters that watched the removed node decide
/// again, because the server wakes only those. The first contender in the queue must then know that it holds: no
/// contender that may hold sleeps for ever.
// L2
#[test]
fn in_every_order_of_departure_the_first_in_the_queue_is_awake() {
    for size in 1..=6 {
        let children = names(0..size);
        for order in permutations((0..children.len()).collect()) {
            let mut present: BTreeSet<usize> = (0..children.len()).collect();
            let decide = |present: &BTreeSet<usize>, own: usize| {
                let listing: Vec<&String> = present.iter().map(|&i| &children[i]).collect();
                match verdict(&Queue::from_children(&listing, Names::MUTEX), &children[own]) {
                    QueueVerdict::Granted => None,
                    QueueVerdict::Behind(predecessor) => children.iter().position(|name| *name == predecessor),
                    QueueVerdict::Missing => panic!("a present contender was not found"),
                }
            };
            let mut watching: Vec<Option<usize>> = (0..children.len()).map(|i| decide(&present, i)).collect();
            for departs in order {
                present.remove(&departs);
                let woken: Vec<usize> = present.iter().copied().filter(|&i| watching[i] == Some(departs)).collect();
                assert!(woken.len() <= 1, "a departure wakes at most one waiter");
                for own in woken {
                    watching[own] = decide(&present, own);
                }
                let holders: Vec<usize> = present.iter().copied().filter(|&i| watching[i].is_none()).collect();
                assert_eq!(holders, present.first().copied().into_iter().collect::<Vec<_>>());
            }
        }
    }
}

fn permutations(items: Vec<usize>) -> Vec<Vec<usize>> {
    if items.len() <= 1 {
        return vec![items];
    }
    let mut all = Vec::new();
    for i in 0..items.len() {
        let mut rest = items.clone();
        let first = rest.remove(i);
        all.extend(permutations(rest).into_iter().map(|mut tail| {
            tail.insert(0, first);
            tail
        }));
    }
    all
}
