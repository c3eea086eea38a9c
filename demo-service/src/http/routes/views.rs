//! What clients see of SKUs and orders: the bodies of answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::sale::{Goods, Order, OrderLine, Quantity, Reservation, ReservationState, Ticket};

/// A SKU as a client sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Goods)]
pub struct GoodsView {
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// Which sale this is; every reset starts the next.
    #[schema(minimum = 1)]
    sale: i64,
    /// Units at the start of the sale.
    #[schema(minimum = 0)]
    stock_initial: i64,
    /// Units left.
    on_hand: i64,
    /// The family of strategies that may write the sale; null until the first purchase claims it.
    #[schema(required)]
    guard: Option<String>,
    /// The strategy of the purchases that name none; null as long as the guard is.
    #[schema(required)]
    strategy: Option<String>,
    /// Most units of the sale that one buyer may have; null without such a limit.
    #[schema(required, minimum = 1)]
    per_buyer: Option<i64>,
}

impl From<Goods> for GoodsView {
    fn from(goods: Goods) -> Self {
        let (guard, strategy) = goods.guard.map(|guard| (guard.family, guard.strategy)).unzip();
        Self {
            goods_no: goods.goods_no.get(),
            sale: goods.sale,
            stock_initial: goods.stock_initial,
            on_hand: goods.on_hand,
            guard,
            strategy,
            per_buyer: goods.per_buyer.map(Quantity::get),
        }
    }
}

/// The answer to a purchase of one unit.
#[derive(Debug, Serialize, ToSchema)]
pub struct Bought {
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// The sale that the unit was taken from.
    #[schema(minimum = 1)]
    sale: i64,
    /// The number of the order.
    #[schema(minimum = 1)]
    order_id: i64,
    /// How many units.
    #[schema(minimum = 1)]
    quantity: i64,
    /// Units left, as the strategy saw them.
    #[schema(required)]
    remaining: Option<i64>,
    /// The strategy that decided the purchase.
    strategy: String,
    /// The instance of the service that made it.
    instance: String,
    /// The fencing token of the lock, for a strategy whose lock gives one.
    #[schema(required)]
    token: Option<i64>,
}

impl From<Order> for Bought {
    /// Takes the only line of the order, because one SKU was bought.
    fn from(order: Order) -> Self {
        let line = order.lines[0];
        Self {
            goods_no: line.goods_no,
            sale: line.sale,
            order_id: order.order_id,
            quantity: line.quantity,
            remaining: line.remaining,
            strategy: order.strategy,
            instance: order.instance,
            token: line.token.map(|token| token.number),
        }
    }
}

/// A purchase that waits for its decision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub struct TicketView {
    /// The number of the ticket.
    #[schema(minimum = 1)]
    ticket: i64,
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// The sale to which the purchase belongs.
    #[schema(minimum = 1)]
    sale: i64,
    /// How many units are wished for.
    #[schema(minimum = 1)]
    quantity: i64,
}

impl From<Ticket> for TicketView {
    fn from(ticket: Ticket) -> Self {
        let Ticket { ticket, goods_no, sale, quantity, .. } = ticket;
        Self { ticket, goods_no, sale, quantity }
    }
}

/// An order as a client sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order)]
pub struct OrderView {
    /// The number of the order.
    #[schema(minimum = 1)]
    order_id: i64,
    /// The strategy that guarded the deduction.
    strategy: String,
    /// The instance of the service that made it.
    instance: String,
    /// What was sold, in the order in which it was asked for.
    lines: Vec<OrderLineView>,
}

/// What an order has of one SKU.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderLine)]
pub struct OrderLineView {
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// The sale that the units were taken from.
    #[schema(minimum = 1)]
    sale: i64,
    /// How many units.
    #[schema(minimum = 1)]
    quantity: i64,
    /// Units left, as far as the deduction could see.
    #[schema(required)]
    remaining: Option<i64>,
    /// The fencing token of the lock, where there was one.
    #[schema(required)]
    token: Option<i64>,
    /// Its second part: hand-overs within an instance since the grant.
    #[schema(required)]
    token_handover: Option<i64>,
}

impl From<Order> for OrderView {
    fn from(order: Order) -> Self {
        let Order { order_id, strategy, instance, lines } = order;
        Self { order_id, strategy, instance, lines: lines.into_iter().map(Into::into).collect() }
    }
}

impl From<OrderLine> for OrderLineView {
    fn from(line: OrderLine) -> Self {
        Self {
            goods_no: line.goods_no,
            sale: line.sale,
            quantity: line.quantity,
            remaining: line.remaining,
            token: line.token.map(|token| token.number),
            token_handover: line.token.map(|token| token.handover),
        }
    }
}

/// A reservation as a client sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reservation)]
pub struct ReservationView {
    /// The number of the reservation.
    #[schema(minimum = 1)]
    reservation_id: i64,
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// The sale that the units are held in.
    #[schema(minimum = 1)]
    sale: i64,
    /// How many units.
    #[schema(minimum = 1)]
    quantity: i64,
    /// Whether it holds its units, or how it has ended. Past `expires_at` it is expired.
    #[schema(value_type = String, pattern = "^(held|confirmed|cancelled|expired)$")]
    state: &'static str,
    /// From then on it cannot be confirmed, by the clock of the database.
    #[schema(format = "date-time")]
    expires_at: String,
    /// The order of a confirmed reservation, else null.
    #[schema(required, minimum = 1)]
    order_id: Option<i64>,
}

impl From<Reservation> for ReservationView {
    fn from(reservation: Reservation) -> Self {
        let Reservation { reservation_id, goods_no, sale, quantity, state, expires_at, order_id } = reservation;
        Self { reservation_id, goods_no, sale, quantity, state: ReservationState::as_str(state), expires_at, order_id }
    }
}
