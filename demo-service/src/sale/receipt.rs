//! What a buyer is given: an order, the promise of one, or a ticket for one.

use super::decision::Order;

/// What a purchase gives its buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receipt {
    /// The order.
    Order(Order),
    /// An order that is promised, and not written yet.
    Promised {
        /// The order, as it is to be written.
        order: Order,
        /// Whether an earlier request with the same key was promised it.
        is_repeated: bool,
    },
    /// A ticket. Whether there will be an order is not decided.
    Ticket(Ticket),
}

/// A durable wish to buy, which waits for its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its number.
    pub ticket: i64,
    /// The SKU.
    pub goods_no: i64,
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// How many units are wished for.
    pub quantity: i64,
    /// Whether an earlier request with the same key took the ticket.
    pub is_repeated: bool,
}
