//! How a purchase of a buyer ended.

use tokio::time::Instant;

use super::doubt::Doubt;

/// What a buyer got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShopOutcome {
    /// A unit.
    Sold {
        /// The number of the order, if the file says where it is and the answer has it.
        order: Option<String>,
    },
    /// Nothing: nothing was left.
    SoldOut,
    /// Nothing: the buyer has as many units as one buyer may have.
    OverLimit,
    /// Nothing: the shop did not serve the buyer.
    Refused,
    /// Unknown: the shop may have sold a unit.
    Unknown(Doubt),
}

/// How a purchase of a buyer ended, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What the buyer got.
    pub outcome: ShopOutcome,
    /// The status of the last answer. Absent if the last request had none.
    pub status: Option<u16>,
    /// When the headers of the last answer arrived. Absent if the last request had no answer.
    pub first_byte: Option<Instant>,
    /// When the last byte of the last answer arrived, or the purchase failed.
    pub ended: Instant,
    /// Size of all answers, headers included, in bytes.
    pub received_bytes: u64,
    /// Number of requests sent, redirects and questions for the outcome included.
    pub requests: u32,
}
