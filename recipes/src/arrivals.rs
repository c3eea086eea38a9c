//! How contenders of one session join a long queue: a few at a time.
//!
//! Each joins by a write that the server makes durable, and so do those who release. While one write is on its way to the
//! disk the next one waits, so that a queue that is joined by one contender after the other advances at half its rate. The
//! server makes durable together what arrives together. Whoever will wait long anyway therefore waits a little for others
//! to join with. Their places are then next to each other, and who hands over to the one of its own session directly
//! behind can do so without the server.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// One joins with so many others of its session as this part of those of it who wait in the queue already.
const GROUP_SHARE: usize = 16;

/// For how long one waits for others at most.
const HELD_BACK_MAX: Duration = Duration::from_millis(10);

/// The contenders of a session that want to join the queue at a path.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    state: Mutex<State>,
    joining: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many are in the queue and have not been granted.
    waiting: usize,
    /// How many are held back, to join together.
    held_back: usize,
    /// How many groups have joined.
    groups: u64,
}

/// A contender that is in the queue and has not been granted.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Arrivals);

/// A contender that is held back.
struct HeldBack<'a> {
    arrivals: &'a Arrivals,
    group: u64,
}

impl Arrivals {
    /// Returns when the contender is to join the queue: at once, unless many of its session wait already.
    pub(crate) async fn turn(&self) {
        let Some(held_back) = self.arrive() else { return };
        // Who has waited long enough lets all of the group go.
        if tokio::time::timeout(HELD_BACK_MAX, held_back.group_joins()).await.is_err() {
            self.join(held_back.group);
        }
    }

    /// Notes that a contender is in the queue, until what is returned is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.state.lock().waiting += 1;
        Waiting(self)
    }

    /// `None` if the group is complete with this one.
    fn arrive(&self) -> Option<HeldBack<'_>> {
        let group = {
            let mut state = self.state.lock();
            state.held_back += 1;
            if state.held_back < state.waiting / GROUP_SHARE {
                return Some(HeldBack { arrivals: self, group: state.groups });
            }
            state.groups
        };
        self.join(group);
        None
    }

    /// Lets the group join, unless it has.
    fn join(&self, group: u64) {
        let mut state = self.state.lock();
        if state.groups == group {
            (state.held_back, state.groups) = (0, group + 1);
            self.joining.notify_waiters();
        }
    }
}

impl HeldBack<'_> {
    async fn group_joins(&self) {
        loop {
            let joining = self.arrivals.joining.notified();
            if self.arrivals.state.lock().groups != self.group {
                return;
            }
            joining.await;
        }
    }
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        let mut state = self.arrivals.state.lock();
        if state.groups == self.group {
            state.held_back -= 1;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_held_back_while_few_wait() {
        let arrivals = Arrivals::default();
        let _waiting: Vec<_> = (0..2 * GROUP_SHARE - 1).map(|_| arrivals.wait()).collect();
        for _ in 0..3 {
            assert_eq!(poll(pin!(arrivals.turn())), Poll::Ready(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_joins_when_it_is_complete() {
        let arrivals = Arrivals::default();
        let _waiting: Vec<_> = (0..3 * GROUP_SHARE).map(|_| arrivals.wait()).collect();
        let (mut one, mut two) = (pin!(arrivals.turn()), pin!(arrivals.turn()));
        assert_eq!(poll(one.as_mut()), Poll::Pending);
        assert_eq!(poll(two.as_mut()), Poll::Pending);
        assert_eq!(poll(pin!(arrivals.turn())), Poll::Ready(()));
        assert_eq!((poll(one), poll(two)), (Poll::Ready(()), Poll::Ready(())));
        assert_eq!(poll(pin!(arrivals.turn())), Poll::Pending, "this one is of the next group");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_for_others_joins_in_time() {
        let arrivals = Arrivals::default();
        let _waiting: Vec<_> = (0..100 * GROUP_SHARE).map(|_| arrivals.wait()).collect();
        let begun = tokio::time::Instant::now();
        let mut early = pin!(arrivals.turn());
        assert_eq!(poll(early.as_mut()), Poll::Pending);
        tokio::time::advance(HELD_BACK_MAX / 2).await;
        tokio::join!(early, arrivals.turn());
        assert_eq!(begun.elapsed(), HELD_BACK_MAX, "they go together");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_is_not_counted() {
        let arrivals = Arrivals::default();
        let waiting: Vec<_> = (0..2 * GROUP_SHARE).map(|_| arrivals.wait()).collect();
        {
            let mut given_up = pin!(arrivals.turn());
            assert_eq!(poll(given_up.as_mut()), Poll::Pending);
        }
        let mut alone = pin!(arrivals.turn());
        assert_eq!(poll(alone.as_mut()), Poll::Pending);
        drop(waiting);
        assert_eq!(poll(pin!(arrivals.turn())), Poll::Ready(()), "nobody waits any more");
        assert_eq!(poll(alone), Poll::Ready(()), "it goes with the next one");
    }
}
