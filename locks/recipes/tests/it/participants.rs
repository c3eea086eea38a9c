//! Holders and waiters, as the nodes show them.

use zk_recipes::{AnyLock, Error, Mutex, NaiveLock, Participant, ParticipantKind, Semaphore, participants};
use zookeeper_client::{Acls, CreateMode};

use crate::support::{Lab, soon};

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_listed_in_order_with_sessions_tokens_and_data() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await];
    let lock =
        |i: usize| Mutex::new(&sessions[i], "/locks/mutex").unwrap().with_node_data(format!("instance-{i}")).unwrap();
    assert_eq!(lock(0).participants().await.unwrap(), [], "nobody has ever queued");
    let held = lock(0).acquire().await.unwrap();
    let waiters = [lock(1).enqueue().await.unwrap(), lock(0).enqueue().await.unwrap()];
    // Not a contender, and not listed.
    lab.raw.create("/locks/mutex/0", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let one = |path: &str, is_holder: bool, i: usize, token| {
        let data = format!("instance-{i}").into_bytes();
        (path.to_owned(), ParticipantKind::Exclusive, is_holder, sessions[i].id(), token, data)
    };
    let told = |participants: Vec<Participant>| -> Vec<_> {
        let one = |of: Participant| (of.path, of.kind, of.is_holder, of.session, of.token, of.data);
        participants.into_iter().map(one).collect()
    };
    let expected = [
        one(held.node_path(), true, 0, held.token()),
        one(waiters[0].node_path(), false, 1, waiters[0].token()),
        one(waiters[1].node_path(), false, 0, waiters[1].token()),
    ];
    assert_eq!(told(lock(1).participants().await.unwrap()), expected);
    assert_eq!(told(participants(&sessions[0], "/locks/mutex").await.unwrap()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_path_is_refused_and_an_unused_one_has_no_queue() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    assert!(matches!(participants(&session, "locks").await, Err(Error::InvalidPath { .. })));
    assert_eq!(participants(&session, "/no/lock").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_a_naive_lock_is_listed_and_its_parent_is_none() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = NaiveLock::new(&session, "/locks/naive").unwrap().acquire().await.unwrap();
    let listed = participants(&session, "/locks/naive").await.unwrap();
    let any = AnyLock::from(NaiveLock::new(&session, "/locks/naive").unwrap());
    assert_eq!(any.participants().await.unwrap(), listed);
    let [holder] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(
        (holder.path.as_str(), holder.kind, holder.is_holder),
        (held.node_path(), ParticipantKind::Exclusive, true)
    );
    assert_eq!((holder.session, holder.token), (session.id(), held.token()));
    assert_eq!(participants(&session, "/locks").await.unwrap(), [], "a container");
    held.release().await.unwrap();
    assert_eq!(participants(&session, "/locks/naive").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_a_permit_is_no_holder_for_any_reader() {
    let lab = Lab::open().await;
    // One session for all: it does not tell the contenders apart.
    let session = lab.session().await;
    let semaphore = Semaphore::new(&session, "/locks/semaphore", 2).unwrap();
    let first = semaphore.acquire().await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(2).await }
    });
    lab.until_children("/locks/semaphore/leases", 4).await;
    for listed in [participants(&session, "/locks/semaphore").await, semaphore.participants().await] {
        let listed = listed.unwrap();
        let holders: Vec<_> = listed.iter().map(|one| one.is_holder).collect();
        assert_eq!(holders, [true, true, false, false], "{listed:?}");
        assert_eq!(listed[0].path, first.node_path());
    }
    first.release().await.unwrap();
    second.release().await.unwrap();
    let held = soon("the permits", waiting).await.unwrap().unwrap();
    let listed = participants(&session, "/locks/semaphore").await.unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|one| one.is_holder), "{listed:?}");
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_s_nodes_are_contenders_only_when_asked_for() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let plain = Mutex::new(&session, "/locks/mutex").unwrap();
    plain.acquire().await.unwrap().release().await.unwrap();
    let sequential = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let kazoo = "/locks/mutex/5f0c8a7b9d1e4c3fa2b6d8e0f1a3c5e7__lock__";
    let (_, sequence) = lab.raw.create(kazoo, b"python", &sequential).await.unwrap();
    let with_kazoo = Mutex::new(&session, "/locks/mutex").unwrap().with_kazoo();
    assert!(with_kazoo.try_acquire().await.unwrap().is_none(), "a kazoo client holds");
    plain.try_acquire().await.unwrap().expect("a plain mutex does not know it").release().await.unwrap();
    let listed = with_kazoo.participants().await.unwrap();
    assert!(matches!(&listed[..], [one] if one.is_holder && one.data == b"python"), "{listed:?}");
    lab.raw.delete(&format!("{kazoo}{sequence}"), None).await.unwrap();
    with_kazoo.try_acquire().await.unwrap().expect("free").release().await.unwrap();
}
