//! Whether the buyers of a sale in two steps were told the ends that their reservations have.

use std::collections::HashMap;

use buyers::sample::{ReservationTold, ToldEnd};
use serde::{Deserialize, Serialize};

/// A reservation in the books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRow {
    /// Its state, as the service spells it.
    pub state: String,
    /// Its order.
    pub order: Option<i64>,
}

/// What was told of the reservations of a sale, and what the books have of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReservationFacts {
    /// What buyers were told.
    pub told: Vec<ReservationTold>,
    /// The books, by the number of the reservation. Absent if the strategy has none.
    pub rows: Option<HashMap<i64, ReservationRow>>,
}

impl ReservationFacts {
    /// Counts the buyers that were told another end of their reservation than it has, or two ends.
    pub(crate) fn untrue(&self) -> u64 {
        let is_untrue = |told: &&ReservationTold| {
            let Some(row) = self.rows.as_ref().and_then(|rows| rows.get(&told.reservation)) else { return true };
            let is_refuted = match told.end {
                ToldEnd::Sold(receipt) => row.order != Some(receipt.order_id) || row.state != "confirmed",
                // A buyer that was told "too late" must have nothing.
                ToldEnd::Expired => row.order.is_some() || row.state != "expired",
                // Nobody has paid.
                ToldEnd::Abandoned => row.order.is_some(),
                ToldEnd::Unknown => false,
            };
            is_refuted || told.is_contradicted
        };
        self.told.iter().filter(is_untrue).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use buyers::sample::Receipt;

    use super::*;

    // C54
    #[test]
    fn each_end_that_the_books_contradict_is_counted() {
        let sold = |order_id| ToldEnd::Sold(Receipt { order_id, goods_no: 1, quantity: 1, remaining: None });
        for (state, order, right, wrong) in [
            (
                "confirmed",
                Some(5),
                vec![sold(5), ToldEnd::Unknown],
                vec![sold(6), ToldEnd::Expired, ToldEnd::Abandoned],
            ),
            ("expired", None, vec![ToldEnd::Expired, ToldEnd::Abandoned, ToldEnd::Unknown], vec![sold(5)]),
            ("cancelled", None, vec![ToldEnd::Abandoned], vec![ToldEnd::Expired, sold(5)]),
            ("held", None, vec![ToldEnd::Abandoned], vec![ToldEnd::Expired, sold(5)]),
        ] {
            let rows = HashMap::from([(7, ReservationRow { state: state.to_owned(), order })]);
            let count = |told| ReservationFacts { told: vec![told], rows: Some(rows.clone()) }.untrue();
            let told = |end: &ToldEnd, reservation| ReservationTold { reservation, end: *end, is_contradicted: false };
            let untrue = |end: &ToldEnd, reservation| count(told(end, reservation));
            assert!(right.iter().all(|end| untrue(end, 7) == 0), "{state}");
            assert!(wrong.iter().all(|end| untrue(end, 7) == 1), "{state}");
            assert_eq!(untrue(&right[0], 8), 1, "there is no such reservation");
            let two_ends = ReservationTold { is_contradicted: true, ..told(&right[0], 7) };
            assert_eq!(count(two_ends), 1, "the buyer was told of two ends");
        }
        assert_eq!(ReservationFacts::default().untrue(), 0);
    }
}
