//! The open model: requests arrive at a rate, whatever became of those before.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::buyer::{Buyer, buy};
use super::purchase::{Load, Purchase, client, cpu_time};
use crate::Error;
use crate::sample::Sample;

/// Runs the open model.
///
/// # Errors
///
/// Those of [`super::run`].
///
/// # Cancel safety
///
/// See [`super::run`].
pub(crate) async fn run(purchase: &Purchase) -> Result<Load, Error> {
    let purchase = Arc::new(purchase.clone());
    let client = client(&purchase)?;
    let (cpu_start, released_at, released) = (cpu_time(), SystemTime::now(), Instant::now());
    let mut free: Vec<usize> = (0..purchase.users).rev().collect();
    let mut busy = JoinSet::new();
    let (mut samples, mut dropped) = (Vec::new(), 0);
    for (number, intended) in purchase.model.arrivals(purchase.seed).into_iter().enumerate() {
        sleep_until(released + intended).await;
        while let Some(done) = busy.try_join_next() {
            free.push(keep(done, &mut samples)?);
        }
        let Some(user) = free.pop() else {
            dropped += 1;
            continue;
        };
        let (client, purchase) = (client.clone(), Arc::clone(&purchase));
        busy.spawn(async move { (user, buy(&client, &purchase, Buyer { user, number, released, intended }).await) });
    }
    while let Some(done) = busy.join_next().await {
        keep(done, &mut samples)?;
    }
    Ok(Load { samples, dropped, released_at, cpu_time: cpu_time().saturating_sub(cpu_start) })
}

/// Keeps the sample of a user who is done, and returns the user.
fn keep(
    done: Result<(usize, Option<Sample>), tokio::task::JoinError>,
    samples: &mut Vec<Sample>,
) -> Result<usize, Error> {
    let (user, sample) = done.map_err(|error| Error::Generator(format!("a user was lost: {error}")))?;
    samples.extend(sample);
    Ok(user)
}
