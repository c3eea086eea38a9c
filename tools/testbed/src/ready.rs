//! Waiting until a server that was started answers.

use std::time::{Duration, Instant};

use crate::Error;
use crate::guard::{Guard, POLL};

/// Time limit for a server to answer. It is long, because a machine may be busy with other work.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time limit of the first question, which doubles each time. ZooKeeper often needs it: before it serves, it refuses a
/// question and sometimes leaves the connection open.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);

/// Waits until `probe` says that this very server answers.
pub(crate) async fn until_ready(name: &str, guard: &mut Guard, probe: impl AsyncFn() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut answer_within = ANSWER_WITHIN;
    loop {
        if let Some(status) = guard.try_wait()? {
            return Err(Error::Ended { name: name.to_owned(), status, log: guard.log_tail() });
        }
        match tokio::time::timeout(answer_within, probe()).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(_) => answer_within *= 2,
        }
        if Instant::now() >= deadline {
            return Err(Error::NotReady { name: name.to_owned(), within: READY_WITHIN, log: guard.log_tail() });
        }
        tokio::time::sleep(POLL).await;
    }
}
