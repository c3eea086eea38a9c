//! Places for client connections. A main place serves any request. A place aside serves only probes. Without places
//! aside, a crowd of clients that keep idle connections would shut probes out.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections beyond `--connections-max` that serve probes only.
pub(super) const ASIDE: usize = 32;

/// The kind of place that a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Any request is served.
    Main,
    /// Only probes are served.
    Aside,
}

/// The places of one listener.
#[derive(Debug, Clone)]
pub(super) struct Places {
    main: Arc<Semaphore>,
    aside: Arc<Semaphore>,
}

impl Places {
    /// Makes `connections_max` places for everybody, and [`ASIDE`] for probes.
    pub(super) fn new(connections_max: u32) -> Self {
        Self { main: Arc::new(Semaphore::new(connections_max as usize)), aside: Arc::new(Semaphore::new(ASIDE)) }
    }

    /// Waits for a place. The place is taken until the permit is dropped.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub(super) async fn take(&self) -> (Place, OwnedSemaphorePermit) {
        if let Ok(permit) = Arc::clone(&self.main).try_acquire_owned() {
            return (Place::Main, permit);
        }
        let (main, aside) = (Arc::clone(&self.main), Arc::clone(&self.aside));
        let (place, permit) = tokio::select! {
            biased;
            permit = main.acquire_owned() => (Place::Main, permit),
            permit = aside.acquire_owned() => (Place::Aside, permit),
        };
        (place, permit.expect("BUG: nobody closes the places"))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_places_aside_are_taken_last_and_given_back() {
        let places = Places::new(2);
        let main: Vec<_> = (0..2).map(|_| places.take().now_or_never().unwrap()).collect();
        assert!(main.iter().all(|(place, _)| *place == Place::Main));
        let aside: Vec<_> = (0..ASIDE).map(|_| places.take().now_or_never().unwrap()).collect();
        assert!(aside.iter().all(|(place, _)| *place == Place::Aside));
        assert!(places.take().now_or_never().is_none());
        drop(main);
        assert_eq!(places.take().now_or_never().unwrap().0, Place::Main);
    }
}
