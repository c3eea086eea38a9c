//! The adapter of two libraries in Rust: `zk-recipes`, and `Client::lock` of `zookeeper-client`.

mod client;
mod recipes;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use program::print;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::lines::{Asked, LockKind, Said, Token, now};

/// Interval between two looks whether a hold lives.
const LOOK: Duration = Duration::from_millis(10);

/// An acquire.
#[derive(Debug, Clone)]
struct Wanted {
    lock: LockKind,
    paths: Vec<String>,
    within: Duration,
    permits: Option<(u32, u32)>,
}

/// A lock library.
trait LockLibrary: Send + Sync + 'static {
    type Held: HeldLock;

    /// Returns the first answer.
    fn ready(&self) -> Said;

    /// Acquires. `None`: others held for as long as it waited.
    fn acquire(&self, wanted: &Wanted) -> impl Future<Output = Result<Option<Self::Held>, String>> + Send;
}

/// Whether the library says that a hold lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Held,
    /// Nobody can tell now.
    Unknown,
    Lost,
}

/// What was acquired.
trait HeldLock: Sized + Send + Sync {
    fn tokens(&self) -> Vec<Token>;

    fn life(&self) -> Life;

    /// Acquires the same again, as the same owner.
    fn again(&self) -> impl Future<Output = Result<Self, String>> + Send;

    fn release(self) -> impl Future<Output = Result<(), String>> + Send;
}

/// Contends as the campaign asks, until standard input ends.
pub(crate) async fn contend(library: &str, connect_string: &str, session_timeout: Duration) -> Result<(), String> {
    match library {
        "zk-recipes" => serve(recipes::OurLocks::open(connect_string, session_timeout).await?).await,
        "zookeeper-client" => serve(client::ClientLocks::open(connect_string, session_timeout).await?).await,
        _ => Err(format!("there is no library {library:?} here; zk-recipes and zookeeper-client are")),
    }
}

async fn serve<L: LockLibrary>(library: L) -> Result<(), String> {
    let library = Arc::new(library);
    say(&library.ready());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut contenders: HashMap<u64, mpsc::UnboundedSender<Asked>> = HashMap::new();
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        let request: Asked = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        match request {
            Asked::Acquire { id, lock, paths, within_ms, permits } => {
                let (sender, requests) = mpsc::unbounded_channel();
                contenders.retain(|_, sender| !sender.is_closed());
                contenders.insert(id, sender);
                let wanted = Wanted { lock, paths, within: Duration::from_millis(within_ms), permits };
                tokio::spawn(contender(Arc::clone(&library), id, wanted, requests));
            }
            Asked::Reenter { id } | Asked::Leave { id } | Asked::Release { id } | Asked::Cancel { id } => {
                // The contender may have ended before the request came.
                if let Some(sender) = contenders.get(&id) {
                    let _ = sender.send(request);
                }
            }
        }
    }
    Ok(())
}

/// One acquire, its hold, and its release.
async fn contender<L: LockLibrary>(
    library: Arc<L>,
    id: u64,
    wanted: Wanted,
    mut requests: mpsc::UnboundedReceiver<Asked>,
) {
    let failed = |error: Option<String>| say(&Said::Failed { id, at: now(), error });
    let acquired = tokio::select! {
        acquired = library.acquire(&wanted) => acquired,
        // Nothing else is asked of a waiter.
        _ = requests.recv() => Err("cancelled".to_owned()),
    };
    let held = match acquired {
        Ok(Some(held)) => held,
        Ok(None) => return failed(None),
        Err(error) => return failed(Some(error)),
    };
    say(&Said::Acquired { id, at: now(), tokens: held.tokens() });
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut second = None;
    let mut is_lost = false;
    loop {
        tokio::select! {
            _ = looks.tick(), if !is_lost => {
                let at = now();
                match held.life() {
                    Life::Held => say(&Said::Holding { id, at }),
                    Life::Unknown => {}
                    Life::Lost => {
                        is_lost = true;
                        say(&Said::Lost { id, at: now() });
                    }
                }
            }
            request = requests.recv() => match request {
                Some(Asked::Reenter { .. }) => match held.again().await {
                    Ok(again) => {
                        say(&Said::Reentered { id, at: now(), tokens: again.tokens() });
                        second = Some(again);
                    }
                    Err(_) => say(&Said::Left { id, at: now() }),
                },
                Some(Asked::Leave { .. }) => {
                    if let Some(second) = second.take() {
                        // The first hold tells what is wrong with both.
                        let _ = second.release().await;
                    }
                    say(&Said::Left { id, at: now() });
                }
                Some(Asked::Release { .. }) | None => break,
                Some(Asked::Acquire { .. } | Asked::Cancel { .. }) => {}
            }
        }
    }
    if let Some(second) = second {
        let _ = second.release().await;
    }
    let error = held.release().await.err();
    say(&Said::Released { id, at: now(), error });
}

/// Answers. If nobody listens, standard input ends, too.
fn say(answer: &Said) {
    if let Ok(line) = serde_json::to_string(answer) {
        let _ = print(&(line + "\n"));
    }
}
