//! When a contender holds without having looked. Pure.
//!
//! The server numbers the sequential children of a node by how many were ever created below it, of whatever kind and by
//! whomever. So if the number of a contender follows that of the last of its session that was granted the lock alone, and
//! that one had gone before the contender's `create` was sent, nobody is ahead: all before the last had gone when it was
//! granted, nobody has come in between, and the last has gone, too. In another node at the same path the numbers begin
//! anew, so the lock's node must still be the one of the last grant: it is as long as a watch that was set on it has not
//! fired, as the server tells of a change before it answers what it applies later.

use crate::node::Sequence;

/// After so many grants in a row a watch of the lock's node is worth its read. Whoever makes a lock for one use never pays
/// for it.
const GRANTS_BEFORE_WATCH: u8 = 1;

/// After so many nobody is likely to come in between the next time. If somebody does, the look comes a round trip later than
/// it might have.
const GRANTS_BEFORE_TRUST: u8 = 2;

/// That a contender was granted the lock alone: all before it had gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Which node of the path the number is of.
    pub incarnation: i64,
    /// The number of the contender.
    pub sequence: Sequence,
}

/// What the grants of a session say to its next contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uncontended {
    last: Option<Grant>,
    /// Whether it is confirmed that the node of the last has gone.
    has_gone: bool,
    /// How many grants followed one another in the same node, without a number in between and without another change of
    /// that node.
    in_a_row: u8,
}

/// The grant that a contender may turn out to follow whose `create` has not been sent yet. Its node has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expected {
    incarnation: i64,
    last: Sequence,
}

/// What to send right behind a `create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A look.
    Look,
    /// A look, and the read that watches the lock's node.
    LookAndWatch,
    /// Nothing: the number is expected to be proof enough.
    Nothing(Expected),
}

impl Uncontended {
    /// Notes that a contender was granted the lock alone.
    pub fn granted(&mut self, grant: Grant) {
        let follows = |last: Grant| Expected::after(last).is_met(grant.sequence, Some(grant.incarnation));
        self.in_a_row = if self.last.is_some_and(follows) { self.in_a_row.saturating_add(1) } else { 1 };
        (self.last, self.has_gone) = (Some(grant), false);
    }

    /// Notes the confirmation that the node of a grant has gone.
    pub fn gone(&mut self, grant: Grant) {
        self.has_gone |= self.last == Some(grant);
    }

    /// Notes that the watch of the lock's node has fired.
    pub fn disturbed(&mut self) {
        self.in_a_row = 0;
    }

    /// What a contender that is about to send its `create` may follow.
    pub fn expected(&self) -> Option<Expected> {
        self.last.filter(|_| self.has_gone).map(Expected::after)
    }

    /// What such a contender had best send with it. A watch of the lock's node in the incarnation `watched` has not fired.
    pub fn opening(&self, watched: Option<i64>) -> Opening {
        match (self.expected(), watched) {
            (Some(_), None) if self.in_a_row >= GRANTS_BEFORE_WATCH => Opening::LookAndWatch,
            (Some(expected), Some(watched))
                if watched == expected.incarnation && self.in_a_row >= GRANTS_BEFORE_TRUST =>
            {
                Opening::Nothing(expected)
            }
            _ => Opening::Look,
        }
    }
}

impl Expected {
    fn after(last: Grant) -> Self {
        Self { incarnation: last.incarnation, last: last.sequence }
    }

    /// Which node of the path the contender is in if it follows that grant.
    pub fn incarnation(self) -> i64 {
        self.incarnation
    }

    /// Whether a contender follows that grant, and so holds, whose `create` the server has answered with the number `own`.
    /// A watch of the lock's node in the incarnation `watched` has not fired since.
    pub fn is_met(self, own: Sequence, watched: Option<i64>) -> bool {
        own.before() == self.last && watched == Some(self.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    fn grant(incarnation: i64, number: i32) -> Grant {
        Grant { incarnation, sequence: sequence(number) }
    }

    /// What is known after these grants in one node, each of which has gone.
    fn after(numbers: &[i32]) -> Uncontended {
        let mut known = Uncontended::default();
        for number in numbers {
            known.granted(grant(1, *number));
            known.gone(grant(1, *number));
        }
        known
    }

    /// Whether a contender of this number would hold by what is known now.
    fn trusts(known: &Uncontended, watched: Option<i64>, own: i32) -> bool {
        match known.opening(watched) {
            Opening::Nothing(expected) => expected.is_met(sequence(own), watched),
            Opening::Look | Opening::LookAndWatch => false,
        }
    }

    #[test]
    fn the_second_in_a_row_sets_the_watch_and_the_third_asks_nothing() {
        assert_eq!(after(&[]).opening(None), Opening::Look);
        assert_eq!(after(&[4]).opening(None), Opening::LookAndWatch);
        assert_eq!(after(&[4]).opening(Some(1)), Opening::Look, "it is set, and one grant is no row");
        assert!(trusts(&after(&[4, 5]), Some(1), 6));
        assert_eq!(after(&[4, 5]).opening(None), Opening::LookAndWatch, "the request for it failed before");
    }

    #[test]
    fn only_the_very_next_number_is_a_grant() {
        let known = after(&[4, 5]);
        for own in [4, 5, 7, 8, 0] {
            assert!(!trusts(&known, Some(1), own), "{own}");
        }
    }

    #[test]
    fn a_number_in_between_begins_a_new_row() {
        let known = after(&[4, 5, 7]);
        assert_eq!(known.opening(Some(1)), Opening::Look);
        assert!(trusts(&after(&[4, 5, 7, 8]), Some(1), 9));
    }

    #[test]
    fn nothing_follows_a_grant_whose_node_is_not_known_to_have_gone() {
        let mut known = after(&[4, 5]);
        known.granted(grant(1, 6));
        assert_eq!(known.expected(), None);
        assert_eq!(known.opening(Some(1)), Opening::Look);
        known.gone(grant(1, 5));
        assert_eq!(known.expected(), None, "an earlier one has gone");
        known.gone(grant(2, 6));
        assert_eq!(known.expected(), None, "one of that number in another node has gone");
        known.gone(grant(1, 6));
        assert!(trusts(&known, Some(1), 7));
    }

    #[test]
    fn what_goes_later_says_nothing_of_the_next_grant() {
        let mut known = after(&[4, 5]);
        known.granted(grant(1, 6));
        known.granted(grant(1, 7));
        known.gone(grant(1, 6));
        assert_eq!(known.expected(), None);
    }

    #[test]
    fn a_watch_of_another_node_or_none_proves_nothing() {
        let known = after(&[4, 5]);
        let expected = known.expected().unwrap();
        assert!(expected.is_met(sequence(6), Some(1)));
        assert!(!expected.is_met(sequence(6), Some(2)));
        assert!(!expected.is_met(sequence(6), None), "it has fired");
        assert_eq!(known.opening(Some(2)), Opening::Look);
    }

    #[test]
    fn numbers_that_begin_anew_are_another_row() {
        let mut known = after(&[4, 5]);
        known.granted(grant(2, 6));
        known.gone(grant(2, 6));
        assert_eq!(known.opening(Some(2)), Opening::Look);
    }

    #[test]
    fn after_the_watch_has_fired_it_is_set_again_only_when_there_is_another_row() {
        let mut known = after(&[4, 5]);
        known.disturbed();
        assert_eq!(known.opening(None), Opening::Look);
        known.granted(grant(1, 6));
        known.gone(grant(1, 6));
        assert_eq!(known.opening(None), Opening::LookAndWatch);
    }

    #[test]
    fn the_number_after_the_highest_is_the_lowest() {
        let known = after(&[i32::MAX - 1, i32::MAX]);
        assert!(trusts(&known, Some(1), i32::MIN));
        assert!(!trusts(&known, Some(1), 0));
    }
}
