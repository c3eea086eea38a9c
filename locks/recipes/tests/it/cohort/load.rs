//! Many contenders of several processes, who come, give up and hand over as they please.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zk_recipes::{AnyLock, FencingToken, Mutex};

use super::{PATH, WAYS};
use crate::support::{Lab, soon};

/// What every holder looks at and leaves behind.
#[derive(Default)]
struct Ledger {
    inside: AtomicUsize,
    newest: StdMutex<Option<FencingToken>>,
    grants: AtomicUsize,
    handovers: AtomicUsize,
}

/// Contends for 40 rounds: waits, waits for a moment, or tries.
async fn contend(lock: AnyLock, contender: usize, ledger: Arc<Ledger>) {
    for round in 0..40 {
        let held = match (contender + round) % 5 {
            // For so short a time that it is over at any moment.
            0 => lock.acquire_within(Duration::from_micros(50 * (contender * round) as u64 % 3_000)).await.unwrap(),
            1 => lock.try_acquire().await.unwrap(),
            _ => Some(lock.acquire().await.unwrap()),
        };
        let Some(held) = held else { continue };
        assert_eq!(ledger.inside.fetch_add(1, Ordering::SeqCst), 0, "two hold");
        let token = held.token();
        let last = ledger.newest.lock().unwrap().replace(token);
        assert!(last < Some(token), "{last:?} and then {token:?}");
        ledger.grants.fetch_add(1, Ordering::SeqCst);
        ledger.handovers.fetch_add(usize::from(token.handover() > 0), Ordering::SeqCst);
        tokio::task::yield_now().await;
        ledger.inside.fetch_sub(1, Ordering::SeqCst);
        match (contender + round) % 3 {
            0 => drop(held),
            _ => held.release().await.unwrap(),
        }
    }
}

// L69
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_cohorts_and_a_plain_mutex_never_overlap_and_all_finish() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    let ledger = Arc::new(Ledger::default());
    let mut contenders = tokio::task::JoinSet::new();
    for contender in 0..60 {
        let session = &sessions[contender % 2];
        let way = WAYS[contender % 2];
        let max_handovers = [0, 1, 7, 100][contender % 4];
        let lock = way(session).with_max_handovers(max_handovers).with_max_tenure(Duration::from_millis(5));
        // The hold of every third one lingers.
        let lock = lock.with_linger(if contender % 3 == 0 { Duration::from_millis(20) } else { Duration::ZERO });
        contenders.spawn(contend(lock.into(), contender, Arc::clone(&ledger)));
    }
    for contender in 60..63 {
        let lock = Mutex::new(&sessions[2], PATH).unwrap();
        contenders.spawn(contend(lock.into(), contender, Arc::clone(&ledger)));
    }
    while let Some(finished) = soon("a contender", contenders.join_next()).await {
        finished.unwrap();
    }
    assert!(ledger.grants.load(Ordering::SeqCst) > 63 * 20);
    assert!(ledger.handovers.load(Ordering::SeqCst) > 100, "hand-overs are what this is about");
    lab.until_children(PATH, 0).await;
}
