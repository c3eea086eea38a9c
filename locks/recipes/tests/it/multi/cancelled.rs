//! Every future dropped after every possible number of polls: no node is left at any of the locks.

use std::time::Duration;

use super::{B, C, FORMS, PATHS, attempt, mutex, mutexes, until_no_nodes_but};
use crate::cancel::{DropOutcome, drop_after};
use crate::support::{Lab, soon};

#[tokio::test]
async fn an_acquire_dropped_at_any_poll_leaves_no_node() {
    for form in FORMS {
        for taken in [None, Some(B)] {
            let lab = Lab::open().await;
            let holder = lab.session().await;
            let session = lab.session().await;
            let blocked = mutexes(&holder, taken.or(Some("/locks/other"))).acquire().await.unwrap();
            let lock = mutexes(&session, PATHS);
            for polls in 1.. {
                let outcome = drop_after(polls, async { drop(attempt(&lock, form).await.unwrap()) }).await;
                until_no_nodes_but(&lab, taken).await;
                if outcome != DropOutcome::Dropped {
                    assert!(polls > 4, "{form:?} was dropped in flight only {} times", polls - 1);
                    break;
                }
            }
            drop(blocked);
            soon("the locks", lock.acquire()).await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn giving_up_and_releasing_dropped_at_any_poll_leave_no_node() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let session = lab.session().await;
    let lock = mutexes(&session, PATHS);
    for polls in 1.. {
        let held = lock.acquire().await.unwrap();
        let outcome = drop_after(polls, held.release()).await;
        until_no_nodes_but(&lab, None).await;
        if outcome != DropOutcome::Dropped {
            assert!(polls > 1, "the release was never dropped in flight");
            break;
        }
    }
    let blocked = mutex(&holder, C).acquire().await.unwrap();
    for polls in 1.. {
        // The deadline comes while the last lock is waited for.
        let outcome = drop_after(polls, lock.acquire_within(Duration::from_millis(30))).await;
        until_no_nodes_but(&lab, Some(C)).await;
        // A busy machine may not poll it for as long as one that is idle for good. It is dropped then, too.
        if outcome == DropOutcome::Finished {
            break;
        }
        assert!(polls < 1000, "it never finishes");
    }
    blocked.release().await.unwrap();
}
