//! The server, the workers, and how one implementation is measured with them.

use std::time::{Duration, Instant};

use bench::Error;
use program::chain;
use stats::as_f64;
use testbed::{Counters, Proxy, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::fleet::Fleet;
use crate::implementation::{Host, Implementation, sessions_of};
use crate::protocol::{Answer, Contest, ContestProgress, Request};
use crate::window::{Exchange, Window};

/// The parent of all locks.
const ROOT: &str = "/rivals";
/// Time limit for opening the sessions and starting the contenders.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(60);
/// Time limit from the start until every contender has queued.
const QUEUED_WITHIN: Duration = Duration::from_secs(30);
/// Minimum and maximum wait for the steady state.
const SETTLE: std::ops::RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(10);
/// Time limit of every contender for its last cycle. Then it is cut off.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for requests that a worker on an idle machine answers at once.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for the server to answer again after a failed worker.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// The orchestrator's own session must outlive a server that is busy with the contenders.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// The result of a measurement.
#[derive(Debug)]
pub(crate) enum Outcome {
    Measured(Window),
    /// The measurement took too long, and would again.
    OutOfBounds(String),
    /// The implementation or its worker failed.
    Failed(String),
}

/// The way from the workers to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The workers connect to the server, which counts their packets.
    Direct,
    /// They connect through a proxy, which counts their bytes.
    Proxied,
}

/// Why a measurement cannot go on.
pub(crate) enum Trouble {
    OutOfBounds(String),
    Failed(String),
}

/// A server that is too busy for the orchestrator fails the measurement, and not the run.
impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(chain(&error))
    }
}

/// One throwaway server, and the workers that contend on it.
pub(crate) struct Harness {
    // Dropped first, so that the workers are gone before the server.
    pub(crate) fleet: Fleet,
    client: Client,
    proxy: Proxy,
    server: ZooKeeper,
    paths_used: u32,
}

/// The counters of the server, or of the proxy, at a moment.
struct Snapshot {
    /// Cycles that had finished then.
    cycles: f64,
    server: Option<Counters>,
    bytes: Option<u64>,
}

impl Harness {
    /// Starts the server, the proxy and the workers.
    pub(crate) async fn start(hosts: impl IntoIterator<Item = Host>) -> Result<Self, Error> {
        // Compiling the Java program takes the other core.
        let server = async { Ok(ZooKeeper::start(ZooKeeperConfig::default()).await?) };
        let (server, fleet) = tokio::try_join!(server, Fleet::start(hosts))?;
        let proxy = Proxy::start(&server.connect_string()).await?;
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        let client =
            connector.connect(&server.connect_string()).await.map_err(Error::refused("open a ZooKeeper session"))?;
        let root = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create(ROOT, &[], &root).await.map_err(Error::refused("create the parent of the locks"))?;
        Ok(Self { fleet, client, proxy, server, paths_used: 0 })
    }

    /// Measures one implementation in a closed loop at a fresh path.
    pub(crate) async fn measure(
        &mut self,
        implementation: Implementation,
        contenders: u32,
        window: Duration,
        way: Way,
    ) -> Result<Outcome, Error> {
        let host = implementation.host();
        let measured = match self.run(implementation, contenders, window, way).await {
            // The contenders are stopped in any case.
            Ok(window) => self.stop(host, DRAIN_WITHIN).await.map(|()| Outcome::Measured(window)),
            Err(Trouble::OutOfBounds(what)) => {
                // The last cycles would take too long as well, so the contenders are cut off at once.
                self.stop(host, Duration::ZERO).await.map(|()| Outcome::OutOfBounds(what))
            }
            Err(Trouble::Failed(what)) => Err(Trouble::Failed(what)),
        };
        self.outcome(host, measured).await
    }

    /// Replaces the worker after trouble. The trouble is then the outcome.
    pub(crate) async fn outcome(&mut self, host: Host, measured: Result<Outcome, Trouble>) -> Result<Outcome, Error> {
        match measured {
            Ok(outcome) => Ok(outcome),
            Err(Trouble::OutOfBounds(what) | Trouble::Failed(what)) => {
                self.fleet.replace(host).await?;
                self.until_serving().await?;
                Ok(Outcome::Failed(what))
            }
        }
    }

    /// Waits until the server answers, after something that may have been too much for it.
    async fn until_serving(&self) -> Result<(), Error> {
        let deadline = Instant::now() + RECOVERED_WITHIN;
        while let Err(error) = self.server.metrics().await {
            if Instant::now() >= deadline {
                return Err(error.into());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn run(
        &mut self,
        implementation: Implementation,
        contenders: u32,
        window: Duration,
        way: Way,
    ) -> Result<Window, Trouble> {
        let host = implementation.host();
        let contest = self.contest(implementation, contenders, sessions_of(contenders), way);
        let queue = implementation.queue(&contest.path, contenders, contest.sessions);
        self.ask(host, &Request::Run(contest), START_WITHIN).await?;
        let queued = self.until_queued(host, contenders, queue.as_ref()).await?;
        let is_steady = self.until_steady(host, queued + u64::from(contenders)).await?;
        let before = self.snapshot(host, way).await?;
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let answer = self.ask(host, &Request::Measure { window_ms }, window + ANSWER_WITHIN).await?;
        let after = self.snapshot(host, way).await?;
        let Answer::Measured(measured) = answer else { return Err(unexpected(&answer)) };
        Ok(Window::new(&measured, is_steady, after.since(&before)))
    }

    /// Makes a contest for a path that was never used.
    pub(crate) fn contest(
        &mut self,
        implementation: Implementation,
        contenders: u32,
        sessions: u32,
        way: Way,
    ) -> Contest {
        self.paths_used += 1;
        Contest {
            implementation: implementation.name().to_owned(),
            path: format!("{ROOT}/{}", self.paths_used),
            contenders,
            sessions,
            connect_string: match way {
                Way::Direct => self.server.connect_string(),
                Way::Proxied => self.proxy.connect_string(),
            },
        }
    }

    /// Waits until every contender is in the queue, except those between two cycles. Returns the number of cycles that
    /// have finished by then.
    async fn until_queued(
        &mut self,
        host: Host,
        contenders: u32,
        queue: Option<&(String, u32)>,
    ) -> Result<u64, Trouble> {
        let deadline = Instant::now() + QUEUED_WITHIN;
        loop {
            let ContestProgress { begun, finished } = self.progress(host).await?;
            let missing = match queue {
                Some((path, nodes)) => {
                    nodes.saturating_sub(between_cycles(*nodes)).saturating_sub(self.children(path).await?)
                }
                None => 0,
            };
            if begun >= contenders && missing == 0 {
                return Ok(finished);
            }
            if Instant::now() >= deadline {
                let within = humantime::format_duration(QUEUED_WITHIN);
                return Err(Trouble::OutOfBounds(format!("the queue was not complete within {within}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until `cycles` cycles have finished, because the first round is not like later ones. Returns whether they
    /// finished in time.
    async fn until_steady(&mut self, host: Host, cycles: u64) -> Result<bool, Trouble> {
        let began = Instant::now();
        loop {
            let is_steady = self.progress(host).await?.finished >= cycles;
            if (is_steady && began.elapsed() >= *SETTLE.start()) || began.elapsed() >= *SETTLE.end() {
                return Ok(is_steady);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the number of children of a node. A missing node has none.
    async fn children(&self, path: &str) -> Result<u32, Error> {
        let stat = tokio::time::timeout(ANSWER_WITHIN, self.client.check_stat(path)).await;
        let stat = stat.map_err(|_| Error::Failed(format!("ZooKeeper did not answer within {ANSWER_WITHIN:?}")))?;
        let stat = stat.map_err(Error::refused("count the contenders"))?;
        Ok(stat.and_then(|stat| u32::try_from(stat.num_children).ok()).unwrap_or(0))
    }

    /// Returns the number of watches that the server keeps.
    pub(crate) async fn watches(&self) -> Result<u64, Error> {
        Ok(self.server.metric("zk_watch_count").await?)
    }

    pub(crate) async fn progress(&mut self, host: Host) -> Result<ContestProgress, Trouble> {
        match self.ask(host, &Request::Progress, ANSWER_WITHIN).await? {
            Answer::Progress(progress) => Ok(progress),
            answer => Err(unexpected(&answer)),
        }
    }

    async fn stop(&mut self, host: Host, within: Duration) -> Result<(), Trouble> {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        match self.ask(host, &Request::Stop { within_ms }, within + ANSWER_WITHIN).await? {
            Answer::Stopped { .. } => Ok(()),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Sends a request to a worker and waits for its answer.
    pub(crate) async fn ask(&mut self, host: Host, request: &Request, within: Duration) -> Result<Answer, Trouble> {
        self.fleet.ask(host, request, within).await.map_err(Trouble::Failed)
    }

    /// Reads the counters. The mean of the cycles just before and just after stands for the moment between.
    async fn snapshot(&mut self, host: Host, way: Way) -> Result<Snapshot, Trouble> {
        let before = self.progress(host).await?.finished;
        let (server, bytes) = match way {
            Way::Direct => (Some(self.server.metrics().await.map_err(Error::from)?), None),
            Way::Proxied => {
                let traffic = self.proxy.traffic();
                (None, Some(traffic.bytes_to_server + traffic.bytes_from_server))
            }
        };
        let after = self.progress(host).await?.finished;
        Ok(Snapshot { cycles: f64::midpoint(as_f64(before), as_f64(after)), server, bytes })
    }
}

impl Snapshot {
    fn since(&self, before: &Self) -> Exchange {
        let grown = |now: Option<u64>, was: Option<u64>| now?.checked_sub(was?);
        let fired = |snapshot: &Self| snapshot.server.as_ref()?.watches_fired_total();
        let servers = self.server.as_ref().zip(before.server.as_ref());
        Exchange {
            cycles: self.cycles - before.cycles,
            requests: servers.and_then(|(now, was)| now.grown(was, "zk_packets_received")),
            notifications: grown(fired(self), fired(before)),
            bytes: grown(self.bytes, before.bytes),
        }
    }
}

/// Returns how many nodes of a complete queue may be missing at a moment, because their contenders are between two cycles.
fn between_cycles(nodes: u32) -> u32 {
    (nodes / 100).max(3)
}

pub(crate) fn unexpected(answer: &Answer) -> Trouble {
    Trouble::Failed(format!("unexpected answer: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_exchanged_is_the_growth_of_the_counters() {
        let snapshot = |cycles: f64, packets: u64, deleted: u64| {
            let kinds = [("created", 0), ("deleted", deleted), ("changed", 0), ("children", 0)];
            let fired = kinds.map(|(kind, fired)| format!("zk_sum_node_{kind}_watch_count\t{fired}\n")).concat();
            let server = Counters::from_mntr(&format!("zk_packets_received\t{packets}\n{fired}"));
            Snapshot { cycles, server: Some(server), bytes: None }
        };
        let exchange = snapshot(110.0, 700, 60).since(&snapshot(10.0, 400, 10));
        assert_eq!(exchange, Exchange { cycles: 100.0, requests: Some(300), notifications: Some(50), bytes: None });
        assert_eq!(snapshot(1.0, 3, 0).since(&snapshot(0.0, 4, 0)).requests, None, "it was reset");
    }

    #[test]
    fn a_complete_queue_may_lack_a_hundredth_or_three_nodes() {
        assert_eq!([1, 30, 300, 1500].map(between_cycles), [3, 3, 3, 15]);
    }
}
