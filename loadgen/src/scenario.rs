//! The burst: every buyer waits at a rendezvous, and all of them buy at the same instant, once.
//!
//! Goose drives the buyers. The times are taken here, as goose's own clock stops at the headers of an answer and knows
//! no instant common to all users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use goose::config::GooseConfiguration;
use goose::goose::{GooseUser, Scenario, Transaction};
use goose::{GooseAttack, GooseError};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use reqwest::{Client, Response, StatusCode};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::answer::classify;
use crate::error::Error;
use crate::trial::{Outcome, Sample};

/// Users that goose starts a second; their pace does not matter, as they meet at the rendezvous.
const USERS_PER_SECOND: &str = "100000";
/// How long goose may take for its own start and end, besides the burst.
const GOOSE_GRACE: Duration = Duration::from_secs(15);

/// What every buyer does.
#[derive(Debug, Clone)]
pub(crate) struct Purchase {
    /// One URL an instance; buyer `i` takes number `i` modulo their count.
    pub(crate) urls: Vec<String>,
    pub(crate) users: usize,
    /// How long a buyer waits for the answer.
    pub(crate) answer_within: Duration,
    /// How long all buyers together may take to arrive at the rendezvous.
    pub(crate) arrive_within: Duration,
}

/// The rendezvous of the buyers.
#[derive(Debug)]
struct Gate {
    users: usize,
    arrived: AtomicUsize,
    everyone: Notify,
    state: watch::Sender<GateState>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum GateState {
    Closed,
    /// Everyone may go, since this instant.
    Open(Instant),
    /// Nobody is to go, and those who went are to give up.
    Cancelled,
}

impl Gate {
    fn new(users: usize) -> Arc<Gate> {
        let (state, _) = watch::channel(GateState::Closed);
        Arc::new(Gate { users, arrived: AtomicUsize::new(0), everyone: Notify::new(), state })
    }

    /// A buyer arrives, and waits until the gate opens or the burst is called off.
    async fn arrive(&self) {
        let mut state = self.state.subscribe();
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.users {
            self.everyone.notify_one();
        }
        // The only error is that the sender is gone, and this gate owns it.
        let _ = state.wait_for(|state| *state != GateState::Closed).await;
    }

    /// The instant at which the gate opened, if it did.
    fn opened_at(&self) -> Option<Instant> {
        match *self.state.borrow() {
            GateState::Open(instant) => Some(instant),
            GateState::Closed | GateState::Cancelled => None,
        }
    }

    /// Opens the gate once everyone is there.
    async fn open(&self, within: Duration) -> Result<(), Error> {
        if tokio::time::timeout(within, self.everyone.notified()).await.is_err() {
            let arrived = self.arrived.load(Ordering::SeqCst);
            return Err(Error::Rendezvous { arrived, users: self.users, within_s: within.as_secs() });
        }
        self.state.send_replace(GateState::Open(Instant::now()));
        Ok(())
    }

    fn cancel(&self) {
        self.state.send_replace(GateState::Cancelled);
    }

    async fn cancelled(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| *state == GateState::Cancelled).await;
    }
}

/// Calls the burst off when it goes, so that no buyer of an abandoned burst buys later.
struct CancelOnDrop(Arc<Gate>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What a burst was like.
#[derive(Debug)]
pub(crate) struct Burst {
    /// One sample a buyer.
    pub(crate) samples: Vec<Sample>,
    /// Processor time of this process from the release to the last answer.
    pub(crate) cpu_time: Duration,
}

/// Lets all buyers buy at once.
///
/// # Errors
///
/// [`Error::Rendezvous`] when not all buyers can be started, [`Error::Generator`] when goose fails or loses a buyer.
///
/// # Cancel safety
///
/// Buyers that wait or buy give up; what the service had begun for them, it may finish.
pub(crate) async fn run(purchase: &Purchase) -> Result<Burst, Error> {
    let gate = Gate::new(purchase.users);
    let _cancel = CancelOnDrop(Arc::clone(&gate));
    let (sender, receiver) = mpsc::unbounded_channel();
    let attack = attack(purchase, &gate, sender).map_err(|error| goose_failed(&error))?;

    let opening = async {
        let opened = gate.open(purchase.arrive_within).await;
        if opened.is_err() {
            gate.cancel();
        }
        opened.map(|()| cpu_time())
    };
    // A user that panics would make goose wait for ever; nothing here panics, and nothing here waits for ever either.
    let limit = purchase.arrive_within + purchase.answer_within + GOOSE_GRACE;
    let attacking = async {
        match tokio::time::timeout(limit, attack.execute()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(goose_failed(&error)),
            Err(_) => {
                gate.cancel();
                Err(Error::Generator(format!("goose did not end within {} s", limit.as_secs())))
            }
        }
    };
    let collecting = collect(receiver, purchase.users);
    let (opened, attacked, (samples, cpu_end)) = tokio::join!(opening, attacking, collecting);
    let cpu_start = opened?;
    attacked?;
    if samples.len() == purchase.users {
        Ok(Burst { samples, cpu_time: cpu_end.saturating_sub(cpu_start) })
    } else {
        Err(Error::Generator(format!("only {} of {} users reported back", samples.len(), purchase.users)))
    }
}

/// Takes the samples as they come, and the processor time when the last one is there.
async fn collect(mut receiver: mpsc::UnboundedReceiver<Sample>, users: usize) -> (Vec<Sample>, Duration) {
    let mut samples = Vec::with_capacity(users);
    while samples.len() < users {
        // The senders go with goose and its users, so this ends even if samples are missing.
        let Some(sample) = receiver.recv().await else { break };
        samples.push(sample);
    }
    (samples, cpu_time())
}

/// Processor time of this process, user and system; zero if the system does not tell.
fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let time = |value: TimeVal| Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or_default());
    time(usage.user_time()) + time(usage.system_time())
}

/// One goose attack: `on_start` is the rendezvous, the only iteration is the purchase.
fn attack(
    purchase: &Purchase,
    gate: &Arc<Gate>,
    samples: mpsc::UnboundedSender<Sample>,
) -> Result<GooseAttack, GooseError> {
    let rendezvous = {
        let gate = Arc::clone(gate);
        Transaction::new(Arc::new(move |_: &mut GooseUser| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.arrive().await;
                Ok(())
            })
        }))
    };
    let buy = {
        let gate = Arc::clone(gate);
        let purchase = Arc::new(purchase.clone());
        Transaction::new(Arc::new(move |user: &mut GooseUser| {
            let (gate, purchase, samples) = (Arc::clone(&gate), Arc::clone(&purchase), samples.clone());
            let (client, number) = (user.client.clone(), user.weighted_users_index);
            Box::pin(async move {
                if let Some(sample) = buy(&client, &purchase, number, &gate).await {
                    // The receiver outlives the attack, unless the whole burst was abandoned.
                    let _ = samples.send(sample);
                }
                Ok(())
            })
        }))
    };
    let scenario = Scenario::new("flash sale")
        .register_transaction(rendezvous.set_name("rendezvous").set_on_start())
        .register_transaction(buy.set_name("buy"));
    let mut configuration = GooseConfiguration::default();
    // Every request names its own URL; goose merely wants a host to be set.
    configuration.host = purchase.urls.first().cloned();
    configuration.users = Some(purchase.users);
    configuration.increase_rate = Some(USERS_PER_SECOND.to_owned());
    configuration.iterations = Some(1);
    configuration.no_telnet = true;
    configuration.no_print_metrics = true;
    configuration.no_metrics = true;
    configuration.quiet = 1;
    let client = goose::client::GooseClientBuilder::new().without_cookies().timeout(purchase.answer_within);
    Ok(GooseAttack::initialize_with_config(configuration)?
        .set_client_builder_without_cookies(client)?
        .register_scenario(scenario))
}

fn goose_failed(error: &GooseError) -> Error {
    Error::Generator(format!("goose: {error}"))
}

/// One purchase; nothing when the burst was called off.
async fn buy(client: &Client, purchase: &Purchase, number: usize, gate: &Gate) -> Option<Sample> {
    let released = gate.opened_at()?;
    let url = purchase.urls.get(number % purchase.urls.len().max(1))?;
    let start_lag = released.elapsed();
    let exchange = async {
        let response = client.get(url).send().await;
        let first_byte = response.is_ok().then(|| released.elapsed());
        let answer = match response {
            Ok(response) => read(response).await,
            Err(error) => Err(error),
        };
        let response = released.elapsed();
        let (outcome, problem) = match answer {
            Ok((status, body)) => classify(status, &body),
            Err(error) if error.is_timeout() => (Outcome::Timeout, None),
            Err(error) => (Outcome::Error, Some(causes(&error.without_url()))),
        };
        Sample { outcome, start_lag, first_byte, response, problem }
    };
    tokio::select! {
        sample = exchange => Some(sample),
        () = gate.cancelled() => None,
    }
}

async fn read(response: Response) -> Result<(StatusCode, String), reqwest::Error> {
    let status = response.status();
    Ok((status, response.text().await?))
}

/// An error with its causes, as reqwest's own text says little.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
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

    #[tokio::test]
    async fn nobody_passes_the_gate_before_everyone_is_there() {
        let gate = Gate::new(2);
        let first = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move {
                gate.arrive().await;
                gate.opened_at()
            }
        });
        let opening = gate.open(Duration::from_secs(60));
        tokio::pin!(opening);
        assert!(futures_poll_once(opening.as_mut()).await.is_none(), "only one of two is there");
        let ((), opened) = tokio::join!(gate.arrive(), opening);
        opened.unwrap();
        assert!(first.await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_says_who_did_not_come() {
        let gate = Gate::new(2);
        let (_, opened) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(9), gate.arrive()),
            gate.open(Duration::from_secs(5))
        );
        assert!(matches!(opened, Err(Error::Rendezvous { arrived: 1, users: 2, within_s: 5 })));
    }

    #[tokio::test]
    async fn a_cancelled_gate_lets_nobody_buy() {
        let gate = Gate::new(2);
        drop(CancelOnDrop(Arc::clone(&gate)));
        gate.arrive().await;
        assert_eq!(gate.opened_at(), None);
        gate.cancelled().await;
    }

    /// Polls a future once, and tells whether it was ready.
    async fn futures_poll_once<F: Future + Unpin>(future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }
}
