//! All buyers of a scenario. Each of its transactions runs under a watch, which names what goes wrong.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use goose::goose::{GooseUser, Scenario, Transaction, TransactionError, TransactionFunction, TransactionResult};
use goose::is_killswitch_triggered;
use reqwest::{Client, Url};
use tokio::sync::watch;

use super::buyer::{BUYER, ScenarioBuyer};
use super::own::ScenarioPurchase;
use crate::Error;
use crate::gate::Gate;
use crate::model::LoadModel;
use crate::sample::Outcome;
use crate::tally::SharedTally;

/// The problem of a purchase that is dropped without a word.
const UNSAID: &str = "the scenario did not say what the buyer was told";

/// The name of the transaction that ends each scenario, in goose's report.
const END: &str = "end of the scenario";

/// All buyers of a load by a scenario.
#[derive(Debug)]
pub(crate) struct ScenarioBuyers {
    buyers: Vec<Arc<ScenarioBuyer>>,
    urls: Vec<Url>,
    clients: Vec<Client>,
    /// The longest time of a purchase.
    within: Duration,
    failure: watch::Sender<Option<String>>,
}

impl ScenarioBuyers {
    /// Makes the buyers of a load, one for each client. A purchase takes at most `within`.
    pub(crate) fn of(
        own: &ScenarioPurchase,
        model: &LoadModel,
        within: Duration,
        (gate, tally): (&Arc<Gate>, &SharedTally),
    ) -> Arc<ScenarioBuyers> {
        let (failure, _) = watch::channel(None);
        let users = own.clients.len();
        let of = |user| {
            let intended = model.first_start(user, users);
            Arc::new(ScenarioBuyer::new(user, intended, Arc::clone(gate), Arc::clone(tally), failure.clone()))
        };
        let buyers = (0..users).map(of).collect();
        // A base URL without a slash at its end would lose the last part of its path.
        let with_slash = |url: &Url| {
            let mut url = url.clone();
            url.set_path(&format!("{}/", url.path().trim_end_matches('/')));
            url
        };
        let urls = own.urls.iter().map(with_slash).collect();
        Arc::new(ScenarioBuyers { buyers, urls, clients: own.clients.clone(), within, failure })
    }

    /// Puts each transaction of a scenario under the watch.
    pub(crate) fn watched(self: &Arc<Self>, scenario: &Scenario) -> Scenario {
        let mut watched = scenario.clone();
        watched.transaction_wait = None;
        for (position, transaction) in watched.transactions.iter_mut().enumerate() {
            let name = match transaction.name.name_for_transaction() {
                "" => format!("transaction {}", position + 1),
                name => format!("transaction {name:?}"),
            };
            let all = Arc::clone(self);
            let function = Arc::clone(&transaction.function);
            transaction.function = Arc::new(move |user: &mut GooseUser| {
                let all = Arc::clone(&all);
                let name = name.clone();
                let function = Arc::clone(&function);
                Box::pin(async move { all.run(user, &name, &function).await })
            });
        }
        watched.register_transaction(self.end())
    }

    /// Makes the last transaction, which finds the buyers that never came to the rendezvous. The others would wait for them.
    fn end(self: &Arc<Self>) -> Transaction {
        let all = Arc::clone(self);
        let end = Transaction::new(Arc::new(move |user: &mut GooseUser| {
            let buyer = all.buyers.get(user.weighted_users_index).cloned();
            Box::pin(async move {
                // An interrupted goose also ends its users.
                if let Some(buyer) = buyer.filter(|buyer| !buyer.has_bought() && !is_killswitch_triggered()) {
                    buyer.fail(|| never_came(buyer.user));
                }
                Ok(())
            })
        }));
        end.set_name(END).set_on_stop()
    }

    /// Runs a transaction of a user until it ends, its purchase has taken too long, or the load is called off.
    async fn run(&self, user: &mut GooseUser, name: &str, function: &TransactionFunction) -> TransactionResult {
        let number = user.weighted_users_index;
        let Some(buyer) = self.buyers.get(number) else { return Ok(()) };
        if buyer.begins_scenario() {
            user.client.clone_from(&self.clients[number]);
            user.base_url.clone_from(&self.urls[number % self.urls.len()]);
        }
        let _panics = FailsByPanic { buyer, name };
        let result = tokio::select! {
            result = BUYER.scope(Arc::clone(buyer), function(user)) => result,
            () = buyer.gate.cancelled() => return Ok(()),
            () = buyer.overdue(self.within) => {
                let within = humantime::format_duration(self.within);
                buyer.end_unsaid(Outcome::Timeout, format!("the buyer was told nothing within {within}"));
                return Ok(());
            }
        };
        match &result {
            Err(error) if !buyer.has_bought() => buyer.fail(|| {
                let cause = cause(error);
                format!(
                    "buyer {number} did not come to the rendezvous: its {name} failed: {cause}; correct the scenario, or look at \
                     the shop"
                )
            }),
            Err(error) if buyer.is_unsaid() => {
                let outcome = if is_timeout(error) { Outcome::Timeout } else { Outcome::Error };
                buyer.end_unsaid(outcome, format!("{name} failed: {}", cause(error)));
            }
            Ok(()) if buyer.is_unsaid() => buyer.end_unsaid(Outcome::Error, UNSAID.to_owned()),
            _ => {}
        }
        result
    }

    /// Ends the purchases of which nobody has said what the buyer was told, after the end of the scenario.
    pub(crate) fn close(&self) {
        self.buyers.iter().for_each(|buyer| buyer.end_unsaid(Outcome::Error, UNSAID.to_owned()));
    }

    /// Waits until a buyer cannot go on, and returns why.
    pub(crate) async fn failed(&self) -> Error {
        let mut failure = self.failure.subscribe();
        let found = failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone());
        match found {
            Some(what) => Error::Scenario(what),
            None => std::future::pending().await,
        }
    }
}

/// Ends the load if the transaction panics. Goose would wait for its user for ever.
struct FailsByPanic<'a> {
    buyer: &'a ScenarioBuyer,
    name: &'a str,
}

impl Drop for FailsByPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let FailsByPanic { buyer, name } = self;
            buyer.fail(|| format!("buyer {}: {name} panicked; let it return an error", buyer.user));
        }
    }
}

fn never_came(user: usize) -> String {
    format!(
        "buyer {user} ended the scenario without the rendezvous; call rendezvous() in the transaction that buys, and in no task that \
         it spawns"
    )
}

/// Says why a transaction failed. A URL may have secrets in it, so it is left out.
fn cause(error: &TransactionError) -> String {
    match error {
        TransactionError::Reqwest(error) => {
            let text = program::chain(error);
            error.url().map_or_else(|| text.clone(), |url| text.replace(&format!(" for url ({url})"), ""))
        }
        TransactionError::Custom(text) => text.clone(),
        TransactionError::RequestFailed { raw_request } => raw_request.error.clone(),
        other => other.to_string(),
    }
}

fn is_timeout(error: &TransactionError) -> bool {
    matches!(error, TransactionError::Reqwest(error) if error.is_timeout())
}
