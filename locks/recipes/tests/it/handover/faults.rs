//! Hand-overs within a session while replies are lost, nodes are deleted by hand, deletions are refused or the session ends.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use testbed::Proxy;
use zk_recipes::{Error, HandoffMutex, HoldState, LostReason, Session, SessionConfig};
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use super::{FIRST, KINDS, PATH, pass, poll_once, until_it_follows};
use crate::support::{Lab, SOON, soon};

/// Lets nobody delete contenders' nodes any more.
async fn refuse_deletions(lab: &Lab) {
    let all_but_delete = Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN;
    let acls = [Acl::new(all_but_delete, AuthId::anyone())];
    lab.raw.set_acl(PATH, &Acls::new(&acls), None).await.unwrap();
}

/// Deletes the nodes of all contenders in one transaction.
pub(crate) async fn delete_all(lab: &Lab, path: &str) {
    let mut delete = lab.raw.new_multi_writer();
    for name in lab.children(path).await {
        delete.add_delete(&format!("{path}/{name}"), None).unwrap();
    }
    delete.commit().await.unwrap();
}

// L30
#[tokio::test]
async fn a_lost_reply_to_a_release_does_not_concern_the_next_holder() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (server, chroot) = lab.connect_string().split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let cluster = format!("{}/{chroot}", proxy.connect_string());
        let session = Session::connect(&cluster, SessionConfig::default()).await.unwrap();
        let first = kind(&session);
        let second = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        proxy.swallow_replies();
        let swallowed = proxy.bytes_from_server();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(next) = poll_once(next) else { panic!("nothing was passed on") };
        proxy.until(|traffic| traffic.bytes_from_server > swallowed).await;
        proxy.cut();
        proxy.deliver();
        soon("the release", releasing).await.unwrap();
        let next = next.unwrap();
        assert_eq!(lab.children(PATH).await.len(), 1);
        soon("the next release", next.release()).await.unwrap();
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_last_holder_leaves_its_note_after_a_repeated_release() {
    let lab = Lab::open().await;
    let (server, chroot) = lab.connect_string().split_once('/').unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let cluster = format!("{}/{chroot}", proxy.connect_string());
    let session = Session::connect(&cluster, SessionConfig::default()).await.unwrap();
    let lock = HandoffMutex::new(&session, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    let mut next = pin!(lock.acquire());
    until_it_follows(&session, FIRST, next.as_mut()).await;
    proxy.swallow_replies();
    let swallowed = proxy.bytes_from_server();
    let mut releasing = pin!(held.release());
    assert!(poll_once(releasing.as_mut()).is_pending());
    let Poll::Ready(next) = poll_once(next) else { panic!("nothing was passed on") };
    proxy.until(|traffic| traffic.bytes_from_server > swallowed).await;
    proxy.cut();
    proxy.deliver();
    soon("the release", releasing).await.unwrap();
    soon("the next release", next.unwrap().release()).await.unwrap();
    assert_eq!(lab.released(PATH).await, Some(1));
}

/// The first of a run is still to go when one of another session is let in, and then the one behind that.
// L30
#[tokio::test]
async fn nobody_takes_a_node_that_was_to_go_before_for_its_own() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    let locks = sessions.each_ref().map(|session| HandoffMutex::new(session, PATH).unwrap());
    let held = locks[0].acquire().await.unwrap();
    let mut second = pin!(locks[0].acquire());
    until_it_follows(&sessions[0], FIRST, second.as_mut()).await;
    let mut third = pin!(locks[1].acquire());
    until_it_follows(&sessions[1], FIRST, third.as_mut()).await;
    let mut fourth = pin!(locks[2].acquire());
    until_it_follows(&sessions[2], FIRST, fourth.as_mut()).await;

    // The deletion is refused. It is repeated only when the task that waits for it is polled again.
    refuse_deletions(&lab).await;
    let mut releasing = Box::pin(held.release());
    assert!(poll_once(releasing.as_mut()).is_pending());
    let Poll::Ready(second) = poll_once(second) else { panic!("nothing was passed on") };
    sessions[0].ping(SOON).await.unwrap();
    lab.raw.set_acl(PATH, &Acls::anyone_all(), None).await.unwrap();
    soon("the release of the second", second.unwrap().release()).await.unwrap();
    let third = soon("the third", third).await.unwrap();
    assert_eq!(lab.children(PATH).await.len(), 3, "that of the first is there");
    lab.raw.delete(&format!("{PATH}/lock-0000000003"), None).await.unwrap();
    third.release().await.unwrap();
    let deleted = soon("the fourth", fourth).await;
    assert!(matches!(deleted, Err(Error::NodeDeleted { .. })), "{deleted:?}");
    drop(releasing);
    lab.until_children(PATH, 0).await;
}

// L30
#[tokio::test]
async fn the_node_before_a_deleted_one_stays_while_the_next_one_holds() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let third = kind(&other);
        let held = first.acquire().await.unwrap();
        let first_path = held.node_path().to_owned();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        let mut names = lab.children(PATH).await;
        names.retain(|name| !first_path.ends_with(name.as_str()));
        let behind = third.clone();
        let mut behind = tokio::spawn(async move { behind.acquire().await });
        lab.until_children(PATH, 3).await;
        lab.raw.delete(&format!("{PATH}/{}", names[0]), None).await.unwrap();
        let next = pass(held, next).await;
        assert_eq!(lab.children(PATH).await.len(), 2);
        assert!(lab.children(PATH).await.iter().any(|name| first_path.ends_with(name.as_str())));
        assert!(third.try_acquire().await.unwrap().is_none(), "nobody else is let in");
        assert!(!behind.is_finished());
        let released = next.release().await;
        let is_told = matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. }));
        assert!(is_told, "{released:?}");
        let last = soon("the one of the other session", &mut behind).await.unwrap().unwrap();
        assert_eq!(lab.children(PATH).await.len(), 1);
        last.release().await.unwrap();
    }
}

// L30
#[tokio::test]
async fn what_was_passed_on_is_lost_with_the_session() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        let next = pass(held, next).await;
        session.close().await.unwrap();
        assert!(matches!(next.state(), HoldState::Lost(_)), "{:?}", next.state());
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_dropped_session_ends_although_a_node_cannot_be_deleted() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut next = Box::pin(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        refuse_deletions(&lab).await;
        let mut releasing = Box::pin(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(passed) = poll_once(next.as_mut()) else { panic!("nothing was passed on") };
        drop(next);
        let refusals = [soon("the refusal", releasing).await, soon("the other", passed.unwrap().release()).await];
        assert!(refusals.iter().all(|refused| matches!(refused, Err(Error::NotAuthorized { .. }))), "{refusals:?}");
        assert_eq!(lab.children(PATH).await.len(), 2);
        drop((first, second, session));
        lab.until_children(PATH, 0).await;
    }
}

// L31
#[tokio::test]
async fn a_passed_on_hold_whose_nodes_were_deleted_is_lost() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        delete_all(&lab, PATH).await;
        let theirs = soon("the other session", kind(&other).acquire()).await.unwrap();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let passed = poll_once(next.as_mut());
        let released = releasing.await;
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
        if let Poll::Ready(Ok(passed)) = passed {
            assert_eq!(passed.state(), HoldState::Lost(LostReason::NodeDeleted));
            assert_eq!(soon("the loss", passed.lost()).await, LostReason::NodeDeleted);
        }
        assert_eq!(theirs.state(), HoldState::Held);
        theirs.release().await.unwrap();
    }
}

// L31
#[tokio::test]
async fn a_hold_passed_on_while_cut_off_and_without_nodes_is_lost() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (server, chroot) = lab.connect_string().split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
        let session = Session::connect(&format!("{}/{chroot}", proxy.connect_string()), config).await.unwrap();
        let other = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        proxy.blackhole();
        delete_all(&lab, PATH).await;
        let theirs = soon("the other session", kind(&other).acquire()).await.unwrap();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(Ok(passed)) = poll_once(next.as_mut()) else { panic!("nothing was passed on") };
        proxy.cut();
        proxy.deliver();
        // Whether the first request has deleted it is not known.
        soon("the release", releasing).await.unwrap();
        assert_eq!(soon("the loss", passed.lost()).await, LostReason::NodeDeleted);
        assert_eq!(theirs.state(), HoldState::Held);
        theirs.release().await.unwrap();
    }
}
