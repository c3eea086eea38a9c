//! What the server refuses although the lock goes on without it.

use zk_recipes::HandoffMutex;
use zookeeper_client::Permission;

use super::Log;
use crate::acl::hidden_parent;
use crate::support::Lab;

// L66
#[tokio::test]
async fn a_note_that_an_acl_forbids_is_warned_of_once() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    hidden_parent(&lab, Permission::CREATE | Permission::READ | Permission::DELETE).await;
    let session = lab.session().await;
    let lock = HandoffMutex::new(&session, "/hidden").unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(lab.children("/hidden").await, Vec::<String>::new());
    }
    log.expect_once(&["WARN", "lock=\"/hidden\"", "does not allow this session to set /hidden"]);
    log.expect_once(&["WARN"]);
}
