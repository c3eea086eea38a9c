//! The time of a scene. It passes between any two steps of anybody.

use std::cell::Cell;
use std::future::pending;
use std::sync::Mutex;

use shuttle::future::yield_now;
use tokio::sync::oneshot;

use crate::plan::LAST_TICK;

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

thread_local! {
    /// All tasks of a scene run on one thread.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Returns the time.
pub(crate) fn now() -> u64 {
    NOW.get()
}

/// The timers of a scene.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Vec<(u64, oneshot::Sender<()>)>>);

impl Clock {
    /// Makes the clock of a new scene.
    pub(crate) fn new() -> Self {
        NOW.set(0);
        Self::default()
    }

    /// Waits until a time.
    pub(crate) async fn until(&self, time: u64) {
        if time == NEVER {
            return pending().await;
        }
        if time <= now() {
            return;
        }
        let (fire, fired) = oneshot::channel();
        self.timers().push((time, fire));
        fired.await.ok();
    }

    /// Waits for the next tick, if there is one.
    pub(crate) async fn pause(&self) {
        if now() < LAST_TICK {
            self.until(now() + 1).await;
        } else {
            yield_now().await;
        }
    }

    /// Lets the time pass until `end`, with `pause(time)` chances for others before each tick.
    pub(crate) async fn run(&self, end: u64, pause: impl Fn(u64) -> u32, tell: impl Fn(u64)) {
        for time in 1..=end {
            for _ in 0..pause(time) {
                yield_now().await;
            }
            NOW.set(time);
            tell(time);
            let due: Vec<_> = self.timers().extract_if(.., |(due, _)| *due <= time).collect();
            for (_, fire) in due {
                fire.send(()).ok();
            }
        }
    }

    fn timers(&self) -> std::sync::MutexGuard<'_, Vec<(u64, oneshot::Sender<()>)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
