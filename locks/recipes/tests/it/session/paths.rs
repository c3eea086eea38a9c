//! Which paths servers take, and which are refused before anything is sent.

use zk_recipes::{Error, Mutex, validate_path};
use zookeeper_client::{Acls, CreateMode};

use crate::support::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn the_refused_characters_are_those_that_a_server_refuses() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let edges = [
        '\0',
        '\u{1}',
        '\u{1f}',
        ' ',
        '~',
        '\u{7f}',
        '\u{9f}',
        '\u{a0}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{f8ff}',
        '\u{f900}',
        '\u{ffef}',
        '\u{fff0}',
        '\u{ffff}',
        '\u{10000}',
        '😀',
        '\u{10ffff}',
    ];
    for edge in edges {
        let path = format!("/a{edge}b");
        let is_taken = lab.raw.create(&path, &[], &options).await.is_ok();
        assert_eq!(validate_path(&path).is_ok(), is_taken, "{edge:?}");
        assert_eq!(Mutex::new(&session, &path).is_ok(), is_taken, "{edge:?}");
        if is_taken {
            Mutex::new(&session, &path).unwrap().acquire().await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_nodes_are_no_locks() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    for path in ["/zookeeper", "/zookeeper/quota/a"] {
        let refused = Mutex::new(&session, path).unwrap_err();
        assert!(matches!(refused, Error::InvalidPath { .. }), "{refused:?}");
        assert!(refused.to_string().contains("the servers' own"), "{refused}");
    }
}
