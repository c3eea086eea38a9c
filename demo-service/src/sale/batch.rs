//! A batch of purchases of one SKU. It is decided as if its purchases had come one after the other.

use std::collections::HashSet;

use super::decision::{Level, remaining_after};
use super::goods::Quantity;
use super::purchase::IdempotencyKey;

/// What one buyer of a batch wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// How many units.
    pub quantity: Quantity,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
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
    /// The key has an order already, or gets one by an earlier purchase of the batch.
    Repeated,
    /// The purchase is admitted anew: its sale is over, another family guards it, or its stock is not the remembered one.
    Restarted,
}

/// Decides a batch in the order of `wishes`. `known` are the keys that have an order already.
pub fn share_out<'a>(level: &Level, guard: &str, known: &HashSet<String>, wishes: &[Wish<'a>]) -> Vec<Share> {
    let mut on_hand = level.on_hand;
    let mut sold_here = HashSet::new();
    let mut share = |wish: &Wish<'a>| {
        if wish.sale != level.sale || level.guard.as_deref() != Some(guard) {
            return Share::Restarted;
        }
        // The key comes before the stock: a repeated purchase gets its order, also if nothing is left.
        if wish.key.is_some_and(|key| known.contains(key.as_str()) || sold_here.contains(key.as_str())) {
            return Share::Repeated;
        }
        let Some(remaining) = remaining_after(on_hand, wish.quantity) else { return Share::SoldOut };
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
        Level { sale: 1, on_hand, version: 0, guard: Some(GUARD.to_owned()) }
    }

    fn wish(units: i64, key: Option<&IdempotencyKey>) -> Wish<'_> {
        Wish { sale: 1, quantity: Quantity::new(units).unwrap(), key }
    }

    #[test]
    fn equal_keys_in_a_batch_sell_once_and_a_refusal_uses_no_key() {
        let keys: Vec<IdempotencyKey> = ["a", "b", "old"].map(|key| key.parse().unwrap()).into();
        let [a, b, old] = [Some(&keys[0]), Some(&keys[1]), Some(&keys[2])];
        let wishes = [wish(2, a), wish(2, a), wish(9, b), wish(1, b), wish(1, old), wish(1, None)];
        let shares = share_out(&level(4), GUARD, &HashSet::from(["old".to_owned()]), &wishes);
        use Share::{Repeated, Sold, SoldOut};
        let expected =
            [Sold { remaining: 2 }, Repeated, SoldOut, Sold { remaining: 1 }, Repeated, Sold { remaining: 0 }];
        assert_eq!(shares, expected);
    }

    #[test]
    fn a_purchase_of_another_sale_or_guard_gets_nothing() {
        let wishes = [Wish { sale: 2, ..wish(1, None) }, wish(1, None)];
        let none = HashSet::new();
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
            prop_assert_eq!(share_out(&level(stock), GUARD, &HashSet::new(), &wishes), one_by_one);
        }
    }
}
