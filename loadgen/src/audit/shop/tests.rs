//! What an audit finds at a shop that a file describes.

// C42

use std::sync::Arc;

use super::*;

const STOCK: i64 = 5;

/// A sale as the answers tell it: who was told which order. Nine others were told "sold out".
fn sold_to(told: &[(usize, Option<&str>)]) -> Vec<ShopReceipt> {
    told.iter().map(|(buyer, order)| ShopReceipt { buyer: *buyer, order: order.map(Arc::from) }).collect()
}

/// Tells the first buyers of the orders "1", "2" and so on.
fn each_one(buyers: usize) -> Vec<ShopReceipt> {
    (0..buyers).map(|buyer| ShopReceipt { buyer, order: Some((buyer + 1).to_string().into()) }).collect()
}

fn booked(numbers: impl IntoIterator<Item = usize>) -> Vec<ShopOrder> {
    let order = |number: usize| ShopOrder {
        number: Some(number.to_string()),
        buyer: Some(format!("buyer-{number}")),
        units: 1,
    };
    numbers.into_iter().map(order).collect()
}

fn audit(sold_to: &[ShopReceipt], failed: u64, books: &ShopBook) -> Audit {
    let answers = ByOutcome { sold: sold_to.len() as u64, sold_out: 9, error: failed, ..ByOutcome::default() };
    Audit::of_shop(&ShopFacts { stock: STOCK, per_buyer: None, sold_to, over_limit: &[], answers, unlogged: 0, books })
}

fn database(left: i64, orders: Vec<ShopOrder>) -> ShopBook {
    ShopBook { left_in_database: Some(left), orders_in_database: Some(orders), ..ShopBook::default() }
}

fn pages(left: i64, orders: i64) -> ShopBook {
    ShopBook { left_on_page: Some(left), orders_on_page: Some(orders), ..ShopBook::default() }
}

#[test]
fn a_shop_that_sells_its_stock_is_clean_by_every_evidence() {
    for books in [ShopBook::default(), pages(0, 5), database(0, booked(1..=5))] {
        let audit = audit(&each_one(5), 0, &books);
        assert!(audit.is_clean(), "{audit:?}");
        assert_eq!(audit.sold, STOCK);
    }
}

#[test]
fn more_answers_that_sold_than_units_are_oversold() {
    assert_eq!(audit(&each_one(7), 0, &ShopBook::default()).oversold, 2);
    assert_eq!(audit(&each_one(7), 0, &pages(0, 7)).oversold, 2);
    let found = audit(&each_one(7), 0, &database(-2, booked(1..=7)));
    assert_eq!((found.oversold, found.lost_updates), (2, 0));
}

#[test]
fn a_stock_below_zero_is_oversold_whatever_was_told() {
    let books = ShopBook { left_on_page: Some(-3), ..ShopBook::default() };
    assert_eq!(audit(&each_one(5), 0, &books).oversold, 3);
}

#[test]
fn two_buyers_of_one_unit_are_a_lost_update() {
    let found = audit(&each_one(2), 0, &pages(4, 2));
    assert_eq!((found.oversold, found.lost_updates, found.undersold), (0, -1, 3));
    let by_stock_alone = ShopBook { left_in_database: Some(4), ..ShopBook::default() };
    assert_eq!(audit(&each_one(2), 0, &by_stock_alone).lost_updates, -1);
}

#[test]
fn buyers_told_of_no_order_are_counted_by_number_or_by_count() {
    let lost_two = |books| audit(&each_one(5), 0, &books).confirmations_unfounded;
    assert_eq!(lost_two(database(2, booked(1..=3))), 2);
    assert_eq!(lost_two(pages(2, 3)), 2);
    let other_kind: Vec<ShopOrder> =
        booked(1..=3).into_iter().map(|order| ShopOrder { number: Some("uuid".to_owned()), ..order }).collect();
    assert_eq!(lost_two(database(2, other_kind)), 2);
}

#[test]
fn an_unanswered_buyer_may_have_an_order_that_was_never_told() {
    let found = audit(&each_one(3), 1, &database(0, booked(1..=5)));
    assert_eq!((found.indeterminate, found.orders_unexplained), (1, 1));
    assert_eq!(audit(&each_one(3), 2, &pages(0, 5)).orders_unexplained, 0);
}

#[test]
fn one_order_for_two_buyers_is_told_twice() {
    let told = sold_to(&[(0, Some("a")), (1, Some("a")), (2, Some("b"))]);
    let audit_of = |told: &[ShopReceipt]| audit(told, 0, &ShopBook::default());
    assert_eq!((audit_of(&told).confirmations_repeated, audit_of(&told).sold), (1, 3));
    // A buyer that presses the button again is told its own order.
    let again = sold_to(&[(0, Some("a")), (0, Some("a")), (2, Some("b"))]);
    assert_eq!((audit_of(&again).confirmations_repeated, audit_of(&again).sold), (0, 2));
}

#[test]
fn a_buyer_above_its_limit_is_found_by_answers_and_by_the_books() {
    let told = sold_to(&[(0, Some("1")), (0, Some("2")), (1, Some("3"))]);
    let found = |sold_to: &[ShopReceipt], books: &ShopBook, per_buyer| {
        let answers = ByOutcome { sold: sold_to.len() as u64, ..ByOutcome::default() };
        Audit::of_shop(&ShopFacts { stock: STOCK, per_buyer, sold_to, over_limit: &[], answers, unlogged: 0, books })
            .over_limit
    };
    assert_eq!(found(&told, &ShopBook::default(), Some(1)), 1);
    assert_eq!(found(&told, &ShopBook::default(), Some(2)), 0);
    assert_eq!(found(&told, &ShopBook::default(), None), 0);
    let mut orders = booked(1..=3);
    orders.iter_mut().for_each(|order| order.buyer = Some("ann".to_owned()));
    assert_eq!(found(&each_one(3), &database(2, orders), Some(1)), 1);
}

#[test]
fn units_left_after_sold_out_are_undersold() {
    assert_eq!(audit(&each_one(2), 0, &ShopBook::default()).undersold, 3);
    assert_eq!(audit(&each_one(2), 2, &ShopBook::default()).undersold, 1, "two buyers may have one each");
    assert_eq!(audit(&each_one(2), 2, &pages(3, 2)).undersold, 3, "the books say that they have none");
}

#[test]
fn an_order_of_several_units_is_wrong() {
    let mut orders = booked(1..=5);
    orders[0].units = 2;
    let found = audit(&each_one(5), 0, &database(-1, orders));
    assert_eq!((found.confirmations_wrong, found.oversold), (1, 1));
}

#[test]
fn what_was_there_before_the_sale_is_left_out() {
    let before = ShopBook { orders_on_page: Some(40), ..database(5, booked(100..=103)) };
    let after = ShopBook { orders_on_page: Some(45), ..database(0, booked((100..=103).chain(1..=5))) };
    let own = after.without(&before);
    assert_eq!((own.orders_on_page, own.orders_in_database.as_ref().map(Vec::len)), (Some(5), Some(5)));
    assert!(audit(&each_one(5), 0, &own).is_clean());
}

#[test]
fn a_log_that_nobody_named_explains_what_is_missing() {
    let audit = |told: usize, unlogged: u64, books: &ShopBook| {
        let sold_to = each_one(told);
        let answers = ByOutcome { sold: told as u64, sold_out: 9, ..ByOutcome::default() };
        Audit::of_shop(&ShopFacts {
            stock: STOCK,
            per_buyer: None,
            sold_to: &sold_to,
            over_limit: &[],
            answers,
            unlogged,
            books,
        })
    };
    let whole = database(0, booked(1..=5));
    let known = audit(3, 0, &whole);
    assert_eq!((known.orders_unexplained, known.indeterminate), (2, 0));
    let unknown = audit(3, u64::MAX, &whole);
    assert_eq!((unknown.orders_unexplained, unknown.indeterminate, unknown.undersold), (0, 2, 0));
    let stock_alone = ShopBook { left_in_database: Some(0), ..ShopBook::default() };
    let unknown = audit(3, u64::MAX, &stock_alone);
    assert_eq!((unknown.lost_updates, unknown.undersold, unknown.unsold_undecided), (0, 0, 2));
    assert_eq!(audit(3, 0, &stock_alone).lost_updates, 2);
    assert_eq!(audit(7, u64::MAX, &database(0, booked(1..=7))).oversold, 2, "a missing log takes nothing back");
}

// C50
#[test]
fn a_buyer_with_the_limit_wants_nothing_more() {
    let receipt = |buyer| ShopReceipt { buyer, order: None };
    let sold_to = [0, 1].map(receipt);
    let audit = |over_limit: &[usize], per_buyer| {
        let answers = ByOutcome { sold: 2, over_limit: over_limit.len() as u64, ..ByOutcome::default() };
        let books = &ShopBook { left_on_page: Some(STOCK - 2), ..ShopBook::default() };
        Audit::of_shop(&ShopFacts {
            stock: STOCK,
            per_buyer,
            sold_to: &sold_to,
            over_limit,
            answers,
            unlogged: 0,
            books,
        })
    };
    for per_buyer in [Some(1), None] {
        assert!(audit(&[0, 0, 1, 1], per_buyer).is_clean());
        assert_eq!(audit(&[0, 1, 7, 7], per_buyer).undersold, 1, "buyer 7 has nothing and was told of the limit");
    }
}
