//! The processes of one build of the service.

use std::path::PathBuf;
use std::time::Duration;

use testbed::{Port, Process, ProcessConfig, Stdout};

use crate::error::{Error, Exit};
use crate::lab::service::Service;
use crate::lab::service_program;
use crate::lab::source::ServiceSettings;

/// How long an instance may take to open its sessions and to serve.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long an instance may take to stop. It takes a fraction of a second if its servers run. Without them, for example
/// after a kill of this process, it would wait for them far too long.
const STOP_WITHIN: Duration = Duration::from_secs(4);
/// Interval between checks whether an instance is ready or has ended.
pub(super) const READY_POLL: Duration = Duration::from_millis(50);
/// Beginning of the line on an instance's standard output that says where it listens.
const LISTENING: &str = "listening on ";

/// The settings that all instances share.
pub(super) struct InstanceSettings {
    pub(super) service: ServiceSettings,
    pub(super) program: PathBuf,
    /// The program in words.
    pub(super) described: String,
    pub(super) database_url: String,
    pub(super) zookeeper_connect: String,
    pub(super) redis_url: Option<String>,
    pub(super) admin_token: String,
}

/// The instances of one build, in their order.
pub(super) struct RunningInstances {
    settings: InstanceSettings,
    running: Vec<Instance>,
}

/// A process of the service.
struct Instance {
    /// Counted from zero.
    number: u16,
    url: String,
    process: Process,
    /// Keeps the port for it while it does not run. Absent if the user has chosen the port.
    port: Option<Port>,
}

impl RunningInstances {
    /// Starts all of them, and waits until each listens.
    pub(super) async fn start(settings: InstanceSettings) -> Result<RunningInstances, Error> {
        // All processes are started before one is waited for, so that their starts overlap.
        let mut spawned = Vec::with_capacity(usize::from(settings.service.instances));
        for number in 0..settings.service.instances {
            let is_chosen = service_program::port_of(&settings.service, number).is_some();
            let port = if is_chosen { None } else { Some(Port::reserve()?) };
            spawned.push(settings.spawn(number, port)?);
        }
        let mut running = Vec::with_capacity(spawned.len());
        for starting in spawned {
            running.push(settings.listening(starting).await?);
        }
        Ok(RunningInstances { settings, running })
    }

    /// Returns the base URL of each.
    pub(super) fn urls(&self) -> Vec<String> {
        self.running.iter().map(|instance| instance.url.clone()).collect()
    }

    /// Waits until each says that its servers answer.
    pub(super) async fn until_ready(&mut self, service: &Service) -> Result<(), Error> {
        for instance in &mut self.running {
            self.settings.ready(instance, service).await?;
        }
        Ok(())
    }

    /// Kills the one of this name, or the last one, and returns what starts it again.
    pub(super) async fn kill(&mut self, name: Option<&str>) -> Result<KilledInstance, Error> {
        let named =
            |instance: &Instance| name.is_some_and(|name| service_program::instance_name(instance.number) == name);
        let position = self.running.iter().position(named).or(self.running.len().checked_sub(1));
        let position = position.ok_or_else(|| Error::Generator("there is no instance to kill".to_owned()))?;
        let Instance { number, process, mut port, .. } = self.running.remove(position);
        process.kill().await?;
        if let Some(port) = &mut port {
            port.take_back()?;
        }
        Ok(KilledInstance { number, port })
    }

    /// Starts an instance again where it was, and waits until it is ready.
    pub(super) async fn start_again(&mut self, killed: KilledInstance, service: &Service) -> Result<(), Error> {
        let starting = self.settings.spawn(killed.number, killed.port)?;
        let mut instance = self.settings.listening(starting).await?;
        self.settings.ready(&mut instance, service).await?;
        self.running.push(instance);
        self.running.sort_by_key(|instance| instance.number);
        Ok(())
    }

    /// Describes the end of an instance, if one has ended.
    pub(super) fn obituary(&mut self) -> Option<Error> {
        self.running.iter_mut().find_map(|instance| self.settings.obituary(instance))
    }

    /// Tells all to stop.
    pub(super) fn request_stop(&self) {
        for instance in &self.running {
            instance.process.request_stop();
        }
    }

    /// Waits for the end of all.
    pub(super) async fn stop(self) -> Result<(), Error> {
        for instance in self.running {
            instance.process.stop().await?;
        }
        Ok(())
    }
}

/// An instance that was killed, with its port.
pub(super) struct KilledInstance {
    number: u16,
    port: Option<Port>,
}

impl InstanceSettings {
    /// Starts instance `number`, counted from zero, on its port.
    fn spawn(&self, number: u16, mut port: Option<Port>) -> Result<Instance, Error> {
        let own = port.as_mut().map(|port| {
            port.lend();
            port.number()
        });
        let mut config = ProcessConfig::new(&self.program)
            .args(service_program::arguments(&self.service, number, own))
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
        Ok(Instance { number, url: String::new(), process: Process::spawn(config)?, port })
    }

    /// Waits until the process says where it listens.
    async fn listening(&self, mut starting: Instance) -> Result<Instance, Error> {
        while let Some(line) = starting.process.line(READY_WITHIN).await? {
            if let Some(url) = line.strip_prefix(LISTENING) {
                return Ok(Instance { url: url.trim().to_owned(), ..starting });
            }
        }
        let status = starting.process.wait().await?;
        if status.code() == Some(Exit::Usage as i32) {
            let log = starting.process.log_tail();
            return Err(Error::Usage(format!("{} refused its arguments:\n{log}", self.described)));
        }
        Err(self.failed(&starting, format!("ended while it was starting ({status})")))
    }

    /// Waits until the instance says that its servers answer.
    async fn ready(&self, instance: &mut Instance, service: &Service) -> Result<(), Error> {
        let mut poll = tokio::time::interval(READY_POLL);
        let until_ready = async {
            while !service.is_ready(&instance.url).await {
                poll.tick().await;
            }
        };
        if tokio::time::timeout(READY_WITHIN, until_ready).await.is_ok() {
            return Ok(());
        }
        let what = format!("was not ready within {} s", READY_WITHIN.as_secs());
        Err(self.obituary(instance).unwrap_or_else(|| self.failed(instance, what)))
    }

    /// Describes the end of an instance, if it has ended.
    fn obituary(&self, instance: &mut Instance) -> Option<Error> {
        let status = instance.process.try_wait().ok().flatten()?;
        Some(self.failed(instance, format!("ended ({status})")))
    }

    fn failed(&self, instance: &Instance, what: String) -> Error {
        let number = usize::from(instance.number) + 1;
        Error::Instance { number, of: self.described.clone(), what, log: instance.process.log_tail() }
    }
}
