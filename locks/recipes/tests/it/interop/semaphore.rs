//! Semaphores, whose permits are counted over both sides, and shared counts. kazoo's semaphores have a layout of their own.

// L23

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tempfile::NamedTempFile;
use tokio::task::{JoinSet, yield_now};
use zk_recipes::{Semaphore, SemaphoreMutex, SharedCount};

use super::exclusion::Pair;
use super::rival::Rival;
use crate::support::{Lab, soon};

const PATH: &str = "/locks/semaphore";
const LEASES: &str = "/locks/semaphore/leases";

#[tokio::test(flavor = "multi_thread")]
async fn our_semaphore_mutex_and_curator_s_exclude_each_other() {
    let lab = Lab::open().await;
    let ours = SemaphoreMutex::new(&lab.session().await, PATH).unwrap();
    let mut curator = Rival::curator(&lab).await;
    let pair = Pair { queue: LEASES, ..Pair::new(ours, "semaphore-mutex", PATH) };
    pair.assert_exclusion(&lab, &mut curator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_one_semaphore_are_counted_over_both_sides() {
    let lab = Lab::open().await;
    let ours = Semaphore::new(&lab.session().await, PATH, 3).unwrap();
    let mut curator = Rival::curator(&lab).await;
    let first = ours.acquire().await.unwrap();
    curator.acquire("semaphore:3", PATH).await;
    let second = ours.acquire().await.unwrap();
    assert!(!curator.try_acquire("semaphore:3", PATH).await, "three are out");
    assert!(ours.try_acquire().await.unwrap().is_none(), "three are out");

    // Curator names the leases without their path, in no order.
    let theirs = curator.ask(&format!("participants semaphore:3 {PATH}"), "participants").await;
    let theirs: BTreeSet<_> = theirs.split(' ').map(|name| format!("{LEASES}/{name}")).collect();
    let holders = ours.participants().await.unwrap();
    assert!(holders.iter().all(|participant| participant.is_holder));
    assert_eq!(theirs, holders.into_iter().map(|participant| participant.path).collect());

    first.release().await.unwrap();
    assert!(curator.try_acquire("semaphore:3", PATH).await, "one came back");
    assert!(ours.try_acquire().await.unwrap().is_none(), "three are out");
    curator.release("semaphore:3", PATH).await;
    assert!(ours.try_acquire_many(2).await.unwrap().is_none(), "one is there");
    curator.release("semaphore:3", PATH).await;
    let both = ours.try_acquire_many(2).await.unwrap().expect("two are there");
    assert!(!curator.try_acquire("semaphore:3", PATH).await, "three are out");
    both.release().await.unwrap();
    second.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_hold_than_there_are_permits_on_both_sides_together() {
    const PERMITS: usize = 2;
    const ROUNDS: usize = 20;
    let lab = Lab::open().await;
    let folder = tempfile::tempdir().unwrap();
    let mut contenders = JoinSet::new();
    for _ in 0..3 {
        let mut curator = Rival::curator(&lab).await;
        let request = format!("occupy semaphore:{PERMITS} {PATH} {} {ROUNDS}", folder.path().display());
        contenders.spawn(async move { curator.ask(&request, "occupied").await.parse().unwrap() });
        let ours = Semaphore::new(&lab.session().await, PATH, u32::try_from(PERMITS).unwrap()).unwrap();
        contenders.spawn(occupy(ours, folder.path().to_owned(), ROUNDS));
    }
    let most: Vec<usize> = soon("every contender", contenders.join_all()).await;
    assert!(most.iter().all(|most| (1..=PERMITS).contains(most)), "{most:?} held at once");
}

/// Is present in a folder as a file while it holds, and tells how many were present at most, itself included.
async fn occupy(semaphore: Semaphore, folder: PathBuf, rounds: usize) -> usize {
    let mut most = 0;
    for _ in 0..rounds {
        let held = semaphore.acquire().await.unwrap();
        let presence = NamedTempFile::new_in(&folder).unwrap();
        yield_now().await;
        most = most.max(fs::read_dir(&folder).unwrap().count());
        presence.close().unwrap();
        held.release().await.unwrap();
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_either_side_changes_wakes_the_other_s_waiter() {
    const COUNT: &str = "/locks/count";
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 1).unwrap();
    let ours = Semaphore::from_count(&session, PATH, &count).unwrap();
    let theirs = format!("semaphore:{COUNT}");
    let first = ours.acquire().await.unwrap();
    let mut curator = Rival::curator(&lab).await;
    assert_eq!(curator.ask(&format!("count {COUNT}"), "count").await, "1", "our seed");

    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire().await }
    });
    lab.until_children(LEASES, 2).await;
    assert!(!waiting.is_finished());
    let before = count.get().await.unwrap();
    curator.request(&format!("set-count {COUNT} 2"), "set").await;
    let second = soon("the grant after Curator's change", waiting).await.unwrap().unwrap();
    assert_eq!(count.get().await.unwrap().value, 2);
    assert_eq!(count.try_set(before, 9).await.unwrap(), None, "Curator changed it since");

    curator.queue(&theirs, PATH).await;
    lab.until_children(LEASES, 3).await;
    curator.assert_silent().await;
    count.set(3).await.unwrap();
    curator.says("acquired").await;
    assert_eq!(curator.ask(&format!("count {COUNT}"), "count").await, "3");
    curator.release(&theirs, PATH).await;
    first.release().await.unwrap();
    second.release().await.unwrap();
}
