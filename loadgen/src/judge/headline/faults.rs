//! What a shop that a file describes did wrong, one line for each kind of fault, with its size in the worst trial.

use stats::as_f64;
use stats::figures::{count, percent, signed, things};

use crate::audit::shop::Evidence;
use crate::audit::trial::Audit;
use crate::trial::record::Trial;

/// Names every fault of these trials of one shop. `per_buyer` is the most units that one buyer may have.
///
/// Before the books came to rest, they prove only units beyond the stock and beyond the limit: the rest may yet be written.
pub(crate) fn of(trials: &[&Trial], stock: u64, per_buyer: Option<u32>) -> Vec<String> {
    let worst =
        |size: &dyn Fn(&Audit) -> u64| trials.iter().map(|trial| size(&trial.audit)).max().filter(|size| *size > 0);
    let at_rest = |size: &dyn Fn(&Trial) -> u64| {
        trials.iter().filter(|trial| trial.settled).map(|trial| size(trial)).max().filter(|size| *size > 0)
    };
    let oversold = worst(&|audit| audit.oversold.unsigned_abs())
        .map(|units| format!("oversold by up to {}{}", things(count(units), "unit"), share(units, stock)));
    let over_limit = worst(&|audit| audit.over_limit)
        .map(|buyers| format!("up to {} got more than {} may have", things(count(buyers), "buyer"), limit(per_buyer)));
    let too_little = at_rest(&|trial| (-trial.audit.lost_updates).max(0).unsigned_abs());
    let too_much = at_rest(&|trial| trial.audit.lost_updates.max(0).unsigned_abs());
    let fell = |units: u64, how: &str| {
        format!("the stock fell by up to {} {how} than {} ordered", things(count(units), "unit"), were(units))
    };
    let faults = [
        oversold,
        too_little.map(|units| format!("{} (lost updates{})", fell(units, "less"), unless_cached(trials))),
        too_much.map(|units| fell(units, "more")),
        at_rest(&|trial| trial.audit.confirmations_unfounded).map(|buyers| {
            let has = if buyers == 1 { "has" } else { "have" };
            format!("up to {} {} told \"sold\" and {has} no order", things(count(buyers), "buyer"), were(buyers))
        }),
        at_rest(&|trial| trial.audit.orders_unexplained)
            .map(|orders| format!("no buyer was told of up to {}", things(count(orders), "order"))),
        at_rest(&|trial| trial.audit.confirmations_repeated).map(|buyers| {
            format!("up to {} {} told the order of another buyer", things(count(buyers), "buyer"), were(buyers))
        }),
        at_rest(&|trial| trial.audit.confirmations_wrong).map(|orders| {
            let is = if orders == 1 { "is" } else { "are" };
            format!("up to {} {is} of another number of units than one", things(count(orders), "order"))
        }),
        over_limit,
        undersold(trials),
    ];
    faults.into_iter().flatten().collect()
}

/// Describes the units that were left in the worst trial, and why they should not have been.
fn undersold(trials: &[&Trial]) -> Option<String> {
    let at_rest = trials.iter().filter(|trial| trial.settled);
    let worst = at_rest.max_by_key(|trial| trial.audit.undersold).filter(|trial| trial.audit.undersold > 0)?;
    let left = worst.audit.undersold;
    let although = if worst.answers.sold_out > 0 {
        "buyers were told \"sold out\""
    } else {
        "as many buyers were told \"sold\" as there were units"
    };
    let were = were(left.unsigned_abs());
    let is_stock_read = worst.books_read.is_none_or(|read| read.stock);
    let unless = if is_stock_read { "" } else { " (or [sale] has not restored the stock: no books show it)" };
    Some(format!("up to {} {were} left although {although}{unless}", things(signed(left), "unit")))
}

/// Names what else explains a stock that fell too little, if only pages show it.
fn unless_cached(trials: &[&Trial]) -> &'static str {
    let is_of_pages = |trial: &&Trial| trial.audit.lost_updates < 0 && trial.evidence == Some(Evidence::Pages);
    if trials.iter().any(is_of_pages) { ", unless the page of [books] is cached" } else { "" }
}

fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// Writes the share of the stock. Without a stock, there is none.
fn share(units: u64, stock: u64) -> String {
    if stock == 0 { String::new() } else { format!(" ({})", percent(as_f64(units) / as_f64(stock))) }
}

fn limit(per_buyer: Option<u32>) -> String {
    match per_buyer {
        Some(1) => "the one unit that a buyer".to_owned(),
        Some(units) => format!("the {} that a buyer", things(units, "unit")),
        None => "a buyer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::shop::BooksRead;
    use crate::report::shop_fixture;

    fn told(change: impl Fn(&mut Trial)) -> Vec<String> {
        let [right, mut wrong] = [0, 1].map(|block| shop_fixture::shop_trial("Flask", block, 100));
        change(&mut wrong);
        of(&[&right, &wrong], 100, Some(1))
    }

    #[test]
    fn a_right_shop_has_no_fault() {
        assert_eq!(told(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_fault_is_named_with_its_size() {
        type Change = fn(&mut Trial);
        let faults: [(Change, &str); 13] = [
            (|trial| trial.audit.oversold = 37, "oversold by up to 37 units (37\u{202f}%)"),
            (
                |trial| trial.audit.lost_updates = -4,
                "the stock fell by up to 4 units less than were ordered (lost updates, unless the page of [books] is cached)",
            ),
            (
                |trial| {
                    trial.audit.lost_updates = -4;
                    trial.evidence = Some(Evidence::Database);
                },
                "the stock fell by up to 4 units less than were ordered (lost updates)",
            ),
            (|trial| trial.audit.lost_updates = 1, "the stock fell by up to 1 unit more than was ordered"),
            (|trial| trial.audit.confirmations_unfounded = 3, "up to 3 buyers were told \"sold\" and have no order"),
            (|trial| trial.audit.confirmations_unfounded = 1, "up to 1 buyer was told \"sold\" and has no order"),
            (|trial| trial.audit.orders_unexplained = 2, "no buyer was told of up to 2 orders"),
            (|trial| trial.audit.confirmations_repeated = 1, "up to 1 buyer was told the order of another buyer"),
            (|trial| trial.audit.confirmations_wrong = 2, "up to 2 orders are of another number of units than one"),
            (|trial| trial.audit.over_limit = 5, "up to 5 buyers got more than the one unit that a buyer may have"),
            (|trial| trial.audit.undersold = 8, "up to 8 units were left although buyers were told \"sold out\""),
            (
                |trial| {
                    trial.audit.undersold = 1;
                    trial.answers.sold_out = 0;
                },
                "up to 1 unit was left although as many buyers were told \"sold\" as there were units",
            ),
            (
                |trial| {
                    trial.audit.undersold = 8;
                    trial.books_read = Some(BooksRead { stock: false, orders: true });
                },
                "up to 8 units were left although buyers were told \"sold out\" (or [sale] has not restored the stock: no \
                 books show it)",
            ),
        ];
        for (change, expected) in faults {
            assert_eq!(told(change), [expected]);
        }
    }

    #[test]
    fn several_faults_are_all_named_the_worst_trial_of_each() {
        let lines = told(|trial| {
            trial.audit.oversold = 20;
            trial.audit.lost_updates = -20;
            trial.audit.over_limit = 1;
        });
        assert_eq!(lines.len(), 3, "{lines:?}");
    }

    #[test]
    fn books_that_still_change_prove_only_units_beyond_a_bound() {
        let lines = told(|trial| {
            trial.settled = false;
            trial.audit = Audit { oversold: 1, lost_updates: -9, confirmations_unfounded: 9, ..trial.audit };
        });
        assert_eq!(lines, ["oversold by up to 1 unit (1\u{202f}%)"]);
    }
}
