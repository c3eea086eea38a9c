//! The description of what a buyer does, in sections of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use super::meaning::Meanings;
use super::request::ScriptRequest;
use super::source::Source;

/// What a buyer does, and what the answers mean.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The requests that sign a buyer up, before any buyer buys.
    pub sign_up: Steps,
    /// The requests of a purchase.
    pub buy: Steps,
    /// How a queued buyer asks for the outcome.
    pub outcome: Option<Poll>,
    /// What the last answer of a purchase means.
    pub meanings: Meanings,
    /// Where the number of the order is.
    pub order: Option<Source>,
}

/// Requests in their order, and the values to take from their answers.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    /// The requests.
    pub requests: Vec<ScriptRequest>,
    /// The values by their names. Each is taken from the latest answer that has it.
    pub take: BTreeMap<String, Source>,
}

/// Requests that a queued buyer repeats.
#[derive(Debug, Clone)]
pub struct Poll {
    /// The requests.
    pub steps: Steps,
    /// The pause before each repetition.
    pub every: Duration,
    /// How long the buyer asks, from the answer that it is queued.
    pub within: Duration,
}
