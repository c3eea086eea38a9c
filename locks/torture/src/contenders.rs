//! The contenders of one process: an adapter, what it is asked for, and what it answers.
//!
//! One task has the process. It keeps a few contenders at work, writes down what they say, and carries out what the storm orders.

mod asking;
mod orders;
mod task;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::task::ProcessTask;

pub(crate) use self::orders::{ContenderSettings, MissingLock, ProcessOrder, RoundShared};

/// A handle to the task of a process.
pub(crate) struct ContenderProcess {
    orders: mpsc::UnboundedSender<ProcessOrder>,
    task: JoinHandle<()>,
}

impl ContenderProcess {
    /// Starts the process, and waits until it takes requests.
    pub(crate) async fn start(
        settings: ContenderSettings,
        shared: RoundShared,
    ) -> Result<ContenderProcess, testbed::Error> {
        let mut task = ProcessTask::new(settings, shared);
        task.launch().await?;
        let (orders, received) = mpsc::unbounded_channel();
        Ok(ContenderProcess { orders, task: tokio::spawn(task.run(received)) })
    }

    /// Begins or ends to contend.
    pub(crate) fn contend(&self, is_contending: bool) {
        let _ = self.orders.send(ProcessOrder::Contend(is_contending));
    }

    /// Gives an order, and waits for its answer.
    pub(crate) async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> ProcessOrder) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        // A task that has ended answers nothing.
        let _ = self.orders.send(order(sender));
        answer.await.ok()
    }

    /// Ends the process, and writes down what was not over.
    pub(crate) async fn end(self) {
        drop(self.orders);
        let _ = self.task.await;
    }
}
