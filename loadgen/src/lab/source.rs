//! The source of the service: how to start it, or its address.

use std::path::PathBuf;
use std::time::Duration;

/// The source of the service.
#[derive(Debug, Clone)]
pub(crate) enum Source<T = TargetSettings> {
    Start(ServiceSettings),
    Target(T),
}

impl Source {
    /// Returns the number of instances.
    pub(crate) fn instances(&self) -> usize {
        match self {
            Source::Start(service) => usize::from(service.instances),
            Source::Target(target) => target.urls.len(),
        }
    }
}

/// How to start the service.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSettings {
    pub(crate) instances: u16,
    pub(crate) zk_sessions: u32,
    pub(crate) business_time: String,
    pub(crate) lock_wait: Duration,
    /// Timeout of a ZooKeeper session.
    pub(crate) session_timeout: Duration,
    /// Purchases that an instance works on at once. It refuses further ones.
    pub(crate) buyers_max: u32,
    /// Further arguments.
    pub(crate) args: Vec<String>,
    /// The program of each build: one, or two that are compared.
    pub(crate) programs: Vec<Program>,
    /// Port of the first instance. `None`: any free ports.
    pub(crate) port: Option<u16>,
}

/// A program of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// Name of the build, if two are compared.
    pub(crate) name: Option<String>,
    /// `None`: `demo-service` beside this program.
    pub(crate) path: Option<PathBuf>,
}

impl Program {
    /// Names the program.
    pub(crate) fn described(&self) -> String {
        self.name.as_ref().map_or_else(|| "demo-service".to_owned(), |name| format!("the build {name}"))
    }
}

/// A service that is running.
#[derive(Debug, Clone)]
pub(crate) struct TargetSettings {
    pub(crate) urls: Vec<String>,
    pub(crate) database_url: String,
    pub(crate) zookeeper: String,
    /// `user:password` of the service in ZooKeeper, if only that user may use its nodes.
    pub(crate) zookeeper_user: Option<String>,
    pub(crate) admin_token: String,
}
