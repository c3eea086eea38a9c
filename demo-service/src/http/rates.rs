//! Rates: how many purchases per second one client may ask for, and how many may be asked for under one idempotency
//! key.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{ConnectInfo, Request};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use metrics::Counter;

use super::routes::orders;
use crate::config::Config;
use crate::failure::{self, Failure};
use crate::sale::IdempotencyKey;
use crate::telemetry::RateLimited;

/// The fewest checks between two sweeps of a [`Rate`].
const SWEEP_AFTER_MIN: usize = 1024;

/// The rates of `--rate-per-client` and `--rate-per-key`.
pub(super) struct Rates {
    per_client: Option<Rate<IpAddr>>,
    per_key: Option<Rate<IdempotencyKey>>,
}

impl Rates {
    /// Returns the rates of a configuration, or `None` if it has none. Refusals are counted in `limited`.
    pub(super) fn of(config: &Config, limited: &RateLimited) -> Option<Self> {
        let per_client = config.rate_per_client.map(|rate| Rate::new(rate, limited.per_client.clone()));
        let per_key = config.rate_per_key.map(|rate| Rate::new(rate, limited.per_key.clone()));
        config.limits_rates().then_some(Self { per_client, per_key })
    }

    /// Refuses a purchase if its client or its key exceeds the rate. A purchase without a usable key counts for its
    /// client only.
    pub(super) fn check(&self, request: &Request) -> Result<(), Failure> {
        if let Some(rate) = &self.per_client {
            let address = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let ConnectInfo(address) = address.expect("BUG: a connection has the address of its client");
            rate.check(&client(address.ip()), "--rate-per-client", "client")?;
        }
        if let Some(rate) = &self.per_key
            && let Ok(key) = orders::key_of(request.headers())
        {
            rate.check(&key, "--rate-per-key", "idempotency key")?;
        }
        Ok(())
    }
}

/// Returns what counts as one client: an IPv4 address, or the /64 network of an IPv6 address. Usually one client has
/// all addresses of such a network.
pub(super) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A rate for each of many keys.
struct Rate<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    per_second: NonZeroU32,
    refusals: Counter,
    /// Checks until the next sweep. A sweep visits every key that is remembered. The next one comes after as many
    /// checks as keys are left, and after [`SWEEP_AFTER_MIN`] checks at least. So a sweep adds little to the cost of
    /// a check, and the number of keys at most doubles between two sweeps, or grows to twice that minimum.
    until_sweep: AtomicUsize,
}

impl<K: Hash + Eq + Clone> Rate<K> {
    fn new(per_second: NonZeroU32, refusals: Counter) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_second(per_second));
        Self { limiter, per_second, refusals, until_sweep: AtomicUsize::new(SWEEP_AFTER_MIN) }
    }

    /// Counts a purchase. Every rate is at least one per second, so a refused purchase may be repeated after one
    /// second.
    fn check(&self, key: &K, option: &str, what: &str) -> Result<(), Failure> {
        // Only one of several concurrent checks sees 1, and sweeps. Meanwhile, the others make the number wrap around.
        if self.until_sweep.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.limiter.retain_recent();
            self.until_sweep.store(self.limiter.len().max(SWEEP_AFTER_MIN), Ordering::Relaxed);
        }
        self.limiter.check_key(key).map_err(|_| {
            self.refusals.increment(1);
            let detail = format!(
                "one {what} may ask for {} purchases a second ({option}); nothing was written",
                self.per_second
            );
            Failure::new(&failure::RATE_LIMITED, detail)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S73
    #[test]
    fn a_network_of_ipv6_is_one_client_and_so_is_a_mapped_address() {
        let client = |text: &str| client(text.parse().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn keys_that_have_not_been_used_for_a_while_are_forgotten() {
        // At this rate a key counts for two microseconds.
        let rate = Rate::new(NonZeroU32::new(1_000_000).unwrap(), Counter::noop());
        for key in 0..100_000 {
            rate.check(&key, "--rate", "key").unwrap();
        }
        let remembered = rate.limiter.len();
        assert!(remembered < 10 * SWEEP_AFTER_MIN, "{remembered}");
    }
}
