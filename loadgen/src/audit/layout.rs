//! Sales whose stock lies in several rows, a row a unit or a row a bucket: whether the rows agree with the orders and with the
//! ledger. Orders of these sales do not say how many units they left, so this takes the place of their sequence.

use serde::{Deserialize, Serialize};
use stats::figures::{count, signed, things};

/// The rows of a sale, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StockRows {
    /// A row for each unit (`pg-units`).
    Units {
        /// Rows.
        rows: i64,
        /// Rows that no order has taken.
        free: i64,
        /// Units with a free row and a taken one.
        twice: i64,
        /// Rows that name an order that has no line of this sale.
        strangers: i64,
        /// Orders of the sale that have another number of rows than units.
        wrong_orders: i64,
        /// Rows that these orders have too many or too few.
        wrong_rows: i64,
    },
    /// A row for each bucket (`pg-buckets`).
    Buckets {
        /// Units that the buckets began with.
        stock_initial: i64,
        /// Units that the buckets have.
        on_hand: i64,
        /// Buckets that have less than no unit, or more than they began with.
        beyond: i64,
    },
    /// A row for each reservation, which holds units of the row of the SKU for a while (`pg-reserve`).
    Reservations {
        /// Units that are held: neither free nor ordered.
        held: i64,
        /// Units that were held and came back.
        returned: i64,
        /// Units of confirmed reservations whose order is not in the books of the sale, or has another number of units.
        unsold: i64,
        /// Units of orders that no reservation has, or several.
        unreserved: i64,
    },
}

/// How the rows of a sale disagree with its orders and with the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misplaced {
    /// The units that are misplaced.
    pub units: u64,
    /// What disagrees, a sentence each.
    pub words: Vec<String>,
}

impl Misplaced {
    fn note(&mut self, units: i64, words: impl FnOnce(u64) -> String) {
        if units != 0 {
            self.units = self.units.saturating_add(units.unsigned_abs());
            self.words.push(words(units.unsigned_abs()));
        }
    }
}

impl StockRows {
    /// Returns the units that are neither in the free stock nor ordered.
    pub fn held(&self) -> i64 {
        if let StockRows::Reservations { held, .. } = *self { held } else { 0 }
    }

    /// Returns the units that came back during the sale. A buyer may have been told "sold out" while others held them.
    pub fn returned(&self) -> i64 {
        if let StockRows::Reservations { returned, .. } = *self { returned } else { 0 }
    }

    /// Compares the rows with the ledger: the units that the sale began with, and those that it left.
    pub fn misplaced(&self, initial: Option<i64>, left: Option<i64>) -> Misplaced {
        let mut found = Misplaced::default();
        let differ = |one: i64, other: Option<i64>| other.map_or(0, |other| one.saturating_sub(other));
        let sale = |units: Option<i64>| signed(units.unwrap_or_default());
        match *self {
            StockRows::Units { rows, free, twice, strangers, wrong_orders, wrong_rows } => {
                found.note(differ(rows, initial), |_| {
                    format!("{} have a row, and the sale began with {}", units(rows), sale(initial))
                });
                found.note(differ(free, left), |_| {
                    format!("{} are free, and the sale left {}", units(free), sale(left))
                });
                found.note(twice, |units| format!("{} both free and taken", are(units, "unit")));
                found.note(strangers, |units| format!("{} taken by no order of the sale", are(units, "unit")));
                found.note(wrong_rows, |units| {
                    let orders = things(count(wrong_orders.unsigned_abs()), "order");
                    format!("{orders} together have {} too many or too few", things(count(units), "unit"))
                });
            }
            StockRows::Buckets { stock_initial, on_hand, beyond } => {
                found.note(differ(stock_initial, initial), |_| {
                    format!("the buckets began with {}, and the sale with {}", units(stock_initial), sale(initial))
                });
                found.note(differ(on_hand, left), |_| {
                    format!("the buckets have {}, and the sale left {}", units(on_hand), sale(left))
                });
                found.note(beyond, |buckets| {
                    let have = if buckets == 1 { "has" } else { "have" };
                    let buckets = things(count(buckets), "bucket");
                    format!("{buckets} {have} less than no unit, or more than at the beginning")
                });
            }
            StockRows::Reservations { unsold, unreserved, .. } => {
                found.note(unsold, |units| {
                    format!(
                        "{} of confirmed reservations without an order of the same size",
                        things(count(units), "unit")
                    )
                });
                found.note(unreserved, |units| {
                    format!("{} of orders without a reservation, or with several", things(count(units), "unit"))
                });
            }
        }
        found
    }
}

fn units(number: i64) -> String {
    things(signed(number), "unit")
}

fn are(number: u64, thing: &str) -> String {
    format!("{} {}", things(count(number), thing), if number == 1 { "is" } else { "are" })
}

// C51
#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: StockRows =
        StockRows::Units { rows: 9, free: 7, twice: 0, strangers: 0, wrong_orders: 0, wrong_rows: 0 };
    const BUCKETS: StockRows = StockRows::Buckets { stock_initial: 9, on_hand: 7, beyond: 0 };

    fn words(rows: StockRows, units: u64) -> String {
        let found = rows.misplaced(Some(9), Some(7));
        assert_eq!(found.units, units, "{found:?}");
        found.words.join("; ")
    }

    #[test]
    fn rows_that_agree_with_the_ledger_are_right() {
        assert_eq!((words(UNITS, 0), words(BUCKETS, 0)), (String::new(), String::new()));
        for rows in [UNITS, BUCKETS] {
            assert_eq!(rows.misplaced(None, None), Misplaced::default(), "the ledger says nothing");
        }
    }

    #[test]
    fn every_disagreement_of_units_is_told() {
        let of = |rows, free, twice, strangers, wrong_orders, wrong_rows| StockRows::Units {
            rows,
            free,
            twice,
            strangers,
            wrong_orders,
            wrong_rows,
        };
        for (rows, units, told) in [
            (of(8, 7, 0, 0, 0, 0), 1, "8 units have a row, and the sale began with 9"),
            (of(9, 5, 0, 0, 0, 0), 2, "5 units are free, and the sale left 7"),
            (of(9, 7, 1, 0, 0, 0), 1, "1 unit is both free and taken"),
            (of(9, 7, 0, 2, 0, 0), 2, "2 units are taken by no order of the sale"),
            (of(9, 7, 0, 0, 2, 3), 3, "2 orders together have 3 units too many or too few"),
        ] {
            assert_eq!(words(rows, units), told);
        }
    }

    #[test]
    fn every_disagreement_of_reservations_is_told() {
        let of = |unsold, unreserved| StockRows::Reservations { held: 1, returned: 4, unsold, unreserved };
        assert_eq!((words(of(0, 0), 0), of(0, 0).held(), of(0, 0).returned()), (String::new(), 1, 4));
        assert_eq!(words(of(1, 0), 1), "1 unit of confirmed reservations without an order of the same size");
        assert_eq!(words(of(0, 2), 2), "2 units of orders without a reservation, or with several");
        assert_eq!((BUCKETS.held(), UNITS.returned()), (0, 0));
    }

    #[test]
    fn every_disagreement_of_buckets_is_told() {
        let of = |stock_initial, on_hand, beyond| StockRows::Buckets { stock_initial, on_hand, beyond };
        for (rows, units, told) in [
            (of(8, 7, 0), 1, "the buckets began with 8 units, and the sale with 9"),
            (of(9, 8, 0), 1, "the buckets have 8 units, and the sale left 7"),
            (of(9, 7, 1), 1, "1 bucket has less than no unit, or more than at the beginning"),
        ] {
            assert_eq!(words(rows, units), told);
        }
    }
}
