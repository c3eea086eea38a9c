//! The storm: the time in which faults begin and end.

use std::error::Error;
use std::future::Future;
use std::time::{Duration, SystemTime};

use program::chain;
use tokio::time::{Instant, sleep_until};

use crate::forecast::ComingFault;

/// What faults strike.
pub trait Stand {
    /// Why a fault could not be made, or not be ended.
    type Error: Error + 'static;

    /// Waits, before a fault is made, for what it is to meet.
    fn prepare(&mut self, _coming: &ComingFault) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Lets a fault begin, and returns when it is in force.
    ///
    /// # Errors
    ///
    /// Why it could not be made.
    fn begin(&mut self, coming: &ComingFault) -> impl Future<Output = Result<(), Self::Error>>;

    /// Ends a fault.
    ///
    /// # Errors
    ///
    /// Why it could not be ended.
    fn end(&mut self, coming: &ComingFault) -> impl Future<Output = Result<(), Self::Error>>;
}

/// A fault that has struck.
#[derive(Debug, Clone)]
pub struct Struck {
    /// What was drawn.
    pub coming: ComingFault,
    /// When it was about to be made.
    pub sent_at: SystemTime,
    /// When it was in force.
    pub begun_at: SystemTime,
    /// When it was over. It equals the begin if the fault has no end of its own.
    pub ended_at: SystemTime,
    /// Why it could not be made, or not be ended as it should.
    pub failed: Option<String>,
}

/// A moment at which a fault begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    at: Duration,
    /// The index of the fault in the forecast.
    fault: usize,
    is_end: bool,
}

/// Why a fault did not strike that came after the end of the load.
pub const NEVER_BEGAN: &str = "the load was over before it began";

/// Lets faults strike, one moment after the other, until `is_over`. Those that are under way end then, and the rest never begin.
/// The time of [`Stand::prepare`] moves all later moments.
pub async fn storm<S: Stand>(stand: &mut S, coming: &[ComingFault], is_over: impl Future<Output = ()>) -> Vec<Struck> {
    let mut start = Instant::now();
    let mut is_over = std::pin::pin!(is_over);
    let mut struck: Vec<Option<Struck>> = coming.iter().map(|_| None).collect();
    let mut has_ended = false;
    for moment in moments(coming) {
        if !has_ended {
            tokio::select! {
                () = sleep_until(start + moment.at) => {}
                () = &mut is_over => has_ended = true,
            }
        }
        let fault = &coming[moment.fault];
        if !moment.is_end {
            if !has_ended {
                let begun = Instant::now();
                stand.prepare(fault).await;
                // A fault that waits for what it is to meet shall last no shorter.
                start += begun.elapsed();
            }
            let sent_at = SystemTime::now();
            let begun = if has_ended {
                Err(NEVER_BEGAN.to_owned())
            } else {
                stand.begin(fault).await.map_err(|error| chain(&error))
            };
            let begun_at = SystemTime::now();
            let failed = begun.err();
            struck[moment.fault] = Some(Struck { coming: *fault, sent_at, begun_at, ended_at: begun_at, failed });
        } else if let Some(struck) = struck[moment.fault].as_mut().filter(|struck| struck.failed.is_none()) {
            struck.failed = stand.end(fault).await.err().map(|error| chain(&error));
            struck.ended_at = SystemTime::now();
        }
    }
    struck.into_iter().flatten().collect()
}

/// Returns the moments of a forecast in their order. A fault that is over at once has no end.
fn moments(coming: &[ComingFault]) -> Vec<Moment> {
    let of = |(fault, coming): (usize, &ComingFault)| {
        let end = Moment { at: coming.ends, fault, is_end: true };
        [Some(Moment { at: coming.begins, fault, is_end: false }), (!coming.fault.harm.is_instant()).then_some(end)]
    };
    let mut moments: Vec<Moment> = coming.iter().enumerate().flat_map(of).flatten().collect();
    moments.sort_unstable();
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Harm, Site};

    /// What a fault is to meet comes late.
    #[derive(Default)]
    struct Late {
        begun: Option<Instant>,
        lasted: Duration,
    }

    impl Stand for Late {
        type Error = std::io::Error;

        async fn prepare(&mut self, _coming: &ComingFault) {
            sleep_until(Instant::now() + Duration::from_secs(5)).await;
        }

        async fn begin(&mut self, _coming: &ComingFault) -> Result<(), Self::Error> {
            self.begun = Some(Instant::now());
            Ok(())
        }

        async fn end(&mut self, _coming: &ComingFault) -> Result<(), Self::Error> {
            self.lasted = self.begun.map(|begun| begun.elapsed()).unwrap_or_default();
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_that_waits_for_its_target_lasts_no_shorter() {
        let lasts = Duration::from_secs(7);
        let coming = ComingFault {
            fault: Fault { site: Site::Contender, harm: Harm::Frozen },
            begins: Duration::from_secs(1),
            ends: Duration::from_secs(1) + lasts,
            process: 0,
            server: None,
            strength: 0.5,
            is_alone: true,
        };
        let mut stand = Late::default();
        storm(&mut stand, &[coming], std::future::pending()).await;
        // The clock of a runtime has ticks of a millisecond.
        assert_eq!(stand.lasted.as_secs(), lasts.as_secs(), "{:?}", stand.lasted);
    }
}
