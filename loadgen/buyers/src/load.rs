//! The load of one trial: what the buyers do and when, and its results.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use reqwest::{Client, Url};

use crate::Error;
use crate::health::{Dropped, Processors};
use crate::lab::{self, LabPurchase};
use crate::model::LoadModel;
use crate::script::Customer;
use crate::shop::ShopPurchase;
use crate::tally::Tally;

/// What the buyers do, and when.
#[derive(Debug)]
pub struct Load {
    /// What each buyer does.
    pub purchase: Purchase,
    /// How many users there are.
    pub users: usize,
    /// When they buy.
    pub model: LoadModel,
    /// Draws the arrivals of an open model.
    pub seed: u64,
    /// Upper bound of the time of a purchase. A buyer of the lab waits as long for the answer.
    pub answer_within: Duration,
    /// How long all users together may take to be ready.
    pub arrive_within: Duration,
    /// Where goose writes its own report of a closed model, in the format of the file's extension. Without one, goose counts
    /// nothing.
    pub goose_report: Option<PathBuf>,
    /// Upper bound of the requests that are kept one by one for the log. If there are more, none is kept.
    pub log_max: usize,
}

/// What each buyer does.
#[derive(Debug)]
pub enum Purchase {
    /// Buys from the service of the lab.
    Lab(LabPurchase),
    /// Buys from any shop, as a file describes it.
    Shop(ShopPurchase),
}

impl Purchase {
    /// Returns URLs that the users ask before the release, to have their connections open.
    pub(crate) fn probes(&self) -> &[Url] {
        match self {
            Purchase::Lab(lab) => &lab.probes,
            Purchase::Shop(shop) => &shop.probes,
        }
    }

    /// Takes the customer with this number, if the shop has customers.
    pub(crate) fn customer(&self, number: usize) -> Option<Customer> {
        match self {
            Purchase::Lab(_) => None,
            Purchase::Shop(shop) => shop.take(number),
        }
    }
}

impl Load {
    /// Returns the tally of this load before it begins.
    pub(crate) fn tally(&self) -> Tally {
        let goods = match &self.purchase {
            Purchase::Lab(lab) => lab.urls.len(),
            Purchase::Shop(_) => 1,
        };
        Tally::of(goods, self.users, self.model.starts_together(), self.log_max)
    }

    /// Returns the client that all users share.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        match &self.purchase {
            Purchase::Lab(_) => lab::client(self.answer_within),
            Purchase::Shop(shop) => Ok(shop.client.clone()),
        }
    }
}

/// The results of a load.
#[derive(Debug)]
pub struct LoadResult {
    /// What the requests add up to.
    pub tally: Tally,
    /// Whether the requests were to arrive at a rate.
    pub is_open: bool,
    /// Arrivals that were not started, as no user was free.
    pub dropped: Dropped,
    /// The wall clock at the release of the buyers, from which the instants of the requests count.
    pub released_at: SystemTime,
    /// Processor time of this process from that release to the last answer. Absent if another engine made the load.
    pub cpu_time: Option<Duration>,
    /// What the system says of the processors meanwhile.
    pub processors: Processors,
}

/// Returns the processor time of this process, user and system. Zero if the system does not tell.
pub fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let time = |value: TimeVal| Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or_default());
    time(usage.user_time()) + time(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_time();
        // A kernel counts in ticks of up to ten milliseconds, so the work goes on until it shows.
        let grown = (0_u64..u64::MAX).any(|number| {
            std::hint::black_box(number);
            number % 100_000 == 0 && cpu_time() > before
        });
        assert!(grown);
    }
}
