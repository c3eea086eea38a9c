//! Sequential nodes near the end of their numbers.

// T7

use testbed::{Error, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error as ClientError, MultiWriteResult};

use crate::support::{PERSISTENT, client_of};

const SEQUENTIAL: CreateOptions<'static> = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());

/// Starts a server with a node `/locks/a` whose next child gets this number, and a client of it.
async fn numbered(number: i32) -> (ZooKeeper, Client) {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let client = client_of(&zookeeper.connect_string()).await;
    for path in ["/locks", "/locks/a", "/locks/b"] {
        client.create(path, b"data", &PERSISTENT).await.unwrap();
    }
    assert_eq!(create(&client, "/locks/a/before-").await, Ok(0));
    zookeeper.stop().await.unwrap();
    zookeeper.number_next_child("/locks/a", number).await.unwrap();
    zookeeper.start_again().await.unwrap();
    let client = client_of(&zookeeper.connect_string()).await;
    (zookeeper, client)
}

/// Creates a sequential node and returns its number.
async fn create(client: &Client, prefix: &str) -> Result<i64, ClientError> {
    Ok(client.create(prefix, &[], &SEQUENTIAL).await?.1.into_i64())
}

#[tokio::test]
async fn children_count_on_from_the_given_number_to_the_last() {
    let (mut zookeeper, client) = numbered(2_147_483_645).await;
    assert_eq!(create(&client, "/locks/a/x-").await, Ok(2_147_483_645));
    assert_eq!(create(&client, "/locks/a/x-").await, Ok(2_147_483_646));
    zookeeper.start_again().await.unwrap();

    let client = client_of(&zookeeper.connect_string()).await;
    assert_eq!(zookeeper.metric("zk_digest_mismatches_count").await.unwrap(), 0, "the checksums of the tree match");
    assert_eq!(create(&client, "/locks/a/x-").await, Ok(2_147_483_647));
    assert_eq!(create(&client, "/locks/a/y-").await, Ok(2_147_483_647), "the number sticks");
    assert_eq!(create(&client, "/locks/a/x-").await, Err(ClientError::NodeExists));

    let mut children = client.list_children("/locks/a").await.unwrap();
    children.sort_unstable();
    assert_eq!(children, ["before-0000000000", "x-2147483645", "x-2147483646", "x-2147483647", "y-2147483647"]);
    assert_eq!(client.get_data("/locks/a").await.unwrap().0, b"data");
    assert_eq!(create(&client, "/locks/b/x-").await, Ok(0), "another node");
}

#[tokio::test]
async fn beyond_the_end_the_numbers_of_one_transaction_are_negative() {
    let (_zookeeper, client) = numbered(2_147_483_647).await;
    let mut writer = client.new_multi_writer();
    for _ in 0..3 {
        writer.add_create("/locks/a/x-", &[], &SEQUENTIAL).unwrap();
    }
    let created = writer.commit().await.unwrap().into_iter().map(|result| match result {
        MultiWriteResult::Create { path, .. } => path,
        other => panic!("{other:?}"),
    });
    let created: Vec<_> = created.collect();
    assert_eq!(created, ["/locks/a/x-2147483647", "/locks/a/x--2147483648", "/locks/a/x--2147483647"]);
    assert_eq!(create(&client, "/locks/a/y-").await, Ok(2_147_483_647), "the number sticks");
}

#[tokio::test]
async fn a_number_that_cannot_be_given_changes_nothing() {
    let (mut zookeeper, _client) = numbered(7).await;
    let error = zookeeper.number_next_child("/locks/a", 9).await.unwrap_err();
    assert!(matches!(error, Error::Setting(_)) && error.to_string().contains("must be stopped"), "{error}");

    zookeeper.stop().await.unwrap();
    for (path, number, reason) in [
        ("/locks/c", 9, "there is no node /locks/c"),
        ("/locks/a", 6, "gets number 7"),
        ("/locks/a", -1, "gets number 7"),
    ] {
        let error = zookeeper.number_next_child(path, number).await.unwrap_err();
        assert!(matches!(error, Error::Failed { .. }) && error.to_string().contains(reason), "{error}");
    }
    zookeeper.number_next_child("/locks/a", 7).await.unwrap();
    zookeeper.number_next_child("/", 5).await.unwrap();
    zookeeper.start_again().await.unwrap();
    let client = client_of(&zookeeper.connect_string()).await;
    assert_eq!(create(&client, "/locks/a/x-").await, Ok(7));
    assert_eq!(create(&client, "/x-").await, Ok(5));
}
