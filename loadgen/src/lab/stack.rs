//! The servers and the service: either started for this run and stopped with it, or already running.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use program::raise_file_limit;

use crate::error::Error;
use crate::lab::deployment::Deployment;
use crate::lab::instances::READY_POLL;
use crate::lab::leaks::Leaks;
use crate::lab::postgres::CONNECTIONS;
use crate::lab::servers::{ExposedNeeds, OwnServers, RedisNeed, is_set};
use crate::lab::service_program::{self, DB_CONNECTIONS};
use crate::lab::source::{ServiceSettings, Source, TargetSettings};
use crate::lab::strike::Exposed;

/// How long after a missing answer the end of an instance may still be its cause.
const OBITUARY_WITHIN: Duration = Duration::from_secs(3);
/// Connections of an instance to Postgres that are not for buyers: for probes, and to ask whether a commit is over.
const DB_CONNECTIONS_ASIDE: u32 = 2;
/// Open files of this process that are not for users: streams, pipes to its children, queries to the servers.
const FILES_SPARE: u64 = 64;
/// Open files of ZooKeeper that are not for sessions: programs, logs, the other servers.
const ZOOKEEPER_FILES_SPARE: u64 = 256;

/// A service to be measured, or two builds of it, and the servers of both.
///
/// Dropping it stops what was started for it; [`Stack::stop`] does so without blocking the runtime.
pub(crate) struct Stack {
    // Dropped before the servers: the instances close their sessions while the servers still run.
    /// One for each build, in their order.
    pub(crate) deployments: Vec<Deployment>,
    servers: Option<OwnServers>,
}

impl Stack {
    /// Starts the servers, then the instances of every build.
    pub(crate) async fn start(settings: &ServiceSettings, redis: RedisNeed) -> Result<Stack, Error> {
        let builds = u32::try_from(settings.programs.len()).unwrap_or(u32::MAX);
        let of_each = u32::from(settings.instances) * (DB_CONNECTIONS + DB_CONNECTIONS_ASIDE) + CONNECTIONS;
        let servers = OwnServers::start(builds * of_each, redis).await?;
        let mut deployments = Vec::with_capacity(settings.programs.len());
        for program in settings.programs.iter().enumerate() {
            deployments.push(Deployment::start(settings, program, (&servers, false)).await?);
        }
        Ok(Stack { deployments, servers: Some(servers) })
    }

    /// Starts servers and instances that faults may strike, with a proxy on each link between them.
    pub(crate) async fn start_exposed(settings: &ServiceSettings, needs: ExposedNeeds) -> Result<Stack, Error> {
        let connections = u32::from(settings.instances) * (DB_CONNECTIONS + DB_CONNECTIONS_ASIDE) + CONNECTIONS;
        let servers = OwnServers::start_exposed(connections, needs).await?;
        let [program] = &settings.programs[..] else {
            return Err(Error::Generator("faults strike one build of the service".to_owned()));
        };
        let deployment = Deployment::start(settings, (0, program), (&servers, true)).await?;
        Ok(Stack { deployments: vec![deployment], servers: Some(servers) })
    }

    /// Takes a service that already runs, if its parts belong together, and starts nothing.
    pub(crate) async fn connect(target: &TargetSettings) -> Result<Stack, Error> {
        Ok(Stack { deployments: vec![Deployment::connect(target).await?], servers: None })
    }

    /// Returns the deployment of the only build, or of the first one.
    pub(crate) fn first(&self) -> &Deployment {
        &self.deployments[0]
    }

    /// Returns what a trial of a build measures, and what its hazard strikes.
    pub(crate) fn exposed(&mut self, build: Option<&str>) -> Option<Exposed<'_>> {
        let deployment = self.deployments.iter_mut().find(|deployment| deployment.build.as_deref() == build)?;
        let servers = self.servers.as_mut().map(OwnServers::exposed).unwrap_or_default();
        Some(Exposed { deployment, servers, locked_orders: None })
    }

    /// Returns the URL of the Redis that was started or given for the instances, if they need one.
    pub(crate) fn redis_url(&self) -> Option<&str> {
        self.servers.as_ref()?.redis_url()
    }

    /// Returns the version of that Redis.
    pub(crate) async fn redis_version(&self) -> Option<String> {
        self.servers.as_ref()?.redis_version().await
    }

    /// Tells whether all servers were started for this stack alone.
    pub(crate) fn is_throwaway(&self) -> bool {
        self.servers.as_ref().is_some_and(OwnServers::are_throwaway)
    }

    /// Replaces the error by its cause if an instance did not answer because it has ended.
    pub(crate) async fn explain(&mut self, error: Error) -> Error {
        // An instance that has ended gives no answer. An error that an answer describes has another cause.
        if !matches!(error, Error::Service { source: Some(_), .. }) {
            return error;
        }
        // A connection breaks a moment before the end of its process can be seen.
        let mut poll = tokio::time::interval(READY_POLL);
        let until_known = async {
            loop {
                poll.tick().await;
                if let Some(obituary) = self.deployments.iter_mut().find_map(Deployment::obituary) {
                    return obituary;
                }
            }
        };
        tokio::time::timeout(OBITUARY_WITHIN, until_known).await.unwrap_or(error)
    }

    /// Stops all instances at once, then the servers.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.stop_after(async || Ok(())).await
    }

    /// Stops all instances at once, looks what those of the first deployment have left behind, and stops the servers.
    pub(crate) async fn stop_and_look(self) -> Result<Leaks, Error> {
        let Deployment { zookeeper, database, .. } = self.first();
        let zookeeper = zookeeper.clone();
        let database = database.clone();
        let is_pooled = self.servers.as_ref().is_some_and(OwnServers::is_pooled);
        self.stop_after(async || Leaks::of(&zookeeper, &database, is_pooled).await).await
    }

    /// Stops all instances at once, then looks, then stops the servers.
    async fn stop_after<T>(self, look: impl AsyncFnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.deployments.iter().for_each(Deployment::request_stop);
        let mut rooms = Vec::new();
        for deployment in self.deployments {
            rooms.extend(deployment.stop().await?);
        }
        let seen = look().await;
        // Dropping a room or a server blocks until its end, which must not happen on the runtime.
        let dropped = tokio::task::spawn_blocking(move || drop((rooms, self.servers))).await;
        dropped.map_err(|error| Error::Generator(format!("could not wait for the servers: {error}")))?;
        seen
    }
}

/// Refuses a port in use early, with a clearer error than an instance could give.
pub(crate) fn ensure_ports_are_free(settings: &ServiceSettings) -> Result<(), Error> {
    let mut ports = (0..settings.instances).filter_map(|number| service_program::port_of(settings, number));
    let taken = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err());
    taken.map_or(Ok(()), |port| Err(Error::PortInUse { port }))
}

/// Makes sure that the limit of open files is enough for a load whose users are all connected at once. The processes that are
/// started have the limit of this one. The limit of a running service is unknown.
pub(crate) fn ensure_files_suffice(source: &Source, connections: u32) -> Result<(), Error> {
    let mut needs = Vec::new();
    if let Source::Start(service) = source {
        let instances = u64::from(service.instances);
        let of_instance = service_program::files_needed(service, u64::from(connections).div_ceil(instances));
        needs.push(("an instance", of_instance));
        if !is_set("ZOOKEEPER_CONNECT") {
            let sessions = u64::from(service.zk_sessions) * instances * service.programs.len() as u64;
            needs.push(("ZooKeeper", sessions + ZOOKEEPER_FILES_SPARE));
        }
    }
    ensure_files(connections, &needs)
}

/// Makes sure that the limit of open files is enough for the connections of this process, and for what others need.
pub(crate) fn ensure_files(connections: u32, others: &[(&str, u64)]) -> Result<(), Error> {
    let needs = [&[("loadgen", u64::from(connections) + FILES_SPARE)], others].concat();
    let limit = raise_file_limit();
    let needed = needs.iter().map(|(_, files)| *files).max().unwrap_or(0);
    if limit >= needed {
        return Ok(());
    }
    let needs: Vec<String> = needs.iter().map(|(process, files)| format!("{process} {files}")).collect();
    Err(Error::TooFewFiles { needs: needs.join(", "), needed, limit })
}
