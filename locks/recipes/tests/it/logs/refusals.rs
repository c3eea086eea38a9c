//! What the server refuses although the lock goes on without it.

use zk_recipes::{HandoffMutex, Semaphore};
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use super::Log;
use crate::acl::hidden_parent;
use crate::support::{Lab, until};

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

/// Goal: a lease lock that stays is named by its own node, and not by the leases, which hold. Method: nobody may delete it at first.
#[tokio::test]
async fn a_lease_lock_that_cannot_be_deleted_is_told_by_itself() {
    const LOCKS: &str = "/logs/s/locks";
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let semaphore = Semaphore::new(&session, "/logs/s", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let all_but_delete = Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN;
    let acls = [Acl::new(all_but_delete, AuthId::anyone())];
    lab.raw.set_acl(LOCKS, &Acls::new(&acls), None).await.unwrap();

    let held = semaphore.acquire().await.unwrap();
    let node = format!("node=\"{LOCKS}/{}\"", lab.children(LOCKS).await[0]);
    log.expect_once(&["WARN", "lock=\"/logs/s\"", &node, "could not give back the lease lock"]);
    let lock = format!("lock=\"{LOCKS}\"");
    until("the reaper tells", async || log.has(&["WARN", &lock, &node, "cannot delete an abandoned node yet"])).await;
    lab.raw.set_acl(LOCKS, &Acls::anyone_all(), None).await.unwrap();
    until("the reaper is done", async || log.has(&["DEBUG", &lock, &node, "reaped an abandoned node"])).await;
    assert_eq!(lab.children(LOCKS).await, Vec::<String>::new());
    held.release().await.unwrap();
}
