//! The task in which the client library serves one connection of a session.
//!
//! After a lost connection, the library would reconnect in the same task, and we could not ask which session timeout the next
//! server granted. So each task is spawned with a [`TaskLink`] and ends with its connection. It is dropped when the library reports
//! that it is disconnected. The library reports this before it connects again.
//!
//! The task also ends with the Tokio runtime in which the session was connected. The library does not expect this: a waiter for a
//! watch in another runtime then panics. So the link parts before any value of the task is dropped. Watches are polled only while
//! the link has not parted.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::{Mutex, RwLock};
use spawns_core::{Spawn, Task};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use zookeeper_client::{SessionState, StateWatcher};

/// The link to a spawned task. It parts when the task is dropped.
#[derive(Debug, Default)]
pub(crate) struct TaskLink {
    parted: RwLock<bool>,
    parting: Notify,
    /// Starts the task.
    begin: Mutex<Option<oneshot::Sender<StateWatcher>>>,
    task: Mutex<Option<AbortHandle>>,
}

impl TaskLink {
    /// Runs `connecting`, and links the task that it spawns to this. The task waits for [`begin`](Self::begin).
    pub(crate) async fn to_task_of<F: Future>(self: &Arc<Self>, connecting: F) -> F::Output {
        let spawner = Spawner { task_link: Arc::clone(self) };
        let mut connecting = pin!(connecting);
        poll_fn(|cx| {
            // The scope belongs to the thread, and each poll may run on another one.
            let _scope = spawns_core::enter(&spawner);
            connecting.as_mut().poll(cx)
        })
        .await
    }

    /// Lets the task serve its connection until `states` shows that it is disconnected.
    pub(crate) fn begin(&self, states: StateWatcher) {
        if let Some(begin) = self.begin.lock().take() {
            // Without a receiver the task is gone.
            let _ = begin.send(states);
        }
    }

    /// Waits for a message of the task. `None` once the task is gone and can send nothing.
    pub(crate) async fn receive<F: Future>(&self, message: F) -> Option<F::Output> {
        let mut message = pin!(message);
        poll_fn(|cx| {
            // The lock is kept while the message is polled, so that the task is not dropped meanwhile.
            let parted = self.parted.read();
            if *parted { Poll::Ready(None) } else { message.as_mut().poll(cx).map(Some) }
        })
        .await
    }

    /// Aborts the task. The connection ends without a close, so the session lives on at the server.
    pub(crate) async fn cut(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            self.parted().await;
        }
    }

    /// Waits until the task is gone.
    pub(crate) async fn parted(&self) {
        loop {
            // Made before the look, so a parting in between is not missed.
            let parting = self.parting.notified();
            if self.has_parted() {
                return;
            }
            parting.await;
        }
    }

    pub(crate) fn has_parted(&self) -> bool {
        *self.parted.read()
    }

    fn part(&self) {
        *self.parted.write() = true;
        self.parting.notify_waiters();
    }
}

/// A spawner that spawns tasks in the current Tokio runtime, as the client library does by default, and links them.
struct Spawner {
    task_link: Arc<TaskLink>,
}

impl Spawn for Spawner {
    fn spawn(&self, task: Task) {
        let Task { future, .. } = task;
        let (sender, begin) = oneshot::channel();
        *self.task_link.begin.lock() = Some(sender);
        let end = PartOnDrop(Arc::clone(&self.task_link));
        let task = LinkedTask { _end: end, begin: Some(begin), states: None, task: Box::into_pin(future) };
        *self.task_link.task.lock() = Some(tokio::spawn(task).abort_handle());
    }
}

/// A task with its link. The first field is dropped first, so the link parts before the task is dropped.
struct LinkedTask {
    _end: PartOnDrop,
    begin: Option<oneshot::Receiver<StateWatcher>>,
    states: Option<StateWatcher>,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
}

struct PartOnDrop(Arc<TaskLink>);

impl Drop for PartOnDrop {
    fn drop(&mut self) {
        self.0.part();
    }
}

impl Future for LinkedTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(begin) = &mut self.begin {
            let Poll::Ready(states) = Pin::new(begin).poll(cx) else { return Poll::Pending };
            // If the sender was dropped, the client was dropped before `begin`. Then the task closes the session.
            self.begin = None;
            self.states = states.ok();
        }
        let is_over = self.task.as_mut().poll(cx).is_ready();
        let is_disconnected = |states: &StateWatcher| states.peek_state() == SessionState::Disconnected;
        if is_over || self.states.as_ref().is_some_and(is_disconnected) { Poll::Ready(()) } else { Poll::Pending }
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
    fn a_link_parts_before_its_task_is_dropped_with_the_runtime() {
        let task_link = Arc::new(TaskLink::default());
        let runtime = runtime();
        let (sender, receiver) = oneshot::channel::<()>();
        runtime.block_on(task_link.to_task_of(async {
            spawns_core::spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
        }));
        let mut message = pin!(task_link.receive(async { receiver.await.expect("polled after the task had gone") }));
        assert_eq!(message.as_mut().now_or_never(), None, "nothing was sent, and the task lives");
        drop(runtime);
        assert!(task_link.has_parted());
        assert_eq!(message.now_or_never(), Some(None));
    }

    // L44
    #[test]
    fn a_task_that_is_cut_goes_without_another_step() {
        let task_link = Arc::new(TaskLink::default());
        let (dropped, has_dropped) = oneshot::channel::<()>();
        runtime().block_on(async {
            task_link
                .to_task_of(async {
                    spawns_core::spawn(async move {
                        std::future::pending::<()>().await;
                        drop(dropped);
                    });
                })
                .await;
            task_link.cut().await;
            assert!(task_link.has_parted());
            assert!(has_dropped.await.is_err());
        });
    }

    #[test]
    fn what_the_task_sends_arrives() {
        let task_link = Arc::new(TaskLink::default());
        let runtime = runtime();
        let (sender, receiver) = oneshot::channel();
        let received = runtime.block_on(async {
            task_link
                .to_task_of(async {
                    spawns_core::spawn(async move {
                        let _ = sender.send(7);
                        std::future::pending::<()>().await;
                    });
                })
                .await;
            // As if the client had been dropped.
            drop(task_link.begin.lock().take());
            task_link.receive(receiver).await
        });
        assert_eq!(received, Some(Ok(7)));
    }
}
