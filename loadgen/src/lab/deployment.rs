//! One build of the service: its instances, its database and its chroot.

use std::path::PathBuf;
use std::time::Duration;

use testbed::{Process, ProcessConfig, Stdout};
use uuid::Uuid;

use crate::error::{Error, Exit};
use crate::lab::postgres::Database;
use crate::lab::servers::{OwnServers, Room};
use crate::lab::service::Service;
use crate::lab::service_program;
use crate::lab::source::{Program, ServiceSettings, TargetSettings};
use crate::lab::zookeeper::Servers;

/// How long an instance may take to open its sessions and to serve.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long an instance may take to stop. It takes a fraction of a second if its servers run. Without them, for example
/// after a kill of this process, it would wait for them far too long.
const STOP_WITHIN: Duration = Duration::from_secs(4);
/// Interval between checks whether an instance is ready or has ended.
pub(super) const READY_POLL: Duration = Duration::from_millis(50);
/// Beginning of the line on an instance's standard output that says where it listens.
const LISTENING: &str = "listening on ";

/// One build of the service, ready to be measured.
pub(crate) struct Deployment {
    /// Name of the build, if two are compared.
    pub(crate) build: Option<String>,
    // The fields are dropped in this order: the instances close their sessions while their chroot still exists.
    instances: Vec<Instance>,
    pub(crate) service: Service,
    pub(crate) database: Database,
    pub(crate) zookeeper: Servers,
    pub(crate) database_url: String,
    pub(crate) zookeeper_connect: String,
    pub(crate) admin_token: String,
    /// The servers that were started for the comparison, by name and process.
    pub(crate) server_processes: Vec<(&'static str, i32)>,
    rooms: Vec<Room>,
}

/// A process of the service.
struct Instance {
    number: usize,
    /// The program in words.
    of: String,
    url: String,
    process: Process,
}

impl Deployment {
    /// Makes the room, then starts the instances. `number` counts the deployments from zero.
    pub(super) async fn start(
        settings: &ServiceSettings,
        (number, program): (usize, &Program),
        servers: &OwnServers,
    ) -> Result<Deployment, Error> {
        let path = service_program::find(program)?;
        let is_alone = settings.programs.len() == 1;
        let (database, chroot) = tokio::try_join!(servers.database(number), servers.chroot(is_alone))?;
        let database_url = database.address.clone();
        let zookeeper_connect = chroot.address.clone();
        // Two random numbers of 122 bits each: nobody can guess the token, and no other run has the same.
        let admin_token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let redis_url = servers.redis_url().map(str::to_owned);
        let environment = InstanceSettings { program: path, database_url, zookeeper_connect, redis_url, admin_token };

        // All processes are started before one is waited for, so that their starts overlap.
        let mut spawned = Vec::with_capacity(usize::from(settings.instances));
        for number in 0..settings.instances {
            spawned.push(environment.spawn(settings, number)?);
        }
        let mut instances = Vec::with_capacity(spawned.len());
        for (number, process) in (1..).zip(spawned) {
            instances.push(Instance::listening(number, program.described(), process).await?);
        }
        let InstanceSettings { database_url, zookeeper_connect, admin_token, .. } = environment;
        let urls = instances.iter().map(|instance| instance.url.clone()).collect();
        let service = Service::new(urls, admin_token.clone())?;
        for instance in &mut instances {
            instance.ready(&service).await?;
        }
        Ok(Deployment {
            build: program.name.clone(),
            instances,
            service,
            database: Database::connect(&database_url).await?,
            zookeeper: Servers::of(&zookeeper_connect),
            database_url,
            zookeeper_connect,
            admin_token,
            server_processes: servers.processes(),
            rooms: vec![database, chroot],
        })
    }

    /// Takes a service that already runs, if its parts belong together, and starts nothing.
    pub(super) async fn connect(target: &TargetSettings) -> Result<Deployment, Error> {
        let (service, database, zookeeper) = super::target::connect(target).await?;
        Ok(Deployment {
            build: None,
            instances: Vec::new(),
            service,
            database,
            zookeeper,
            database_url: target.database_url.clone(),
            zookeeper_connect: target.zookeeper.clone(),
            admin_token: target.admin_token.clone(),
            server_processes: Vec::new(),
            rooms: Vec::new(),
        })
    }

    /// Describes the end of an instance, if one has ended.
    pub(super) fn obituary(&mut self) -> Option<Error> {
        self.instances.iter_mut().find_map(Instance::obituary)
    }

    /// Tells the instances to stop.
    pub(super) fn request_stop(&self) {
        for instance in &self.instances {
            instance.process.request_stop();
        }
    }

    /// Waits for the end of the instances, and returns their rooms.
    pub(super) async fn stop(self) -> Result<Vec<Room>, Error> {
        for instance in self.instances {
            instance.process.stop().await?;
        }
        Ok(self.rooms)
    }
}

/// The settings that all instances share.
struct InstanceSettings {
    program: PathBuf,
    database_url: String,
    zookeeper_connect: String,
    redis_url: Option<String>,
    admin_token: String,
}

impl InstanceSettings {
    /// Starts instance `number`, counted from zero.
    fn spawn(&self, settings: &ServiceSettings, number: u16) -> Result<Process, Error> {
        let mut config = ProcessConfig::new(&self.program)
            .args(service_program::arguments(settings, number))
            .env("ZOOKEEPER_CONNECT", &self.zookeeper_connect)
            // Secrets, such as the password of the URL, are no flags, because every user can read a command line.
            .env("DATABASE_URL", &self.database_url)
            .env("ADMIN_TOKEN", &self.admin_token);
        if let Some(url) = &self.redis_url {
            config = config.env("REDIS_URL", url);
        }
        if std::env::var_os("RUST_LOG").is_none() {
            // The purchases of a burst are counted, not logged.
            config = config.env("RUST_LOG", "warn");
        }
        config.knows = service_program::knows;
        config.stop_within = STOP_WITHIN;
        config.stdout = Stdout::Lines;
        Ok(Process::spawn(config)?)
    }
}

impl Instance {
    /// Waits until the process says where it listens.
    async fn listening(number: usize, of: String, mut process: Process) -> Result<Instance, Error> {
        loop {
            match process.line(READY_WITHIN).await? {
                Some(line) => {
                    if let Some(url) = line.strip_prefix(LISTENING) {
                        return Ok(Instance { number, of, url: url.trim().to_owned(), process });
                    }
                }
                None => {
                    let status = process.wait().await?;
                    let log = process.log_tail();
                    if status.code() == Some(Exit::Usage as i32) {
                        return Err(Error::Usage(format!("{of} refused its arguments:\n{log}")));
                    }
                    let what = format!("ended while it was starting ({status})");
                    return Err(Error::Instance { number, of, what, log });
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
            of: self.of.clone(),
            what,
            log: self.process.log_tail(),
        }))
    }

    /// Describes its end, if it has ended.
    fn obituary(&mut self) -> Option<Error> {
        let status = self.process.try_wait().ok().flatten()?;
        let what = format!("ended ({status})");
        Some(Error::Instance { number: self.number, of: self.of.clone(), what, log: self.process.log_tail() })
    }
}
