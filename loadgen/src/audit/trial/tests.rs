//! What an audit finds in the orders of one trial.

use proptest::prelude::*;

use super::*;
use crate::audit::orders::tests as rows;

fn orders(ids: impl IntoIterator<Item = i64>) -> Vec<OrderRow> {
    ids.into_iter().map(|order_id| order(order_id, 1)).collect()
}

fn order(order_id: i64, quantity: i64) -> OrderRow {
    let order = rows::orders([(order_id, order_id, 0)]).swap_remove(0);
    OrderRow { quantity, remaining: None, token: None, ..order }
}

fn audit(stock: (i64, i64), orders: &[OrderRow], confirmed: &[i64], sold_out: u64, unanswered: u64) -> Audit {
    audit_with_refused(stock, orders, confirmed, sold_out, (0, unanswered))
}

fn audit_with_refused(
    (stock_initial, stock_final): (i64, i64),
    orders: &[OrderRow],
    confirmed: &[i64],
    sold_out: u64,
    (refused, unanswered): (u64, u64),
) -> Audit {
    let permits = Some(1);
    let confirmed = receipts(orders, confirmed);
    let facts = LabFacts {
        stock_initial,
        stock_final,
        permits,
        orders: orders.to_vec(),
        confirmed,
        sold_out,
        refused,
        unanswered: (0..usize::try_from(unanswered).unwrap()).collect(),
        ..LabFacts::default()
    };
    Audit::of(&facts).0
}

/// Returns what buyers are told of these orders. Of a missing order, they are told of one unit.
fn receipts(orders: &[OrderRow], order_ids: &[i64]) -> Vec<(usize, Receipt)> {
    let receipt = |order_id: &i64| {
        let told = orders.iter().find(|order| order.order_id == *order_id);
        let (quantity, remaining) = told.map_or((1, None), |order| (order.quantity, order.remaining));
        Receipt { order_id: *order_id, goods_no: 1, quantity, remaining }
    };
    order_ids.iter().map(receipt).enumerate().collect()
}

#[test]
fn a_sale_that_sells_exactly_its_stock_is_clean() {
    let audit = audit((3, 0), &orders([7, 8, 9]), &[9, 7, 8], 5, 0);
    assert!(audit.is_clean(), "{audit:?}");
    assert_eq!(audit.sold, 3);
}

#[test]
fn more_orders_than_stock_are_oversold_and_lost_updates() {
    let audit = audit((2, 0), &orders([1, 2, 3, 4, 5]), &[1, 2, 3, 4, 5], 0, 0);
    assert_eq!((audit.oversold, audit.undersold, audit.lost_updates), (3, 0, -3));
    assert!(audit.ledger_balanced() && !audit.is_clean());
}

#[test]
fn units_left_although_a_buyer_was_told_sold_out_are_undersold() {
    let audit = audit((5, 3), &orders([1, 2]), &[1, 2], 4, 0);
    assert_eq!((audit.undersold, audit.lost_updates), (3, 0));
    assert!(!audit.is_clean());
}

#[test]
fn units_that_too_few_buyers_wanted_are_not_undersold() {
    assert!(audit((5, 3), &orders([1, 2]), &[1, 2], 0, 0).is_clean());
}

#[test]
fn even_few_buyers_are_undersold_if_one_was_told_sold_out() {
    assert_eq!(audit((5, 3), &orders([1, 2]), &[1, 2], 1, 0).undersold, 1);
}

// C54
#[test]
fn units_that_a_reservation_holds_are_not_undersold() {
    let held = |held| {
        let rows = Some(StockRows::Reservations { held, returned: 0, unsold: 0, unreserved: 0 });
        let orders = orders([1, 2]);
        let facts = LabFacts {
            stock_initial: 5,
            stock_final: 3 - held,
            confirmed: receipts(&orders, &[1, 2]),
            orders,
            rows,
            sold_out: 9,
            ..LabFacts::default()
        };
        Audit::of(&facts).0.undersold
    };
    assert_eq!([held(3), held(2), held(0)], [0, 1, 3]);
}

#[test]
fn units_that_undecided_buyers_left_are_not_undersold() {
    // Two of twenty were granted the lock in time. All others were refused or failed, so they have no decision.
    for undecided in [(18, 0), (0, 18), (9, 9)] {
        let audit = audit_with_refused((5, 3), &orders([1, 2]), &[1, 2], 0, undecided);
        assert_eq!((audit.undersold, audit.unsold_undecided), (0, 3), "{undecided:?}");
        assert!(audit.is_clean());
    }
}

#[test]
fn refusals_do_not_matter_once_the_stock_is_sold() {
    let audit = audit_with_refused((2, 0), &orders([1, 2]), &[1, 2], 0, (18, 3));
    assert_eq!((audit.undersold, audit.unsold_undecided), (0, 0));
}

#[test]
fn refusals_do_not_excuse_units_that_enough_decided_buyers_left() {
    let audit = audit_with_refused((5, 3), &orders([1, 2]), &[1, 2], 4, (1, 0));
    assert_eq!((audit.undersold, audit.unsold_undecided), (3, 0));
}

#[test]
fn stock_that_went_without_an_order_is_a_positive_lost_update() {
    assert_eq!(audit((5, 2), &orders([1, 2]), &[1, 2], 0, 0).lost_updates, 1);
}

// C1
#[test]
fn an_order_behind_a_client_error_is_indeterminate_and_no_fault() {
    let audit = audit((5, 2), &orders([1, 2, 3]), &[1, 2], 0, 4);
    assert_eq!((audit.indeterminate, audit.orders_unexplained), (1, 0));
    assert!(audit.is_clean());
}

// C1
#[test]
fn an_order_behind_a_refusal_unbalances_the_ledger() {
    let audit = audit((5, 2), &orders([1, 2, 3]), &[1, 2], 0, 0);
    assert_eq!((audit.indeterminate, audit.orders_unexplained), (0, 1));
    assert!(!audit.ledger_balanced());
}

// C1
#[test]
fn an_order_is_excused_by_the_missing_answer_of_its_own_buyer() {
    let found = |orders: &[OrderRow], unanswered: &[usize]| {
        let orders = orders.to_vec();
        let unanswered = unanswered.to_vec();
        let audit = Audit::of(&LabFacts { stock_initial: 9, orders, unanswered, ..LabFacts::default() }).0;
        (audit.indeterminate, audit.orders_unexplained)
    };
    let mut of_seven = orders_by(&[7]);
    assert_eq!(found(&of_seven, &[1, 2, 3]), (0, 1), "buyer 7 was refused, and others have no answer");
    assert_eq!(found(&of_seven, &[1, 7]), (1, 0));
    assert_eq!(found(&orders_by(&[7, 7]), &[1, 7]), (1, 1), "one missing answer explains one order");
    assert_eq!(found(&orders_by(&[7, 7]), &[7, 7]), (2, 0));
    of_seven.extend(orders([8, 9]));
    assert_eq!(found(&of_seven, &[7, 3]), (2, 1), "an order without a name needs a missing answer that is left");
}

// C1
#[test]
fn a_confirmation_without_an_order_unbalances_the_ledger() {
    assert_eq!(audit((5, 4), &orders([1]), &[1, 99], 0, 0).confirmations_unfounded, 1);
}

// C1
#[test]
fn one_order_told_to_two_buyers_unbalances_the_ledger() {
    let audit = audit((5, 4), &orders([1]), &[1, 1], 0, 0);
    assert_eq!((audit.confirmations_unfounded, audit.confirmations_repeated), (0, 1));
    assert!(!audit.ledger_balanced());
}

// C1
#[test]
fn a_receipt_unlike_its_order_unbalances_the_ledger() {
    let orders = with_tokens([7]);
    let told = Receipt { order_id: 1, goods_no: 1, quantity: 1, remaining: Some(8) };
    let wrong = |receipt: Receipt| {
        let orders = orders.clone();
        let confirmed = vec![(0, receipt)];
        let audit =
            Audit::of(&LabFacts { stock_initial: 9, stock_final: 8, orders, confirmed, ..LabFacts::default() }).0;
        assert_eq!(audit.ledger_balanced(), audit.confirmations_wrong == 0);
        audit.confirmations_wrong
    };
    assert_eq!(wrong(told), 0);
    assert_eq!(wrong(Receipt { goods_no: 2, ..told }), 1);
    assert_eq!(wrong(Receipt { quantity: 2, ..told }), 1);
    assert_eq!(wrong(Receipt { remaining: Some(7), ..told }), 1);
    assert_eq!(wrong(Receipt { remaining: None, ..told }), 1);
}

#[test]
fn two_orders_that_left_as_many_units_sold_the_same_one() {
    let left = |remaining: [i64; 4]| -> Vec<OrderRow> {
        (1..).zip(remaining).map(|(id, left)| OrderRow { remaining: Some(left), ..order(id, 1) }).collect()
    };
    assert_eq!(audit((4, 0), &left([3, 2, 1, 0]), &[1, 2, 3, 4], 0, 0).double_sales, 0);
    let sold_twice = audit((4, 1), &left([3, 3, 3, 1]), &[1, 2, 3, 4], 0, 0);
    assert_eq!(sold_twice.double_sales, 2);
    assert!(!sold_twice.is_clean());
}

/// Returns orders that each left one unit less, with this token.
fn with_tokens(tokens: impl IntoIterator<Item = i64>) -> Vec<OrderRow> {
    let order = |(id, token)| OrderRow { remaining: Some(9 - id), token: Some((token, 0)), ..order(id, 1) };
    (1..).zip(tokens).map(order).collect()
}

#[test]
fn an_order_that_is_out_of_sequence_is_no_clean_sale() {
    let mut orders = with_tokens([1, 2, 3]);
    assert!(audit((9, 6), &orders, &[1, 2, 3], 0, 0).is_clean());
    orders[2].remaining = Some(4);
    let skipped = audit((9, 6), &orders, &[1, 2, 3], 0, 0);
    assert_eq!((skipped.out_of_sequence, skipped.double_sales, skipped.is_clean()), (Some(1), 0, false));
}

#[test]
fn known_findings_of_several_skus_are_added_up() {
    let out_of_sequence = Some(2);
    let tokens_out_of_order = Some(1);
    let overtaken_in_batch = Some(3);
    let known = Audit { out_of_sequence, tokens_out_of_order, overtaken_in_batch, ..Audit::default() };
    let sum = Audit::sum([known, Audit::default(), known]);
    let found = (sum.out_of_sequence, sum.tokens_out_of_order, sum.overtaken_in_batch);
    assert_eq!(found, (Some(4), Some(2), Some(6)));
    assert_eq!(Audit::sum([Audit::default()]).out_of_sequence, None);
}

#[test]
fn a_unit_lost_here_does_not_make_up_for_one_gained_there() {
    let lost = audit((5, 5), &orders([1]), &[1], 0, 0);
    let gained = audit((5, 2), &orders([2]), &[2], 0, 0);
    assert_eq!((lost.lost_updates, gained.lost_updates), (-1, 2));
    assert_eq!(Audit::sum([lost, gained]).lost_updates, 2);
    assert_eq!(Audit::sum([lost, lost]).lost_updates, -2);
    assert_eq!(Audit::sum([lost, gained]).sold, 2);
}

#[test]
fn quantities_are_summed_and_not_counted() {
    assert_eq!(audit((5, 0), &[order(1, 5)], &[1], 3, 0).sold, 5);
}

#[test]
fn sums_beyond_64_bits_keep_their_sign() {
    let largest = [order(1, i64::MAX), order(2, i64::MAX)];
    let sold_twice = audit((i64::MAX, 0), &largest, &[1, 2], 0, 0);
    assert_eq!((sold_twice.sold, sold_twice.oversold), (i64::MAX, i64::MAX));
    assert_eq!(sold_twice.lost_updates, -i64::MAX);
    assert!(!sold_twice.is_clean());
    let sum = Audit::sum([sold_twice, sold_twice]);
    assert_eq!((sum.sold, sum.oversold, sum.lost_updates), (i64::MAX, i64::MAX, i64::MIN));
    let gained = audit((0, i64::MIN), &[], &[], 0, 0);
    assert_eq!(Audit::sum([sum, gained]).lost_updates, i64::MIN, "the wrong that is farther from zero");
}

proptest! {
    // C1
    #[test]
    fn every_order_is_told_indeterminate_or_unexplained(
        recorded in prop::collection::btree_set(0_i64..50, 0..30),
        confirmed in prop::collection::btree_set(0_i64..50, 0..30),
        unanswered in 0_u64..10,
    ) {
        let confirmed: Vec<i64> = confirmed.into_iter().collect();
        let audit = audit((10, 0), &orders(recorded.iter().copied()), &confirmed, 0, unanswered);
        let told = confirmed.iter().filter(|id| recorded.contains(id)).count() as u64;
        prop_assert_eq!(told + audit.indeterminate + audit.orders_unexplained, recorded.len() as u64);
        prop_assert_eq!(told + audit.confirmations_unfounded, confirmed.len() as u64);
        prop_assert_eq!(audit.confirmations_repeated, 0);
        prop_assert!(audit.oversold == 0 || audit.undersold == 0);
    }
}

/// Returns orders of one unit each by these buyers.
fn orders_by(buyers: &[usize]) -> Vec<OrderRow> {
    let mut orders = orders(1..=i64::try_from(buyers.len()).unwrap());
    orders.iter_mut().zip(buyers).for_each(|(order, buyer)| order.buyer = Some(buyer_name(*buyer).into()));
    orders
}

fn audit_of_limited(orders: &[OrderRow], over_limit: &[usize]) -> Audit {
    let receipt = |order: &OrderRow| {
        let buyer = order.buyer.as_ref().unwrap().strip_prefix("buyer-").unwrap().parse().unwrap();
        (buyer, Receipt { order_id: order.order_id, goods_no: 1, quantity: 1, remaining: None })
    };
    let confirmed: Vec<_> = orders.iter().map(receipt).collect();
    let stock_final = 9 - i64::try_from(orders.len()).unwrap();
    let per_buyer = Some(1);
    let orders = orders.to_vec();
    let over_limit = over_limit.to_vec();
    let facts =
        LabFacts { stock_initial: 9, stock_final, per_buyer, orders, confirmed, over_limit, ..LabFacts::default() };
    Audit::of(&facts).0
}

// C50
#[test]
fn buyers_with_more_than_the_limit_are_counted_once_each() {
    let audit = audit_of_limited(&orders_by(&[0, 1, 0, 0, 2, 2]), &[]);
    assert_eq!((audit.over_limit, audit.is_clean(), audit.ledger_balanced()), (2, false, true));
    assert_eq!(audit_of_limited(&orders_by(&[0, 1, 2]), &[0, 1, 2, 2]).over_limit, 0);
}

// C50
#[test]
fn a_buyer_told_of_the_limit_without_a_unit_was_left_out() {
    // A buyer that has its unit wanted no other one, so nothing is left over.
    let right = audit_of_limited(&orders_by(&[0, 1]), &[0, 0, 1]);
    assert!(right.is_clean(), "{right:?}");
    let wrong = audit_of_limited(&orders_by(&[0, 1]), &[0, 5, 5, 6]);
    assert_eq!((wrong.undersold, wrong.is_clean()), (2, false));
}

// C50
#[test]
fn an_order_of_another_buyer_than_was_told_is_wrong() {
    let mut orders = orders_by(&[0, 1]);
    orders[1].buyer = Some(buyer_name(7).into());
    let confirmed = [(0, 1), (1, 2)]
        .map(|(buyer, order_id)| (buyer, Receipt { order_id, goods_no: 1, quantity: 1, remaining: None }));
    let confirmed = confirmed.to_vec();
    let facts = LabFacts { stock_initial: 2, per_buyer: Some(1), orders, confirmed, ..LabFacts::default() };
    assert_eq!(Audit::of(&facts).0.confirmations_wrong, 1);
    let contradicted = LabFacts { contradicted: 3, ..facts };
    assert_eq!(Audit::of(&contradicted).0.confirmations_wrong, 4);
}
