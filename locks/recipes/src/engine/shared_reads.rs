//! Reads that the contenders of one session share at one path.
//!
//! A crowd of contenders asks the same question at the same time: where is my node, after a connection has ended; is a writer still
//! ahead, after one has released. If each of them listed the queue by itself, the bytes would grow with the square of the crowd. The
//! proofs of life of the session would wait behind them for so long that its holds are lost.
//!
//! So one contender reads by itself. Those that ask meanwhile share one read, which begins after all of them have asked. A shared read
//! is a task on the runtime of the session, because any contender may be dropped while others need the answer. It ends when no
//! contender waits for it any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use zookeeper_client::Error as ClientError;

use crate::session::remote::Remote;

type Answer<T> = Result<Arc<T>, ClientError>;

/// Reads of one kind. At most two of them are under way at a time.
#[derive(Debug)]
pub(super) struct SharedReads<T> {
    runtime: Handle,
    /// Taken by the contender that reads by itself.
    alone: Semaphore,
    last: Mutex<Weak<SharedRead<T>>>,
}

/// A read that is shared by the contenders that keep it.
#[derive(Debug)]
struct SharedRead<T> {
    /// Whether its first request may have been sent.
    has_begun: Arc<AtomicBool>,
    answer: watch::Receiver<Option<Answer<T>>>,
}

impl<T: Send + Sync + 'static> SharedReads<T> {
    pub(super) fn new(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), alone: Semaphore::new(1), last: Mutex::default() }
    }

    /// Returns the answer of a read that begins after this call. `requests` may be dropped unsent, because another contender's are
    /// sent.
    pub(super) async fn read(
        &self,
        remote: &Remote,
        requests: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Answer<T> {
        if let Ok(_alone) = self.alone.try_acquire() {
            return requests.await.map(Arc::new);
        }
        let shared = self.join(remote, requests);
        let mut answer = shared.answer.clone();
        let answered = answer.wait_for(Option::is_some).await;
        // The task ends without an answer if its runtime ends, and the session with it.
        answered.ok().and_then(|answered| answered.clone()).unwrap_or(Err(ClientError::ClientClosed))
    }

    /// Returns the read that is about to begin.
    fn join(
        &self,
        remote: &Remote,
        requests: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Arc<SharedRead<T>> {
        let mut last = self.last.lock();
        let previous = last.upgrade();
        if let Some(shared) = previous.as_ref().filter(|shared| !shared.has_begun.load(Ordering::SeqCst)) {
            return Arc::clone(shared);
        }
        let previous = previous.map(|shared| shared.answer.clone());
        let (sender, answer) = watch::channel(None);
        let shared = Arc::new(SharedRead { has_begun: Arc::default(), answer });
        let (has_begun, remote) = (Arc::clone(&shared.has_begun), remote.clone());
        self.runtime.spawn(async move {
            let answer = async {
                if let Some(mut previous) = previous {
                    // An error says that it ended without an answer.
                    let _ = previous.wait_for(Option::is_some).await;
                }
                // While the connection is away, more contenders come.
                let line = remote.wire().line().await;
                has_begun.store(true, Ordering::SeqCst);
                drop(line?);
                requests.await.map(Arc::new)
            };
            tokio::select! {
                () = sender.closed() => {}
                answer = answer => {
                    sender.send_replace(Some(answer));
                }
            }
        });
        *last = Arc::downgrade(&shared);
        shared
    }
}
