//! One request at the service of the lab. Its answer is a receipt, an order, a problem, or a ticket that tells one of them later.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::Instant;

use crate::answer::{Classified, classify, decides};
use crate::bought::Bought;
use crate::received::head_bytes;
use crate::sample::Outcome;
use crate::script::Transport;

/// The request header that says who buys.
pub const BUYER_ID: &str = "buyer-id";
/// The request header that names a purchase.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Returns the name under which a buyer buys from the service of the lab.
pub fn buyer_name(buyer: usize) -> String {
    format!("buyer-{buyer}")
}

/// A request to buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabRequest<'a> {
    /// Which of the SKUs on sale, from zero.
    pub(crate) goods: usize,
    /// The index of the instance.
    pub(crate) instance: usize,
    pub(crate) url: &'a Url,
    /// The number of the buyer, if the request must say who buys.
    pub(crate) named: Option<usize>,
    /// Whether the answer "sold" comes after the commit of the order.
    pub(crate) is_committed: bool,
}

impl LabRequest<'_> {
    /// Says who buys, if the request must say it.
    pub(crate) fn signed(self, request: RequestBuilder) -> RequestBuilder {
        match self.named {
            Some(buyer) => request.header(BUYER_ID, buyer_name(buyer)),
            None => request,
        }
    }

    /// Makes a request for one unit that names its purchase by a key.
    pub(crate) fn under_key(self, key: &str, client: &Client) -> RequestBuilder {
        let request = client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        request.header(IDEMPOTENCY_KEY, key).body(r#"{"quantity":1}"#)
    }

    /// Sends it, and returns what came of it. A ticket is followed for `decided_within`. Returns `None` when the load was called off.
    pub(crate) async fn send(
        self,
        request: RequestBuilder,
        decided_within: Duration,
        transport: &mut impl Transport,
    ) -> Option<Bought> {
        let LabRequest { goods, instance, url, is_committed, .. } = self;
        let response = transport.send(self.signed(request)).await?;
        let first_byte = response.is_ok().then(Instant::now);
        let answer = match response {
            Ok(response) => read(response).await,
            Err(error) => Err(error),
        };
        let ended = Instant::now();
        let decision = match &answer {
            Ok((StatusCode::ACCEPTED, _, body)) => Some(decided(url, body, decided_within, transport).await?),
            _ => None,
        };
        let decided = decision.is_some().then(Instant::now);
        let unanswered = |outcome, problem| Classified { outcome, confirmation: None, problem };
        let (status, received_bytes, classified) = match decision.unwrap_or(answer) {
            Ok((status, bytes, body)) => (Some(status.as_u16()), bytes, classify(status, &body)),
            Err(error) if error.is_timeout() => (None, 0, unanswered(Outcome::Timeout, None)),
            Err(error) => (None, 0, unanswered(Outcome::Error, Some(program::chain(&error.without_url())))),
        };
        let Classified { outcome, confirmation, problem } = classified;
        Some(Bought {
            goods,
            outcome,
            confirmation,
            problem,
            status,
            first_byte,
            ended,
            decided,
            is_committed,
            instance: Some(instance),
            received_bytes,
        })
    }
}

/// Asks for a ticket until it is decided, more and more seldom. Returns the answer that decides it. A ticket that waits for longer than `within`
/// is left as it is. A question that fails says nothing of the purchase, so it is asked again.
async fn decided(bought_at: &Url, ticket: &str, within: Duration, transport: &mut impl Transport) -> Option<Answered> {
    let Ok(Ticket { ticket }) = serde_json::from_str(ticket) else {
        return Some(Ok((StatusCode::ACCEPTED, 0, ticket.to_owned())));
    };
    let mut url = bought_at.clone();
    url.set_path(&format!("/tickets/{ticket}"));
    url.set_query(None);
    let until = Instant::now() + within;
    let mut pause = ASK_AGAIN_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let question = transport.client().get(url.clone()).timeout(within);
        let answer = match transport.send(question).await? {
            Ok(response) => read(response).await,
            Err(error) => Err(error),
        };
        if answer.as_ref().is_ok_and(|(status, _, body)| decides(*status, body)) {
            return Some(answer);
        }
        if Instant::now() >= until {
            return Some(Ok((StatusCode::ACCEPTED, 0, String::new())));
        }
        pause = (pause * 2).min(ASK_AGAIN_MAX);
    }
}

/// The status of an answer, its size and its body, or why there is none.
type Answered = Result<(StatusCode, u64, String), reqwest::Error>;

/// What the service answers instead of a receipt.
#[derive(Deserialize)]
struct Ticket {
    ticket: i64,
}

/// The pauses between two questions for a ticket. Each pause is twice as long as the one before.
const ASK_AGAIN_MIN: Duration = Duration::from_millis(10);
const ASK_AGAIN_MAX: Duration = Duration::from_millis(500);

/// Returns the status, the size of the whole answer, and the body.
async fn read(response: Response) -> Answered {
    let status = response.status();
    let head_bytes = head_bytes(&response);
    let body = response.text().await?;
    Ok((status, head_bytes + body.len() as u64, body))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::get;

    use super::*;

    /// Buys at a service that gives a ticket and then answers questions for it by these, the last one again and again.
    async fn bought_by_ticket(answers: &'static [(u16, &'static str)], decided_within: Duration) -> Bought {
        let asked = Arc::new(AtomicUsize::new(0));
        let look = move || {
            let (status, body) = answers[asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)];
            async move { (axum::http::StatusCode::from_u16(status).unwrap(), body) }
        };
        let routes = Router::new()
            .route("/goods-stock/1", get(async || (axum::http::StatusCode::ACCEPTED, r#"{"ticket":7}"#)))
            .route("/tickets/7", get(look));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/goods-stock/1", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let request = LabRequest { goods: 0, instance: 0, url: &url, named: None, is_committed: true };
        let mut client = reqwest::Client::new();
        request.send(client.get(url.clone()), decided_within, &mut client).await.unwrap()
    }

    // C53
    #[tokio::test]
    async fn a_question_for_a_ticket_that_fails_is_asked_again() {
        const AWAY: (u16, &str) = (503, r#"{"type":"urn:seckill-lab:problem:database-unavailable"}"#);
        const SOLD: (u16, &str) = (200, r#"{"order_id":1,"goods_no":1,"quantity":1}"#);
        const RESTARTED: (u16, &str) = (503, r#"{"type":"urn:seckill-lab:problem:sale-restarted"}"#);
        let long = Duration::from_secs(60);
        let told = async |answers, within| bought_by_ticket(answers, within).await.outcome;
        assert_eq!(told(&[AWAY, (202, r#"{"ticket":7}"#), AWAY, SOLD], long).await, Outcome::Sold);
        assert_eq!(told(&[AWAY, RESTARTED], long).await, Outcome::Refused, "the ticket is decided");
        assert_eq!(told(&[AWAY], Duration::ZERO).await, Outcome::Timeout, "nobody was told that nothing was sold");
    }
}
