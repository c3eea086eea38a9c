//! The servers and the service: started for the occasion and gone with it, or running already.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};
use testbed::{
    Postgres, PostgresConfig, Process, ProcessConfig, Stdout, TestChroot, TestDatabase, ZooKeeper, ZooKeeperConfig,
};
use uuid::Uuid;

use crate::error::{Error, Exit};
use crate::lab::postgres::Database;
use crate::lab::service::Service;
use crate::lab::service_program::{self, DB_CONNECTIONS};
use crate::lab::source::{ServiceSettings, TargetSettings};
use crate::lab::zookeeper::Servers;

/// How long an instance may take to open its sessions and to serve.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long an instance may take to stop. With its servers running, it takes a fraction of a second. Without them, as after
/// a kill of this process, it would wait far too long for them.
const STOP_WITHIN: Duration = Duration::from_secs(4);
/// How soon after an instance has stopped answering its end is known, if that is why.
const OBITUARY_WITHIN: Duration = Duration::from_secs(3);
/// How often an instance is asked whether it is ready, or has ended.
const READY_POLL: Duration = Duration::from_millis(50);
/// What the line on an instance's standard output begins with once it serves.
const LISTENING: &str = "listening on ";
/// Connections that an instance keeps to Postgres beside those for its buyers: for probes, and for the question whether a
/// commit is over.
const DB_CONNECTIONS_ASIDE: u32 = 2;
/// Connections to Postgres beside those of the instances: the audit's, and a user's own.
const DB_CONNECTIONS_SPARE: u32 = 40;

/// A service to be measured, and everything it stands on.
///
/// Dropping it stops what was started for it; [`Stack::stop`] does so without blocking the runtime.
pub(crate) struct Stack {
    // In the order in which they have to go: the instances close their sessions while the servers still run.
    instances: Vec<Instance>,
    servers: Option<OwnServers>,
    pub(crate) service: Service,
    pub(crate) database: Database,
    pub(crate) zookeeper: Servers,
    pub(crate) database_url: String,
    pub(crate) zookeeper_connect: String,
    pub(crate) admin_token: String,
}

/// A process of the service.
struct Instance {
    number: usize,
    url: String,
    process: Process,
}

/// What was made for the stack: two servers, or room of its own on servers that were there.
struct OwnServers {
    postgres: OwnServer,
    zookeeper: OwnServer,
}

/// A server that was started, or a namespace that was made on one.
struct OwnServer {
    /// A database URL, or a connect string.
    address: String,
    /// Whether the whole server was started for this stack.
    is_throwaway: bool,
    /// The process of a server that was.
    pid: Option<i32>,
    /// Stops the server, or removes the namespace, when it is dropped.
    _guard: Box<dyn Send + Sync>,
}

impl Stack {
    /// Starts the servers, then the instances.
    ///
    /// # Errors
    ///
    /// Those of [`testbed`]; [`Error::ServiceMissing`], [`Error::Instance`] with the end of its log; [`Error::Postgres`].
    ///
    /// # Cancel safety
    ///
    /// Everything that was started is stopped, which blocks for a moment.
    pub(crate) async fn start(settings: &ServiceSettings) -> Result<Stack, Error> {
        let program = service_program::find(settings.demo_service.as_deref())?;
        let connections_max =
            u32::from(settings.instances) * (DB_CONNECTIONS + DB_CONNECTIONS_ASIDE) + DB_CONNECTIONS_SPARE;
        let (zookeeper, postgres) = tokio::try_join!(own_zookeeper(), own_postgres(connections_max))?;
        let (database_url, zookeeper_connect) = (postgres.address.clone(), zookeeper.address.clone());
        let servers = OwnServers { postgres, zookeeper };
        // Two random numbers of 122 bits each, unguessable and unlike any other run's.
        let admin_token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let environment = Environment { program, database_url, zookeeper_connect, admin_token };

        let mut spawned = Vec::with_capacity(usize::from(settings.instances));
        for number in 0..settings.instances {
            spawned.push(environment.spawn(settings, number)?);
        }
        let mut instances = Vec::with_capacity(spawned.len());
        for (number, process) in (1..).zip(spawned) {
            instances.push(Instance::listening(number, process).await?);
        }
        let Environment { database_url, zookeeper_connect, admin_token, .. } = environment;
        let urls = instances.iter().map(|instance| instance.url.clone()).collect();
        let service = Service::new(urls, admin_token.clone())?;
        for instance in &mut instances {
            instance.ready(&service).await?;
        }
        Ok(Stack {
            instances,
            servers: Some(servers),
            service,
            database: Database::connect(&database_url).await?,
            zookeeper: Servers::of(&zookeeper_connect),
            database_url,
            zookeeper_connect,
            admin_token,
        })
    }

    /// Takes a service that runs already, if what was named belongs together, and starts nothing.
    ///
    /// # Errors
    ///
    /// [`Error::PostgresUnreachable`]; [`Error::Usage`] if what was named does not belong together.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn connect(target: &TargetSettings) -> Result<Stack, Error> {
        let (service, database, zookeeper) = super::target::connect(target).await?;
        Ok(Stack {
            instances: Vec::new(),
            servers: None,
            service,
            database,
            zookeeper,
            database_url: target.database_url.clone(),
            zookeeper_connect: target.zookeeper.clone(),
            admin_token: target.admin_token.clone(),
        })
    }

    /// Whether Postgres and ZooKeeper were both started for this stack alone.
    pub(crate) fn is_throwaway(&self) -> bool {
        self.servers.as_ref().is_some_and(|own| own.postgres.is_throwaway && own.zookeeper.is_throwaway)
    }

    /// The servers that were started for this stack, by name and process.
    pub(crate) fn server_processes(&self) -> Vec<(&'static str, i32)> {
        let own = self.servers.as_ref();
        let pid = |server: fn(&OwnServers) -> &OwnServer| own.and_then(|own| server(own).pid);
        let named = [("postgres", pid(|own| &own.postgres)), ("zookeeper", pid(|own| &own.zookeeper))];
        named.into_iter().filter_map(|(name, pid)| Some((name, pid?))).collect()
    }

    /// The error, or rather what is behind it when an instance that did not answer has died.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn explain(&mut self, error: Error) -> Error {
        if !matches!(error, Error::Service { source: Some(_), .. }) {
            return error;
        }
        // A connection breaks a moment before the end of the process is known.
        let mut poll = tokio::time::interval(READY_POLL);
        let until_known = async {
            loop {
                poll.tick().await;
                if let Some(obituary) = self.instances.iter_mut().find_map(Instance::obituary) {
                    return obituary;
                }
            }
        };
        tokio::time::timeout(OBITUARY_WITHIN, until_known).await.unwrap_or(error)
    }

    /// Stops the instances, all at once, then what they stood on.
    ///
    /// # Errors
    ///
    /// [`Error::Testbed`] when the operating system does not tell how an instance ended, [`Error::Generator`] when the
    /// servers cannot be waited for.
    ///
    /// # Cancel safety
    ///
    /// Everything stops all the same.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        for instance in &self.instances {
            instance.process.request_stop();
        }
        for instance in self.instances {
            instance.process.stop().await?;
        }
        drop(self.database);
        // Dropping a server waits for its end, which is no work for the runtime.
        tokio::task::spawn_blocking(move || drop(self.servers))
            .await
            .map_err(|error| Error::Generator(format!("could not wait for the servers: {error}")))
    }
}

/// What all instances share.
struct Environment {
    program: PathBuf,
    database_url: String,
    zookeeper_connect: String,
    admin_token: String,
}

impl Environment {
    /// Starts instance `number`, counted from zero.
    fn spawn(&self, settings: &ServiceSettings, number: u16) -> Result<Process, Error> {
        let mut config = ProcessConfig::new(&self.program)
            .args(service_program::arguments(settings, number))
            .env("ZOOKEEPER_CONNECT", &self.zookeeper_connect)
            // Secrets, the URL's password among them, are no flags: everyone may read a command line.
            .env("DATABASE_URL", &self.database_url)
            .env("ADMIN_TOKEN", &self.admin_token);
        if std::env::var_os("RUST_LOG").is_none() {
            // The purchases of a burst are counted, not logged.
            config = config.env("RUST_LOG", "warn");
        }
        config.stop_within = STOP_WITHIN;
        config.stdout = Stdout::Lines;
        Ok(Process::spawn(config)?)
    }
}

impl Instance {
    /// Waits until the process says where it listens.
    async fn listening(number: usize, mut process: Process) -> Result<Instance, Error> {
        loop {
            match process.line(READY_WITHIN).await? {
                Some(line) => {
                    if let Some(url) = line.strip_prefix(LISTENING) {
                        return Ok(Instance { number, url: url.trim().to_owned(), process });
                    }
                }
                None => {
                    let (status, log) = (process.wait().await?, process.log_tail());
                    if status.code() == Some(Exit::Usage as i32) {
                        return Err(Error::Usage(format!("demo-service refused its arguments:\n{log}")));
                    }
                    let what = format!("ended while it was starting ({status})");
                    return Err(Error::Instance { number, what, log });
                }
            }
        }
    }

    /// Waits until the instance says that its servers answer.
    async fn ready(&mut self, service: &Service) -> Result<(), Error> {
        let mut poll = tokio::time::interval(READY_POLL);
        let until_ready = async {
            while !service.is_ready(&self.url).await {
                poll.tick().await;
            }
        };
        if tokio::time::timeout(READY_WITHIN, until_ready).await.is_ok() {
            return Ok(());
        }
        let what = format!("was not ready within {} s", READY_WITHIN.as_secs());
        Err(self.obituary().unwrap_or_else(|| Error::Instance {
            number: self.number,
            what,
            log: self.process.log_tail(),
        }))
    }

    /// How the instance ended, if it has.
    fn obituary(&mut self) -> Option<Error> {
        let status = self.process.try_wait().ok().flatten()?;
        Some(Error::Instance { number: self.number, what: format!("ended ({status})"), log: self.process.log_tail() })
    }
}

/// A database of its own on the server of `DATABASE_URL`, or else a server of its own.
async fn own_postgres(connections_max: u32) -> Result<OwnServer, Error> {
    if is_set("DATABASE_URL") {
        let database = TestDatabase::create().await?;
        return Ok(OwnServer {
            address: database.url().to_owned(),
            is_throwaway: false,
            pid: None,
            _guard: Box::new(database),
        });
    }
    let server = Postgres::start(PostgresConfig { connections_max, ..PostgresConfig::default() }).await?;
    let create = async {
        let mut connection = server.url("postgres").parse::<PgConnectOptions>()?.connect().await?;
        // Not checked at compile time, as the database that it would be checked against is the one it makes.
        sqlx::query("create database seckill").execute(&mut connection).await?;
        connection.close().await
    };
    create.await.map_err(Error::postgres("create the database"))?;
    let (address, pid) = (server.url("seckill"), Some(server.pid()));
    Ok(OwnServer { address, is_throwaway: true, pid, _guard: Box::new(server) })
}

/// A chroot of its own on the servers of `ZOOKEEPER_CONNECT`, or else a server of its own.
async fn own_zookeeper() -> Result<OwnServer, Error> {
    if is_set("ZOOKEEPER_CONNECT") {
        let chroot = TestChroot::create().await?;
        let address = chroot.connect_string().to_owned();
        return Ok(OwnServer { address, is_throwaway: false, pid: None, _guard: Box::new(chroot) });
    }
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await?;
    let (address, pid) = (server.connect_string(), server.pid());
    Ok(OwnServer { address, is_throwaway: true, pid, _guard: Box::new(server) })
}

/// Returns whether the environment names a server by this variable. Then none is started.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Finds out early, and with a better answer than an instance could give, that a port is taken.
///
/// # Errors
///
/// [`Error::PortInUse`].
pub(crate) fn ensure_ports_are_free(settings: &ServiceSettings) -> Result<(), Error> {
    let mut ports = (0..settings.instances).filter_map(|number| service_program::port_of(settings, number));
    let taken = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err());
    taken.map_or(Ok(()), |port| Err(Error::PortInUse { port }))
}

/// Takes as many file descriptors as the system grants: a user needs a socket, and so does an instance for each user
/// and session; the instances inherit the limit.
pub(crate) fn raise_file_limit() {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    // macOS calls its limit infinite, but grants no more than this. Where neither is granted, the burst itself says
    // which sockets it could not have.
    for limit in [hard, hard.min(10_240)] {
        if setrlimit(Resource::RLIMIT_NOFILE, limit, hard).is_ok() {
            return;
        }
    }
}
