//! A purchase at any shop, as a file describes it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Client, Url};
use tokio::time::Instant;

use crate::bought::Bought;
use crate::sample::{Confirmation, Outcome};
use crate::script::{Customer, Decision, Doubt, Script, ShopOutcome, Transport};

/// The requests that may still be sent, shared by all loads of a program.
#[derive(Debug, Clone)]
pub struct RequestBudget(Arc<AtomicI64>);

impl RequestBudget {
    /// Makes a budget with this number of requests.
    pub fn of(requests: u64) -> RequestBudget {
        RequestBudget(Arc::new(AtomicI64::new(i64::try_from(requests).unwrap_or(i64::MAX))))
    }

    /// Notes requests that were sent.
    pub fn spend(&self, requests: u64) {
        self.0.fetch_sub(i64::try_from(requests).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Tells whether no further request may be sent.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 0
    }
}

/// What the buyers do at a shop that a file describes.
#[derive(Debug)]
pub struct ShopPurchase {
    /// The client that all buyers share. It follows no redirect and keeps no cookie.
    pub client: Client,
    /// What each buyer does.
    pub script: Arc<Script>,
    /// URLs that the users ask before the release, to have their connections open.
    pub probes: Vec<Url>,
    /// A buyer that comes after the last request of the budget sends none. The purchases under way go on.
    pub budget: RequestBudget,
    customers: Mutex<Vec<Option<Customer>>>,
}

impl ShopPurchase {
    /// Makes the purchase of these buyers, who are signed up. There is one for each user of a closed model, and one for each
    /// arrival of an open one.
    pub fn of(
        client: Client,
        script: Arc<Script>,
        probes: Vec<Url>,
        budget: RequestBudget,
        customers: Vec<Customer>,
    ) -> ShopPurchase {
        ShopPurchase {
            client,
            script,
            probes,
            budget,
            customers: Mutex::new(customers.into_iter().map(Some).collect()),
        }
    }

    /// Takes the buyer with this number. Each can be taken once.
    pub(crate) fn take(&self, number: usize) -> Option<Customer> {
        self.customers.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number)?.take()
    }

    /// Buys once. Returns `None` when the load was called off.
    pub(crate) async fn buy(&self, customer: &mut Customer, transport: &mut impl Transport) -> Option<Bought> {
        if self.budget.is_spent() {
            return Some(unsent());
        }
        let decision = customer.purchase(&self.script, transport, None).await;
        let Decision { outcome, status, first_byte, ended, received_bytes, requests } = decision;
        self.budget.spend(u64::from(requests));
        let (outcome, confirmation, problem) = match outcome {
            ShopOutcome::Sold { order } => (Outcome::Sold, Some(Confirmation::Shop(order.map(Arc::from))), None),
            ShopOutcome::SoldOut => (Outcome::SoldOut, None, None),
            ShopOutcome::OverLimit => (Outcome::OverLimit, None, None),
            ShopOutcome::Refused => (Outcome::Refused, None, Some(refused(status))),
            ShopOutcome::Unknown(Doubt::CalledOff) => return None,
            ShopOutcome::Unknown(doubt) => {
                let outcome = if doubt.is_timeout() { Outcome::Timeout } else { Outcome::Error };
                (outcome, None, Some(doubt.to_string()))
            }
        };
        Some(Bought {
            goods: 0,
            outcome,
            confirmation,
            problem,
            status,
            first_byte,
            ended,
            decided: None,
            is_committed: false,
            instance: None,
            received_bytes,
        })
    }
}

/// Returns the purchase of a buyer that may send no request any more.
fn unsent() -> Bought {
    Bought {
        goods: 0,
        outcome: Outcome::Error,
        confirmation: None,
        problem: Some("not sent: the greatest number of requests was reached".to_owned()),
        status: None,
        first_byte: None,
        ended: Instant::now(),
        decided: None,
        is_committed: false,
        instance: None,
        received_bytes: 0,
    }
}

fn refused(status: Option<u16>) -> String {
    status.map_or_else(|| "refused".to_owned(), |status| format!("refused by an answer of status {status}"))
}
