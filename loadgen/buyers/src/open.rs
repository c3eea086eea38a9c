//! The open model: requests arrive at a rate, without waiting for earlier answers.
//!
//! A thread of its own paces the arrivals, because the timers of the runtime are exact to a millisecond only, and the
//! fastest answers do not take much longer. It sleeps between two arrivals.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reqwest::Client;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::buyer::{Buyer, End};
use super::load::{Load, LoadResult, cpu_time};
use crate::Error;
use crate::health::{Dropped, LATE};
use crate::heartbeat::Heartbeat;
use crate::tally::{SharedTally, close};

/// Runs the open model.
pub(crate) async fn run(load: Load) -> Result<LoadResult, Error> {
    let arrivals = load.model.arrivals(load.seed);
    let client = load.clients()?.pop().ok_or_else(|| Error::Generator("a load has no client".to_owned()))?;
    let load = Arc::new(load);
    let runtime = Handle::current();
    let cpu_start = cpu_time();
    let released_at = SystemTime::now();
    let released = Instant::now();
    let tally = Arc::new(Mutex::new(load.tally()));
    let heartbeat = Heartbeat::start(&tally);
    // The thread ends early if this future is dropped.
    let (_wanted, abandoned) = channel();
    let mut users = OpenUsers {
        free: (0..load.users).rev().map(|user| (user, Duration::ZERO)).collect(),
        busy: JoinSet::new(),
        idle_until: Duration::ZERO,
        tally: Arc::clone(&tally),
        dropped: Dropped::default(),
        released,
        client,
        load,
    };
    let paced = tokio::task::spawn_blocking(move || {
        for (number, intended) in arrivals.enumerate() {
            if !wait_until(released + intended, &abandoned) {
                break;
            }
            users.arrive(number, intended, &runtime)?;
        }
        Ok(users)
    });
    let mut users = paced.await.map_err(|error| lost(&error))??;
    while let Some(done) = users.busy.join_next().await {
        users.is_done(done)?;
    }
    let processors = heartbeat.stop().await;
    let cpu_time = Some(cpu_time().saturating_sub(cpu_start));
    let tally = close(&tally, &users.load.model, users.dropped);
    Ok(LoadResult { tally, is_open: true, dropped: users.dropped, released_at, cpu_time, processors })
}

/// Sleeps until an instant. Returns whether the load is still wanted.
fn wait_until(due: Instant, abandoned: &Receiver<Infallible>) -> bool {
    match abandoned.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Err(RecvTimeoutError::Timeout) => abandoned.try_recv() == Err(TryRecvError::Empty),
        Err(RecvTimeoutError::Disconnected) => false,
    }
}

/// The users, and the results of their requests.
struct OpenUsers {
    /// Users without a request, each with the time since which it is idle. The first has been idle longest.
    free: Vec<(usize, Duration)>,
    /// Users that wait for their answers.
    busy: JoinSet<(usize, Option<End>)>,
    /// Until when a user was idle at the last start that came after its intended instant.
    idle_until: Duration,
    tally: SharedTally,
    dropped: Dropped,
    released: Instant,
    client: Client,
    load: Arc<Load>,
}

impl OpenUsers {
    /// Starts a request if a user is free.
    fn arrive(&mut self, number: usize, intended: Duration, runtime: &Handle) -> Result<(), Error> {
        // Users whose answers have come are freed first. Otherwise this arrival might be dropped for nothing.
        while let Some(done) = self.busy.try_join_next() {
            self.is_done(done)?;
        }
        let now = self.released.elapsed();
        let idle_since = self.free.first().map(|(_, since)| *since);
        let (Some(idle_since), Some((user, _))) = (idle_since, self.free.pop()) else {
            // If the generator is late, several arrivals come at once and compete for the users.
            let is_late = now.saturating_sub(intended) > LATE;
            let of_generator = is_late && intended < self.idle_until;
            *(if of_generator { &mut self.dropped.idle } else { &mut self.dropped.busy }) += 1;
            return Ok(());
        };
        // This user was idle from the intended start until now: the generator missed whatever was due in that time.
        if idle_since <= intended {
            self.idle_until = now;
        }
        let mut client = self.client.clone();
        let mut customer = self.load.purchase.customer(number);
        let load = Arc::clone(&self.load);
        let released = self.released;
        let tally = Arc::clone(&self.tally);
        let buyer = Buyer { user, number, of: number, released, intended, idle_since };
        let buying = async move { (user, load.purchase.buy(&tally, buyer, customer.as_mut(), &mut client).await) };
        self.busy.spawn_on(buying, runtime);
        Ok(())
    }

    /// Frees a user who is done.
    fn is_done(&mut self, done: Result<(usize, Option<End>), JoinError>) -> Result<(), Error> {
        let (user, end) = done.map_err(|error| lost(&error))?;
        self.free.push((user, end.map_or_else(|| self.released.elapsed(), |end| end.ended)));
        Ok(())
    }
}

fn lost(error: &JoinError) -> Error {
    Error::Generator(format!("a user or the pace of the arrivals was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_load_waits_for_no_arrival() {
        let (wanted, abandoned) = channel();
        assert!(wait_until(Instant::now(), &abandoned));
        drop(wanted);
        let hour = Duration::from_secs(3600);
        assert!(!wait_until(Instant::now() + hour, &abandoned));
        assert!(!wait_until(Instant::now(), &abandoned), "also if it is late");
    }
}
