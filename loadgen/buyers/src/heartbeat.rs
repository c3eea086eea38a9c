//! Whether the generator itself runs when it should: a heartbeat beside the buyers, and what the system says of the wait for a
//! processor.
//!
//! An answer that has arrived waits for the generator to read it, and no clock of the buyers sees that wait. The heartbeat is
//! a task of the same runtime, so it is late whenever an answer would be.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use crate::health::{Processors, Threads};
use crate::tally::{SharedTally, shared};

/// Time from one beat to the next.
const BEAT: Duration = Duration::from_millis(5);

/// A heartbeat that goes on until it is stopped or dropped. The tally gets its beats.
pub(crate) struct Heartbeat {
    stop: oneshot::Sender<()>,
    beats: JoinHandle<()>,
    before: Processors,
}

impl Heartbeat {
    pub(crate) fn start(tally: &SharedTally) -> Heartbeat {
        let (stop, stopped) = oneshot::channel();
        Heartbeat { stop, beats: tokio::spawn(beat(stopped, Arc::clone(tally))), before: processors() }
    }

    /// Ends the heartbeat, and returns what the system says of the processors meanwhile.
    pub(crate) async fn stop(self) -> Processors {
        let meanwhile = processors().since(self.before);
        // Sending fails only if the task has ended by itself, which it never does.
        let _ = self.stop.send(());
        let _ = self.beats.await;
        meanwhile
    }
}

/// Tells the tally when each beat is due and how late it is, until the other side of the channel is used or gone.
async fn beat(mut stopped: oneshot::Receiver<()>, tally: SharedTally) {
    let start = Instant::now();
    let mut beats = interval(BEAT);
    loop {
        tokio::select! {
            // Missed beats come at once, each with its own instant, and are counted before the stop.
            biased;
            due = beats.tick() => {
                let late = Instant::now() - due;
                shared(&tally).beat(due.saturating_duration_since(start), late);
            }
            _ = &mut stopped => return,
        }
    }
}

/// Reads what the system says of the processors so far.
fn processors() -> Processors {
    Processors { threads: threads(), pressed: pressed() }
}

/// Reads the pressure stall information: the time since boot in which some program was ready and had no processor.
fn pressed() -> Option<Duration> {
    total_pressure(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn total_pressure(text: &str) -> Option<Duration> {
    let (_, total) = text.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?;
    total.parse().ok().map(Duration::from_micros)
}

/// Adds up what Linux says of all threads of this process.
fn threads() -> Option<Threads> {
    let mut all = Threads::default();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread may have ended meanwhile.
        let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        let mut ns = text.split_whitespace().map(|number| number.parse().map(Duration::from_nanos));
        all.ran += ns.next()?.ok()?;
        all.waited += ns.next()?.ok()?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use stats::times::Times;

    use super::*;

    // C17
    #[tokio::test(start_paused = true)]
    async fn each_skipped_beat_is_late_by_its_own_delay() {
        let tally = SharedTally::default();
        let heartbeat = Heartbeat::start(&tally);
        tokio::task::yield_now().await;
        // The clock jumps, as it does when the process is stopped.
        tokio::time::advance(20 * BEAT).await;
        heartbeat.stop().await;
        let mut expected = Times::new();
        // The first beat is due at once.
        [Duration::ZERO]
            .into_iter()
            .chain((0..20).map(|skipped| skipped * BEAT))
            .for_each(|late| expected.record(late));
        assert_eq!(shared(&tally).heartbeat, expected);
    }

    #[test]
    fn pressure_is_the_time_in_which_some_program_waited() {
        let line = |who, total| format!("{who} avg10=86.59 avg60=79.83 avg300=48.22 total={total}\n");
        let text = line("some", 31_202_689_693_u64) + &line("full", 7);
        assert_eq!(total_pressure(&text), Some(Duration::from_micros(31_202_689_693)));
        assert_eq!(total_pressure(&line("full", 7)), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_threads_of_a_process_are_all_counted() {
        let before = threads().unwrap();
        let (done, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let sum = (0_u64..20_000_000).fold(0_u64, |sum, number| std::hint::black_box(sum.wrapping_add(number)));
            done.send(sum).unwrap();
            let _ = ended.recv();
        });
        told.recv().unwrap();
        // This thread alone has slept.
        assert!(threads().unwrap().ran > before.ran);
        drop(end);
        other.join().unwrap();
    }
}
