//! Cleaning up on a server that outlives this process, from a `Drop`.

use std::error::Error;
use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

const CLEAN_UP_WITHIN: Duration = Duration::from_secs(10);

/// Runs `work` for at most ten seconds. If it fails, `what` is left behind, and a line on standard error says so.
///
/// It runs on a thread and a runtime of its own. A drop may happen outside of any runtime, or inside one, which must
/// not be entered twice.
pub(crate) fn clean_up<E>(what: &str, work: impl Future<Output = Result<(), E>> + Send)
where
    E: Error + Send + Sync + 'static,
{
    let run = || -> Result<(), Box<dyn Error + Send + Sync>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
            Ok(tokio::time::timeout(CLEAN_UP_WITHIN, work).await.map_err(timed_out)??)
        })
    };
    let outcome = thread::scope(|scope| scope.spawn(run).join());
    if let Ok(Err(error)) = outcome {
        eprintln!("testbed: {what} is left behind: {error}");
    }
}
