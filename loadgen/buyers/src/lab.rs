//! A purchase at the service of the lab: one request, one that is repeated under a key, or two steps.

use std::num::NonZeroUsize;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::Error;
use crate::bought::Bought;
use crate::lab_request::LabRequest;
use crate::repeat::Repeats;
use crate::reserve::TwoSteps;
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
    fn request(&self, number: usize, buyer: usize) -> Option<LabRequest<'_>> {
        let instances = self.urls.first()?.len().max(1);
        let goods = number / instances % self.urls.len();
        let instance = number % instances;
        let named = self.names_buyers.then_some(buyer);
        Some(LabRequest {
            goods,
            instance,
            url: self.urls[goods].get(instance)?,
            named,
            is_committed: self.answers_at_commit,
        })
    }

    /// Buys once, by request `number` of `buyer`. Returns `None` without a URL, or when the load was called off.
    pub(crate) async fn buy(&self, number: usize, buyer: usize, transport: &mut impl Transport) -> Option<Bought> {
        let request = self.request(number, buyer)?;
        if let Some(two_steps) = &self.two_steps {
            return two_steps.buy(request, number, transport).await;
        }
        if let Some(repeats) = self.repeats.as_ref().filter(|_| Repeats::is_of(number)) {
            return repeats.buy(request, number, transport).await;
        }
        request.send(transport.client().get(request.url.clone()), self.decided_within, transport).await
    }
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
mod tests {

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

    fn lab_of(urls: Vec<Vec<Url>>) -> LabPurchase {
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
        let targets: Vec<_> = (0..5).map(|number| lab.request(number, number).unwrap()).collect();
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
        assert_ne!(lab.request(2, 2), lab.request(3, 2));
    }
}
