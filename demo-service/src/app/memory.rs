//! What an instance remembers of the sales that it has seen. The database is the truth: what is remembered may be old, so it
//! only spares looks, and a strategy checks it against the row.

use std::collections::{HashMap, HashSet};

use parking_lot::RwLock;

use crate::sale::{Cart, Goods, GoodsNo};

/// The sales as they were last seen, by SKU. It does not outgrow the table of goods, as unknown SKUs are not remembered.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sales: RwLock<HashMap<GoodsNo, Goods>>,
    sold_out: RwLock<HashSet<GoodsNo>>,
}

impl Memory {
    /// The sales of a cart, if all were seen.
    pub(super) fn sales(&self, cart: &Cart) -> Option<Vec<Goods>> {
        let sales = self.sales.read();
        cart.lines().iter().map(|line| sales.get(&line.goods_no).cloned()).collect()
    }

    /// Remembers sales that were just seen.
    pub(super) fn remember(&self, seen: &[Goods]) {
        let mut sales = self.sales.write();
        for goods in seen {
            // A look that began before a restart may end after it.
            if sales.get(&goods.goods_no).is_none_or(|known| known.sale <= goods.sale) {
                sales.insert(goods.goods_no, goods.clone());
            }
        }
    }

    /// Forgets the sales of a cart: one of them was restarted.
    pub(super) fn forget(&self, cart: &Cart) {
        let mut sales = self.sales.write();
        cart.lines().iter().for_each(|line| drop(sales.remove(&line.goods_no)));
    }

    /// Remembers that a purchase of this cart found too little.
    pub(super) fn remember_sold_out(&self, cart: &Cart) {
        self.sold_out.write().extend(cart.lines().iter().map(|line| line.goods_no));
    }

    /// Whether a purchase has found too little of a SKU.
    pub(super) fn is_sold_out(&self, goods_no: GoodsNo) -> bool {
        self.sold_out.read().contains(&goods_no)
    }

    /// Forgets that a SKU was sold out: units have come back.
    pub(super) fn forget_sold_out(&self, goods_no: GoodsNo) {
        self.sold_out.write().remove(&goods_no);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::Quantity;

    fn goods(sale: i64) -> Goods {
        Goods { goods_no: "7".parse().unwrap(), sale, stock_initial: 5, on_hand: 5, guard: None }
    }

    #[test]
    fn a_look_that_ends_late_does_not_bring_an_earlier_sale_back() {
        let (memory, cart) = (Memory::default(), Cart::of_one("7".parse().unwrap(), Quantity::ONE));
        assert_eq!(memory.sales(&cart), None);
        memory.remember(&[goods(2)]);
        memory.remember(&[goods(1)]);
        assert_eq!(memory.sales(&cart), Some(vec![goods(2)]));
        memory.forget(&cart);
        assert_eq!(memory.sales(&cart), None);
    }
}
