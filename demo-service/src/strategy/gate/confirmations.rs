//! Buyers who wait until their orders are committed. The consumer that commits an order may be of another instance. It publishes what it
//! has done under the name of the waiting instance. Nothing is lost if nobody hears it: a waiting purchase also asks the database.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::debug;

use super::RedisGate;
use crate::failure::Kind;
use crate::redis_store::gate::Gates;
use crate::store::refusal_kind;

/// The pause before the connection that hears is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// How a committed order is told of.
const SOLD: &str = "sold";

/// Why an order was refused. `None` if it is committed.
pub(super) type MaybeRefused = Option<&'static Kind>;

/// The buyers of an instance that wait for the commits of their orders.
pub(super) struct Confirmations {
    /// The name under which this process listens.
    listener: String,
    waiting: Mutex<HashMap<u64, oneshot::Sender<MaybeRefused>>>,
    next: AtomicU64,
}

/// An order that is waited for. Dropped, nobody waits any more.
pub(super) struct Awaited<'a> {
    confirmations: &'a Confirmations,
    number: u64,
    name: String,
    told: oneshot::Receiver<MaybeRefused>,
}

impl Confirmations {
    pub(super) fn new() -> Self {
        let listener = format!("{:016x}", rand::random::<u64>());
        Self { listener, waiting: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Begins to wait, before the order is asked for, so that nothing is told too early.
    pub(super) fn expect(&self) -> Awaited<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.waiting.lock().insert(number, tell);
        Awaited { confirmations: self, number, name: format!("{}/{number}", self.listener), told }
    }

    /// Passes on what was told: numbers, each with what became of the order.
    fn hear(&self, text: &str) {
        for word in text.split(' ') {
            let Some((number, outcome)) = word.split_once('=') else { continue };
            let waiting = number.parse().ok().and_then(|number| self.waiting.lock().remove(&number));
            if let Some(tell) = waiting {
                // The buyer may have given up.
                tell.send((outcome != SOLD).then(|| refusal_kind(outcome))).ok();
            }
        }
    }
}

impl Awaited<'_> {
    /// Returns the name of this wait, for the consumer of the order.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it is told what became of the order.
    pub(super) async fn told(&mut self) -> MaybeRefused {
        match (&mut self.told).await {
            Ok(refused) => refused,
            // The sender is dropped with `self` only.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.confirmations.waiting.lock().remove(&self.number);
    }
}

impl RedisGate {
    /// Tells waiting buyers what became of their orders. Each wait is named as [`Awaited::name`] says.
    pub(super) async fn tell(&self, gates: &Gates, decided: impl Iterator<Item = (&str, MaybeRefused)>) {
        let mut texts: HashMap<&str, Vec<String>> = HashMap::new();
        for (waiter, refused) in decided {
            let Some((listener, number)) = waiter.split_once('/') else { continue };
            let outcome = refused.map_or(SOLD, Kind::slug);
            texts.entry(listener).or_default().push(format!("{number}={outcome}"));
        }
        for (listener, words) in texts {
            let text = words.join(" ");
            match &self.confirmations {
                Some(own) if own.listener == listener => own.hear(&text),
                _ => {
                    if let Err(trouble) = gates.tell(listener, &text).await {
                        debug!(error = program::chain(&trouble), "commits of orders could not be told");
                    }
                }
            }
        }
    }

    /// Hears what the consumers of other instances tell, for ever.
    pub(super) async fn hear_confirmations(&self, gates: &Gates) {
        let Some(confirmations) = &self.confirmations else { return };
        loop {
            match gates.listen(&confirmations.listener).await {
                Ok(told) => {
                    let mut told = pin!(told);
                    while let Some(text) = told.next().await {
                        confirmations.hear(&text);
                    }
                }
                Err(trouble) => {
                    debug!(error = program::chain(&trouble), "commits of orders cannot be heard, trying again")
                }
            }
            sleep(PAUSE).await;
        }
    }
}
