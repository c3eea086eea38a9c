//! One request to buy, and the answers by outcome.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the service of the lab tells a buyer of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The number of the order.
    pub order_id: i64,
    /// The SKU.
    pub goods_no: i64,
    /// Units of the order.
    pub quantity: i64,
    /// Units left, as the deduction saw it.
    pub remaining: Option<i64>,
}

/// What the service of the lab told a buyer that has a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderTold {
    /// The receipt.
    pub receipt: Receipt,
    /// Whether the buyer asked once more, under the same key, and was told something else.
    pub is_contradicted: bool,
}

impl OrderTold {
    /// Returns what one answer tells.
    pub fn once(receipt: Receipt) -> OrderTold {
        OrderTold { receipt, is_contradicted: false }
    }
}

/// What any other shop told a buyer that has a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopReceipt {
    /// The number of the buyer, from zero.
    pub buyer: usize,
    /// The number of the order, if the answer has it.
    pub order: Option<Arc<str>>,
}

/// What a buyer was told of its reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationTold {
    /// The number of the reservation.
    pub reservation: i64,
    /// How it ended.
    pub end: ToldEnd,
    /// Whether the buyer was told of another end, too.
    pub is_contradicted: bool,
}

/// How a reservation ended, as its buyer was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToldEnd {
    /// Sold, by this order.
    Sold(Receipt),
    /// The payment came too late.
    Expired,
    /// The buyer did not ask.
    Abandoned,
    /// No answer says it.
    Unknown,
}

/// How an answer confirms that a unit was bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// By the receipt of the service of the lab.
    Lab(OrderTold),
    /// By the answer of another shop, with the number of the order if the answer has it.
    Shop(Option<Arc<str>>),
    /// By what the service of the lab has told of a reservation, which may not be sold.
    Reservation(ReservationTold),
}

/// The outcome of one request to buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A unit was bought. The service of the lab says so by a 200 with a receipt.
    Sold,
    /// Nothing was left. The service of the lab says so by a 409 with the problem `sold-out`.
    SoldOut,
    /// The buyer has as many units as one buyer may have. The service of the lab says so by a 403 with the problem
    /// `over-limit`.
    OverLimit,
    /// The buyer had a reservation and did not pay it in time. The service of the lab says so by a 410 with the problem
    /// `reservation-expired`, if the buyer asks at all.
    Unpaid,
    /// The buyer was not served, and nothing was bought. The service of the lab says so by a 503 with a problem that
    /// promises it, such as a lock that was not granted in time.
    Refused,
    /// Any other answer, or none: the connection failed. Whether something was bought is unknown.
    Error,
    /// No answer in time. Whether something was bought is unknown.
    Timeout,
}

/// One request to buy, timed by the generator itself. All instants count from the release.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Number of the user, from zero.
    pub user: usize,
    /// Number of the buyer, from zero. In an open model, one user sends the requests of many buyers.
    pub buyer: usize,
    /// Which of the SKUs on sale, from zero.
    pub goods: usize,
    /// Its outcome.
    pub outcome: Outcome,
    /// How the answer confirms it, if a unit was sold.
    pub confirmation: Option<Confirmation>,
    /// When the request was meant to start.
    pub intended: Duration,
    /// Since when a user that could send it was idle.
    pub idle_since: Duration,
    /// When it did start.
    pub started: Duration,
    /// When the answer's headers arrived; absent if none came.
    pub first_byte: Option<Duration>,
    /// When the last byte of the answer arrived, or the request failed.
    pub ended: Duration,
    /// When a ticket told the outcome, if the answer was a ticket.
    pub decided: Option<Duration>,
    /// Whether the answer "sold" comes after the commit of the order, as far as that is known.
    pub is_committed: bool,
    /// The status of the answer, if there was one and the buyer sees it.
    pub status: Option<u16>,
    /// The index of the instance of the lab that was asked, if that is known.
    pub instance: Option<usize>,
    /// Size of the answer, headers included.
    pub received_bytes: u64,
    /// What went wrong, for a refusal or an error.
    pub problem: Option<String>,
}

impl Sample {
    /// Returns how long the buyer waited: the time from the intended start.
    pub fn response(&self) -> Duration {
        self.ended.saturating_sub(self.intended)
    }

    /// Returns how long the service took: the time from the actual start.
    pub fn service(&self) -> Duration {
        self.ended.saturating_sub(self.started)
    }

    /// Returns when the buyer knew the outcome.
    pub fn known(&self) -> Duration {
        self.decided.unwrap_or(self.ended)
    }

    /// Returns how much later than intended the request was started.
    pub fn start_lag(&self) -> Duration {
        self.started.saturating_sub(self.intended)
    }

    /// Tells whether the shop has answered. A scenario tells the outcome, and no status.
    pub fn is_answered(&self) -> bool {
        self.status.is_some() || !matches!(self.outcome, Outcome::Error | Outcome::Timeout)
    }

    /// Returns the part of the lag in which a user was idle. Only the generator can have caused it.
    pub fn idle_lag(&self) -> Duration {
        self.started.saturating_sub(self.intended.max(self.idle_since))
    }
}

/// One value for each outcome. The service of the lab says `sold` by a 200, `sold_out` by a 409 and `over_limit` by a 403 that say
/// so, and `refused` by a 503 that promises that nothing was written. What another shop says, its file describes. Any other answer or failure is an
/// `error`, and no answer in time a `timeout`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(bound(deserialize = "T: Deserialize<'de> + Default"))]
#[schemars(bound = "T: JsonSchema + Serialize + Default")]
pub struct ByOutcome<T> {
    /// Told that a unit was bought.
    pub sold: T,
    /// Told that nothing was left.
    pub sold_out: T,
    /// Told that the buyer has as many units as one buyer may have.
    #[serde(default)]
    pub over_limit: T,
    /// Reserved and not paid in time, or not at all.
    #[serde(default)]
    pub unpaid: T,
    /// Refused, with the promise that nothing was written.
    pub refused: T,
    /// Any other answer, or a failed connection: the unit may have been sold.
    pub error: T,
    /// No answer in time: the unit may have been sold.
    pub timeout: T,
}

impl ByOutcome<u64> {
    /// Requests that were answered neither by "sold" nor by "sold out" nor by the limit per buyer, paid reservations or not apart.
    pub fn undecided(&self) -> u64 {
        self.refused.saturating_add(self.failed())
    }

    /// Requests that ended in an error or a timeout.
    pub fn failed(&self) -> u64 {
        self.error.saturating_add(self.timeout)
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        let all = [self.sold, self.sold_out, self.over_limit, self.unpaid, self.undecided()];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

impl<T> ByOutcome<T> {
    /// Returns the value of one outcome.
    pub fn get_mut(&mut self, outcome: Outcome) -> &mut T {
        match outcome {
            Outcome::Sold => &mut self.sold,
            Outcome::SoldOut => &mut self.sold_out,
            Outcome::OverLimit => &mut self.over_limit,
            Outcome::Unpaid => &mut self.unpaid,
            Outcome::Refused => &mut self.refused,
            Outcome::Error => &mut self.error,
            Outcome::Timeout => &mut self.timeout,
        }
    }

    /// Combines the values of several, outcome by outcome.
    pub fn fold<'a, S: 'a>(
        all: &[&'a ByOutcome<S>],
        combine: impl Fn(&mut dyn Iterator<Item = &'a S>) -> T,
    ) -> ByOutcome<T> {
        let of = |field: fn(&ByOutcome<S>) -> &S| combine(&mut all.iter().map(|one| field(one)));
        ByOutcome {
            sold: of(|one| &one.sold),
            sold_out: of(|one| &one.sold_out),
            over_limit: of(|one| &one.over_limit),
            unpaid: of(|one| &one.unpaid),
            refused: of(|one| &one.refused),
            error: of(|one| &one.error),
            timeout: of(|one| &one.timeout),
        }
    }
}

/// How many different problems are kept for the report.
const PROBLEMS_MAX: usize = 5;

/// Returns the first few different problems.
pub fn problems<'a>(all: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut seen = Vec::new();
    all.into_iter().for_each(|problem| note(&mut seen, problem));
    seen
}

/// Adds a problem, unless it is known or there are enough.
pub(crate) fn note(problems: &mut Vec<String>, problem: &String) {
    if problems.len() < PROBLEMS_MAX && !problems.contains(problem) {
        problems.push(problem.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_named_once_and_only_a_few() {
        let all: Vec<String> = (0..20).map(|i| format!("problem {}", i / 2)).collect();
        assert_eq!(problems(&all), ["problem 0", "problem 1", "problem 2", "problem 3", "problem 4"]);
    }
}
