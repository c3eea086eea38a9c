//! A purchase at the service of the lab: one request, whose answer is a receipt, a problem, or a ticket that tells one of them later. Some
//! buyers repeat the request under a key.

use std::num::NonZeroUsize;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::Instant;

use crate::Error;
use crate::answer::{Classified, classify, decides};
use crate::bought::Bought;
use crate::received::head_bytes;
use crate::repeat::Repeats;
use crate::reserve::TwoSteps;
use crate::sample::{Confirmation, Outcome};
use crate::script::Transport;

/// Where the buyers of the lab's own service buy.
#[derive(Debug, Clone)]
pub struct LabPurchase {
    /// For each SKU, one URL an instance.
    pub urls: Vec<Vec<Url>>,
    /// For each instance, a URL that answers at once.
    pub probes: Vec<Url>,
    /// Whether each request says who buys, as a sale with a limit per buyer needs it.
    pub names_buyers: bool,
    /// Every how many requests of an open model the last one is of the buyer of the one before. Absent: each is of a buyer of its own.
    pub comes_twice: Option<NonZeroUsize>,
    /// Whether the answer "sold" comes after the commit of the order.
    pub answers_at_commit: bool,
    /// Upper bound of the time in which a ticket tells the outcome.
    pub decided_within: Duration,
    /// How they buy if the strategy sells in two steps. Then the URLs make reservations.
    pub two_steps: Option<TwoSteps>,
    /// How some of them repeat their requests. Absent: nobody does.
    pub repeats: Option<Repeats>,
}

/// The request header that says who buys.
pub const BUYER_ID: &str = "buyer-id";
/// The request header that names a purchase.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The body of a request that names its purchase.
pub(crate) const ONE_UNIT: &str = r#"{"quantity":1}"#;

/// Returns the name under which a buyer buys from the service of the lab.
pub fn buyer_name(buyer: usize) -> String {
    format!("buyer-{buyer}")
}

impl LabPurchase {
    /// Returns the buyer that sends request `number`, which is of buyer `of` unless buyers come twice. The two requests of one buyer
    /// follow each other, so they often meet, at different instances.
    pub(crate) fn buyer_of(&self, number: usize, of: usize) -> usize {
        if self.is_second(number) { of.saturating_sub(1) } else { of }
    }

    fn is_second(&self, number: usize) -> bool {
        self.comes_twice.is_some_and(|every| number % every == every.get() - 1)
    }

    /// Returns where request `number` buys. The requests go to the instances alternately, and rounds of requests to the SKUs. So every SKU
    /// is bought at every instance.
    fn target(&self, number: usize) -> Option<Target<'_>> {
        let instances = self.urls.first()?.len().max(1);
        let goods = number / instances % self.urls.len();
        let instance = number % instances;
        Some(Target { goods, instance, url: self.urls[goods].get(instance)? })
    }

    /// Buys once, by request `number` of `buyer`. Returns `None` without a URL, or when the load was called off.
    pub(crate) async fn buy(&self, number: usize, buyer: usize, transport: &mut impl Transport) -> Option<Bought> {
        let target = self.target(number)?;
        let Target { goods, url, .. } = target;
        if let Some(two_steps) = &self.two_steps {
            let named = self.names_buyers.then(|| (BUYER_ID, buyer_name(buyer)));
            return two_steps.buy((goods, url), number, named, transport).await;
        }
        if let Some(repeats) = self.repeats.as_ref().filter(|_| Repeats::is_of(number)) {
            return repeats.buy(self, goods, (number, buyer), transport).await;
        }
        let request = self.named(transport.client().get(url.clone()), buyer);
        self.ask(target, request, self.decided_within, transport).await
    }

    /// Says who buys, if a request must say it.
    pub(crate) fn named(&self, request: RequestBuilder, buyer: usize) -> RequestBuilder {
        if self.names_buyers { request.header(BUYER_ID, buyer_name(buyer)) } else { request }
    }

    /// Sends a request, and returns what came of it. A ticket is followed for `decided_within`. Returns `None` when the load was called off.
    pub(crate) async fn ask(
        &self,
        Target { goods, instance, url }: Target<'_>,
        request: RequestBuilder,
        decided_within: Duration,
        transport: &mut impl Transport,
    ) -> Option<Bought> {
        let response = transport.send(request).await?;
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
        let Classified { outcome, mut confirmation, problem } = classified;
        if let Some(Confirmation::Lab(told)) = &mut confirmation {
            told.instance = Some(instance);
        }
        let is_committed = self.answers_at_commit;
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
            received_bytes,
        })
    }
}

/// Where a request buys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Which of the SKUs on sale, from zero.
    pub(crate) goods: usize,
    /// The index of the instance.
    pub(crate) instance: usize,
    pub(crate) url: &'a Url,
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

/// Makes the client that all users share. It opens as many connections as are needed at the same time.
pub(crate) fn client(answer_within: Duration) -> Result<Client, Error> {
    // A proxy would be measured together with the service. The probes of ten thousand idle connections come at one
    // instant, overflow the queue of the loopback device, and then the system ends connections in good health.
    let builder = Client::builder().no_proxy().tcp_user_timeout(None);
    let builder = builder.tcp_keepalive(None).tcp_keepalive_interval(None).tcp_keepalive_retries(None);
    let builder = builder.timeout(answer_within).redirect(Policy::none());
    // The service has no TLS. A machine without certificates, such as a small container, can make no other client.
    let builder = builder.tls_certs_only([]);
    builder.build().map_err(|error| Error::Generator(format!("no HTTP client: {error}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::get;

    use super::*;

    /// Goal: ten thousand connections that wait for answers are not probed all at one instant. Method: the system's table of
    /// connections has no timer for one that waits.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_that_waits_for_its_answer_is_not_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = client(Duration::from_secs(60)).unwrap();
        let asking = tokio::spawn(client.get(format!("http://{address}/")).send());
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        let remote = format!("0100007F:{:04X}", address.port());
        let timer_of_client = || {
            let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let of_client = rows.filter(|row| row.get(2) == Some(&remote.as_str())).map(|row| row[5].to_owned());
            of_client.collect::<Vec<_>>()
        };
        // 01 is the wait for the acknowledgement of the request, and 02 would be the one for a probe.
        while timer_of_client().iter().any(|timer| timer.starts_with("01:")) {
            tokio::task::yield_now().await;
        }
        assert_eq!(timer_of_client(), ["00:00000000"]);
        asking.abort();
    }

    pub(crate) fn lab_of(urls: Vec<Vec<Url>>) -> LabPurchase {
        LabPurchase {
            urls,
            probes: Vec::new(),
            names_buyers: false,
            comes_twice: None,
            answers_at_commit: true,
            decided_within: Duration::ZERO,
            two_steps: None,
            repeats: None,
        }
    }

    #[test]
    fn buyers_take_turns_in_the_instances_and_in_the_goods() {
        let url = |goods: &str, instance: &str| Url::parse(&format!("http://{instance}/{goods}")).unwrap();
        let urls = ["1", "2"].map(|goods| ["a", "b"].map(|instance| url(goods, instance)).to_vec()).to_vec();
        let lab = lab_of(urls);
        let targets: Vec<_> = (0..5).map(|number| lab.target(number).unwrap()).collect();
        let targets: Vec<_> = targets.iter().map(|at| (at.goods, at.instance, at.url.as_str())).collect();
        let expected = [
            (0, 0, "http://a/1"),
            (0, 1, "http://b/1"),
            (1, 0, "http://a/2"),
            (1, 1, "http://b/2"),
            (0, 0, "http://a/1"),
        ];
        assert_eq!(targets, expected);
    }
    #[test]
    fn some_buyers_come_twice_and_to_different_instances() {
        let every = NonZeroUsize::new(4);
        let url = |instance: &str| Url::parse(&format!("http://{instance}/1")).unwrap();
        let lab = LabPurchase { urls: vec![["a", "b"].map(url).to_vec()], comes_twice: every, ..lab_of(Vec::new()) };
        let buyers: Vec<usize> = (0..9).map(|number| lab.buyer_of(number, number)).collect();
        assert_eq!(buyers, [0, 1, 2, 2, 4, 5, 6, 6, 8]);
        assert_ne!(lab.target(2), lab.target(3));
    }

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
        let lab = LabPurchase { decided_within, ..lab_of(vec![vec![url]]) };
        lab.buy(0, 0, &mut client(Duration::from_secs(60)).unwrap()).await.unwrap()
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
