//! How buyers pay what they have reserved. Pure: it knows no clock, no task and no socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;

/// Which shares of the buyers do not pay as they should. The shares add up to at most 1, and all others pay at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaymentHabits {
    /// Share of the buyers that never pay.
    pub abandon: f64,
    /// Share of the buyers that pay after the time of their reservation.
    pub pay_late: f64,
    /// Share of the buyers that pay, and pay once more.
    pub pay_twice: f64,
}

/// What one buyer does with its reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Pay,
    Abandon,
    PayLate,
    PayTwice,
}

impl PaymentHabits {
    /// Tells whether every buyer pays once and at once.
    pub fn are_good(&self) -> bool {
        *self == PaymentHabits::default()
    }

    /// Describes the buyers that do not pay as they should.
    pub fn describe(&self) -> String {
        let percent = |share: f64, what: &str| (share > 0.0).then(|| format!("{:.0} % {what}", share * 100.0));
        let shares = [
            percent(self.abandon, "never pay"),
            percent(self.pay_late, "pay too late"),
            percent(self.pay_twice, "pay twice"),
        ];
        shares.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns the habit of the buyer that sends this request. Any row of requests has about the shares.
    pub(crate) fn of(&self, number: usize) -> Habit {
        // Multiples of the golden ratio spread evenly over the numbers from 0 to 1.
        let drawn = (as_f64(number) * 0.618_033_988_749_894_9).fract();
        let late = self.abandon + self.pay_late;
        match drawn {
            drawn if drawn < self.abandon => Habit::Abandon,
            drawn if drawn < late => Habit::PayLate,
            drawn if drawn < late + self.pay_twice => Habit::PayTwice,
            _ => Habit::Pay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_have_their_shares_in_any_row_of_requests() {
        let habits = PaymentHabits { abandon: 0.3, pay_late: 0.1, pay_twice: 0.2 };
        for first in [0, 17, 1_000_000] {
            let count = |habit| (first..first + 1000).filter(|number| habits.of(*number) == habit).count();
            for (habit, expected) in
                [(Habit::Abandon, 300), (Habit::PayLate, 100), (Habit::PayTwice, 200), (Habit::Pay, 400)]
            {
                assert!(count(habit).abs_diff(expected) <= 5, "{habit:?}: {}", count(habit));
            }
        }
        let good = PaymentHabits::default();
        assert!(good.are_good() && (0..100).all(|number| good.of(number) == Habit::Pay));
        let none = PaymentHabits { abandon: 1.0, ..good };
        assert!((0..100).all(|number| none.of(number) == Habit::Abandon));
    }
}
