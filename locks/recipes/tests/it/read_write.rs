//! What Curator's `TestInterProcessReadWriteLock` asks of the lock that readers share, and more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_recipes::{Error, Owner, ParticipantKind, RwLock};

use crate::support::{Lab, soon};

/// How long an acquire that must not succeed is tried.
const NOT_HAD: Duration = Duration::from_millis(200);

fn lock(session: &zk_recipes::Session) -> RwLock {
    RwLock::new(session, "/locks/rw").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_hold_together_and_a_writer_excludes_all() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await];
    let one = lock(&sessions[0]);
    let other = lock(&sessions[1]);
    let first = one.read_lock().acquire().await.unwrap();
    let second = soon("a second reader", other.read_lock().acquire()).await.unwrap();
    assert!(other.write_lock().try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(other.write_lock().acquire_within(NOT_HAD).await.unwrap().is_none());
    second.release().await.unwrap();
    let writing = other.write_lock().acquire().await.unwrap();
    assert!(one.read_lock().try_acquire().await.unwrap().is_none());
    assert!(one.write_lock().acquire_within(NOT_HAD).await.unwrap().is_none());
    writing.release().await.unwrap();
    one.read_lock().try_acquire().await.unwrap().expect("the lock is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_readers_hold_together_and_are_listed_apart() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let mut reading = Vec::new();
    for _ in 0..20 {
        reading.push(lock.read_lock().acquire().await.unwrap());
    }
    let mut writers = Vec::new();
    for _ in 0..8 {
        writers.push(lock.write_lock().enqueue().await.unwrap());
    }
    let readers_listed = lock.read_lock().participants().await.unwrap();
    let writers_listed = lock.write_lock().participants().await.unwrap();
    assert_eq!((readers_listed.len(), writers_listed.len()), (20, 8));
    assert!(readers_listed.iter().all(|one| one.is_holder && one.kind == ParticipantKind::Shared));
    assert!(writers_listed.iter().all(|one| !one.is_holder && one.kind == ParticipantKind::Exclusive));
    assert_eq!(writers_listed.iter().map(|one| &one.path[..]).collect::<Vec<_>>(), {
        writers.iter().map(|waiter| waiter.node_path()).collect::<Vec<_>>()
    });
    for held in reading {
        held.release().await.unwrap();
    }
    for waiter in writers {
        soon("the next writer", waiter.granted()).await.unwrap().release().await.unwrap();
    }
    assert_eq!(lock.participants().await.unwrap(), []);
}

// L2
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_behind_a_queued_writer_waits_for_it() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let reading = lock.read_lock().acquire().await.unwrap();
    let writer = lock.write_lock().enqueue().await.unwrap();
    assert!(lock.read_lock().try_acquire().await.unwrap().is_none());
    let late_reader = lock.read_lock().enqueue().await.unwrap();
    assert!(lock.read_lock().acquire_within(NOT_HAD).await.unwrap().is_none());
    reading.release().await.unwrap();
    let writing = soon("the writer", writer.granted()).await.unwrap();
    writing.release().await.unwrap();
    soon("the late reader", late_reader.granted()).await.unwrap().release().await.unwrap();
}

// L35
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_refused_at_once_and_the_read_hold_goes_on() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let owner = Owner::new();
    let reading = lock.read_lock().acquire_as(&owner).await.unwrap();
    let before = session.traffic().requests;
    for refused in [
        lock.write_lock().acquire_as(&owner).await.map(Some),
        lock.write_lock().try_acquire_as(&owner).await,
        lock.write_lock().acquire_within_as(&owner, Duration::from_secs(60)).await,
    ] {
        let Err(Error::Upgrade { path, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(path, "/locks/rw");
    }
    assert_eq!(session.traffic().requests, before, "nothing is asked of the server");
    reading.release().await.unwrap();
    soon("the write lock", lock.write_lock().acquire_as(&owner)).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_without_an_owner_that_wants_to_write_times_out() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let reading = lock.read_lock().acquire().await.unwrap();
    assert!(lock.write_lock().acquire_within(NOT_HAD).await.unwrap().is_none());
    reading.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_becomes_a_reader_with_the_writer_s_number_and_token() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let owner = Owner::new();
    let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
    let reading =
        lock.read_lock().acquire_within_as(&owner, Duration::from_secs(20)).await.unwrap().expect("a downgrade");
    assert_eq!(reading.token(), writing.token());
    assert_eq!(reading.node_path().rsplit_once("__").unwrap().1, writing.node_path().rsplit_once("__").unwrap().1);
    writing.release().await.unwrap();
    let again = lock.read_lock().try_acquire_as(&owner).await.unwrap().expect("re-entrant");
    assert_eq!(again.token(), reading.token());
    let other = lock.read_lock().try_acquire().await.unwrap().expect("readers share");
    for held in [reading, again, other] {
        held.release().await.unwrap();
    }
    assert_eq!(lab.children("/locks/rw").await, Vec::<String>::new());
}

// L9, L34
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_writer_stays_out_while_a_writer_becomes_a_reader() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mine = lock(&session);
    let owner = Owner::new();
    let writing = mine.write_lock().acquire_as(&owner).await.unwrap();
    let queued = lock(&other).write_lock().enqueue().await.unwrap();
    let queued_token = queued.token();
    let reading = mine.read_lock().acquire_as(&owner).await.unwrap();
    writing.release().await.unwrap();
    let mut queued = std::pin::pin!(queued.granted());
    assert!(tokio::time::timeout(NOT_HAD, &mut queued).await.is_err(), "the writer waits for the reader");
    assert!(reading.token() < queued_token, "tokens grow in grant order, after a downgrade too");
    reading.release().await.unwrap();
    soon("the queued writer", queued).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_is_the_owner_s_alone() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let owner = Owner::new();
    let other = Owner::new();
    let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
    assert!(lock.read_lock().acquire_within_as(&other, NOT_HAD).await.unwrap().is_none());
    assert!(lock.read_lock().try_acquire().await.unwrap().is_none());
    writing.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_whose_node_was_deleted_does_not_become_a_reader() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mine = lock(&session);
    let owner = Owner::new();
    let writing = mine.write_lock().acquire_as(&owner).await.unwrap();
    lab.raw.delete(writing.node_path(), None).await.unwrap();
    let next = soon("the next writer", lock(&other).write_lock().acquire()).await.unwrap();
    assert!(matches!(mine.read_lock().acquire_as(&owner).await, Err(Error::HoldLost { .. })));
    lab.until_children("/locks/rw", 1).await;
    next.release().await.unwrap();
    assert!(matches!(writing.release().await, Err(Error::HoldLost { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_again_behind_a_queued_writer() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = lock(&session);
    let owner = Owner::new();
    let reading = lock.read_lock().acquire_as(&owner).await.unwrap();
    let writer = lock.write_lock().enqueue().await.unwrap();
    let before = session.traffic().requests;
    let again = soon("the second read hold", lock.read_lock().acquire_as(&owner)).await.unwrap();
    assert_eq!(session.traffic().requests, before);
    reading.release().await.unwrap();
    again.release().await.unwrap();
    soon("the writer", writer.granted()).await.unwrap().release().await.unwrap();
}

// L1
#[tokio::test(flavor = "multi_thread")]
async fn eight_clients_that_mostly_read_never_meet_a_writer() {
    let lab = Lab::open().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let most_inside = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for client in 0..8 {
        let session = lab.session().await;
        let lock = lock(&session);
        let inside = Arc::clone(&inside);
        let most_inside = Arc::clone(&most_inside);
        clients.push(tokio::spawn(async move {
            for round in 0..30 {
                let writes = (round + client) % 10 == 0;
                let (held, weight) = match writes {
                    true => (lock.write_lock().acquire_within(Duration::from_secs(30)).await, 1000),
                    false => (lock.read_lock().acquire_within(Duration::from_secs(30)).await, 1),
                };
                let held = held.unwrap().expect("had in time");
                let others = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(others == 0 || !writes && others < 1000, "a writer is not alone");
                most_inside.fetch_max(others + weight, Ordering::SeqCst);
                // Something to do, of which several readers do some at the same time.
                session.ping(Duration::from_secs(30)).await.unwrap();
                inside.fetch_sub(weight, Ordering::SeqCst);
                held.release().await.unwrap();
            }
        }));
    }
    for client in clients {
        soon("a client", client).await.unwrap();
    }
    assert!(most_inside.load(Ordering::SeqCst) > 1, "readers were inside together");
    assert_eq!(lab.children("/locks/rw").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_data_is_written_to_both_kinds_of_nodes() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = RwLock::new(&session, "/locks/rw").unwrap().with_node_data([1_u8, 2, 3, 4]).unwrap();
    let writing = lock.write_lock().acquire().await.unwrap();
    let reader = lock.read_lock().enqueue().await.unwrap();
    for path in [writing.node_path(), reader.node_path()] {
        assert_eq!(lab.raw.get_data(path).await.unwrap().0, [1, 2, 3, 4]);
    }
    assert_eq!(lab.children("/locks/rw").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_reader_comes_in_when_the_holder_s_session_ends() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let writing = lock(&session).write_lock().acquire().await.unwrap();
    let path = writing.node_path().to_owned();
    session.close().await.unwrap();
    let reading = soon("the reader", lock(&other).read_lock().acquire()).await.unwrap();
    assert_eq!(lab.raw.check_stat(&path).await.unwrap(), None);
    reading.release().await.unwrap();
    assert!(matches!(writing.release().await, Err(Error::HoldLost { .. })));
}
