//! Whether the locks excluded, judged by the times at which each holder entered and left its critical section.
//!
//! A *definite hold* is the time from the answer of acquire to the call of release. Some order of the operations that
//! agrees with these times (a linearization) never has more holders than permits if, and only if, no instant has more
//! definite holds than permits. So counting them is an exact check, in O(n log n). All times of one history must be of
//! one clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fencing token and its second part: hand-overs within a process since the grant.
pub type Token = (i64, i64);

/// One visit of a critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The SKU whose section it was.
    pub goods_no: i64,
    /// The fencing token of the hold, where there was one.
    pub token: Option<Token>,
    /// When the visitor asked for the lock; unknown if the service does not say.
    pub asked_ns: Option<u64>,
    /// When `acquire` returned.
    pub entered_ns: u64,
    /// Just before `release` was called.
    pub left_ns: u64,
    /// The order that was written for the visitor, if the service says so.
    pub order_id: Option<i64>,
}

/// The findings about a lock in a history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAudit {
    /// Critical sections that were checked.
    pub sections: u64,
    /// Records that the instances dropped before they were read: nothing is known of these sections.
    pub missing: u64,
    /// Maximum of the visitors in one SKU's section at one instant.
    pub inside_max: u64,
    /// Sections that were asked for while another visitor of the SKU was inside or waited. Without any, the lock had nothing
    /// to exclude. Absent if the service does not say when they asked.
    pub contended: Option<u64>,
    /// Sections that were entered while the lock had no free permit. Absent for a strategy whose sections may overlap.
    pub overlaps: Option<u64>,
    /// Sections whose fencing token is not above the tokens of all sections that were left earlier. Absent without
    /// tokens, and for a lock that admits several at a time.
    pub token_regressions: Option<u64>,
    /// Pairs of visitors in which the later one to ask entered first. Absent when the service does not say when they
    /// asked.
    pub fifo_inversions: Option<u64>,
    /// All pairs of visitors.
    pub pairs: u64,
}

impl HistoryAudit {
    /// Checks a history against the number of permits, if there is one.
    pub fn of(sections: &[Section], permits: Option<u32>, missing: u64) -> HistoryAudit {
        let knows_asked = sections.iter().all(|section| section.asked_ns.is_some());
        // With several permits, a holder may learn of its grant after a later holder has already left.
        let has_tokens = permits == Some(1) && sections.iter().any(|section| section.token.is_some());
        let mut audit = HistoryAudit {
            sections: sections.len() as u64,
            missing,
            overlaps: permits.map(|_| 0),
            token_regressions: has_tokens.then_some(0),
            contended: knows_asked.then_some(0),
            fifo_inversions: knows_asked.then_some(0),
            ..HistoryAudit::default()
        };
        let mut sorted = sections.to_vec();
        sorted.sort_unstable_by_key(|section| (section.goods_no, section.entered_ns, section.left_ns));
        for of_one_sku in sorted.chunk_by(|a, b| a.goods_no == b.goods_no) {
            audit.sweep(of_one_sku, permits);
            let n = of_one_sku.len() as u64;
            audit.pairs += n * (n - 1) / 2;
            if let Some(inversions) = &mut audit.fifo_inversions {
                *inversions += count_inversions(of_one_sku.iter().filter_map(|section| section.asked_ns).collect());
            }
        }
        audit
    }

    /// Tells whether the lock is shown not to have excluded.
    pub fn is_violated(&self) -> bool {
        self.overlaps.unwrap_or(0) > 0 || self.token_regressions.unwrap_or(0) > 0
    }

    /// Tells whether the lock had nothing to exclude: no two visitors met. `false` if that is unknown, or sections may overlap.
    pub fn is_uncontended(&self) -> bool {
        self.overlaps.is_some() && self.contended == Some(0)
    }

    /// Returns the share of pairs that were served in another order than they asked in: 0 for a queue, about one half for a
    /// lock without an order.
    pub fn inversion_share(&self) -> Option<f64> {
        let inversions = self.fifo_inversions.filter(|_| self.pairs > 0)?;
        Some(stats::as_f64(inversions) / stats::as_f64(self.pairs))
    }

    /// Goes through the sections of one SKU in the order in which they were entered.
    fn sweep(&mut self, sections: &[Section], permits: Option<u32>) {
        // The sections that are inside, the next one to leave first.
        let mut inside: BinaryHeap<Reverse<(u64, Option<Token>)>> = BinaryHeap::new();
        let mut token_left = None;
        let mut latest_left_ns = 0;
        for section in sections {
            // A visitor that entered first, but left after this one had asked, was inside or ahead of it.
            if let (Some(contended), Some(asked_ns)) = (&mut self.contended, section.asked_ns) {
                *contended += u64::from(asked_ns < latest_left_ns);
            }
            latest_left_ns = latest_left_ns.max(section.left_ns);
            // A section that is left at the instant at which another is entered counts as left before.
            while inside.peek().is_some_and(|Reverse((left_ns, _))| *left_ns <= section.entered_ns) {
                let token = inside.pop().and_then(|Reverse((_, token))| token);
                token_left = token_left.max(token);
            }
            if let (Some(overlaps), Some(permits)) = (&mut self.overlaps, permits) {
                *overlaps += u64::from(inside.len() as u64 >= u64::from(permits));
            }
            if let (Some(regressions), Some(token)) = (&mut self.token_regressions, section.token) {
                *regressions += u64::from(token_left.is_some_and(|left| token <= left));
            }
            inside.push(Reverse((section.left_ns, section.token)));
            self.inside_max = self.inside_max.max(inside.len() as u64);
        }
    }
}

/// Returns the hand-over times of a lock that admits one at a time: from a release to the entry of the next waiter, in
/// nanoseconds.
pub fn handovers_ns(sections: &[Section]) -> Vec<u64> {
    let mut sorted = sections.to_vec();
    sorted.sort_unstable_by_key(|section| (section.goods_no, section.entered_ns));
    let handover = |pair: &[Section]| {
        let [before, after] = pair else { return None };
        // Without a waiter, the time until the next entry is a pause of the buyers, and no hand-over.
        let waited = after.asked_ns.is_some_and(|asked_ns| asked_ns <= before.left_ns);
        (before.goods_no == after.goods_no && waited).then(|| after.entered_ns.checked_sub(before.left_ns))?
    };
    sorted.windows(2).filter_map(handover).collect()
}

/// Counts the pairs in falling order, by a merge sort.
fn count_inversions(mut values: Vec<u64>) -> u64 {
    let mut merged = values.clone();
    let mut inversions = 0;
    let mut width = 1;
    while width < values.len() {
        for (from, to) in values.chunks(2 * width).zip(merged.chunks_mut(2 * width)) {
            let (mut left, mut right) = from.split_at(width.min(from.len()));
            for target in to {
                // Equal times are no inversion, because nobody can tell their order.
                let takes_right = right.first().is_some_and(|right| left.first().is_none_or(|left| right < left));
                if takes_right {
                    inversions += left.len() as u64;
                }
                let side = if takes_right { &mut right } else { &mut left };
                if let Some((first, rest)) = side.split_first() {
                    *target = *first;
                    *side = rest;
                }
            }
        }
        std::mem::swap(&mut values, &mut merged);
        width *= 2;
    }
    inversions
}

#[cfg(test)]
mod tests {
    use porcupine_rs::{Model, Operation, check_operations};
    use proptest::prelude::*;

    use super::*;

    fn section(entered_ns: u64, left_ns: u64) -> Section {
        Section { goods_no: 1, token: None, asked_ns: Some(0), entered_ns, left_ns, order_id: None }
    }

    fn with_token(entered_ns: u64, left_ns: u64, token: (i64, i64)) -> Section {
        Section { token: Some(token), ..section(entered_ns, left_ns) }
    }

    fn overlaps(sections: &[Section], permits: u32) -> Option<u64> {
        HistoryAudit::of(sections, Some(permits), 0).overlaps
    }

    #[test]
    fn one_after_the_other_excludes_even_without_a_pause() {
        let sections = [section(30, 40), section(10, 20), section(20, 30)];
        let audit = HistoryAudit::of(&sections, Some(1), 0);
        assert_eq!((audit.overlaps, audit.inside_max, audit.sections), (Some(0), 1, 3));
        assert!(!audit.is_violated());
    }

    #[test]
    fn a_section_that_begins_within_another_overlaps() {
        let sections = [section(10, 40), section(20, 30), section(35, 50), section(60, 70)];
        assert_eq!(overlaps(&sections, 1), Some(2));
        assert_eq!(overlaps(&sections, 2), Some(0));
        assert!(HistoryAudit::of(&sections, Some(1), 0).is_violated());
    }

    #[test]
    fn sections_of_different_goods_do_not_overlap() {
        assert_eq!(overlaps(&[section(10, 40), Section { goods_no: 2, ..section(20, 30) }], 1), Some(0));
    }

    #[test]
    fn a_strategy_whose_sections_may_overlap_is_only_watched() {
        let audit = HistoryAudit::of(&[section(10, 40), section(20, 30)], None, 0);
        assert_eq!((audit.overlaps, audit.inside_max), (None, 2));
        assert!(!audit.is_violated());
    }

    #[test]
    fn a_lock_whose_visitors_never_met_had_nothing_to_exclude() {
        let asked = |asked_ns, entered_ns, left_ns| Section { asked_ns, ..section(entered_ns, left_ns) };
        let of = |sections: &[Section]| HistoryAudit::of(sections, Some(1), 0);
        let alone = of(&[asked(Some(1), 10, 20), asked(Some(20), 30, 40)]);
        assert_eq!((alone.contended, alone.is_uncontended()), (Some(0), true));
        let waited = of(&[asked(Some(1), 10, 20), asked(Some(19), 30, 40), asked(Some(2), 45, 50)]);
        assert_eq!((waited.contended, waited.is_uncontended()), (Some(2), false));
        assert_eq!(of(&[asked(None, 10, 20), asked(Some(20), 30, 40)]).contended, None);
        assert!(!HistoryAudit::of(&[section(10, 20)], None, 0).is_uncontended(), "nothing is to be excluded");
    }

    #[test]
    fn a_token_that_does_not_grow_from_hold_to_hold_is_a_regression() {
        let tokens = |tokens: [(i64, i64); 3]| {
            let sections = [(0, tokens[0]), (1, tokens[1]), (2, tokens[2])]
                .map(|(i, token)| with_token(10 * i, 10 * i + 5, token));
            HistoryAudit::of(&sections, Some(1), 0).token_regressions
        };
        assert_eq!(tokens([(7, 0), (7, 1), (9, 0)]), Some(0));
        assert_eq!(tokens([(7, 0), (9, 0), (8, 0)]), Some(1));
        assert_eq!(tokens([(7, 0), (7, 0), (7, 0)]), Some(2), "a token that is used twice");
    }

    #[test]
    fn tokens_of_several_permits_may_come_in_any_order() {
        let sections = [with_token(0, 5, (9, 0)), with_token(10, 20, (8, 0))];
        assert_eq!(HistoryAudit::of(&sections, Some(2), 0).token_regressions, None);
        assert_eq!(HistoryAudit::of(&sections, Some(1), 0).token_regressions, Some(1));
    }

    #[test]
    fn a_token_is_compared_with_those_of_holds_that_are_over() {
        let sections = [with_token(0, 50, (9, 0)), with_token(10, 40, (8, 0)), with_token(45, 60, (10, 0))];
        assert_eq!(HistoryAudit::of(&sections, Some(1), 0).token_regressions, Some(0));
    }

    #[test]
    fn entering_before_an_earlier_asker_is_an_inversion() {
        let asked = |asked: [u64; 3]| {
            let sections: Vec<Section> = (10..)
                .step_by(10)
                .zip(asked)
                .map(|(entered, asked_ns)| Section { asked_ns: Some(asked_ns), ..section(entered, entered + 5) })
                .collect();
            HistoryAudit::of(&sections, Some(1), 0)
        };
        assert_eq!((asked([1, 2, 3]).fifo_inversions, asked([1, 2, 3]).inversion_share()), (Some(0), Some(0.0)));
        assert_eq!((asked([3, 2, 1]).fifo_inversions, asked([3, 2, 1]).inversion_share()), (Some(3), Some(1.0)));
        assert_eq!(asked([2, 2, 1]).fifo_inversions, Some(2), "who asks at the same instant is in any order");
    }

    #[test]
    fn without_the_time_of_asking_there_are_no_inversions_to_count() {
        let audit = HistoryAudit::of(&[Section { asked_ns: None, ..section(0, 1) }], Some(1), 0);
        assert_eq!((audit.fifo_inversions, audit.inversion_share()), (None, None));
    }

    #[test]
    fn a_hand_over_runs_from_the_release_until_a_waiter_enters() {
        let waited = Section { asked_ns: Some(5), ..section(23, 30) };
        let came_later = Section { asked_ns: Some(31), ..section(36, 40) };
        assert_eq!(handovers_ns(&[section(10, 20), waited, came_later]), [3]);
    }

    /// A lock with permits, one step at a time.
    #[derive(Clone, Debug)]
    struct Lock;

    #[derive(Clone, Debug)]
    enum LockStep {
        Acquire { permits: u32 },
        Release,
    }

    impl Model for Lock {
        /// How many hold.
        type State = u32;
        type Op = LockStep;
        type Metadata = ();

        fn init() -> u32 {
            0
        }

        fn step(held: &u32, step: &LockStep) -> (bool, u32) {
            match step {
                LockStep::Acquire { permits } => (held < permits, held + 1),
                LockStep::Release => (*held > 0, held.saturating_sub(1)),
            }
        }
    }

    /// The times of one hold: asked, entered, left, and when the release was answered.
    type HoldTimes = [i64; 4];

    fn is_linearizable(holds: &[HoldTimes], permits: u32) -> bool {
        let calls = holds.iter().zip(0..).flat_map(|([asked, entered, left, released], client)| {
            let call = |op, call_time, return_time| Operation::<Lock> {
                client_id: Some(client),
                call_time,
                return_time,
                op,
                metadata: None,
            };
            [call(LockStep::Acquire { permits }, *asked, *entered), call(LockStep::Release, *left, *released)]
        });
        check_operations(&calls.collect::<Vec<_>>())
    }

    fn holds() -> impl Strategy<Value = Vec<HoldTimes>> {
        // Four instants of one hold, in order. All instants of a history differ, as with a clock in nanoseconds.
        let order = prop::collection::vec(0_usize..1000, 0..5 * 4);
        order.prop_map(|keys| {
            let count = keys.len() / 4;
            let mut instants: Vec<(usize, usize)> = keys[..count * 4].iter().copied().zip(0..).collect();
            instants.sort_unstable();
            let mut of_holds = vec![Vec::new(); count];
            for (instant, (_, index)) in (1_i64..).zip(instants) {
                of_holds[index / 4].push(instant);
            }
            of_holds.into_iter().map(|instants| instants.try_into().unwrap()).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        // C9
        #[test]
        fn a_history_is_linearizable_if_and_only_if_no_holds_overlap(holds in holds(), permits in 1_u32..3) {
            let sections: Vec<Section> =
                holds.iter().map(|[_, entered, left, _]| section(entered.unsigned_abs(), left.unsigned_abs())).collect();
            prop_assert_eq!(overlaps(&sections, permits) == Some(0), is_linearizable(&holds, permits));
        }

        #[test]
        fn inversions_are_the_pairs_in_falling_order(values in prop::collection::vec(0_u64..20, 0..60)) {
            let pairs = values.iter().enumerate().map(|(i, a)| values[i..].iter().filter(|b| *b < a).count() as u64);
            prop_assert_eq!(count_inversions(values.clone()), pairs.sum::<u64>());
        }
    }
}
