//! The books from before a sale, and what the books after it can then show.

use crate::audit::shop::ShopBook;
use crate::shop::Shop;

/// What is known of the books from before the sale. It decides what the books after it can show.
pub(in crate::trial) enum BooksBefore<'a> {
    /// All of them.
    Known(&'a ShopBook),
    /// Nothing: an order of an earlier sale looks like one of this sale. The stock is of this sale.
    Unknown,
    /// The books are not of this sale, or are not to be read, for this reason.
    Useless(&'static str),
}

impl BooksBefore<'_> {
    /// Returns the part of the books after the sale that belongs to it.
    pub(in crate::trial) fn leave(&self, after: ShopBook) -> ShopBook {
        match self {
            BooksBefore::Known(before) => after.without(before),
            BooksBefore::Unknown => ShopBook { orders_on_page: None, orders_in_database: None, ..after },
            BooksBefore::Useless(_) => ShopBook::default(),
        }
    }

    /// Tells whether books after the sale show anything.
    pub(super) fn are_of_use(&self) -> bool {
        !matches!(self, BooksBefore::Useless(_))
    }

    /// Names what the books could show and do not.
    pub(super) fn unseen(&self, shop: &Shop) -> Option<String> {
        match self {
            BooksBefore::Known(_) => None,
            BooksBefore::Unknown => shop
                .books
                .have_orders()
                .then(|| "the orders: --before does not name the books from before the sale".to_owned()),
            BooksBefore::Useless(why) => shop.books.are_any().then(|| format!("the books: {why}")),
        }
    }
}
