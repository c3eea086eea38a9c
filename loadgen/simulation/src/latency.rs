//! The latency model: a few parameters with a physical meaning, which say how long an exchange takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long things take on one machine. Fitted to the points measured there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyModel {
    /// Milliseconds of the round trip of a read that nothing delays, with the wake-up of the client.
    pub read_ms: f64,
    /// Milliseconds that a write takes longer than a read, until it is durable. Writes that arrive meanwhile become
    /// durable together with the next flush.
    pub commit_ms: f64,
    /// Microseconds that the machine is busy with one request and its reply, or with a notification. Everything that
    /// arrives meanwhile waits.
    pub message_us: f64,
    /// Microseconds that the machine is busy with each further notification of the same release: to send it and to wake
    /// its receiver. The first one is part of the round trip.
    pub wake_us: f64,
    /// Microseconds that the machine is busy with each child of a listing.
    pub child_us: f64,
    /// Microseconds for a hand-over between two tasks of one process, without a request.
    pub handover_us: f64,
}

impl LatencyModel {
    /// The number of parameters.
    pub const PARAMETERS: usize = 6;

    /// The start of a fit: a server on the same machine, with a disk that is no slower than a network.
    pub const START: LatencyModel = LatencyModel {
        read_ms: 0.3,
        commit_ms: 0.5,
        message_us: 20.0,
        wake_us: 20.0,
        child_us: 1.0,
        handover_us: 10.0,
    };

    /// Returns the parameters, in the order of the fields.
    #[must_use]
    pub fn to_array(self) -> [f64; Self::PARAMETERS] {
        [self.read_ms, self.commit_ms, self.message_us, self.wake_us, self.child_us, self.handover_us]
    }

    /// Returns the model of these parameters, in the order of the fields.
    #[must_use]
    pub fn from_array(values: [f64; Self::PARAMETERS]) -> LatencyModel {
        let [read_ms, commit_ms, message_us, wake_us, child_us, handover_us] = values;
        LatencyModel { read_ms, commit_ms, message_us, wake_us, child_us, handover_us }
    }
}

/// The model in the simulation's unit of time, in which the order of events is exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedTimes {
    /// One way of a round trip.
    pub(crate) way_ns: u64,
    pub(crate) commit_ns: u64,
    pub(crate) message_ns: u64,
    pub(crate) wake_ns: u64,
    child_ps: u64,
    pub(crate) handover_ns: u64,
}

impl SimulatedTimes {
    pub(crate) fn of(model: &LatencyModel) -> SimulatedTimes {
        SimulatedTimes {
            way_ns: whole(model.read_ms * 1e6 / 2.0),
            commit_ns: whole(model.commit_ms * 1e6),
            message_ns: whole(model.message_us * 1e3),
            wake_ns: whole(model.wake_us * 1e3),
            child_ps: whole(model.child_us * 1e6),
            handover_ns: whole(model.handover_us * 1e3),
        }
    }

    pub(crate) fn children_ns(self, children: u64) -> u64 {
        children * self.child_ps / 1000
    }
}

/// Returns a time in whole units. The parameters are exponentials, so they are never negative, and they are far below 2⁵³.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and never negative")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
