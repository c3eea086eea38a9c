//! What the requests of a load add up to. Each request is added when it starts and when it ends, so the memory depends on the
//! users and on the units sold, and not on the number of requests. Only the log of requests needs each of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stats::times::Times;

use crate::health::{Dropped, Starts};
use crate::latency::Latency;
use crate::model::LoadModel;
use crate::sample::{ByOutcome, Confirmation, Outcome, Receipt, ReservationTold, Sample, ShopReceipt, ToldEnd, note};

/// What buyers of one SKU were told.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// How many of them had each outcome.
    pub answers: ByOutcome<u64>,
    /// The receipts of the service of the lab with the numbers of their buyers, in the order of the answers.
    pub confirmed: Vec<(usize, Receipt)>,
    /// The orders of these receipts that may not have been committed yet.
    pub promised: Vec<ToldOrder>,
    /// What was told of reservations, in the order of the last answers.
    pub reservations: Vec<ReservationTold>,
    /// The receipts of another shop, in the order of the answers.
    pub sold_to: Vec<ShopReceipt>,
    /// The numbers of the buyers that were told that they have as many units as one buyer may have, in the order of the answers.
    pub over_limit: Vec<usize>,
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
    /// The first answer "sold out" after the last sale.
    pub sold_out_since: Option<Duration>,
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
                    self.sold_out_since = None;
                }
                Outcome::SoldOut => self.sold_out_since = self.sold_out_since.or(Some(sample.known())),
                _ => {}
            }
            match &sample.confirmation {
                Some(Confirmation::Lab(receipt)) => {
                    told.confirmed.push((sample.buyer, *receipt));
                    if !sample.is_committed {
                        let (intended, told_at) = (sample.intended, sample.known());
                        told.promised.push(ToldOrder { order_id: receipt.order_id, intended, told: told_at });
                    }
                }
                Some(Confirmation::Shop(order)) => {
                    told.sold_to.push(ShopReceipt { buyer: sample.buyer, order: order.clone() });
                }
                Some(Confirmation::Reservation(reservation)) => {
                    if let ToldEnd::Sold(receipt) = reservation.end {
                        told.confirmed.push((sample.buyer, receipt));
                    }
                    told.reservations.push(*reservation);
                }
                None => {}
            }
            if sample.outcome == Outcome::OverLimit {
                told.over_limit.push(sample.buyer);
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

    /// Returns when the sales were over: at the first "sold out" after the last sale, or else at the end.
    pub fn sales_over(&self) -> Duration {
        self.sold_out_since.unwrap_or(self.length)
    }

    /// Returns the number of requests of each outcome.
    pub fn answers(&self) -> ByOutcome<u64> {
        let of_goods: Vec<&ByOutcome<u64>> = self.told.iter().map(|told| &told.answers).collect();
        ByOutcome::fold(&of_goods, |counts| counts.sum())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::LoadModel;

    const SOLD: Outcome = Outcome::Sold;
    const RECEIPT: Receipt = Receipt { order_id: 1, goods_no: 1, quantity: 1, remaining: None };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn tally(model: LoadModel, log_max: usize) -> Tally {
        Tally::of(2, 2, model.starts_together(), log_max)
    }

    pub(crate) fn sample(outcome: Outcome, started_ms: u64, ended_ms: u64) -> Sample {
        Sample {
            user: 0,
            buyer: 0,
            goods: 0,
            outcome,
            confirmation: (outcome == Outcome::Sold).then_some(Confirmation::Lab(RECEIPT)),
            intended: Duration::ZERO,
            idle_since: Duration::ZERO,
            started: ms(started_ms),
            first_byte: Some(ms(ended_ms)),
            ended: ms(ended_ms),
            decided: None,
            is_committed: true,
            status: Some(200),
            received_bytes: 100,
            problem: None,
        }
    }

    /// Adds requests in the order in which they start and end.
    fn add(tally: &mut Tally, samples: &[Sample]) {
        let starts = samples.iter().map(|sample| (sample.started, sample, true));
        let mut events: Vec<_> = starts.chain(samples.iter().map(|sample| (sample.ended, sample, false))).collect();
        events.sort_by_key(|(at, _, _)| *at);
        for (at, sample, is_start) in events {
            if is_start { tally.start(sample.user, at) } else { tally.end(sample.clone()) }
        }
    }

    fn of(samples: &[Sample]) -> Tally {
        let mut tally = tally(LoadModel::BURST, 1000);
        add(&mut tally, samples);
        tally
    }

    // C18
    #[test]
    fn silence_is_a_time_in_which_a_waiter_gets_no_answer() {
        let silence = |samples: &[Sample]| of(samples).silence_max.map(|silence| silence.as_millis());
        assert_eq!(silence(&[]), None);
        // No user waits between 30 and 1000. One waits from 1000 on, and is answered at 1050.
        assert_eq!(silence(&[sample(SOLD, 0, 30), sample(SOLD, 1000, 1050)]), Some(50));
        // One waits from 10 on, but another is answered at 90.
        let both = [sample(SOLD, 10, 160), sample(SOLD, 0, 90)];
        assert_eq!(silence(&both), Some(90));
        // A scenario tells of an answer without its status.
        assert_eq!(silence(&both.clone().map(|answered| Sample { status: None, ..answered })), Some(90));
        // The end of a request without an answer is silence.
        let unanswered = Sample { status: None, ..sample(Outcome::Timeout, 20, 400) };
        assert_eq!(silence(&[both[0].clone(), both[1].clone(), unanswered.clone()]), Some(240));
        // A user waits from 20 to 450, and none is answered before.
        assert_eq!(silence(&[unanswered, sample(SOLD, 300, 450)]), Some(430));
    }

    #[test]
    fn times_are_kept_apart_by_outcome_and_by_where_they_begin() {
        let late = Sample { intended: ms(5), ..sample(SOLD, 10, 30) };
        let Tally { latency, .. } = of(&[late, sample(Outcome::SoldOut, 0, 1)]);
        assert_eq!((latency.response.sold.count(), latency.response.sold_out.count()), (1, 1));
        assert_eq!(latency.first_byte_sold.count(), 1);
        let longest = |times: &Times| times.max_ms().unwrap().round();
        assert_eq!((longest(&latency.response.sold), longest(&latency.service.sold)), (25.0, 20.0));
        assert_eq!(Latency::merged(&[&latency, &latency]).response.sold.count(), 2);
    }

    // C15
    #[test]
    fn a_dropped_arrival_is_the_slowest_of_the_sold_and_sold_out() {
        let mut tally = of(&vec![sample(SOLD, 0, 10); 30]);
        tally.close(&LoadModel::BURST, Dropped { busy: 30, idle: 1 });
        let median = |times: &Times| times.quantile_ms(500);
        assert_eq!(median(&tally.latency.response.sold), Some(f64::INFINITY));
        assert_eq!(median(&tally.latency.response.sold_out), Some(f64::INFINITY));
        let service = median(&tally.latency.service.sold).unwrap();
        assert!((service - 10.0).abs() < 0.1, "the service is timed by what it served");
    }

    // C18
    #[test]
    fn a_closed_loop_is_corrected_for_requests_not_made() {
        // One user asks every 10 ms, and is stopped once for a second.
        let mut samples = vec![sample(SOLD, 0, 10); 300];
        samples.push(sample(SOLD, 0, 1000));
        let mut tally = of(&samples);
        tally.close(&LoadModel::Loop { duration_ms: 1000, ramp_up_ms: 0 }, Dropped::default());
        let p90 = |times: &Times| times.quantile_ms(900).unwrap();
        let Latency { response, corrected_sold, .. } = &tally.latency;
        assert!(p90(&response.sold) < 11.0 && p90(corrected_sold) > 400.0);
    }

    #[test]
    fn what_buyers_were_told_is_known_by_sku() {
        let elsewhere = Sample { goods: 1, ..sample(SOLD, 0, 7) };
        let told = of(&[sample(SOLD, 0, 5), sample(Outcome::SoldOut, 0, 6), elsewhere]);
        let of_goods = |goods: usize| {
            let Told { answers, confirmed, .. } = &told.told[goods];
            (answers.sold, answers.sold_out, confirmed.len())
        };
        assert_eq!((of_goods(0), of_goods(1), told.answers().total()), ((1, 1, 1), (1, 0, 1), 3));
        assert_eq!((told.first_start, told.length, told.sold_at), (Some(Duration::ZERO), ms(7), vec![ms(5), ms(7)]));
    }

    #[test]
    fn a_sale_after_sold_out_shows_that_it_was_not() {
        let since = |samples: &[Sample]| of(samples).sold_out_since;
        let sold_out = |at| sample(Outcome::SoldOut, 0, at);
        assert_eq!(since(&[sample(SOLD, 0, 5), sold_out(6), sold_out(7)]), Some(ms(6)));
        assert_eq!(since(&[sold_out(6), sample(SOLD, 0, 8)]), None);
        assert_eq!(since(&[sold_out(6), sample(SOLD, 0, 8), sold_out(9), sample(Outcome::Error, 0, 10)]), Some(ms(9)));
    }

    #[test]
    fn an_order_is_told_when_its_ticket_tells_it() {
        let of_ticket = Sample { decided: Some(ms(40)), is_committed: false, ..sample(SOLD, 0, 5) };
        let tally = of(&[of_ticket]);
        assert_eq!((tally.told[0].promised[0].told, tally.sold_at, tally.length), (ms(40), vec![ms(5)], ms(40)));
    }

    // C19
    #[test]
    fn an_absurd_receipt_does_not_take_the_memory() {
        let absurd = Confirmation::Lab(Receipt { quantity: i64::MAX, ..RECEIPT });
        assert_eq!(of(&[Sample { confirmation: Some(absurd), ..sample(SOLD, 0, 5) }]).sold_at, [ms(5)]);
    }

    // C19
    #[test]
    fn the_log_has_every_request_or_none() {
        let mut tally = tally(LoadModel::BURST, 2);
        for (ended, kept) in [(5, 1), (6, 2), (7, 0), (8, 0)] {
            add(&mut tally, &[sample(SOLD, 0, ended)]);
            assert_eq!((tally.samples.len(), tally.samples.capacity() > 0), (kept, kept > 0));
        }
        assert_eq!(tally.answers().sold, 4);
    }

    #[test]
    fn beats_during_the_starts_of_a_burst_do_not_count() {
        let beats = |model: LoadModel| {
            let mut tally = tally(model, 0);
            tally.beat(ms(5), ms(1));
            tally.start(0, ms(6));
            tally.start(1, ms(20));
            // The last start is between these beats.
            [10, 20, 25].into_iter().for_each(|due| tally.beat(ms(due), ms(1)));
            tally.heartbeat.count()
        };
        assert_eq!(beats(LoadModel::BURST), 2);
        assert_eq!(beats(LoadModel::Ramp { ramp_up_ms: 100, requests_per_buyer: 1 }), 4);
    }

    #[test]
    fn problems_and_whole_milliseconds_are_kept() {
        let failed = |number: u64| {
            let problem = Some(format!("problem {}", number / 2));
            Sample { problem, ..sample(Outcome::Error, 0, number) }
        };
        let Tally { problems, elapsed, .. } = of(&(0..20).map(failed).collect::<Vec<_>>());
        assert_eq!(problems, ["problem 0", "problem 1", "problem 2", "problem 3", "problem 4"]);
        assert_eq!((elapsed.sum, elapsed.min, elapsed.max), (190, Some(0), Some(19)));
    }
}
