//! What the requests of a load add up to. Each request is added when it starts and when it ends. So the memory depends on the users,
//! on the units sold and on the answers that did not come. Only the log of requests keeps each of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stats::times::Times;

use crate::health::{Dropped, Starts};
use crate::latency::Latency;
use crate::model::LoadModel;
use crate::sample::{
    ByOutcome, Confirmation, OrderTold, Outcome, Receipt, ReservationTold, Sample, ShopReceipt, ToldEnd, note,
};

/// What buyers of one SKU were told.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// How many of them had each outcome.
    pub answers: ByOutcome<u64>,
    /// The receipts of the service of the lab with the numbers of their buyers, in the order of the answers.
    pub confirmed: Vec<(usize, Receipt)>,
    /// The instances that told of these orders, by index, as far as that is known.
    pub told_by: Vec<(i64, usize)>,
    /// How many of these buyers asked once more and were told something else.
    pub contradicted: u64,
    /// The orders of these receipts that may not have been committed yet.
    pub promised: Vec<ToldOrder>,
    /// What was told of reservations, in the order of the last answers.
    pub reservations: Vec<ReservationTold>,
    /// The receipts of another shop, in the order of the answers.
    pub sold_to: Vec<ShopReceipt>,
    /// The first answer "sold out" after the last sale.
    pub sold_out_since: Option<Duration>,
    /// The numbers of the buyers that were told that they have as many units as one buyer may have, in the order of the answers.
    pub over_limit: Vec<usize>,
    /// The numbers of the buyers whose order is unknown, because a request ended in an error or a timeout. A number comes once for each
    /// such request.
    pub unanswered: Vec<usize>,
}

impl Told {
    fn confirm(&mut self, receipt: &Receipt, sample: &Sample) {
        self.confirmed.push((sample.buyer, *receipt));
        self.told_by.extend(sample.instance.map(|instance| (receipt.order_id, instance)));
    }
}

/// An order that a buyer was told of, and that may not have been committed yet. Both instants count from the release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToldOrder {
    /// The order.
    pub order_id: i64,
    /// When the request was to start.
    pub intended: Duration,
    /// When the buyer knew of it: from the answer, or from the ticket.
    pub told: Duration,
}

impl ToldOrder {
    fn of(receipt: &Receipt, sample: &Sample) -> ToldOrder {
        ToldOrder { order_id: receipt.order_id, intended: sample.intended, told: sample.known() }
    }
}

/// What the requests of a load add up to. All instants count from the release.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// What was told of each SKU.
    pub told: Vec<Told>,
    /// The times of the requests.
    pub latency: Latency,
    /// How late the requests were started.
    pub starts: Starts,
    /// When each sale was answered, by "sold" or by a ticket, in no order.
    pub sold_at: Vec<Duration>,
    /// When each buyer was told "sold", in no order. A ticket tells it later than the answer.
    pub told_at: Vec<Duration>,
    /// When the first request started.
    pub first_start: Option<Duration>,
    /// From the release to the end of the last request.
    pub length: Duration,
    /// The longest time in which a request was under way and none was answered. Absent without a request.
    pub silence_max: Option<Duration>,
    /// How late the beats of the heartbeat were.
    pub heartbeat: Times,
    /// Service times in whole milliseconds, as tools of that resolution sum them up.
    pub elapsed: ElapsedMs,
    /// The first few different problems.
    pub problems: Vec<String>,
    /// Every request, for the log. Empty if there were more than the log takes.
    pub samples: Vec<Sample>,
    /// The most requests that the log takes.
    samples_max: usize,
    /// Response times of all requests, added up.
    response_sum: Duration,
    /// Whether each user has started a request.
    has_started: Vec<bool>,
    /// Whether beats count only after the start of every user.
    starts_together: bool,
    /// Requests that have started and not ended.
    under_way: usize,
    /// Since when a request has been under way and none was answered.
    silent_since: Duration,
}

/// The tally that all users of a load share.
pub(crate) type SharedTally = Arc<Mutex<Tally>>;

/// Locks the tally, for far less than a microsecond.
pub(crate) fn shared(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a load, and takes its tally.
pub(crate) fn close(tally: &Mutex<Tally>, model: &LoadModel, dropped: Dropped) -> Tally {
    let mut tally = std::mem::take(&mut *shared(tally));
    tally.close(model, dropped);
    tally
}

/// Service times in whole milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct ElapsedMs {
    /// All of them added up.
    pub sum: u128,
    /// The shortest, if there is one.
    pub min: Option<u128>,
    /// The longest, if there is one.
    pub max: Option<u128>,
}

impl ElapsedMs {
    fn add(&mut self, time: Duration) {
        let ms = time.as_millis();
        self.merge(&ElapsedMs { sum: ms, min: Some(ms), max: Some(ms) });
    }

    /// Adds the times of another load.
    pub fn merge(&mut self, other: &ElapsedMs) {
        self.sum += other.sum;
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }
}

impl Tally {
    /// Returns the tally of a load that has not begun. Its users start together or not. It keeps at most `samples_max` requests for
    /// the log.
    pub fn of(goods: usize, users: usize, starts_together: bool, samples_max: usize) -> Tally {
        Tally {
            told: vec![Told::default(); goods],
            samples_max,
            has_started: vec![false; users],
            starts_together,
            ..Tally::default()
        }
    }

    /// Notes that a user starts a request.
    pub fn start(&mut self, user: usize, started: Duration) {
        if let Some(has_started) = self.has_started.get_mut(user).filter(|has_started| !**has_started) {
            *has_started = true;
            self.starts.add_user(started);
        }
        self.first_start = Some(self.first_start.map_or(started, |first| first.min(started)));
        // A time without requests is no silence of the service.
        if self.under_way == 0 {
            self.silent_since = self.silent_since.max(started);
        }
        self.under_way += 1;
    }

    /// Adds a request that has ended, answered or not.
    pub fn end(&mut self, sample: Sample) {
        self.under_way = self.under_way.saturating_sub(1);
        self.silence_max = self.silence_max.max(Some(sample.ended.saturating_sub(self.silent_since)));
        if sample.is_answered() {
            // Requests are added in the order of the lock, which may differ from the order of their ends.
            self.silent_since = self.silent_since.max(sample.ended);
        }
        self.length = self.length.max(sample.known());
        self.latency.record(&sample);
        self.response_sum += sample.response();
        self.starts.add(&sample);
        self.elapsed.add(sample.service());
        if let Some(told) = self.told.get_mut(sample.goods) {
            *told.answers.get_mut(sample.outcome) += 1;
            match sample.outcome {
                Outcome::Sold => {
                    self.sold_at.push(sample.ended);
                    self.told_at.push(sample.known());
                    told.sold_out_since = told.sold_out_since.filter(|since| *since >= sample.known());
                }
                Outcome::SoldOut => told.sold_out_since = told.sold_out_since.or(Some(sample.known())),
                Outcome::OverLimit => told.over_limit.push(sample.buyer),
                Outcome::Error | Outcome::Timeout => told.unanswered.push(sample.buyer),
                Outcome::Unpaid | Outcome::Refused => {}
            }
            match &sample.confirmation {
                Some(Confirmation::Lab(OrderTold { receipt, is_contradicted })) => {
                    told.confirm(receipt, &sample);
                    told.contradicted += u64::from(*is_contradicted);
                    if !sample.is_committed {
                        told.promised.push(ToldOrder::of(receipt, &sample));
                    }
                }
                Some(Confirmation::Shop(order)) => {
                    told.sold_to.push(ShopReceipt { buyer: sample.buyer, order: order.clone() });
                }
                Some(Confirmation::Reservation(reservation)) => {
                    if let ToldEnd::Sold(receipt) = reservation.end {
                        told.confirm(&receipt, &sample);
                    }
                    told.reservations.push(*reservation);
                }
                None => {}
            }
        }
        sample.problem.iter().for_each(|problem| note(&mut self.problems, problem));
        if self.starts.count() <= self.samples_max as u64 {
            self.samples.push(sample);
        } else {
            // A log with gaps would mislead.
            self.samples = Vec::new();
        }
    }

    /// Notes a beat of the heartbeat, which came `late` after it was due.
    pub(crate) fn beat(&mut self, due: Duration, late: Duration) {
        let is_after_starts = || self.starts.last_of(self.has_started.len()).is_some_and(|last| due >= last);
        if !self.starts_together || is_after_starts() {
            self.heartbeat.record(late);
        }
    }

    /// Ends the load.
    pub fn close(&mut self, model: &LoadModel, dropped: Dropped) {
        self.latency.record_dropped(dropped.busy + dropped.idle);
        if matches!(model, LoadModel::Loop { .. }) {
            let requests = u32::try_from(self.starts.count()).unwrap_or(u32::MAX);
            self.latency.correct(self.response_sum.checked_div(requests).unwrap_or_default());
        }
    }

    /// Returns when the sales of all SKUs were over: each at its first "sold out" after its last sale, or else at the end.
    pub fn sales_over(&self) -> Duration {
        let over = self.told.iter().map(|told| told.sold_out_since.unwrap_or(self.length));
        over.max().unwrap_or(self.length)
    }

    /// Returns the number of requests of each outcome.
    pub fn answers(&self) -> ByOutcome<u64> {
        let of_goods: Vec<&ByOutcome<u64>> = self.told.iter().map(|told| &told.answers).collect();
        ByOutcome::fold(&of_goods, |counts| counts.sum())
    }
}

#[cfg(test)]
pub(crate) mod tests;
