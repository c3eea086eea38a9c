//! What a purchase came to, at whatever shop.

use tokio::time::Instant;

use crate::sample::{Confirmation, Outcome};

/// What a purchase came to.
#[derive(Debug)]
pub(crate) struct Bought {
    /// Which of the SKUs on sale, from zero.
    pub(crate) goods: usize,
    pub(crate) outcome: Outcome,
    pub(crate) confirmation: Option<Confirmation>,
    /// What went wrong, for a refusal or an error.
    pub(crate) problem: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) first_byte: Option<Instant>,
    /// When the answer was there, or the request failed.
    pub(crate) ended: Instant,
    /// When a ticket told the outcome, if the answer was a ticket.
    pub(crate) decided: Option<Instant>,
    /// Whether the answer "sold" comes after the commit of the order, as far as that is known.
    pub(crate) is_committed: bool,
    /// The index of the instance of the lab that was asked.
    pub(crate) instance: Option<usize>,
    pub(crate) received_bytes: u64,
}
