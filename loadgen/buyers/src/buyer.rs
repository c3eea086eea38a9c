//! One request to buy.

use std::sync::Mutex;
use std::time::Duration;

use reqwest::{Response, StatusCode, Url};
use tokio::time::Instant;

use crate::answer::classify;
use crate::load::Load;
use crate::received::head_bytes;
use crate::sample::{Outcome, Sample};
use crate::tally::{Tally, shared};

/// A user's next request, and its intended start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buyer {
    /// Number of the user, from zero.
    pub(crate) user: usize,
    /// Number of the request, which chooses the instance and the SKU.
    pub(crate) number: usize,
    /// When the users were released.
    pub(crate) released: Instant,
    /// When the request is meant to start, counted from the release.
    pub(crate) intended: Duration,
    /// Since when a user that could send it was idle.
    pub(crate) idle_since: Duration,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// When it ended, counted from the release.
    pub(crate) ended: Duration,
    /// Whether it failed before there was an answer.
    pub(crate) failed: bool,
}

/// Buys once, by asking at a URL, and adds the request to the tally. Returns how it ended, or `None` without a URL or a
/// client.
pub(crate) async fn buy<A>(load: &Load, tally: &Mutex<Tally>, buyer: Buyer, ask: impl FnOnce(Url) -> A) -> Option<End>
where
    A: Future<Output = Option<reqwest::Result<Response>>>,
{
    let Buyer { user, number, released, intended, idle_since } = buyer;
    let (goods, url) = load.target(number)?;
    let started = released.elapsed();
    shared(tally).start(user, started);
    let response = ask(url.clone()).await?;
    let first_byte = response.is_ok().then(|| released.elapsed());
    let answer = match response {
        Ok(response) => read(response).await,
        Err(error) => Err(error),
    };
    let ended = released.elapsed();
    let (status, received_bytes, (outcome, problem)) = match answer {
        Ok((status, bytes, body)) => (Some(status.as_u16()), bytes, classify(status, &body)),
        Err(error) if error.is_timeout() => (None, 0, (Outcome::Timeout, None)),
        Err(error) => (None, 0, (Outcome::Error, Some(program::chain(&error.without_url())))),
    };
    let failed = status.is_none() && outcome == Outcome::Error;
    shared(tally).end(Sample {
        user,
        goods,
        outcome,
        intended,
        idle_since,
        started,
        first_byte,
        ended,
        status,
        received_bytes,
        problem,
    });
    Some(End { ended, failed })
}

/// Returns the status, the size of the whole answer, and the body.
async fn read(response: Response) -> Result<(StatusCode, u64, String), reqwest::Error> {
    let status = response.status();
    let head_bytes = head_bytes(&response);
    let body = response.text().await?;
    Ok((status, head_bytes + body.len() as u64, body))
}
