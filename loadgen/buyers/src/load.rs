//! The load of one trial: what the buyers do, and its results.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::Error;
use crate::health::{Dropped, Processors};
use crate::model::LoadModel;
use crate::tally::Tally;

/// What the buyers do.
#[derive(Debug, Clone)]
pub struct Load {
    /// For each SKU, one URL an instance.
    pub urls: Vec<Vec<Url>>,
    /// For each instance, a URL that answers at once.
    pub probes: Vec<Url>,
    /// How many buyers there are.
    pub users: usize,
    /// When they buy.
    pub model: LoadModel,
    /// Draws the arrivals of an open model.
    pub seed: u64,
    /// How long a buyer waits for the answer.
    pub answer_within: Duration,
    /// How long all users together may take to be ready.
    pub arrive_within: Duration,
    /// Where goose writes its own report of a closed model, in the format of the file's extension. Without one, goose counts
    /// nothing.
    pub goose_report: Option<PathBuf>,
    /// Upper bound of the requests that are kept one by one for the log. If there are more, none is kept.
    pub log_max: usize,
}

impl Load {
    /// Returns the tally of this load before it begins.
    pub(crate) fn tally(&self) -> Tally {
        Tally::of(self.urls.len(), self.users, &self.model, self.log_max)
    }

    /// Returns the SKU and the URL for buyer `number`. The buyers go to the instances alternately, and rounds of buyers
    /// to the SKUs. So every SKU is bought at every instance.
    pub(crate) fn target(&self, number: usize) -> Option<(usize, &Url)> {
        let instances = self.urls.first()?.len().max(1);
        let goods = number / instances % self.urls.len();
        Some((goods, self.urls[goods].get(number % instances)?))
    }
}

/// The results of a load.
#[derive(Debug)]
pub struct LoadResult {
    /// What the requests add up to.
    pub tally: Tally,
    /// Arrivals that were not started, as no user was free.
    pub dropped: Dropped,
    /// The wall clock at the release of the buyers, from which the instants of the requests count.
    pub released_at: SystemTime,
    /// Processor time of this process from that release to the last answer.
    pub cpu_time: Duration,
    /// What the system says of the processors meanwhile.
    pub processors: Processors,
}

/// Makes the client that all users share. It opens as many connections as are needed at the same time.
pub(crate) fn client(load: &Load) -> Result<Client, Error> {
    // A proxy would be measured together with the service. The probes of ten thousand idle connections come at one
    // instant, overflow the queue of the loopback device, and then the system ends connections in good health.
    let builder = Client::builder().no_proxy().tcp_user_timeout(None);
    let builder = builder.tcp_keepalive(None).tcp_keepalive_interval(None).tcp_keepalive_retries(None);
    // A redirect is an answer: a buyer that follows it does so by itself, see `script`.
    let builder = builder.timeout(load.answer_within).redirect(Policy::none());
    // The service has no TLS. A machine without certificates, such as a small container, can make no other client.
    let builder = builder.tls_certs_only([]);
    builder.build().map_err(|error| Error::Generator(format!("no HTTP client: {error}")))
}

/// Returns the processor time of this process, user and system. Zero if the system does not tell.
pub fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let time = |value: TimeVal| Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or_default());
    time(usage.user_time()) + time(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_time();
        // A kernel counts in ticks of up to ten milliseconds, so the work goes on until it shows.
        let grown = (0_u64..u64::MAX).any(|number| {
            std::hint::black_box(number);
            number % 100_000 == 0 && cpu_time() > before
        });
        assert!(grown);
    }

    fn load(urls: Vec<Vec<Url>>) -> Load {
        Load {
            urls,
            probes: Vec::new(),
            users: 4,
            model: LoadModel::Burst,
            seed: 1,
            answer_within: Duration::from_secs(60),
            arrive_within: Duration::ZERO,
            goose_report: None,
            log_max: 0,
        }
    }

    /// Goal: ten thousand connections that wait for answers are not probed all at one instant. Method: the system's table of
    /// connections has no timer for one that waits.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_that_waits_for_its_answer_is_not_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = client(&load(Vec::new())).unwrap();
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

    #[test]
    fn buyers_take_turns_in_the_instances_and_in_the_goods() {
        let url = |goods: &str, instance: &str| Url::parse(&format!("http://{instance}/{goods}")).unwrap();
        let urls = ["1", "2"].map(|goods| ["a", "b"].map(|instance| url(goods, instance)).to_vec()).to_vec();
        let load = load(urls);
        let targets: Vec<_> = (0..5).map(|number| load.target(number).unwrap()).collect();
        let targets: Vec<_> = targets.iter().map(|(goods, url)| (*goods, url.as_str())).collect();
        let expected = [(0, "http://a/1"), (0, "http://b/1"), (1, "http://a/2"), (1, "http://b/2"), (0, "http://a/1")];
        assert_eq!(targets, expected);
    }
}
