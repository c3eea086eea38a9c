//! Whether the task in which the client library serves a session still runs.
//!
//! It ends with the Tokio runtime that the session was connected in. The library does not reckon with that: whoever
//! waits for a watch, in another runtime, then panics. So the task is spawned with a [`Tether`] that parts before
//! anything of the task is dropped, and watches are polled only while it holds.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::RwLock;
use spawns_core::{Spawn, Task};

/// Parts when the task that was spawned with it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Tether {
    parted: RwLock<bool>,
}

impl Tether {
    /// Runs the work of connecting, whose task is tethered.
    pub(crate) async fn to_task_of<F: Future>(self: &Arc<Self>, connecting: F) -> F::Output {
        let spawner = Spawner { tether: Arc::clone(self) };
        let mut connecting = pin!(connecting);
        poll_fn(|cx| {
            let _scope = spawns_core::enter(&spawner);
            connecting.as_mut().poll(cx)
        })
        .await
    }

    /// Waits for what the task sends; `None` once it can send nothing any more.
    pub(crate) async fn receive<F: Future>(&self, message: F) -> Option<F::Output> {
        let mut message = pin!(message);
        poll_fn(|cx| {
            // Kept while the message is polled, so that the task does not go meanwhile.
            let parted = self.parted.read();
            if *parted { Poll::Ready(None) } else { message.as_mut().poll(cx).map(Some) }
        })
        .await
    }

    pub(crate) fn has_parted(&self) -> bool {
        *self.parted.read()
    }

    fn part(&self) {
        *self.parted.write() = true;
    }
}

/// Spawns tasks in the current Tokio runtime, as the client library does by itself, but tethered.
struct Spawner {
    tether: Arc<Tether>,
}

impl Spawn for Spawner {
    fn spawn(&self, task: Task) {
        let Task { future, .. } = task;
        tokio::spawn(Tethered { _end: End(Arc::clone(&self.tether)), task: Box::into_pin(future) });
    }
}

/// A task with its tether, which is dropped first.
struct Tethered {
    _end: End,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
}

struct End(Arc<Tether>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.part();
    }
}

impl Future for Tethered {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.task.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_tether_parts_before_its_task_is_dropped_with_the_runtime() {
        let (tether, runtime) = (Arc::new(Tether::default()), runtime());
        let (sender, receiver) = oneshot::channel::<()>();
        runtime.block_on(tether.to_task_of(async {
            spawns_core::spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
        }));
        let mut message = pin!(tether.receive(async { receiver.await.expect("polled after the task had gone") }));
        assert_eq!(message.as_mut().now_or_never(), None, "nothing was sent, and the task lives");
        drop(runtime);
        assert!(tether.has_parted());
        assert_eq!(message.now_or_never(), Some(None));
    }

    #[test]
    fn what_the_task_sends_arrives() {
        let (tether, runtime) = (Arc::new(Tether::default()), runtime());
        let (sender, receiver) = oneshot::channel();
        let received = runtime.block_on(async {
            tether
                .to_task_of(async {
                    spawns_core::spawn(async move {
                        let _ = sender.send(7);
                        std::future::pending::<()>().await;
                    });
                })
                .await;
            tether.receive(receiver).await
        });
        assert_eq!(received, Some(Ok(7)));
    }
}
