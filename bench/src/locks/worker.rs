//! The worker for all implementations in Rust. It carries out the requests on its standard input.

mod closed_loop;
mod contender;
mod open_load;
mod waiters;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bench::Error;
use program::chain;
use tokio::runtime::Runtime;

use self::closed_loop::WorkerLoop;
use self::waiters::WaitingQueue;
use crate::protocol::{Answer, Request};

/// The work of a worker between two requests.
#[derive(Default)]
enum Work {
    #[default]
    Nothing,
    Loop(WorkerLoop),
    Waiters(WaitingQueue),
}

/// Answers requests until standard input ends.
pub(crate) fn run() -> io::Result<()> {
    let runtime = Runtime::new()?;
    let mut out = io::stdout().lock();
    let mut say = |line: &str| writeln!(out, "{line}").and_then(|()| out.flush());
    say(concat!("ready zk-recipes ", env!("CARGO_PKG_VERSION")))?;
    let mut work = Work::Nothing;
    for line in io::stdin().lock().lines() {
        let answer = line?.parse().and_then(|request| runtime.block_on(answer(&mut work, request)));
        say(&answer.unwrap_or_else(|failure| Answer::Failed(chain(&failure))).to_string())?;
    }
    Ok(())
}

async fn answer(work: &mut Work, request: Request) -> Result<Answer, Error> {
    match (request, &mut *work) {
        (Request::Run(contest), Work::Nothing) => {
            *work = Work::Loop(WorkerLoop::start(&contest).await?);
            Ok(Answer::Running)
        }
        (Request::Queue(contest), Work::Nothing) => {
            *work = Work::Waiters(WaitingQueue::queue(&contest).await?);
            Ok(Answer::Running)
        }
        (Request::Arrive(load), Work::Nothing) => Ok(Answer::Arrived(open_load::serve(load).await?)),
        (Request::Progress, Work::Loop(contenders)) => Ok(Answer::Progress(contenders.progress()?)),
        (Request::Progress, Work::Waiters(waiters)) => Ok(Answer::Progress(waiters.progress()?)),
        (Request::Measure { window_ms }, Work::Loop(contenders)) => {
            Ok(Answer::Measured(contenders.measure(Duration::from_millis(window_ms)).await?))
        }
        (Request::Stop { within_ms }, _) => match std::mem::take(work) {
            Work::Loop(contenders) => {
                Ok(Answer::Stopped { cut_off: contenders.stop(Duration::from_millis(within_ms)).await? })
            }
            // Dropped, the waiters leave the queue.
            Work::Waiters(_) | Work::Nothing => Ok(Answer::Stopped { cut_off: 0 }),
        },
        (Request::Drain { within_ms }, Work::Waiters(_)) => {
            let Work::Waiters(waiters) = std::mem::take(work) else {
                unreachable!("BUG: it was waiters a moment ago");
            };
            Ok(Answer::Drained(waiters.drain(Duration::from_millis(within_ms)).await?))
        }
        (request, _) => Err(Error::Failed(format!("{request} does not fit what is being done"))),
    }
}

/// Counts how often each time was measured.
fn counts(times_us: Vec<u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for time_us in times_us {
        *counts.entry(time_us).or_insert(0) += 1;
    }
    counts
}

/// Locks a mutex of a worker. A contender that panicked has said so on standard error, and left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
