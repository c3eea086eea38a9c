//! What may be sent to other threads and shared by them. The compiler checks it.

use std::future::Future;
use std::time::Duration;

use zk_recipes::{
    Acl, AnyLock, Auth, CohortMutex, ConnectionState, ConnectionStateStream, ConnectionStates, Error, FencingToken,
    HandoffMutex, HoldState, HoldWatch, LeaderLatch, LockGuard, LostReason, MultiGuard, MultiLock, Mutex, NaiveLock,
    Owner, Parents, ParseSessionIdError, Participant, ParticipantKind, Permissions, ReadLock, Revocation, RwLock,
    Semaphore, SemaphoreMutex, Session, SessionConfig, SessionId, SharedCount, Traffic, VersionedCount, Waiter,
    WriteLock, participants, revoke,
};

fn ok<T: Send + Sync + 'static>() {}

fn send<F: Future + Send>(_: F) {}

#[test]
fn every_public_type_may_be_sent_and_shared() {
    ok::<(Acl, AnyLock, Auth, CohortMutex, ConnectionState, ConnectionStateStream, ConnectionStates)>();
    ok::<(Error, FencingToken, HandoffMutex, HoldState, HoldWatch, LeaderLatch, LockGuard, LostReason)>();
    ok::<(MultiGuard, MultiLock, Mutex, NaiveLock, Owner, Parents, ParseSessionIdError, Participant)>();
    ok::<(ParticipantKind, Permissions, ReadLock, Revocation, RwLock, Semaphore, SemaphoreMutex, Session)>();
    ok::<(SessionConfig, SessionId, SharedCount, Traffic, VersionedCount, Waiter, WriteLock)>();
    #[cfg(feature = "tls")]
    ok::<zk_recipes::Tls>();
}

/// Calls what every lock has.
macro_rules! acquires {
    ($lock:expr) => {
        send($lock.acquire());
        send($lock.try_acquire());
        send($lock.acquire_within(Duration::ZERO));
    };
}

/// Calls what locks have that know owners and places.
macro_rules! acquires_as {
    ($lock:expr, $owner:expr) => {
        acquires!($lock);
        send($lock.participants());
        send($lock.acquire_as($owner));
        send($lock.try_acquire_as($owner));
        send($lock.acquire_within_as($owner, Duration::ZERO));
        send($lock.enqueue());
    };
}

fn locks(mutex: &Mutex, handoff: &HandoffMutex, cohort: &CohortMutex, rw: &RwLock, owner: &Owner) {
    acquires_as!(mutex, owner);
    acquires_as!(handoff, owner);
    acquires_as!(rw.read_lock(), owner);
    acquires_as!(rw.write_lock(), owner);
    send(rw.participants());
    acquires!(cohort);
    send(cohort.participants());
}

fn other_locks(naive: &NaiveLock, semaphore: &Semaphore, mutex: &SemaphoreMutex, any: &AnyLock, multi: &MultiLock) {
    acquires!(naive);
    send(naive.participants());
    acquires!(semaphore);
    send(semaphore.participants());
    send(semaphore.acquire_many(2));
    send(semaphore.try_acquire_many(2));
    send(semaphore.acquire_many_within(2, Duration::ZERO));
    acquires!(mutex);
    send(mutex.participants());
    acquires!(any);
    send(any.participants());
    acquires!(multi);
}

fn election(latch: &LeaderLatch, leader: &Participant) {
    send(latch.lead());
    send(latch.try_lead());
    send(latch.lead_within(Duration::ZERO));
    send(latch.enqueue());
    send(latch.leader());
    send(latch.participants());
    send(latch.until_gone(leader));
}

fn session(session: &Session, mut states: ConnectionStates, count: &SharedCount, seen: VersionedCount) {
    send(Session::connect("", SessionConfig::default()));
    send(session.ended());
    send(session.ping(Duration::ZERO));
    send(session.close());
    send(states.changed());
    send(participants(session, ""));
    send(revoke(session, ""));
    send(count.get());
    send(count.set(1));
    send(count.try_set(seen, 1));
    send(count.changed(seen));
}

fn holds([held, released]: [LockGuard; 2], [all, all_released]: [MultiGuard; 2], watch: &HoldWatch) {
    send(held.lost());
    send(held.run(async {}));
    send(released.release());
    send(all.lost());
    send(all.run(async {}));
    send(all_released.release());
    send(watch.lost());
}

fn places([mut waiter, granted, in_time, withdrawn]: [Waiter; 4], revocation: &Revocation) {
    send(waiter.wait());
    send(granted.granted());
    send(in_time.granted_within(Duration::ZERO));
    send(withdrawn.withdraw());
    send(revocation.requested());
}

#[test]
fn every_public_future_may_be_sent() {
    // Nothing is called: it is enough that these compile.
    let _: fn(_, _, _, _, _) = locks;
    let _: fn(_, _, _, _, _) = other_locks;
    let _: fn(_, _) = election;
    let _: fn(_, _, _, _) = session;
    let _: fn(_, _, _) = holds;
    let _: fn(_, _) = places;
}
