//! Which service is loaded: one that is started, or one that runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{parse_hold, parse_url};
use crate::config::settings::{ServiceSettings, TargetSettings};
use crate::error::Error;

/// An instance works on at least so many purchases at once, as one does that is started by hand.
pub(crate) const BUYERS_MAX_MIN: u32 = 2048;
/// An instance keeps the record of so many critical sections: those of a long loop, in some 100 MiB at most.
const HISTORY: u32 = 1_000_000;

/// How the service is started.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServiceArgs {
    /// Instances of the service [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) instances: Option<u16>,
    /// ZooKeeper sessions of each instance [default: one a user; up: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) zk_sessions: Option<u32>,
    /// Business time inside the critical section, fixed or uniform: 2ms, 1ms..5ms [default: 2ms]
    #[arg(long, value_name = "TIME", value_parser = parse_hold)]
    pub(crate) hold: Option<String>,
    /// The program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) demo_service: Option<PathBuf>,
}

/// A service that is running already.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// Base URLs of running instances, instead of starting any; needs ADMIN_TOKEN in the environment
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        value_parser = parse_url,
        conflicts_with_all = ["instances", "zk_sessions", "hold", "demo_service"]
    )]
    target: Option<Vec<String>>,
    /// The database of the target [default: DATABASE_URL]
    #[arg(long, value_name = "URL", requires = "target")]
    database_url: Option<String>,
    /// The ZooKeeper connect string of the target [default: ZOOKEEPER_CONNECT]
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    zookeeper: Option<String>,
}

impl ServiceArgs {
    /// Settings for so many users at once.
    pub(crate) fn resolve(self, users: u32, lock_wait: Duration, port: Option<u16>) -> Result<ServiceSettings, Error> {
        let instances = self.instances.unwrap_or(3);
        if let Some(port) = port
            && port.checked_add(instances - 1).is_none()
        {
            return Err(Error::Usage(format!("--port {port} leaves no room for {instances} instances below 65536")));
        }
        Ok(ServiceSettings {
            instances,
            zk_sessions: self.zk_sessions.unwrap_or_else(|| users.div_ceil(u32::from(instances))),
            hold: self.hold.unwrap_or_else(|| "2ms".to_owned()),
            lock_wait,
            buyers_max: users.max(BUYERS_MAX_MIN),
            history: HISTORY,
            args: Vec::new(),
            demo_service: self.demo_service,
            port,
        })
    }
}

impl TargetArgs {
    /// The running service, if one was named; `variable` reads the environment.
    pub(crate) fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Option<TargetSettings>, Error> {
        let Some(urls) = self.target else { return Ok(None) };
        let needed = |value: Option<String>, flag: &str, name: &str| {
            let missing = || Error::Usage(format!("--target needs {flag}{name} in the environment"));
            value.or_else(|| variable(name)).filter(|value| !value.is_empty()).ok_or_else(missing)
        };
        Ok(Some(TargetSettings {
            urls,
            database_url: needed(self.database_url, "--database-url, or ", "DATABASE_URL")?,
            zookeeper: needed(self.zookeeper, "--zookeeper, or ", "ZOOKEEPER_CONNECT")?,
            admin_token: needed(None, "", "ADMIN_TOKEN")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_takes_what_is_missing_from_the_environment() {
        let args = TargetArgs {
            target: Some(vec!["http://127.0.0.1:1".to_owned()]),
            database_url: None,
            zookeeper: Some("z:1".to_owned()),
        };
        let target = args.clone().resolve(|name| Some(format!("<{name}>"))).unwrap().unwrap();
        assert_eq!(target.database_url, "<DATABASE_URL>");
        assert_eq!((target.zookeeper.as_str(), target.admin_token.as_str()), ("z:1", "<ADMIN_TOKEN>"));
        let error = args.resolve(|_| None).unwrap_err().to_string();
        assert_eq!(error, "--target needs --database-url, or DATABASE_URL in the environment");
    }

    #[test]
    fn sessions_are_rounded_up_to_one_a_user() {
        let settings = ServiceArgs::default().resolve(31, Duration::from_secs(1), None).unwrap();
        assert_eq!((settings.instances, settings.zk_sessions), (3, 11));
    }

    #[test]
    fn ports_that_do_not_fit_are_refused() {
        let refused = ServiceArgs::default().resolve(1, Duration::from_secs(1), Some(65534)).unwrap_err();
        assert!(refused.to_string().contains("no room for 3 instances"));
    }
}
