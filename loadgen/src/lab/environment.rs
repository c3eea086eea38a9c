//! The machine and the servers of a comparison.

use std::net::IpAddr;
use std::thread;

use nix::sys::utsname::uname;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::error::Error;
use crate::lab::build::{Build, builds};
use crate::lab::deployment::Deployment;
use crate::lab::postgres::Setting;
use crate::lab::source::Source;
use crate::lab::stack::Stack;
use crate::lab::zookeeper::ZooKeeperServer;

/// The machine and the servers of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Environment {
    /// Version of this program.
    pub(crate) loadgen_version: String,
    /// The code that was measured: the different builds of the instances. Empty if they do not tell. If two builds are
    /// compared, it has those of the instances of both.
    pub(crate) service: Vec<Build>,
    /// Operating system.
    pub(crate) os: String,
    /// Processor architecture.
    pub(crate) arch: String,
    /// Release of the kernel.
    pub(crate) kernel: Option<String>,
    /// Name of the processor.
    pub(crate) cpu_model: Option<String>,
    /// Cores that the generator may use.
    pub(crate) cpu_count: usize,
    /// Memory of the machine in bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Version of Postgres. Absent for shops that files describe.
    pub(crate) postgres_version: Option<String>,
    /// Settings of Postgres that matter for a load of small transactions, by name.
    pub(crate) postgres_settings: Vec<Setting>,
    /// Version of ZooKeeper.
    pub(crate) zookeeper_version: Option<String>,
    /// Every ZooKeeper server, with its role in the ensemble.
    pub(crate) zookeeper_servers: Vec<ZooKeeperServer>,
    /// Version of Redis. Absent if no strategy of the comparison needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redis_version: Option<String>,
    /// Whether all servers were started for this comparison alone.
    pub(crate) servers_throwaway: bool,
    /// Whether an instance ran on the generator's machine; absent for a target without a loopback address.
    pub(crate) generator_shares_host: Option<bool>,
}

impl Environment {
    /// Names the code that was measured.
    pub(crate) fn code(&self) -> String {
        let named =
            |build: &Build| build.name.as_ref().map_or_else(|| build.to_string(), |name| format!("{name}: {build}"));
        in_words(self.service.iter().map(named))
    }

    /// Names the code of one of two builds.
    pub(crate) fn code_of(&self, name: &str) -> String {
        in_words(self.service.iter().filter(|build| build.name.as_deref() == Some(name)).map(Build::to_string))
    }
}

fn in_words(builds: impl Iterator<Item = String>) -> String {
    let builds: Vec<String> = builds.collect();
    if builds.is_empty() { "unknown".to_owned() } else { builds.join("; ") }
}

/// Asks the machine and the servers.
pub(crate) async fn environment(source: &Source, stack: &Stack) -> Result<Environment, Error> {
    let mut service = Vec::new();
    for deployment in &stack.deployments {
        service.extend(builds(&deployment.service, deployment.build.as_deref()).await?);
    }
    let Deployment { database, zookeeper, .. } = stack.first();
    Ok(Environment {
        service,
        postgres_version: Some(database.version().await?),
        postgres_settings: database.settings().await?,
        zookeeper_version: zookeeper.version().await,
        zookeeper_servers: zookeeper.modes().await,
        redis_version: stack.redis_version().await,
        servers_throwaway: stack.is_throwaway(),
        generator_shares_host: shares_host(source),
        ..Environment::of_machine()
    })
}

impl Environment {
    /// Asks the machine alone.
    fn of_machine() -> Environment {
        let machine = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        );
        let machine = machine.as_ref().ok();
        let cpu_model = machine.and_then(|machine| Some(machine.cpus().first()?.brand().trim().to_owned()));
        Environment {
            loadgen_version: env!("CARGO_PKG_VERSION").to_owned(),
            service: Vec::new(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            kernel: uname().ok().map(|system| system.release().to_string_lossy().into_owned()),
            cpu_model: cpu_model.filter(|name| !name.is_empty()),
            cpu_count: cores(),
            memory_bytes: machine.map(System::total_memory).filter(|bytes| *bytes > 0),
            postgres_version: None,
            postgres_settings: Vec::new(),
            zookeeper_version: None,
            zookeeper_servers: Vec::new(),
            redis_version: None,
            servers_throwaway: false,
            generator_shares_host: None,
        }
    }

    /// Asks the machine that checks shops at these addresses.
    pub(crate) fn of_shops(urls: &[String]) -> Environment {
        let generator_shares_host = urls.iter().any(|url| is_loopback(url)).then_some(true);
        Environment { generator_shares_host, ..Environment::of_machine() }
    }
}

/// Tells whether an instance runs on this machine. Only a loopback address tells: any other one may be anywhere.
fn shares_host(source: &Source) -> Option<bool> {
    match source {
        Source::Start(_) => Some(true),
        Source::Target(target) => target.urls.iter().any(|url| is_loopback(url)).then_some(true),
    }
}

fn is_loopback(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| {
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    })
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::source::TargetSettings;

    #[test]
    fn only_a_loopback_address_tells_where_a_target_runs() {
        let shares = |url: &str| {
            shares_host(&Source::Target(TargetSettings {
                urls: vec![url.to_owned()],
                database_url: String::new(),
                zookeeper: String::new(),
                zookeeper_user: None,
                admin_token: String::new(),
            }))
        };
        for url in ["http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"] {
            assert_eq!(shares(url), Some(true), "{url}");
        }
        for url in ["http://app:8080", "http://127.example.com", "http://10.0.0.1:1"] {
            assert_eq!(shares(url), None, "{url}");
        }
    }
}
