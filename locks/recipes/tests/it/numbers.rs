//! The end of the numbers that servers give to contenders.

// L14

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{AnyLock, CohortMutex, Error, HandoffMutex, Mutex, RwLock, Semaphore, Session, SessionConfig};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{soon, until};

/// The first number that is refused.
const REFUSED_FROM: i32 = 2_100_000_000;

/// Makes a lock at a path.
type LockMaker = fn(&Session, &str) -> AnyLock;

const KINDS: [(&str, LockMaker); 6] = [
    ("/locks/mutex", |session, path| Mutex::new(session, path).unwrap().into()),
    ("/locks/handoff", |session, path| HandoffMutex::new(session, path).unwrap().into()),
    ("/locks/cohort", |session, path| CohortMutex::new(session, path).unwrap().into()),
    ("/locks/write", |session, path| RwLock::new(session, path).unwrap().write_lock().into()),
    ("/locks/read", |session, path| RwLock::new(session, path).unwrap().read_lock().into()),
    ("/locks/semaphore", |session, path| Semaphore::new(session, path, 2).unwrap().into()),
];

/// Returns the nodes whose children a lock numbers.
fn parents(path: &str) -> Vec<String> {
    match path {
        "/locks/semaphore" => vec![format!("{path}/locks"), format!("{path}/leases")],
        _ => vec![path.to_owned()],
    }
}

async fn session(server: &ZooKeeper) -> Session {
    Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap()
}

/// Returns a server on which every lock was used, and then so often that the next number is this one.
async fn server_at(number: i32, locks: &[(&'static str, LockMaker)]) -> ZooKeeper {
    let mut server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let once = session(&server).await;
    for (path, kind) in locks {
        kind(&once, path).acquire().await.unwrap().release().await.unwrap();
    }
    once.close().await.unwrap();
    server.stop().await.unwrap();
    for parent in locks.iter().flat_map(|(path, _)| parents(path)) {
        server.number_next_child(&parent, number).await.unwrap();
    }
    server.start_again().await.unwrap();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_work_up_to_the_last_number_and_then_say_what_to_do() {
    let server = server_at(REFUSED_FROM - 2, &KINDS).await;
    let one = session(&server).await;
    let other = session(&server).await;
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    for (path, kind) in KINDS {
        for session in [&one, &other] {
            kind(session, path).acquire().await.unwrap().release().await.unwrap();
        }
        for lock in [kind(&one, path), kind(&other, path)] {
            for is_try in [false, true] {
                let answer = if is_try { lock.try_acquire().await } else { lock.acquire().await.map(Some) };
                let error = answer.unwrap_err();
                assert!(
                    matches!(&error, Error::NumbersExhausted { path: at, .. } if at.starts_with(path)),
                    "{error:?}"
                );
                assert!(error.to_string().contains("delete that node"), "{error}");
                for parent in parents(path) {
                    let is_empty = async || raw.list_children(&parent).await.unwrap().is_empty();
                    until("the refused contender is gone", is_empty).await;
                }
            }
        }
    }
}

/// The server gives the last number again and again. A contender whose name is only a number cannot have it twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_number_is_refused_alike_by_every_recipe() {
    const LAST: i32 = i32::MAX;
    let server = server_at(LAST, &KINDS).await;
    let session = session(&server).await;
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    for (path, kind) in KINDS {
        for parent in parents(path) {
            let node = format!("{parent}/lock-{LAST}");
            raw.create(&node, &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
        }
        let error = kind(&session, path).acquire().await.unwrap_err();
        assert!(matches!(&error, Error::NumbersExhausted { number: LAST, .. }), "{path}: {error:?}");
    }
}

/// Usually the server goes on with a negative number, so the leases are refused by their numbers.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_share_the_last_number_are_refused() {
    let mut server = server_at(1, &[]).await;
    // It has seen the parent of its leases, and creates several at once.
    let semaphore = Semaphore::new(&session(&server).await, "/locks/semaphore", 3).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    server.stop().await.unwrap();
    server.number_next_child("/locks/semaphore/leases", i32::MAX).await.unwrap();
    server.start_again().await.unwrap();
    let error = semaphore.acquire_many(3).await.unwrap_err();
    assert!(matches!(&error, Error::NumbersExhausted { number: i32::MAX, .. }), "{error:?}");
}

/// A mutex whose numbers are used up is as new once its node is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_works_again_once_its_node_was_deleted() {
    let (path, kind) = KINDS[0];
    let server = server_at(REFUSED_FROM, &KINDS[..1]).await;
    let session = session(&server).await;
    let lock = kind(&session, path);
    assert!(matches!(lock.acquire().await, Err(Error::NumbersExhausted { .. })));
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    until("the lock's node is deleted", async || raw.delete(path, None).await.is_ok()).await;
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_that_share_the_last_number_never_hold_together() {
    let server = server_at(i32::MAX - 2, &KINDS).await;
    for (path, kind) in KINDS {
        let mut held = Vec::new();
        for _ in 0..5 {
            let session = session(&server).await;
            let acquired = soon("an answer", kind(&session, path).acquire()).await;
            held.extend(acquired.ok());
        }
        assert!(held.is_empty(), "{} hold at {path}", held.len());
    }
}
