//! A purchase in two steps at the service of the lab: a reservation, and its payment. Some buyers never pay, some pay too late, and
//! some pay twice.

use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::{Duration, Instant, sleep};

use crate::answer::{PROBLEM_TYPE, classify, placed};
use crate::bought::Bought;
use crate::habits::{Habit, PaymentHabits};
use crate::lab_request::LabRequest;
use crate::received::head_bytes;
use crate::sample::{Confirmation, Outcome, ReservationTold, ToldEnd};
use crate::script::Transport;

/// The problem of a 410 that says that a payment came too late.
const EXPIRED: &str = "reservation-expired";

/// The pause between two looks at a reservation that is to expire.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A late payer waits at most so long for the end of its reservation. Then it counts as one that never pays.
const LATE_MAX: Duration = Duration::from_secs(60);

/// How the buyers of the lab buy in two steps.
#[derive(Debug, Clone)]
pub struct TwoSteps {
    /// For each SKU, the beginning of the keys of its purchases, which no other trial has.
    pub keys: Vec<String>,
    /// How they pay.
    pub habits: PaymentHabits,
}

/// The members of a reservation that a buyer needs.
#[derive(Deserialize)]
struct HeldReservation {
    reservation_id: i64,
}

/// The member that a late payer looks at.
#[derive(Deserialize)]
struct ReservationLook {
    state: String,
}

#[derive(Deserialize)]
struct ProblemOfPayment {
    r#type: String,
}

/// One answer, read to its end.
struct PaymentAnswer {
    status: StatusCode,
    body: String,
    bytes: u64,
    first_byte: Instant,
}

/// The answers to one purchase.
struct PurchaseSteps<'a, T> {
    transport: &'a mut T,
    bytes: u64,
    status: Option<u16>,
    first_byte: Option<Instant>,
}

impl<T: Transport> PurchaseSteps<'_, T> {
    /// Sends a request, and reads its answer. Returns `None` when the load was called off.
    async fn ask(&mut self, request: RequestBuilder) -> Option<Result<PaymentAnswer, reqwest::Error>> {
        let read = match self.transport.send(request).await? {
            Ok(response) => read(response).await,
            Err(error) => Err(error),
        };
        self.status = read.as_ref().ok().map(|read| read.status.as_u16());
        self.first_byte = read.as_ref().ok().map(|read| read.first_byte);
        self.bytes += read.as_ref().map_or(0, |read| read.bytes);
        Some(read)
    }

    /// Makes the result of the purchase, which the buyer knew at `ended`.
    fn bought(&self, request: LabRequest<'_>, ended: Instant, (outcome, told): (Outcome, ToldBuyer)) -> Bought {
        let ToldBuyer { reservation, problem } = told;
        let confirmation = reservation.map(Confirmation::Reservation);
        let PurchaseSteps { bytes, status, first_byte, .. } = *self;
        Bought {
            goods: request.goods,
            outcome,
            confirmation,
            problem,
            status,
            first_byte,
            ended,
            decided: None,
            is_committed: true,
            instance: Some(request.instance),
            received_bytes: bytes,
        }
    }
}

/// What the buyer was told, beside the outcome.
#[derive(Default)]
struct ToldBuyer {
    reservation: Option<ReservationTold>,
    problem: Option<String>,
}

impl ToldBuyer {
    fn of(reservation: i64, end: ToldEnd) -> ToldBuyer {
        let reservation = ReservationTold { reservation, end, is_contradicted: false };
        ToldBuyer { reservation: Some(reservation), problem: None }
    }

    /// The buyer was told of another end, too. The outcome stays as it was told.
    fn contradicted(mut self, problem: &str) -> ToldBuyer {
        self.reservation.iter_mut().for_each(|told| told.is_contradicted = true);
        self.with_problem(Some(problem.to_owned()))
    }

    fn with_problem(self, problem: Option<String>) -> ToldBuyer {
        ToldBuyer { problem, ..self }
    }
}

impl TwoSteps {
    /// Buys once, by request `number`: first by this one, then by a payment. Returns `None` when the load was called off.
    pub(crate) async fn buy(
        &self,
        first: LabRequest<'_>,
        number: usize,
        transport: &mut impl Transport,
    ) -> Option<Bought> {
        let LabRequest { goods, url, .. } = first;
        let mut visit = PurchaseSteps { transport, bytes: 0, status: None, first_byte: None };
        let key = format!("{}-{number}", self.keys.get(goods)?);
        let request = first.signed(first.under_key(&key, visit.transport.client()));
        let answer = visit.ask(request).await?;
        let ended = Instant::now();
        let reservation = match reserved(answer) {
            Ok(reservation) => reservation,
            Err((outcome, problem)) => {
                return Some(visit.bought(first, ended, (outcome, ToldBuyer { problem, ..ToldBuyer::default() })));
            }
        };
        let habit = self.habits.of(number);
        if habit == Habit::Abandon {
            return Some(visit.bought(first, ended, (Outcome::Unpaid, ToldBuyer::of(reservation, ToldEnd::Abandoned))));
        }
        let at = url.join(&format!("/reservations/{reservation}")).ok()?;
        if habit == Habit::PayLate && !self.wait_for_end(&at, &mut visit).await? {
            return Some(visit.bought(first, ended, (Outcome::Unpaid, ToldBuyer::of(reservation, ToldEnd::Abandoned))));
        }
        let payment = url.join(&format!("/reservations/{reservation}/confirm")).ok()?;
        let (outcome, mut told) = paid(reservation, pay(&payment, &mut visit).await?);
        let ended = Instant::now();
        if habit == Habit::PayLate && outcome == Outcome::Sold {
            told = told.contradicted("a reservation was sold after it was shown as expired");
        }
        if habit == Habit::PayTwice && outcome == Outcome::Sold {
            let (_, again) = paid(reservation, pay(&payment, &mut visit).await?);
            if is_another_end(&told, &again) {
                told = told.contradicted("a second payment was told another end of the reservation");
            }
        }
        Some(visit.bought(first, ended, (outcome, told)))
    }

    /// Looks at a reservation until it is shown as expired. Returns whether it is.
    async fn wait_for_end<T: Transport>(&self, at: &Url, visit: &mut PurchaseSteps<'_, T>) -> Option<bool> {
        let asked = Instant::now();
        while asked.elapsed() < LATE_MAX {
            let request = visit.transport.client().get(at.clone());
            let shown = visit
                .ask(request)
                .await?
                .ok()
                .and_then(|read| serde_json::from_str::<ReservationLook>(&read.body).ok());
            if shown.is_some_and(|shown| shown.state != "held") {
                return Some(true);
            }
            sleep(LOOK_PAUSE).await;
        }
        Some(false)
    }
}

async fn pay<T: Transport>(
    at: &Url,
    visit: &mut PurchaseSteps<'_, T>,
) -> Option<Result<PaymentAnswer, reqwest::Error>> {
    let request = visit.transport.client().post(at.clone());
    visit.ask(request).await
}

/// Tells whether two answers to one buyer name different ends. An answer that says nothing contradicts none.
fn is_another_end(one: &ToldBuyer, other: &ToldBuyer) -> bool {
    let end = |told: &ToldBuyer| told.reservation.map(|told| told.end).filter(|end| *end != ToldEnd::Unknown);
    end(one).zip(end(other)).is_some_and(|(one, other)| one != other)
}

async fn read(response: Response) -> Result<PaymentAnswer, reqwest::Error> {
    let first_byte = Instant::now();
    let status = response.status();
    let head = head_bytes(&response);
    let body = response.text().await?;
    Ok(PaymentAnswer { status, bytes: head + body.len() as u64, body, first_byte })
}

/// Returns the number of the reservation, or the outcome of a purchase that has none and what went wrong.
fn reserved(answer: Result<PaymentAnswer, reqwest::Error>) -> Result<i64, (Outcome, Option<String>)> {
    let PaymentAnswer { status, body, .. } = answer.map_err(unanswered)?;
    if status == StatusCode::CREATED {
        let held: Result<HeldReservation, _> = serde_json::from_str(&body);
        return held
            .map(|held| held.reservation_id)
            .map_err(|error| (Outcome::Error, Some(format!("a 201 without a reservation: {error}"))));
    }
    let classified = classify(status, &body);
    // A 200 with a receipt is no answer to a reservation.
    match classified.outcome {
        Outcome::Sold => Err((Outcome::Error, Some("a sale in answer to a reservation".to_owned()))),
        outcome => Err((outcome, classified.problem)),
    }
}

/// Returns what the answer to a payment means.
fn paid(reservation: i64, answer: Result<PaymentAnswer, reqwest::Error>) -> (Outcome, ToldBuyer) {
    let unknown = |(outcome, problem)| (outcome, ToldBuyer::of(reservation, ToldEnd::Unknown).with_problem(problem));
    let (status, body) = match answer {
        Ok(PaymentAnswer { status, body, .. }) => (status, body),
        Err(error) => return unknown(unanswered(error)),
    };
    if status == StatusCode::CREATED {
        return match placed(&body) {
            Ok(receipt) => (Outcome::Sold, ToldBuyer::of(reservation, ToldEnd::Sold(receipt))),
            Err(error) => unknown((Outcome::Error, Some(format!("a 201 without an order: {error}")))),
        };
    }
    let is_expired = |body: &str| {
        let problem = serde_json::from_str::<ProblemOfPayment>(body);
        problem.is_ok_and(|problem| problem.r#type.strip_prefix(PROBLEM_TYPE) == Some(EXPIRED))
    };
    if status == StatusCode::GONE && is_expired(&body) {
        return (Outcome::Unpaid, ToldBuyer::of(reservation, ToldEnd::Expired));
    }
    let classified = classify(status, &body);
    // A payment is sold by a 201, and a reservation that was made is not sold out.
    match classified.outcome {
        Outcome::Refused => unknown((Outcome::Refused, classified.problem)),
        _ => {
            let problem = classified.problem.unwrap_or_else(|| format!("a payment was answered {status}"));
            unknown((Outcome::Error, Some(problem)))
        }
    }
}

fn unanswered(error: reqwest::Error) -> (Outcome, Option<String>) {
    if error.is_timeout() {
        (Outcome::Timeout, None)
    } else {
        (Outcome::Error, Some(program::chain(&error.without_url())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Receipt;

    fn answer(status: u16, body: &str) -> Result<PaymentAnswer, reqwest::Error> {
        let status = StatusCode::from_u16(status).unwrap();
        Ok(PaymentAnswer { status, body: body.to_owned(), bytes: 0, first_byte: Instant::now() })
    }

    fn problem(status: u16, slug: &str) -> Result<PaymentAnswer, reqwest::Error> {
        answer(status, &format!(r#"{{"type":"{PROBLEM_TYPE}{slug}"}}"#))
    }

    #[test]
    fn a_reservation_is_a_201_with_its_number() {
        assert_eq!(reserved(answer(201, r#"{"reservation_id":7,"state":"held"}"#)), Ok(7));
        assert_eq!(reserved(problem(409, "sold-out")), Err((Outcome::SoldOut, None)));
        assert_eq!(reserved(problem(403, "over-limit")), Err((Outcome::OverLimit, None)));
        assert!(matches!(reserved(problem(503, "lock-timeout")), Err((Outcome::Refused, Some(_)))));
        let receipt = r#"{"goods_no":1,"order_id":12,"quantity":1,"remaining":9}"#;
        for wrong in [answer(201, "{}"), answer(200, receipt), problem(503, "outcome-unknown"), problem(410, EXPIRED)] {
            assert!(matches!(reserved(wrong), Err((Outcome::Error, Some(_)))));
        }
    }

    #[test]
    fn a_payment_is_sold_too_late_or_not_known() {
        let end = |answer| {
            let (outcome, told) = paid(7, answer);
            (outcome, told.reservation.unwrap().end)
        };
        let order = r#"{"order_id":12,"lines":[{"goods_no":1,"quantity":1,"remaining":null}]}"#;
        let receipt = Receipt { order_id: 12, goods_no: 1, quantity: 1, remaining: None };
        assert_eq!(end(answer(201, order)), (Outcome::Sold, ToldEnd::Sold(receipt)));
        assert_eq!(end(problem(410, EXPIRED)), (Outcome::Unpaid, ToldEnd::Expired));
        assert_eq!(end(problem(503, "database-unavailable")), (Outcome::Refused, ToldEnd::Unknown));
        for wrong in [answer(201, "{}"), answer(410, ""), problem(410, "gone"), problem(409, "sold-out")] {
            assert_eq!(end(wrong), (Outcome::Error, ToldEnd::Unknown));
        }
    }

    #[test]
    fn a_second_payment_may_say_nothing_and_nothing_else() {
        let told = |end| ToldBuyer::of(7, end);
        let sold = |order_id| ToldEnd::Sold(Receipt { order_id, goods_no: 1, quantity: 1, remaining: None });
        assert!(!is_another_end(&told(sold(1)), &told(sold(1))));
        assert!(!is_another_end(&told(sold(1)), &told(ToldEnd::Unknown)));
        assert!(is_another_end(&told(sold(1)), &told(sold(2))));
        assert!(is_another_end(&told(sold(1)), &told(ToldEnd::Expired)));
        let both = told(sold(1)).contradicted("two ends").reservation.unwrap();
        assert_eq!((both.end, both.is_contradicted), (sold(1), true));
    }
}
