//! Listings, as any clients may have made the children.

use std::collections::{BTreeSet, HashSet};

use super::Queue;
use crate::leases::{LeaseListing, LeasesVerdict};
use crate::names::{Mode, Names, Sequence};

const ALL: [Names; 4] = [Names::MUTEX, Names::READ_WRITE_AND_KAZOO, Names::ANY, Names::LEASES];

/// Checks a listing against a search of all contenders for each of them.
fn assert_orders(children: &[&str], names: Names) {
    let parsed = children.iter().filter_map(|name| names.parse(name).map(|(mode, number)| (*name, mode, number)));
    let contenders: Vec<_> = parsed.collect();
    let queue = Queue::from_children(children.iter().copied(), names);
    assert_eq!(queue.foreign().is_some(), contenders.len() < children.len());
    assert_eq!(queue.admits(Mode::Exclusive), contenders.is_empty());
    for &(own, mode, number) in &contenders {
        assert!(queue.has(own));
        let bars = |other: Mode| mode == Mode::Exclusive || other == Mode::Exclusive;
        if let Some(bar) = queue.predecessor_of(own) {
            assert!(bar.sequence.queue_cmp(number).is_lt(), "{own} waits for {}", bar.name);
            assert!(contenders.iter().any(|(name, other, _)| *name == bar.name && bars(*other)));
        }
    }
    // Numbers that lie within half of the circle have one order.
    let is_near = |number: &Sequence| number.get().unsigned_abs() < 1 << 30;
    if !contenders.iter().all(|(_, _, number)| is_near(number)) {
        return;
    }
    for &(own, mode, number) in &contenders {
        let ahead = contenders.iter().filter(|(_, other, ahead)| {
            ahead.queue_cmp(number).is_lt() && (mode == Mode::Exclusive || *other == Mode::Exclusive)
        });
        let nearest = ahead.map(|(_, _, ahead)| ahead.get()).max();
        assert_eq!(queue.predecessor_of(own).map(|bar| bar.sequence.get()), nearest, "{own} in {children:?}");
    }
    let order: Vec<_> = queue.into_order().into_iter().map(|(queued, _)| queued).collect();
    assert_eq!(order.len(), contenders.len());
    assert!(order.is_sorted_by(|one, next| one.sequence.queue_cmp(next.sequence).is_le()), "{children:?}");
}

fn assert_counts_leases(children: &[&str]) {
    let listing = LeaseListing::from_children(children);
    let own: HashSet<&str> = children.iter().copied().take(2).collect();
    let are_leases = own.iter().all(|name| Names::LEASES.parse(name).is_some());
    let verdict = |permits| listing.verdict(&own, permits);
    let expected = if are_leases { LeasesVerdict::Granted } else { LeasesVerdict::Missing };
    assert_eq!(verdict(children.len()), expected, "{children:?}");
    assert!(!are_leases || own.is_empty() || verdict(own.len() - 1) == LeasesVerdict::Full, "{children:?}");
}

// L89
#[test]
fn a_listing_has_every_contender_in_its_place() {
    fuzz::any_lines("listings", |lines| {
        // No two children have one name.
        let children: Vec<_> = lines.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        for names in ALL {
            assert_orders(&children, names);
        }
        assert_counts_leases(&children);
    });
}
