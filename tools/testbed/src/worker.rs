//! A thread that serves connections and carries out what its owner orders.

use std::future::Future;
use std::io;
use std::sync::mpsc as blocking;
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

/// The orders of a thread, which end with its owner.
pub(crate) type Orders<C> = mpsc::UnboundedReceiver<Order<C>>;

/// A command, and the sender for its confirmation.
#[derive(Debug)]
pub(crate) struct Order<C> {
    pub(crate) command: C,
    done: blocking::Sender<()>,
}

impl<C> Order<C> {
    /// Tells the owner that the command is carried out.
    pub(crate) fn confirm(self) {
        // A failed send means that the owner does not wait any more.
        let _ = self.done.send(());
    }
}

/// The owner of a thread. Dropping it ends the thread and waits for that.
#[derive(Debug)]
pub(crate) struct Worker<C> {
    /// The thread ends when this sender is dropped.
    orders: Option<mpsc::UnboundedSender<Order<C>>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> Worker<C> {
    /// Starts a thread with a runtime of its own. `prepare` is called in it and returns what the thread runs.
    pub(crate) async fn start<F: Future<Output = ()>>(
        name: &str,
        prepare: impl FnOnce(Orders<C>) -> io::Result<F> + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        let (started, is_started) = oneshot::channel();
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            runtime.block_on(async {
                match prepare(received) {
                    Ok(work) => {
                        // A failed send means that the owner was dropped, and with it the sender of the orders.
                        let _ = started.send(Ok(()));
                        work.await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        // Owned before the wait: if that fails or is given up, the drop ends the thread and joins it.
        let worker = Self { orders: Some(orders), thread: Some(thread) };
        is_started.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(worker)
    }

    /// Gives an order and waits until it is carried out.
    pub(crate) fn order(&self, command: C) {
        let (done, is_done) = blocking::channel();
        let orders = self.orders.as_ref().expect("BUG: a thread takes orders until its owner is dropped");
        let sent = orders.send(Order { command, done });
        sent.ok().and_then(|()| is_done.recv().ok()).expect("BUG: a thread ends only when its owner is dropped");
    }
}

impl<C> Drop for Worker<C> {
    fn drop(&mut self) {
        // The thread ends with its orders, so they go before the join.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has printed its message.
            let _ = thread.join();
        }
    }
}
