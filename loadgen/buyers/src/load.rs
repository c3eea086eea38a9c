//! The load of one trial: what the buyers do and when, and its results.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use reqwest::{Client, Url};

use crate::Error;
use crate::buyer::{Buyer, End};
use crate::health::{Dropped, Processors};
use crate::lab::{self, LabPurchase};
use crate::model::LoadModel;
use crate::scenario::ScenarioPurchase;
use crate::script::{Customer, Transport};
use crate::shop::ShopPurchase;
use crate::tally::Tally;

/// What the buyers do, and when.
#[derive(Debug)]
pub struct Load {
    /// What each buyer does.
    pub purchase: Purchase,
    /// How many users there are, each with at most one request under way. A buyer that sends several requests at once is several users.
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
    /// Buys from any shop by the scenario of a goose user. Its load is a burst or a ramp.
    Scenario(ScenarioPurchase),
}

impl Purchase {
    /// Returns URLs that the users ask before the release, to have their connections open.
    pub(crate) fn probes(&self) -> &[Url] {
        match self {
            Purchase::Lab(lab) => &lab.probes,
            Purchase::Shop(shop) => &shop.probes,
            Purchase::Scenario(scenario) => &scenario.urls,
        }
    }

    /// Takes the customer with this number, if the shop has customers.
    pub(crate) fn customer(&self, number: usize) -> Option<Customer> {
        match self {
            Purchase::Lab(_) | Purchase::Scenario(_) => None,
            Purchase::Shop(shop) => shop.take(number),
        }
    }

    /// Buys once, and adds the purchase to the tally. Returns how it ended, or `None` when the load was called off. A shop that
    /// a file describes needs its customer. A scenario buys in its own transactions, and never here.
    pub(crate) async fn buy(
        &self,
        tally: &Mutex<Tally>,
        buyer: Buyer,
        customer: Option<&mut Customer>,
        transport: &mut impl Transport,
    ) -> Option<End> {
        let begun = buyer.begin(tally);
        let (of, bought) = match self {
            Purchase::Lab(lab) => {
                let of = lab.buyer_of(buyer.number, buyer.of);
                (of, lab.buy(buyer.number, of, transport).await?)
            }
            Purchase::Shop(shop) => {
                let customer = customer?;
                (customer.number(), shop.buy(customer, transport).await?)
            }
            Purchase::Scenario(_) => return None,
        };
        Some(begun.end(tally, of, bought))
    }
}

impl Load {
    /// Returns the tally of this load before it begins.
    pub(crate) fn tally(&self) -> Tally {
        let goods = match &self.purchase {
            Purchase::Lab(lab) => lab.urls.len(),
            Purchase::Shop(_) | Purchase::Scenario(_) => 1,
        };
        Tally::of(goods, self.users, self.model.starts_together(), self.log_max)
    }

    /// Returns the clients that the users take in turns. All users share a single client, but users of a scenario have one each.
    pub(crate) fn clients(&self) -> Result<Vec<Client>, Error> {
        Ok(match &self.purchase {
            Purchase::Lab(_) => vec![lab::client(self.answer_within)?],
            Purchase::Shop(shop) => vec![shop.client.clone()],
            Purchase::Scenario(scenario) => scenario.clients.clone(),
        })
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
