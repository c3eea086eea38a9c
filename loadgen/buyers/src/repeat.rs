//! Purchases that are repeated under their key at another instance. Each must be made once, however often it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Url;
use tokio::time::{Duration, Instant, sleep};

use crate::bought::Bought;
use crate::lab_request::LabRequest;
use crate::sample::{Confirmation, Outcome};
use crate::script::Transport;

/// The buyers of every other row of this length repeat: half of all.
const ROW: usize = 4;
/// How long a buyer waits for an answer before it asks elsewhere. The first request may be under way then.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pauses before repetitions. Each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// So long after the first request, a buyer gives up that does not know whether it has a unit.
const WITHIN: Duration = Duration::from_secs(12);

/// The status of an answer that takes the key for one of another purchase.
const KEY_REUSED: u16 = 422;

/// How half of the buyers of the lab repeat their requests.
#[derive(Debug, Clone)]
pub struct Repeats {
    /// For each SKU, one URL an instance, which buys under a key.
    pub urls: Vec<Vec<Url>>,
    /// For each SKU, the beginning of the keys of its purchases, which no other trial has.
    pub keys: Vec<String>,
    /// How many requests were repetitions. All clones count together.
    pub repeated: Arc<AtomicU64>,
}

/// What a buyer does after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It asks once more.
    Repeat,
    /// It believes this answer.
    Believe,
    /// It keeps the answer of before.
    Keep,
}

impl Repeats {
    /// Tells whether the buyer that sends this request repeats it. The two requests of one that comes twice are alike in this.
    pub(crate) fn is_of(number: usize) -> bool {
        number / ROW % 2 == 1
    }

    /// Buys once, by request `number`, as the buyer and from the stock of `first`. Returns `None` when the load was called off.
    ///
    /// The buyer asks the instances in turn, until it knows whether it has a unit. If the first answer is "sold", it asks once more: the answer
    /// must be the same.
    pub(crate) async fn buy(
        &self,
        first: LabRequest<'_>,
        number: usize,
        transport: &mut impl Transport,
    ) -> Option<Bought> {
        let urls = self.urls.get(first.goods)?;
        let key = format!("{}-{number}", self.keys.get(first.goods)?);
        let until = Instant::now() + WITHIN;
        let mut pause = PAUSE_MIN;
        let mut before: Option<Bought> = None;
        for attempt in number.. {
            let instance = attempt % urls.len().max(1);
            let request = LabRequest { instance, url: urls.get(instance)?, ..first };
            let post = request.under_key(&key, transport.client()).timeout(PATIENCE);
            let bought = request.send(post, PATIENCE, transport).await?;
            let next = next(before.as_ref().map(|before| before.outcome), bought.outcome, Instant::now() < until);
            before = match (before, next) {
                (before, Next::Repeat) => before.or(Some(bought)),
                (None, Next::Keep) | (_, Next::Believe) => return Some(bought),
                (Some(sold), Next::Keep) if sold.outcome == Outcome::Sold => return Some(compared(sold, &bought)),
                (Some(unknown), Next::Keep) => {
                    return Some(Bought { ended: bought.ended, decided: bought.decided, ..unknown });
                }
            };
            self.repeated.fetch_add(1, Ordering::Relaxed);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        None
    }
}

/// Decides what a buyer does after an answer. `before` is what it knew before: that it has a unit, or an outcome that tells nothing, as an
/// earlier request may still be under way. Absent: this is the first answer.
fn next(before: Option<Outcome>, told: Outcome, has_time: bool) -> Next {
    let is_unknown = matches!(told, Outcome::Error | Outcome::Timeout);
    match (before, told) {
        (None, Outcome::Sold) => Next::Repeat,
        (None, _) if is_unknown && has_time => Next::Repeat,
        (None, _) => Next::Believe,
        (Some(Outcome::Sold), _) => Next::Keep,
        (Some(_), Outcome::Sold) => Next::Believe,
        // This request bought nothing. An earlier one still may.
        (Some(_), Outcome::SoldOut | Outcome::OverLimit) => Next::Keep,
        (Some(_), _) if has_time => Next::Repeat,
        (Some(_), _) => Next::Keep,
    }
}

/// Compares "sold" with the next answer under the same key. It must be the same receipt, or a failure that says nothing of the purchase.
fn compared(mut sold: Bought, again: &Bought) -> Bought {
    if let Some(Confirmation::Lab(told)) = &mut sold.confirmation {
        let is_another = matches!(&again.confirmation, Some(Confirmation::Lab(again)) if again.receipt != told.receipt);
        let is_denied =
            matches!(again.outcome, Outcome::SoldOut | Outcome::OverLimit) || again.status == Some(KEY_REUSED);
        told.is_contradicted = is_another || is_denied;
        if told.is_contradicted {
            sold.problem = Some(format!("sold, and then told otherwise under the same key: {:?}", again.outcome));
        }
    }
    sold
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::post;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::lab_request::IDEMPOTENCY_KEY;
    use crate::sample::{OrderTold, Receipt};

    #[tokio::test]
    async fn a_repetition_has_the_key_of_its_request() {
        let (told, mut keys) = unbounded_channel();
        let at = |status: u16, body: &'static str| {
            let told = told.clone();
            post(async move |headers: HeaderMap| {
                told.send(headers[IDEMPOTENCY_KEY].to_str().unwrap().to_owned()).unwrap();
                (StatusCode::from_u16(status).unwrap(), body)
            })
        };
        let order = r#"{"order_id":7,"lines":[{"goods_no":1,"quantity":1,"remaining":9}]}"#;
        let routes = Router::new().route("/a", at(500, "")).route("/b", at(201, order));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let urls = vec![["a", "b"].map(|path| Url::parse(&format!("http://{address}/{path}")).unwrap()).to_vec()];
        let repeats = Repeats { urls: urls.clone(), keys: vec!["sale".to_owned()], repeated: Arc::default() };
        let first = LabRequest { goods: 0, instance: 0, url: &urls[0][0], named: None, is_committed: true };
        let bought = repeats.buy(first, 4, &mut reqwest::Client::new()).await.unwrap();
        assert_eq!(bought.outcome, Outcome::Sold);
        assert_eq!([keys.recv().await.unwrap(), keys.recv().await.unwrap()], ["sale-4", "sale-4"]);
        assert_eq!(repeats.repeated.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_sale_is_contradicted_by_another_receipt_or_a_denial() {
        let bought = |outcome, status, order_id: Option<i64>| Bought {
            goods: 0,
            outcome,
            confirmation: order_id.map(|order_id| {
                Confirmation::Lab(OrderTold::once(Receipt { order_id, goods_no: 1, quantity: 1, remaining: Some(9) }))
            }),
            problem: None,
            status: Some(status),
            first_byte: None,
            ended: Instant::now(),
            decided: None,
            is_committed: true,
            instance: None,
            received_bytes: 0,
        };
        let sold = |order_id| bought(Outcome::Sold, 201, Some(order_id));
        let is_contradicted = |again: &Bought| match compared(sold(7), again).confirmation {
            Some(Confirmation::Lab(OrderTold { receipt, is_contradicted, .. })) => {
                receipt.order_id == 7 && is_contradicted
            }
            other => panic!("{other:?}"),
        };
        assert!(is_contradicted(&sold(8)));
        assert!(is_contradicted(&bought(Outcome::SoldOut, 409, None)));
        assert!(is_contradicted(&bought(Outcome::Error, 422, None)));
        for failure in [sold(7), bought(Outcome::Refused, 503, None), bought(Outcome::Error, 408, None)] {
            assert!(!is_contradicted(&failure), "{failure:?}");
        }
    }

    #[test]
    fn a_buyer_repeats_until_it_knows_whether_it_has_a_unit() {
        let [sold, sold_out, limit, refused, error, timeout] =
            [Outcome::Sold, Outcome::SoldOut, Outcome::OverLimit, Outcome::Refused, Outcome::Error, Outcome::Timeout];
        for told in [sold_out, limit, refused] {
            assert_eq!(next(None, told, true), Next::Believe);
            assert_eq!(next(Some(timeout), told, false), Next::Keep, "the earlier request may have bought");
        }
        for unknown in [error, timeout] {
            assert_eq!((next(None, unknown, true), next(None, unknown, false)), (Next::Repeat, Next::Believe));
            assert_eq!(next(Some(error), unknown, true), Next::Repeat);
            assert_eq!(next(Some(error), unknown, false), Next::Keep);
            assert_eq!(next(Some(unknown), sold, false), Next::Believe);
            assert_eq!(next(Some(unknown), refused, true), Next::Repeat);
            assert_eq!(next(Some(sold), unknown, true), Next::Keep, "it knows already");
        }
        assert_eq!(next(None, sold, true), Next::Repeat, "the order must be the same");
        for told in [sold, sold_out, refused] {
            assert_eq!(next(Some(sold), told, true), Next::Keep);
        }
    }
}
