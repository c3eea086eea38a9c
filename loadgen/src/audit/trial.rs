//! What a trial really sold, by the database and by the answers to the clients.

use std::collections::{BTreeMap, BTreeSet};

use buyers::lab_request::buyer_name;
pub use buyers::sample::Receipt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::balance::{Balance, Holders, SaleBooks, clamped};
use crate::audit::layout::StockRows;
use crate::audit::limit::UnitsOfBuyers;
use crate::audit::orders::OrderRow;
use crate::audit::reservations::ReservationFacts;
use crate::audit::unchecked::Unchecked;

/// Everything that the audit of one trial of the service of the lab looks at.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LabFacts {
    /// Units on hand when the sale began.
    pub stock_initial: i64,
    /// Units on hand after the sale.
    pub stock_final: i64,
    /// Number of holders that the lock admits at once; absent if sections may overlap.
    pub permits: Option<u32>,
    /// Most units that one buyer may have, if there is such a limit.
    pub per_buyer: Option<i64>,
    /// All orders of the sale.
    pub orders: Vec<OrderRow>,
    /// The rows of the stock, if it does not lie in the row of the SKU.
    pub rows: Option<StockRows>,
    /// The 200 answers with the numbers of their buyers, one for each request that was told "sold".
    pub confirmed: Vec<(usize, Receipt)>,
    /// How many of these buyers asked once more, under the same key, and were told something else.
    #[serde(default)]
    pub contradicted: u64,
    /// The numbers of the buyers that were told that they have as many units as one buyer may have.
    pub over_limit: Vec<usize>,
    /// What was told of reservations, and what the books have of them.
    pub reservations: ReservationFacts,
    /// Buyers who were told "sold out".
    pub sold_out: u64,
    /// Buyers who were refused with the promise that nothing was written.
    pub refused: u64,
    /// The numbers of the buyers who got no answer about an order, by an error or a timeout: once for each such request.
    pub unanswered: Vec<usize>,
}

impl LabFacts {
    /// Counts the buyers that were told that they have as many units as one buyer may have, and have fewer.
    fn denied(&self) -> u64 {
        let Some(per_buyer) = self.per_buyer else { return self.over_limit.len() as u64 };
        let units = UnitsOfBuyers::of(&self.orders);
        let told: BTreeSet<usize> = self.over_limit.iter().copied().collect();
        told.into_iter().filter(|buyer| units.has_room(&buyer_name(*buyer), per_buyer)).count() as u64
    }

    /// Counts those of these orders that missing answers explain, each by another one.
    fn explained(&self, untold: &[&OrderRow]) -> u64 {
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        self.unanswered.iter().for_each(|buyer| *missing.entry(buyer_name(*buyer)).or_default() += 1);
        let mut unnamed = 0;
        let mut explained = 0;
        for order in untold {
            let Some(buyer) = &order.buyer else {
                unnamed += 1;
                continue;
            };
            if let Some(left) = missing.get_mut(&**buyer).filter(|left| **left > 0) {
                *left -= 1;
                explained += 1;
            }
        }
        explained + missing.into_values().sum::<u64>().min(unnamed)
    }
}

/// The findings of one trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Units sold: the sum of the quantities of the orders.
    pub sold: i64,
    /// Units sold beyond the initial stock.
    pub oversold: i64,
    /// Wanted units that were left although a buyer was told that nothing was left, or although enough buyers had a
    /// decision to take them all.
    pub undersold: i64,
    /// Wanted units that were left because too many buyers had no decision: they were refused, or never learnt the fate of
    /// their order. The trial then proves nothing, for or against the strategy.
    pub unsold_undecided: i64,
    /// Initial − final − sold. Negative: orders whose deduction was overwritten. Positive: stock gone without an order.
    pub lost_updates: i64,
    /// Orders that left the same number of units as an earlier order: the same unit was sold twice.
    pub double_sales: u64,
    /// Orders that do not begin with the units that the previous order left, or that their transaction did not write in
    /// the order of their numbers. Absent if the orders do not say how many units they left.
    pub out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an earlier order. Absent without tokens, and for a lock with several
    /// permits, whose holders may write in any order.
    pub tokens_out_of_order: Option<u64>,
    /// Orders that a batch sold after the order of a buyer that arrived later. Absent without two known arrivals in a batch.
    pub overtaken_in_batch: Option<u64>,
    /// Units whose rows disagree with the orders or with the ledger. Absent if the stock lies in the row of the SKU.
    #[serde(default)]
    pub misplaced: Option<u64>,
    /// Orders that no buyer was told of, as far as buyers without an answer explain them. If an order names its buyer, only a missing
    /// answer to this buyer explains it.
    pub indeterminate: u64,
    /// Orders that no buyer was told of and no missing answer explains: sold despite a refusal.
    pub orders_unexplained: u64,
    /// Buyers told "sold" with an order that is not in the database.
    pub confirmations_unfounded: u64,
    /// Buyers told "sold" with the same order as another buyer.
    pub confirmations_repeated: u64,
    /// Buyers told another SKU, another quantity or another number of units left than their order has, or whose order names
    /// another buyer. Also buyers told another end of their reservation than it has, and buyers that were told otherwise when they asked
    /// once more under the same key.
    pub confirmations_wrong: u64,
    /// Orders of the trial without lines.
    pub orders_without_lines: u64,
    /// Buyers that got more units than one buyer may have. Zero without such a limit.
    #[serde(default)]
    pub over_limit: u64,
}

impl Audit {
    /// Balances the books of one trial. Returns what could not be checked as well.
    pub fn of(facts: &LabFacts) -> (Audit, Unchecked) {
        let first = Some(facts.stock_initial);
        let last = Some(facts.stock_final);
        let LabFacts { per_buyer, ref rows, .. } = *facts;
        let rows = rows.as_ref();
        let holders = Holders::of(facts.permits);
        let balance = Balance::of(&SaleBooks { initial: first, left: last, per_buyer, holders, rows }, &facts.orders);
        let sold = balance.sold;
        let initial = i128::from(facts.stock_initial);
        let recorded: BTreeMap<i64, &OrderRow> = facts.orders.iter().map(|order| (order.order_id, order)).collect();
        let confirmed: BTreeSet<i64> = facts.confirmed.iter().map(|(_, receipt)| receipt.order_id).collect();

        let unfounded = facts.confirmed.iter().filter(|(_, receipt)| !recorded.contains_key(&receipt.order_id)).count();
        let is_wrong = |(buyer, receipt): &&(usize, Receipt)| {
            recorded.get(&receipt.order_id).is_some_and(|order| {
                (order.goods_no, order.quantity, order.remaining)
                    != (receipt.goods_no, receipt.quantity, receipt.remaining)
                    || order.buyer.as_ref().is_some_and(|named| **named != *buyer_name(*buyer))
            })
        };
        let untold: Vec<&OrderRow> =
            recorded.values().copied().filter(|order| !confirmed.contains(&order.order_id)).collect();
        let indeterminate = facts.explained(&untold);

        // A buyer with all that one buyer may have wants nothing more. A buyer that was told so and has less did want a unit.
        let decided = i128::from(facts.sold_out) + i128::from(facts.confirmed.len() as u64 + facts.denied());
        let buyers = decided + i128::from(facts.refused) + i128::from(facts.unanswered.len() as u64);
        let wanted = initial.min(buyers);
        // "Sold out" is untrue while units are left that nobody has held.
        let enough_decided = facts.sold_out > 0 || decided >= wanted;
        let reserved = rows.map_or(0, |rows| rows.returned().saturating_add(rows.held()));
        let left = clamped((wanted - sold - i128::from(reserved)).max(0));

        let audit = Audit {
            sold: clamped(sold),
            oversold: balance.oversold.unwrap_or(0),
            undersold: if enough_decided { left } else { 0 },
            unsold_undecided: if enough_decided { 0 } else { left },
            lost_updates: balance.lost_updates.unwrap_or(0),
            double_sales: balance.double_sales,
            out_of_sequence: balance.out_of_sequence,
            tokens_out_of_order: balance.tokens_out_of_order,
            overtaken_in_batch: balance.overtaken_in_batch,
            misplaced: balance.misplaced.map(|misplaced| misplaced.units),
            indeterminate,
            orders_unexplained: untold.len() as u64 - indeterminate,
            confirmations_unfounded: unfounded as u64,
            confirmations_repeated: (facts.confirmed.len() - confirmed.len()) as u64,
            confirmations_wrong: (facts.confirmed.iter().filter(is_wrong).count() as u64)
                .saturating_add(facts.reservations.untrue())
                .saturating_add(facts.contradicted),
            orders_without_lines: 0,
            over_limit: balance.over_limit,
        };
        (audit, balance.unchecked)
    }

    /// Adds up the findings of several SKUs.
    pub fn sum(audits: impl IntoIterator<Item = Audit>) -> Audit {
        audits.into_iter().fold(Audit::default(), |sum, one| Audit {
            sold: sum.sold.saturating_add(one.sold),
            oversold: sum.oversold.saturating_add(one.oversold),
            undersold: sum.undersold.saturating_add(one.undersold),
            unsold_undecided: sum.unsold_undecided.saturating_add(one.unsold_undecided),
            // Units lost at one SKU do not balance units gained at another one: both are wrong.
            lost_updates: if sum.lost_updates.signum() * one.lost_updates.signum() < 0 {
                let is_larger = one.lost_updates.unsigned_abs() > sum.lost_updates.unsigned_abs();
                if is_larger { one.lost_updates } else { sum.lost_updates }
            } else {
                sum.lost_updates.saturating_add(one.lost_updates)
            },
            double_sales: sum.double_sales + one.double_sales,
            out_of_sequence: sum_of_known(sum.out_of_sequence, one.out_of_sequence),
            tokens_out_of_order: sum_of_known(sum.tokens_out_of_order, one.tokens_out_of_order),
            overtaken_in_batch: sum_of_known(sum.overtaken_in_batch, one.overtaken_in_batch),
            misplaced: sum_of_known(sum.misplaced, one.misplaced),
            indeterminate: sum.indeterminate + one.indeterminate,
            orders_unexplained: sum.orders_unexplained + one.orders_unexplained,
            confirmations_unfounded: sum.confirmations_unfounded + one.confirmations_unfounded,
            confirmations_repeated: sum.confirmations_repeated + one.confirmations_repeated,
            confirmations_wrong: sum.confirmations_wrong + one.confirmations_wrong,
            orders_without_lines: sum.orders_without_lines + one.orders_without_lines,
            over_limit: sum.over_limit + one.over_limit,
        })
    }

    /// Tells whether the orders agree with what the buyers were told, indeterminate orders apart.
    pub fn ledger_balanced(&self) -> bool {
        let confirmations = [self.confirmations_unfounded, self.confirmations_repeated, self.confirmations_wrong];
        self.orders_unexplained == 0 && self.orders_without_lines == 0 && confirmations == [0; 3]
    }

    /// Tells whether nothing at all is wrong with the trial. Units that undecided buyers left are no wrong.
    pub fn is_clean(&self) -> bool {
        let stock = self.oversold == 0 && self.undersold == 0 && self.lost_updates == 0 && self.double_sales == 0;
        let is_in_order = self.is_in_sequence() && self.misplaced.unwrap_or(0) == 0;
        stock && self.over_limit == 0 && is_in_order && self.ledger_balanced()
    }

    /// Tells whether no order is out of sequence, as far as that is known.
    pub fn is_in_sequence(&self) -> bool {
        self.out_of_sequence.unwrap_or(0) == 0
    }
}

/// Adds two figures, as far as they are known.
fn sum_of_known(sum: Option<u64>, one: Option<u64>) -> Option<u64> {
    sum.zip(one).map_or(sum.or(one), |(sum, one)| Some(sum.saturating_add(one)))
}

#[cfg(test)]
mod tests;
