//! What a mutex writes is what Curator writes.

use crate::support::{Lab, Recipe};

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_node_has_curator_s_name() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = Recipe::Mutex.lock(&session, "/locks/mutex").acquire().await.unwrap();
    let children = lab.children("/locks/mutex").await;
    let [name] = children.as_slice() else { panic!("one node, not {children:?}") };
    assert_eq!(held.node_path(), format!("/locks/mutex/{name}"));
    let rest = name.strip_prefix("_c_").expect("a protected name");
    let (uuid, rest) = rest.split_at(36);
    assert!(uuid.bytes().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_hexdigit() && !b.is_ascii_uppercase(),
    }));
    assert_eq!(rest, "-lock-0000000000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_waits_behind_another_client_s_node_only() {
    use zookeeper_client::{Acls, CreateMode};
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = Recipe::Mutex.lock(&session, "/locks/mutex");
    lock.acquire().await.unwrap().release().await.unwrap();
    let foreign = CreateMode::Persistent.with_acls(Acls::anyone_all());
    lab.raw.create("/locks/mutex/0", &[], &foreign).await.unwrap();
    lock.try_acquire().await.unwrap().expect("a foreign child does not block").release().await.unwrap();
    let sequential = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = "/locks/mutex/_c_7b1e4f5c-98b2-4e1f-8a55-0d5f60c1a001-lock-";
    let (_, sequence) = lab.raw.create(prefix, b"127.0.0.1", &sequential).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    lab.raw.delete(&format!("{prefix}{sequence}"), None).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}
