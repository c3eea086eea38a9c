//! A batch of purchases of one SKU. It is decided as if its purchases had come one after the other.

use std::collections::{HashMap, HashSet};

use super::decision::{Level, remaining_after};
use super::goods::Quantity;
use super::purchase::{BuyerId, IdempotencyKey};

/// What one buyer of a batch wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// How many units.
    pub quantity: Quantity,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
    /// The buyer, if the purchase names one.
    pub buyer: Option<&'a BuyerId>,
}

/// What was sold before a batch.
#[derive(Debug, Default)]
pub struct AlreadySold {
    /// The keys of the batch that have an order already.
    pub keys: HashSet<String>,
    /// The units that buyers of the batch have of the sale already. Needed only if the sale has a limit per buyer.
    pub units: HashMap<String, i64>,
}

/// What one buyer of a batch gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The buyer gets the units.
    Sold {
        /// Units left.
        remaining: i64,
    },
    /// Too few units are left.
    SoldOut,
    /// The buyer would have more units than one buyer may have.
    OverLimit,
    /// The key has an order already, or gets one by an earlier purchase of the batch.
    Repeated,
    /// The purchase is admitted anew: its sale is over, another family guards it, or its stock is not the remembered one.
    Restarted,
}

/// Decides a batch in the order of `wishes`. A key or a buyer that comes twice in the batch counts twice.
pub fn share_out<'a>(level: &Level, guard: &str, before: &AlreadySold, wishes: &[Wish<'a>]) -> Vec<Share> {
    let mut on_hand = level.on_hand;
    let mut sold_here = HashSet::new();
    let mut units_here: HashMap<&str, i64> = HashMap::new();
    let mut share = |wish: &Wish<'a>| {
        if wish.sale != level.sale || level.guard.as_deref() != Some(guard) {
            return Share::Restarted;
        }
        // The key comes before the stock: a repeated purchase gets its order, also if nothing is left.
        if wish.key.is_some_and(|key| before.keys.contains(key.as_str()) || sold_here.contains(key.as_str())) {
            return Share::Repeated;
        }
        let Some(remaining) = remaining_after(on_hand, wish.quantity) else { return Share::SoldOut };
        if let Some(per_buyer) = level.per_buyer {
            // Nobody is admitted without a name to a sale with a limit.
            let Some(buyer) = wish.buyer.map(BuyerId::as_str) else { return Share::OverLimit };
            let units = units_here.entry(buyer).or_insert_with(|| before.units.get(buyer).copied().unwrap_or(0));
            match units.checked_add(wish.quantity.get()) {
                Some(sum) if sum <= per_buyer => *units = sum,
                _ => return Share::OverLimit,
            }
        }
        on_hand = remaining;
        sold_here.extend(wish.key.map(IdempotencyKey::as_str));
        Share::Sold { remaining }
    };
    wishes.iter().map(&mut share).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GUARD: &str = "pg-row";

    fn level(on_hand: i64) -> Level {
        Level { sale: 1, on_hand, version: 0, guard: Some(GUARD.to_owned()), per_buyer: None }
    }

    fn wish(units: i64, key: Option<&IdempotencyKey>) -> Wish<'_> {
        Wish { sale: 1, quantity: Quantity::new(units).unwrap(), key, buyer: None }
    }

    #[test]
    fn equal_keys_in_a_batch_sell_once_and_a_refusal_uses_no_key() {
        let keys: Vec<IdempotencyKey> = ["a", "b", "old"].map(|key| key.parse().unwrap()).into();
        let [a, b, old] = [Some(&keys[0]), Some(&keys[1]), Some(&keys[2])];
        let wishes = [wish(2, a), wish(2, a), wish(9, b), wish(1, b), wish(1, old), wish(1, None)];
        let before = AlreadySold { keys: HashSet::from(["old".to_owned()]), ..AlreadySold::default() };
        let shares = share_out(&level(4), GUARD, &before, &wishes);
        use Share::{Repeated, Sold, SoldOut};
        let expected =
            [Sold { remaining: 2 }, Repeated, SoldOut, Sold { remaining: 1 }, Repeated, Sold { remaining: 0 }];
        assert_eq!(shares, expected);
    }

    #[test]
    fn a_buyer_gets_no_more_of_a_batch_than_the_limit() {
        let [ann, bob] = ["ann", "bob"].map(|name| name.parse::<BuyerId>().unwrap());
        let by = |units, buyer| Wish { buyer, ..wish(units, None) };
        let before = AlreadySold { units: HashMap::from([("bob".to_owned(), 1)]), ..AlreadySold::default() };
        let wishes = [by(1, Some(&ann)), by(2, Some(&ann)), by(1, Some(&ann)), by(2, Some(&bob)), by(1, None)];
        let shares = share_out(&Level { per_buyer: Some(2), ..level(9) }, GUARD, &before, &wishes);
        use Share::{OverLimit, Sold};
        assert_eq!(shares, [Sold { remaining: 8 }, OverLimit, Sold { remaining: 7 }, OverLimit, OverLimit]);
        // Without a limit, nothing is counted.
        assert!(share_out(&level(9), GUARD, &before, &wishes).iter().all(|share| matches!(share, Sold { .. })));
    }

    #[test]
    fn a_purchase_of_another_sale_or_guard_gets_nothing() {
        let wishes = [Wish { sale: 2, ..wish(1, None) }, wish(1, None)];
        let none = AlreadySold::default();
        assert_eq!(share_out(&level(5), GUARD, &none, &wishes), [Share::Restarted, Share::Sold { remaining: 4 }]);
        assert_eq!(share_out(&level(5), "zk-queue", &none, &wishes), [Share::Restarted; 2]);
    }

    proptest! {
        // S37
        #[test]
        fn a_batch_sells_what_its_purchases_would_buy_one_by_one(
            stock in 0..200_i64,
            wanted in prop::collection::vec(1..20_i64, 0..100),
        ) {
            let wishes: Vec<_> = wanted.iter().map(|units| wish(*units, None)).collect();
            let mut on_hand = stock;
            let one_by_one: Vec<Share> = wishes.iter().map(|wish| match remaining_after(on_hand, wish.quantity) {
                Some(remaining) => {
                    on_hand = remaining;
                    Share::Sold { remaining }
                }
                None => Share::SoldOut,
            }).collect();
            prop_assert_eq!(share_out(&level(stock), GUARD, &AlreadySold::default(), &wishes), one_by_one);
        }
    }
}
