//! Every future dropped after every possible number of polls: the queue empties and the next contender acquires.

// L4

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_recipes::{AnyLock, Owner, RwLock, Session};

use crate::support::{Lab, RECIPES, Recipe, soon, until};

/// How long a future that waits behind a holder is given to be polled once more. It is not: that is how the last
/// `await` is known to be reached.
const IDLE: Duration = Duration::from_millis(300);

/// What became of a future that was to be dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropOutcome {
    /// It was done before it had been polled that often.
    Finished,
    /// It was dropped after that many polls.
    Dropped,
    /// It waits and is polled no more.
    Idle,
}

pub(crate) async fn drop_after(polls: usize, future: impl Future) -> DropOutcome {
    let mut future = pin!(future);
    let mut polled = 0;
    let dropped = poll_fn(|cx| {
        if polled == polls {
            return Poll::Ready(DropOutcome::Dropped);
        }
        polled += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(DropOutcome::Finished),
            Poll::Pending if polled == polls => Poll::Ready(DropOutcome::Dropped),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(IDLE, dropped).await.unwrap_or(DropOutcome::Idle)
}

/// Waits until the session has nothing left to ask of its own accord: its reaper is done. The server answers in order, so
/// that whatever comes next is sent within a round trip.
async fn until_idle(session: &Session) {
    const ROUND_TRIPS: u64 = 5;
    let nobody_else_asks = async || {
        let before = session.traffic().requests;
        for _ in 0..ROUND_TRIPS {
            session.ping(LONG).await.unwrap();
        }
        session.traffic().requests == before + ROUND_TRIPS
    };
    until("the session is idle", nobody_else_asks).await;
}

/// A way to get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Acquire,
    TryAcquire,
    AcquireWithin,
    AcquireAs,
    TryAcquireAs,
    AcquireWithinAs,
    EnqueueAndGranted,
    EnqueueAndGrantedWithin,
}

/// The forms of every recipe.
const FORMS: [Form; 3] = [Form::Acquire, Form::TryAcquire, Form::AcquireWithin];

/// The forms of recipes that know owners, in addition.
const OWNER_FORMS: [Form; 3] = [Form::AcquireAs, Form::TryAcquireAs, Form::AcquireWithinAs];

/// The forms of recipes that give places, in addition.
const PLACE_FORMS: [Form; 2] = [Form::EnqueueAndGranted, Form::EnqueueAndGrantedWithin];

fn forms(recipe: Recipe) -> Vec<Form> {
    match recipe {
        Recipe::Mutex | Recipe::Read | Recipe::Write => [&FORMS[..], &OWNER_FORMS[..], &PLACE_FORMS[..]].concat(),
        Recipe::Leader => [&FORMS[..], &PLACE_FORMS[..]].concat(),
        _ => FORMS.to_vec(),
    }
}

/// Long enough to be never over.
const LONG: Duration = Duration::from_secs(60);

macro_rules! attempt_any {
    ($lock:expr, $form:expr, $($queue_arms:tt)*) => {
        match $form {
            Form::Acquire => drop($lock.acquire().await.unwrap()),
            Form::TryAcquire => drop($lock.try_acquire().await.unwrap()),
            Form::AcquireWithin => drop($lock.acquire_within(LONG).await.unwrap()),
            $($queue_arms)*
        }
    };
}

macro_rules! attempt_place {
    ($lock:expr, $form:expr) => {
        match $form {
            Form::EnqueueAndGranted => drop($lock.enqueue().await.unwrap().granted().await.unwrap()),
            Form::EnqueueAndGrantedWithin => drop($lock.enqueue().await.unwrap().granted_within(LONG).await.unwrap()),
            other => unreachable!("{other:?} is no form of a place"),
        }
    };
}

macro_rules! attempt_queue {
    ($lock:expr, $form:expr) => {{
        let owner = Owner::new();
        attempt_any!($lock, $form,
            Form::AcquireAs => drop($lock.acquire_as(&owner).await.unwrap()),
            Form::TryAcquireAs => drop($lock.try_acquire_as(&owner).await.unwrap()),
            Form::AcquireWithinAs => drop($lock.acquire_within_as(&owner, LONG).await.unwrap()),
            place => attempt_place!($lock, place),
        )
    }};
}

/// Makes an attempt. A guard that is had is dropped, too.
async fn attempt(lock: &AnyLock, form: Form) {
    match lock {
        AnyLock::Mutex(lock) => attempt_queue!(lock, form),
        AnyLock::Read(lock) => attempt_queue!(lock, form),
        AnyLock::Write(lock) => attempt_queue!(lock, form),
        AnyLock::Leader(latch) if PLACE_FORMS.contains(&form) => attempt_place!(latch, form),
        other => attempt_any!(other, form, _ => unreachable!("{form:?} is no form of {other:?}")),
    }
}

/// Drops the attempt after 1, 2, … polls until it is done or idle by then. Returns how often it was dropped in flight.
async fn drop_at_every_poll(lab: &Lab, recipe: Recipe, form: Form, session: &Session, nodes_before: usize) -> usize {
    for polls in 1.. {
        let outcome = drop_after(polls, attempt(&recipe.lock(session, recipe.path()), form)).await;
        lab.until_children(recipe.parent(), nodes_before).await;
        if outcome != DropOutcome::Dropped {
            return polls - 1;
        }
    }
    unreachable!("the range has no end")
}

#[tokio::test]
async fn an_uncontended_acquire_may_be_dropped_at_any_poll() {
    for recipe in RECIPES {
        for form in forms(recipe) {
            let lab = Lab::open().await;
            let session = lab.session().await;
            let next = lab.session().await;
            let dropped = drop_at_every_poll(&lab, recipe, form, &session, 0).await;
            assert!(dropped >= 2, "{recipe:?} {form:?} was dropped in flight only {dropped} times");
            let held = soon("the next contender", recipe.barrier(&next, recipe.path()).acquire()).await.unwrap();
            held.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_waiting_acquire_dropped_at_any_poll_leaves_the_queue() {
    for recipe in RECIPES {
        for form in forms(recipe) {
            let lab = Lab::open().await;
            let holder = lab.session().await;
            let session = lab.session().await;
            let next = lab.session().await;
            let held = recipe.barrier(&holder, recipe.path()).acquire().await.unwrap();
            let dropped = drop_at_every_poll(&lab, recipe, form, &session, 1).await;
            assert!(dropped >= 1, "{recipe:?} {form:?} was never dropped in flight");
            held.release().await.unwrap();
            let held = soon("the next contender", recipe.barrier(&next, recipe.path()).acquire()).await.unwrap();
            held.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_release_may_be_dropped_at_any_poll() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let next = lab.session().await;
        for polls in 1.. {
            let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
            let outcome = drop_after(polls, held.release()).await;
            let next_held = soon("the next holder", recipe.barrier(&next, recipe.path()).acquire()).await.unwrap();
            until_idle(&session).await;
            next_held.release().await.expect("the hold of the next holder was left alone");
            if outcome != DropOutcome::Dropped {
                assert!(polls > 1, "{recipe:?}: the release was never dropped in flight");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_downgrade_may_be_dropped_at_any_poll() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = RwLock::new(&session, "/locks/rw").unwrap();
    let owner = Owner::new();
    let queued = RwLock::new(&other, "/locks/rw").unwrap().read_lock();
    for polls in 1.. {
        let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
        let reading = drop_after(polls, lock.read_lock().acquire_as(&owner)).await;
        lab.until_children("/locks/rw", 1).await;
        assert!(queued.try_acquire().await.unwrap().is_none(), "the write hold goes on");
        writing.release().await.unwrap();
        soon("the next reader", queued.acquire()).await.unwrap().release().await.unwrap();
        if reading != DropOutcome::Dropped {
            assert!(polls > 2, "the downgrade was never dropped in flight");
            break;
        }
    }
}
