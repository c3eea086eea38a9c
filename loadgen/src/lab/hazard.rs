//! Hazards: what a trial does to the service and to its Redis while buyers buy. `strike.rs` does it.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a trial does to the service or to its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Hazard {
    /// Redis, which has no log, is killed and started again
    RedisKilled,
    /// Redis is restored from a backup that was made during the sale
    RedisRestored,
    /// An instance is killed in its transactions and started again; a gate's consumer is killed between reading and acknowledging
    InstanceKilled,
    /// The stream of a gate delivers again what was not acknowledged
    DeliveredTwice,
    /// The stream of a gate is cut to nothing
    StreamTrimmed,
    /// Another channel takes an eighth of the stock from the row, so the database refuses as many orders of a gate
    OrdersRefused,
    /// A gate is loaded again while orders are under way
    GateLoadedAgain,
}

impl Hazard {
    /// Returns what happens, in a few words.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Hazard::RedisKilled => "Redis killed",
            Hazard::RedisRestored => "Redis restored",
            Hazard::InstanceKilled => "instance killed",
            Hazard::DeliveredTwice => "delivered twice",
            Hazard::StreamTrimmed => "stream trimmed",
            Hazard::OrdersRefused => "orders refused",
            Hazard::GateLoadedAgain => "gate loaded again",
        }
    }

    /// Returns the name, as a plan and a report have it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Tells whether Redis forgets what it has said.
    pub(crate) fn is_of_memory(self) -> bool {
        matches!(self, Hazard::RedisKilled | Hazard::RedisRestored)
    }
}
