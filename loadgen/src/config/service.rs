//! How the service is started.

use std::convert::Infallible;
use std::time::Duration;

use clap::Args;
use confique::{Config, Layer as _};
use program::renamed;

use super::values::{Instances, Sessions, business_time, parse_business_time};
use crate::error::Error;
use crate::lab::service_program::SESSION_TIMEOUT;
use crate::lab::source::{Program, ServiceSettings};

/// An instance works on at least this many purchases at once: the limit of one that is started by hand.
pub(crate) const BUYERS_MAX_MIN: u32 = 2048;
/// Flags that only a service that is started can follow.
pub(crate) const FLAGS: [&str; 3] = ["instances", "zk_sessions", "business_time"];

/// What the table `[service]` of a plan may set.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, Clone, Args)))]
#[config(layer_attr(serde(deny_unknown_fields, rename_all = "kebab-case")))]
pub(crate) struct ServicePlan {
    /// Number of instances of the service [default: 3]
    #[config(default = 3, layer_attr(arg(long, value_name = "N")))]
    pub(crate) instances: Instances,
    /// ZooKeeper sessions of each instance [default: one per user; up: 32]
    #[config(layer_attr(arg(long, value_name = "N")))]
    pub(crate) zk_sessions: Option<Sessions>,
    /// Business time in the critical section: fixed (2ms) or uniform (1ms..5ms) [default: 2ms]
    #[config(default = "2ms", deserialize_with = business_time)]
    #[config(layer_attr(arg(long, value_name = "TIME", value_parser = parse_business_time)))]
    pub(crate) business_time: String,
    /// The former name of `--business-time`.
    #[config(layer_attr(arg(long, hide = true, value_parser = renamed("--business-time"))))]
    #[config(layer_attr(serde(skip)))]
    #[expect(dead_code, reason = "no value is accepted")]
    hold: Option<Infallible>,
    /// Further arguments of `demo-service`.
    #[config(default = [], layer_attr(arg(skip)))]
    pub(crate) args: Vec<String>,
}

/// The flags of a command without a plan.
pub(crate) type ServiceFlags = <ServicePlan as Config>::Layer;

impl ServicePlan {
    /// Fills in the defaults.
    pub(crate) fn of(flags: ServiceFlags) -> Result<ServicePlan, Error> {
        let settings = flags.with_fallback(ServiceFlags::default_values());
        ServicePlan::from_layer(settings).map_err(|error| Error::Usage(error.to_string()))
    }

    /// Returns the settings of a service for this many users at once, on any free ports.
    pub(crate) fn start(self, users: u32, lock_wait: Duration) -> ServiceSettings {
        let instances = self.instances.get();
        ServiceSettings {
            instances,
            zk_sessions: self.zk_sessions.map_or_else(|| users.div_ceil(u32::from(instances)), Sessions::get),
            business_time: self.business_time,
            lock_wait,
            session_timeout: SESSION_TIMEOUT,
            buyers_max: users.max(BUYERS_MAX_MIN),
            args: self.args,
            programs: vec![Program::default()],
            port: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn sessions_are_rounded_up_to_one_per_user() {
        let service = ServicePlan::of(ServiceFlags::empty()).unwrap().start(31, Duration::from_secs(1));
        assert_eq!((service.instances, service.zk_sessions), (3, 11));
    }

    #[test]
    fn the_former_flag_names_the_new_one() {
        let command = ServiceFlags::augment_args(Command::new("up"));
        let refused = command.try_get_matches_from(["up", "--hold", "2ms"]).unwrap_err().to_string();
        assert!(refused.contains("use --business-time"), "{refused}");
    }
}
