//! Read/write locks.
//!
//! Only our own downgrades are tested: Curator's let a queued writer in before version 5.5.0 (CURATOR-621).

// L23

use zk_recipes::{Owner, ParticipantKind, RwLock};

use super::exclusion::Pair;
use super::kazoo_session;
use super::rival::Rival;
use crate::support::{Lab, soon};

const PATH: &str = "/locks/rw";

/// Checks the exclusion of each pair with a writer.
async fn writers_exclude(lab: &Lab, rival: &mut Rival, lock: &RwLock, their_write: &str, their_read: &str) {
    Pair::new(lock.write_lock(), their_write, PATH).assert_exclusion(lab, rival).await;
    Pair::new(lock.write_lock(), their_read, PATH).assert_exclusion(lab, rival).await;
    Pair::new(lock.read_lock(), their_write, PATH).assert_exclusion(lab, rival).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_curator_and_ours_exclude_each_other_and_readers() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&lab.session().await, PATH).unwrap();
    let mut curator = Rival::curator(&lab).await;
    writers_exclude(&lab, &mut curator, &lock, "write", "read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_writers_exclude_kazoo_s_with_curator_s_names_and_readers() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    let mut kazoo = Rival::kazoo(&lab).await;
    writers_exclude(&lab, &mut kazoo, &lock, "write", "read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_writers_with_the_option_exclude_kazoo_s_and_readers() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap().with_kazoo();
    let mut kazoo = Rival::kazoo(&lab).await;
    writers_exclude(&lab, &mut kazoo, &lock, "kazoo-write", "kazoo-read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_all_sides_share() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    let mut curator = Rival::curator(&lab).await;
    let mut kazoo = Rival::kazoo(&lab).await;
    let first = lock.read_lock().acquire().await.unwrap();
    curator.acquire("read", PATH).await;
    kazoo.acquire("read", PATH).await;
    let last = lock.read_lock().try_acquire().await.unwrap().expect("readers share");
    assert_eq!(lab.children(PATH).await.len(), 4);
    assert!(lock.write_lock().try_acquire().await.unwrap().is_none(), "readers of all sides keep a writer out");
    first.release().await.unwrap();
    last.release().await.unwrap();
    assert!(lock.write_lock().try_acquire().await.unwrap().is_none(), "readers of the rivals keep a writer out");
    curator.release("read", PATH).await;
    assert!(lock.write_lock().try_acquire().await.unwrap().is_none(), "a reader of kazoo keeps a writer out");
    kazoo.release("read", PATH).await;
    assert!(lock.write_lock().try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_writer_of_a_rival_bars_our_later_readers() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    for mut rival in [Rival::curator(&lab).await, Rival::kazoo(&lab).await] {
        let first = lock.read_lock().acquire().await.unwrap();
        rival.queue("write", PATH).await;
        lab.until_children(PATH, 2).await;
        assert!(lock.read_lock().try_acquire().await.unwrap().is_none(), "a writer is queued");
        let later = tokio::spawn(lock.read_lock().enqueue().await.unwrap().granted());
        rival.assert_silent().await;
        first.release().await.unwrap();
        rival.says("acquired").await;
        assert!(!later.is_finished(), "the writer came first");
        rival.release("write", PATH).await;
        soon("the reader after the writer", later).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_queued_writer_bars_later_readers_of_the_rivals() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    let mut first = Rival::curator(&lab).await;
    let mut later = [Rival::curator(&lab).await, Rival::kazoo(&lab).await];
    first.acquire("read", PATH).await;
    let writer = tokio::spawn(lock.write_lock().enqueue().await.unwrap().granted());
    for rival in &mut later {
        assert!(!rival.try_acquire("read", PATH).await, "a writer is queued");
        rival.queue("read", PATH).await;
    }
    lab.until_children(PATH, 4).await;
    assert!(!writer.is_finished());
    first.release("read", PATH).await;
    let held = soon("the writer", writer).await.unwrap().unwrap();
    for rival in &mut later {
        rival.assert_silent().await;
    }
    held.release().await.unwrap();
    for rival in &mut later {
        rival.says("acquired").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_foreign_writers_stay_out_while_our_writer_reads_on() {
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    for mut rival in [Rival::curator(&lab).await, Rival::kazoo(&lab).await] {
        let owner = Owner::new();
        let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
        rival.queue("write", PATH).await;
        lab.until_children(PATH, 2).await;
        let reading = lock.read_lock().acquire_as(&owner).await.unwrap();
        writing.release().await.unwrap();
        let [ours, theirs] = two(lock.participants().await.unwrap());
        assert_eq!(
            (ours.kind, ours.is_holder, ours.path.as_str()),
            (ParticipantKind::Shared, true, reading.node_path())
        );
        assert_eq!((theirs.kind, theirs.is_holder), (ParticipantKind::Exclusive, false));
        assert!(lock.read_lock().try_acquire().await.unwrap().is_none(), "other readers come after the writer");
        rival.assert_silent().await;
        reading.release().await.unwrap();
        rival.says("acquired").await;
        rival.release("write", PATH).await;
    }
}

fn two<T: std::fmt::Debug>(items: Vec<T>) -> [T; 2] {
    items.try_into().expect("two")
}
