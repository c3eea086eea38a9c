//! What the requests of a load add up to.

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
        confirmation: (outcome == Outcome::Sold).then_some(Confirmation::Lab(OrderTold::once(RECEIPT))),
        intended: Duration::ZERO,
        idle_since: Duration::ZERO,
        started: ms(started_ms),
        first_byte: Some(ms(ended_ms)),
        ended: ms(ended_ms),
        decided: None,
        is_committed: true,
        status: Some(200),
        instance: None,
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
fn an_order_is_known_with_the_instance_that_told_it() {
    let twice = Confirmation::Lab(OrderTold { is_contradicted: true, ..OrderTold::once(RECEIPT) });
    let paid = Receipt { order_id: 8, ..RECEIPT };
    let end = ToldEnd::Sold(paid);
    let paid = Confirmation::Reservation(ReservationTold { reservation: 3, end, is_contradicted: false });
    let by = |instance, confirmation| Sample { instance, confirmation: Some(confirmation), ..sample(SOLD, 0, 5) };
    let tally = of(&[by(Some(1), twice), by(Some(0), paid), sample(SOLD, 0, 6)]);
    let Told { told_by, contradicted, confirmed, .. } = &tally.told[0];
    assert_eq!((&told_by[..], *contradicted, confirmed.len()), (&[(RECEIPT.order_id, 1), (8, 0)][..], 1, 3));
}

#[test]
fn a_sale_after_sold_out_shows_that_it_was_not() {
    let since = |samples: &[Sample]| of(samples).told[0].sold_out_since;
    let sold_out = |at| sample(Outcome::SoldOut, 0, at);
    assert_eq!(since(&[sample(SOLD, 0, 5), sold_out(6), sold_out(7)]), Some(ms(6)));
    assert_eq!(since(&[sold_out(6), sample(SOLD, 0, 8)]), None);
    assert_eq!(since(&[sold_out(6), sample(SOLD, 0, 8), sold_out(9), sample(Outcome::Error, 0, 10)]), Some(ms(9)));
    let earlier = Sample { decided: Some(ms(5)), ..sample(SOLD, 0, 8) };
    assert_eq!(since(&[sold_out(6), earlier]), Some(ms(6)), "the sale was told before, and noted late");
    let of_two = of(&[sold_out(6), Sample { goods: 1, ..sample(SOLD, 0, 8) }, sold_out(9)]);
    assert_eq!((of_two.told[0].sold_out_since, of_two.sales_over()), (Some(ms(6)), ms(9)), "one SKU has units");
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
    let absurd = Confirmation::Lab(OrderTold::once(Receipt { quantity: i64::MAX, ..RECEIPT }));
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
