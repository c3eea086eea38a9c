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
    pub(crate) ended: Instant,
    pub(crate) received_bytes: u64,
}
