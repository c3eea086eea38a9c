//! What an instance remembers of the sales that it has seen. The database is the truth, and the memory may be out of
//! date. So the memory alone decides no purchase: a strategy checks the row, and a remembered sold-out is confirmed
//! by a look.

use std::collections::{HashMap, HashSet};

use parking_lot::RwLock;

use crate::sale::{Cart, Goods, GoodsNo};

/// The sales as last seen, by SKU. Unknown SKUs are not remembered, so the memory is never larger than the table of
/// goods.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sales: RwLock<HashMap<GoodsNo, Goods>>,
    sold_out: RwLock<HashSet<GoodsNo>>,
}

impl Memory {
    /// Returns the sales of a cart, or `None` if one of them was never seen.
    pub(super) fn sales(&self, cart: &Cart) -> Option<Vec<Goods>> {
        let sales = self.sales.read();
        cart.lines().iter().map(|line| sales.get(&line.goods_no).cloned()).collect()
    }

    /// Remembers sales that were just seen.
    pub(super) fn remember(&self, seen: &[Goods]) {
        let mut sales = self.sales.write();
        for goods in seen {
            // A look that was sent before a restart may be answered after it. It must not replace the newer sale.
            if sales.get(&goods.goods_no).is_none_or(|known| known.sale <= goods.sale) {
                sales.insert(goods.goods_no, goods.clone());
            }
        }
    }

    /// Forgets the sales of a cart, because one of them was restarted.
    pub(super) fn forget(&self, cart: &Cart) {
        let mut sales = self.sales.write();
        cart.lines().iter().for_each(|line| drop(sales.remove(&line.goods_no)));
    }

    /// Remembers all SKUs of a cart as possibly sold out, because a purchase of the cart found too few units.
    pub(super) fn remember_sold_out(&self, cart: &Cart) {
        self.sold_out.write().extend(cart.lines().iter().map(|line| line.goods_no));
    }

    /// Returns whether a purchase of a cart with this SKU found too few units.
    pub(super) fn is_sold_out(&self, goods_no: GoodsNo) -> bool {
        self.sold_out.read().contains(&goods_no)
    }

    /// Forgets that a SKU was sold out, because units have come back.
    pub(super) fn forget_sold_out(&self, goods_no: GoodsNo) {
        self.sold_out.write().remove(&goods_no);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::Quantity;

    fn goods(sale: i64) -> Goods {
        Goods { goods_no: "7".parse().unwrap(), sale, stock_initial: 5, on_hand: 5, guard: None, per_buyer: None }
    }

    // S6
    #[test]
    fn a_look_that_ends_late_does_not_bring_an_earlier_sale_back() {
        let memory = Memory::default();
        let cart = Cart::of_one("7".parse().unwrap(), Quantity::ONE);
        assert_eq!(memory.sales(&cart), None);
        memory.remember(&[goods(2)]);
        memory.remember(&[goods(1)]);
        assert_eq!(memory.sales(&cart), Some(vec![goods(2)]));
        memory.forget(&cart);
        assert_eq!(memory.sales(&cart), None);
    }
}
