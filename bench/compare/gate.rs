//! What counts as a regression. Pure.
//!
//! Times are gated with care, as the machine that takes them has moods. Each revision is measured twice, in the order base,
//! head, head, base. Head is regressed only if it is worse in both halves, by confidence intervals that do not meet, and by
//! more than base differs from itself. So noise lets a slowdown through, and times are called the same only where it lets no
//! slowdown through that would count. Instruction counts have no moods, and a small limit.

use std::cmp::Ordering;

use stats::as_f64;

/// Head may always be slower by this factor before its times count as a regression.
const TIME_RATIO_MIN: f64 = 1.3;

/// The slowdown that counts, as a multiple of the difference between the two measurements of base.
const NOISE_FACTOR: f64 = 3.0;

/// By how many percent the instructions of head may exceed those of base.
const INSTRUCTIONS_MORE_PERCENT_MAX: u128 = 5;

/// Counts that differ by at most one part in this number are the same: the random seeds of hash tables have a say.
const INSTRUCTIONS_SAME_WITHIN: u128 = 50;

/// How head compares with base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Head takes less.
    Faster,
    /// There is no difference that counts.
    Same,
    /// There is no significant difference, and the noise allows one that would count.
    CannotTell,
    /// Head takes more, but not so much that the gate would close.
    Slower,
    /// Head takes so much more that the gate closes.
    Regressed,
}

/// A time in nanoseconds with its confidence interval. All three are positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) point_ns: f64,
    pub(crate) lower_ns: f64,
    pub(crate) upper_ns: f64,
}

/// The times of one bench: for each revision one from the first half and one from the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) base: [Time; 2],
    pub(crate) head: [Time; 2],
}

impl Times {
    /// Head ÷ base: the geometric mean of both halves.
    pub(crate) fn ratio(&self) -> f64 {
        self.mean_of_halves(|base, head| head.point_ns / base.point_ns)
    }

    /// Where the ratio lies if all four times lie in their intervals.
    pub(crate) fn interval(&self) -> (f64, f64) {
        let lower = self.mean_of_halves(|base, head| head.lower_ns / base.upper_ns);
        let upper = self.mean_of_halves(|base, head| head.upper_ns / base.lower_ns);
        (lower, upper)
    }

    /// By what share base differs from itself: what there is to see when nothing has changed.
    pub(crate) fn base_noise(&self) -> f64 {
        noise(self.base)
    }

    /// By what share head differs from itself.
    pub(crate) fn head_noise(&self) -> f64 {
        noise(self.head)
    }

    /// The ratio above which head is regressed.
    pub(crate) fn limit(&self) -> f64 {
        (1.0 + NOISE_FACTOR * self.base_noise()).max(TIME_RATIO_MIN)
    }

    /// The largest slowdown that the noise allows without a verdict: what base differs from itself excuses, or where the
    /// worse half may lie.
    pub(crate) fn allowed(&self) -> f64 {
        let of_half = |(base, head): (&Time, &Time)| head.upper_ns / base.lower_ns;
        self.base.iter().zip(&self.head).map(of_half).fold(self.limit(), f64::max)
    }

    /// Returns the verdict. A difference counts only if it exceeds the difference between two measurements of one revision.
    pub(crate) fn verdict(&self) -> Verdict {
        let (ratio, noise) = (self.ratio(), self.base_noise().max(self.head_noise()));
        let worse = self.in_both_halves(|base, head| head.lower_ns > base.upper_ns);
        let better = self.in_both_halves(|base, head| head.upper_ns < base.lower_ns);
        if worse && ratio > self.limit() {
            Verdict::Regressed
        } else if worse && ratio > 1.0 + noise {
            Verdict::Slower
        } else if better && ratio.recip() > 1.0 + noise {
            Verdict::Faster
        } else if self.allowed() > TIME_RATIO_MIN {
            Verdict::CannotTell
        } else {
            Verdict::Same
        }
    }

    fn mean_of_halves(&self, of_half: impl Fn(&Time, &Time) -> f64) -> f64 {
        (of_half(&self.base[0], &self.head[0]) * of_half(&self.base[1], &self.head[1])).sqrt()
    }

    fn in_both_halves(&self, holds: impl Fn(&Time, &Time) -> bool) -> bool {
        self.base.iter().zip(&self.head).all(|(base, head)| holds(base, head))
    }
}

fn noise([first, second]: [Time; 2]) -> f64 {
    (first.point_ns / second.point_ns - 1.0).abs()
}

/// The instructions of one bench in each revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instructions {
    pub(crate) base: u64,
    pub(crate) head: u64,
}

impl Instructions {
    /// Head ÷ base.
    pub(crate) fn ratio(self) -> f64 {
        as_f64(self.head) / as_f64(self.base)
    }

    /// The verdict.
    pub(crate) fn verdict(self) -> Verdict {
        let (base, head) = (u128::from(self.base), u128::from(self.head));
        if head * 100 > base * (100 + INSTRUCTIONS_MORE_PERCENT_MAX) {
            return Verdict::Regressed;
        }
        match head.cmp(&base) {
            _ if head.abs_diff(base) * INSTRUCTIONS_SAME_WITHIN <= base => Verdict::Same,
            Ordering::Less => Verdict::Faster,
            _ => Verdict::Slower,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A time whose interval reaches `percent` percent to both sides.
    fn within(percent: f64, point_ns: f64) -> Time {
        let reach_ns = point_ns * percent / 100.0;
        Time { point_ns, lower_ns: point_ns - reach_ns, upper_ns: point_ns + reach_ns }
    }

    fn times(base: [f64; 2], head: [f64; 2]) -> Times {
        Times { base: base.map(|ns| within(2.0, ns)), head: head.map(|ns| within(2.0, ns)) }
    }

    #[test]
    fn times_are_judged_by_both_halves_their_intervals_and_the_noise_of_base() {
        let cases = [
            ("the same", [100.0, 100.0], [100.0, 100.0], Verdict::Same),
            ("intervals that meet", [100.0, 100.0], [103.0, 103.0], Verdict::Same),
            ("slower within the limit", [100.0, 100.0], [120.0, 120.0], Verdict::Slower),
            ("faster", [100.0, 100.0], [80.0, 80.0], Verdict::Faster),
            ("regressed", [100.0, 100.0], [140.0, 140.0], Verdict::Regressed),
            ("worse in the first half only", [100.0, 100.0], [300.0, 100.0], Verdict::CannotTell),
            ("worse in the second half only", [100.0, 100.0], [100.0, 300.0], Verdict::CannotTell),
            ("better in one half, worse in the other", [100.0, 100.0], [50.0, 150.0], Verdict::CannotTell),
            ("worse by less than base differs from itself", [100.0, 130.0], [120.0, 140.0], Verdict::CannotTell),
            ("the same, and base differs from itself by 2.5", [100.0, 250.0], [100.0, 250.0], Verdict::CannotTell),
            ("far beyond the noise of base", [100.0, 130.0], [260.0, 300.0], Verdict::Regressed),
            ("slower, but head differs from itself by more", [100.0, 100.0], [105.0, 160.0], Verdict::CannotTell),
        ];
        for (what, base, head, expected) in cases {
            assert_eq!(times(base, head).verdict(), expected, "{what}");
        }
    }

    #[test]
    fn wide_intervals_excuse_any_ratio() {
        let wide = Times { base: [within(60.0, 100.0); 2], head: [within(60.0, 200.0); 2] };
        assert_eq!(wide.verdict(), Verdict::CannotTell);
        let one_narrow_half = Times { base: [within(1.0, 100.0), within(60.0, 100.0)], head: [within(1.0, 200.0); 2] };
        assert_eq!(one_narrow_half.verdict(), Verdict::Regressed);
        let one_wide_half = Times { head: [within(1.0, 200.0), within(60.0, 200.0)], ..one_narrow_half };
        assert_eq!(one_wide_half.verdict(), Verdict::CannotTell);
    }

    #[test]
    fn the_limit_is_three_times_the_noise_of_base_and_at_least_1_3() {
        for (base, limit) in [([100.0, 100.0], 1.3), ([105.0, 100.0], 1.3), ([120.0, 100.0], 1.6), ([80.0, 100.0], 1.6)]
        {
            assert!((times(base, [100.0, 100.0]).limit() - limit).abs() < 1e-9, "{base:?}");
        }
    }

    #[test]
    fn instructions_are_regressed_above_five_percent() {
        let cases = [
            (1_000, 1_000, Verdict::Same),
            (1_000, 1_020, Verdict::Same),
            (1_000, 980, Verdict::Same),
            (1_000, 1_021, Verdict::Slower),
            (1_000, 1_050, Verdict::Slower),
            (1_000, 1_051, Verdict::Regressed),
            (1_000, 979, Verdict::Faster),
            (0, 0, Verdict::Same),
            (0, 1, Verdict::Regressed),
            (u64::MAX, u64::MAX, Verdict::Same),
            (u64::MAX / 2, u64::MAX, Verdict::Regressed),
        ];
        for (base, head, expected) in cases {
            assert_eq!(Instructions { base, head }.verdict(), expected, "{base} -> {head}");
        }
    }

    fn any_time() -> impl Strategy<Value = Time> {
        (1.0..1e9_f64, 0.0..0.9_f64, 0.0..9.0_f64).prop_map(|(point_ns, down, up)| Time {
            point_ns,
            lower_ns: point_ns * (1.0 - down),
            upper_ns: point_ns * (1.0 + up),
        })
    }

    fn any_times() -> impl Strategy<Value = Times> {
        (any_time(), any_time(), any_time(), any_time()).prop_map(|(a, b, c, d)| Times { base: [a, b], head: [c, d] })
    }

    proptest! {
        #[test]
        fn the_ratio_lies_in_its_interval(times in any_times()) {
            let (lower, upper) = times.interval();
            prop_assert!(lower <= times.ratio() * (1.0 + 1e-9) && times.ratio() <= upper * (1.0 + 1e-9));
        }

        #[test]
        fn nothing_regresses_against_itself(base in any_time(), again in any_time()) {
            let times = Times { base: [base, again], head: [base, again] };
            prop_assert!(matches!(times.verdict(), Verdict::Same | Verdict::CannotTell));
        }

        #[test]
        fn what_is_the_same_may_not_be_a_third_slower(times in any_times()) {
            if times.verdict() == Verdict::Same {
                prop_assert!(times.interval().1 <= 1.3 + 1e-9 && times.base_noise() <= 0.1 + 1e-9);
            }
        }

        #[test]
        fn no_regression_is_within_the_limit_or_in_one_half_only(times in any_times()) {
            if times.verdict() == Verdict::Regressed {
                prop_assert!(times.ratio() > 1.3 && times.ratio() > 1.0 + 3.0 * times.base_noise());
                prop_assert!(times.head[0].lower_ns > times.base[0].upper_ns);
                prop_assert!(times.head[1].lower_ns > times.base[1].upper_ns);
            }
        }

        #[test]
        fn what_is_faster_one_way_is_no_better_the_other(times in any_times()) {
            let reversed = Times { base: times.head, head: times.base };
            if times.verdict() == Verdict::Faster {
                prop_assert!(matches!(reversed.verdict(), Verdict::Slower | Verdict::Regressed));
            }
        }

        #[test]
        fn more_instructions_are_never_judged_better(base in 1..u64::MAX, head in 0..u64::MAX) {
            let rank = |verdict| match verdict {
                Verdict::Faster => 0,
                Verdict::Same | Verdict::CannotTell => 1,
                Verdict::Slower => 2,
                Verdict::Regressed => 3,
            };
            let verdict = Instructions { base, head }.verdict();
            let worse = Instructions { base, head: head + 1 }.verdict();
            prop_assert!(rank(verdict) <= rank(worse));
        }
    }
}
