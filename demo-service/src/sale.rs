//! The domain of a flash sale: what is sold, what a buyer asks for, and what may be sold. Nothing here does input or
//! output, except the business time, which waits.

mod batch;
mod business_time;
mod decision;
mod goods;
mod promised;
mod purchase;
mod receipt;
mod reservation;

pub use self::batch::{AlreadySold, Share, Wish, share_out};
pub use self::business_time::{BusinessTime, InvalidBusinessTime};
pub use self::decision::{Fence, Level, Order, OrderLine, Token, remaining_after};
pub use self::goods::{Goods, GoodsNo, Guard, InvalidGoodsNo, NewStock, Quantity, Stock};
pub use self::promised::PromisedOrder;
pub use self::purchase::{
    BuyerId, Cart, IdempotencyKey, InvalidBuyer, InvalidCart, InvalidKey, Line, LockSequence, Purchase,
};
pub use self::receipt::{Receipt, Ticket};
pub use self::reservation::{Reservation, ReservationState};
