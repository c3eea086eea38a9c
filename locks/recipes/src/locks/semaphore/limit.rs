//! The number of permits of a semaphore.

use crate::error::Error;
use crate::locks::shared_count::{SharedCount, VersionedCount};
use crate::session::Session;
use crate::session::wire::Watch;

/// The number of permits.
#[derive(Debug)]
pub(super) enum PermitLimit {
    Fixed(u32),
    Counted(SharedCount),
}

/// The number of permits as it was when it was read. If it is a count, the server that told it may lag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Fixed(u32),
    Counted(VersionedCount),
}

impl Number {
    pub(super) fn permits(self) -> usize {
        match self {
            Self::Fixed(permits) => permits as usize,
            // A count below zero stands for no permits.
            Self::Counted(count) => usize::try_from(count.value).unwrap_or(0),
        }
    }
}

impl PermitLimit {
    /// Reads the number. `ours`: the session of the semaphore.
    pub(super) async fn now(&self, ours: &Session) -> Result<Number, Error> {
        match self {
            Self::Fixed(permits) => Ok(Number::Fixed(*permits)),
            Self::Counted(count) => count.get().await.map(Number::Counted).map_err(told_of(count, ours)),
        }
    }

    /// As [`now`](Self::now), with a watch on the number, if it can change.
    pub(super) async fn watch(&self, ours: &Session) -> Result<(Number, Option<Watch>), Error> {
        match self {
            Self::Fixed(permits) => Ok((Number::Fixed(*permits), None)),
            Self::Counted(count) => {
                let (seen, watch) = count.watch().await.map_err(told_of(count, ours))?;
                Ok((Number::Counted(seen), Some(watch)))
            }
        }
    }

    /// Tells whether nobody has changed the number since it was `seen`. A grant is decided by this answer, which a quorum has
    /// committed. Reads are not enough: a count that was read may have been lowered long ago, or before the leases were listed.
    pub(super) async fn is_still(&self, seen: Number, ours: &Session) -> Result<bool, Error> {
        match (self, seen) {
            (Self::Counted(count), Number::Counted(seen)) => count.is_current(seen).await.map_err(told_of(count, ours)),
            _ => Ok(true),
        }
    }

    /// Waits until the semaphore has at least `wanted` permits, held or free. Before that, our leases would only block other
    /// contenders. For one permit, the question is not worth a request.
    pub(super) async fn reach(&self, wanted: usize, ours: &Session) -> Result<(), Error> {
        if wanted == 1 || self.now(ours).await?.permits() >= wanted {
            return Ok(());
        }
        loop {
            match self.watch(ours).await? {
                (seen, Some(watch)) if seen.permits() < wanted => {
                    watch.fired().await;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the upper bound of the number.
    pub(super) fn at_most(&self) -> u32 {
        match self {
            Self::Fixed(permits) => *permits,
            Self::Counted(_) => i32::MAX.unsigned_abs(),
        }
    }
}

/// Returns a function that converts errors. If the count has its own session and that session has ended, the error names the
/// count.
fn told_of<'a>(count: &'a SharedCount, ours: &'a Session) -> impl FnOnce(Error) -> Error + 'a {
    move |error| match error {
        Error::SessionEnded { reason } if count.session().id() != ours.id() => {
            Error::CountSessionEnded { path: count.path().to_owned(), reason }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_zero_stands_for_no_permit() {
        for (count, expected) in [(i32::MIN, 0), (-1, 0), (0, 0), (1, 1), (i32::MAX, 2_147_483_647)] {
            let seen = VersionedCount { value: count, version: 0 };
            assert_eq!(Number::Counted(seen).permits(), expected, "{count}");
        }
    }
}
