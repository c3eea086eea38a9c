//! One buyer at a shop that a file describes.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::cookie::Jar;

use super::answer::ShopAnswer;
use super::decision::{Decision, ShopOutcome};
use super::doubt::Doubt;
use super::exchange::Observer;
use super::meaning::Meaning;
use super::steps::{Script, Steps};
use super::template::Values;
use super::transport::Transport;
use super::visit::{Course, Visit};

/// The name of the value that is the buyer's number.
const NUMBER: &str = "number";

/// The name of the value that is the number of the order.
const ORDER: &str = "order";

/// One buyer at a shop that a file describes, with its own values and cookies. A clone is another tab of the buyer's browser: it shares
/// the cookies.
#[derive(Debug, Clone)]
pub struct Customer {
    number: usize,
    values: Values,
    secrets: Arc<BTreeSet<String>>,
    jar: Arc<Jar>,
}

/// A buyer that could not sign up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("buyer {number} could not sign up: {cause}; --dry-run shows the requests and answers of one buyer")]
pub struct SignUpError {
    /// The number of the buyer, from 0.
    pub number: usize,
    /// What went wrong.
    #[source]
    pub cause: Doubt,
}

impl Customer {
    /// Makes the buyer with this number, from 0. `values` are those that it has from the start, such as `url` and the columns
    /// of its line in the CSV. The value `number` is added.
    pub fn new(number: usize, mut values: Values) -> Customer {
        values.insert(NUMBER.to_owned(), number.to_string());
        Customer { number, values, secrets: Arc::default(), jar: Arc::default() }
    }

    /// Returns the number of the buyer.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Names the values that are shown as `…`, wherever they are.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<BTreeSet<String>>) -> Customer {
        Customer { secrets, ..self }
    }

    /// Returns the values that the buyer has by now, secrets included.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Signs the buyer up. An answer is a success if it is 2xx, or redirects to the same address by 302 or 303, as forms do.
    ///
    /// # Errors
    ///
    /// [`SignUpError`] when an answer is no success or does not come, or when no answer has a value that is to be taken.
    ///
    /// # Cancel safety
    ///
    /// What the shop had begun for the buyer, it may finish. The buyer keeps the values and cookies of earlier answers.
    pub async fn sign_up(
        &mut self,
        script: &Script,
        transport: &mut impl Transport,
        observer: Observer<'_>,
    ) -> Result<(), SignUpError> {
        let number = self.number;
        let signed_up = self.visit(transport, observer).sign_up(&script.sign_up).await;
        signed_up.map_err(|cause| SignUpError { number, cause })
    }

    /// Does what is done once for all buyers, such as putting the stock on sale. Every answer has to be 2xx. `part` is the part of
    /// the file, as `[sale]`.
    ///
    /// # Errors
    ///
    /// [`Doubt`] when an answer is no success or does not come, or when no answer has a value that is to be taken.
    ///
    /// # Cancel safety
    ///
    /// What the shop had begun, it may finish.
    pub async fn errand(
        &mut self,
        part: &str,
        steps: &Steps,
        transport: &mut impl Transport,
        observer: Observer<'_>,
    ) -> Result<(), Doubt> {
        self.visit(transport, observer).errand(part, steps).await
    }

    /// Buys once, and waits for the outcome if the shop queues the buyer. The answer to the purchase gives the number of the
    /// order. If it has none, the answer that tells the outcome gives it.
    ///
    /// # Cancel safety
    ///
    /// What the shop had begun for the buyer, it may finish.
    pub async fn purchase(
        &mut self,
        script: &Script,
        transport: &mut impl Transport,
        observer: Observer<'_>,
    ) -> Decision {
        self.values.remove(ORDER);
        let mut visit = self.visit(transport, observer);
        let outcome = match visit.decide(script).await {
            Ok(Meaning::Sold) => ShopOutcome::Sold { order: visit.values.get(ORDER).cloned() },
            Ok(Meaning::SoldOut) => ShopOutcome::SoldOut,
            Ok(Meaning::OverLimit) => ShopOutcome::OverLimit,
            Ok(Meaning::Refused) => ShopOutcome::Refused,
            Ok(Meaning::Queued) => ShopOutcome::Unknown(Doubt::NoPoll),
            Err(doubt) => ShopOutcome::Unknown(doubt),
        };
        let Course { requests, received_bytes, status, first_byte, ended } = visit.course;
        Decision { outcome, status, first_byte, ended, received_bytes, requests }
    }

    fn visit<'a, 'o, T>(&'a mut self, transport: &'a mut T, observer: Observer<'o>) -> Visit<'a, 'o, T> {
        Visit {
            values: &mut self.values,
            jar: &self.jar,
            secrets: &self.secrets,
            transport,
            observer,
            course: Course::new(),
        }
    }
}

impl<T: Transport> Visit<'_, '_, T> {
    /// Buys, and asks for the outcome if the buyer is queued.
    async fn decide(&mut self, script: &Script) -> Result<Meaning, Doubt> {
        let (meaning, answer) = self.purchase(&script.buy, &script.meanings).await?;
        self.note_order(script, &answer);
        let (Meaning::Queued, Some(poll)) = (meaning, &script.outcome) else { return Ok(meaning) };
        let (meaning, answer) = self.outcome(poll, &script.meanings).await?;
        if meaning == Meaning::Sold {
            self.note_order(script, &answer);
        }
        Ok(meaning)
    }

    /// Notes the number of the order, unless it is known.
    fn note_order(&mut self, script: &Script, answer: &ShopAnswer) {
        if self.values.contains_key(ORDER) {
            return;
        }
        if let Some(order) = script.order.as_ref().and_then(|source| source.value_in(answer)) {
            self.values.insert(ORDER.to_owned(), order);
        }
    }
}
