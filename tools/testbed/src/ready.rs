//! Waiting until a server that was started answers.

use std::time::{Duration, Instant};

use crate::Error;
use crate::guard::{Guard, POLL};

/// How long a server may take to answer; far above what it takes, for machines that are busy with other things.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long the first question may stay without an answer before it is asked anew; twice as long each further time. It
/// happens often: ZooKeeper, asked before it serves, refuses and then sometimes leaves the connection open.
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
