//! The processes of one build of the service.

use std::path::PathBuf;
use std::time::Duration;

use testbed::{Port, Process, ProcessConfig, Stdout};

use crate::error::{Error, Exit};
use crate::lab::links::{InstanceLinks, LinkedServers, ServerAddresses};
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
    pub(super) servers: ServerAddresses,
    pub(super) admin_token: String,
}

/// The instances of one build, in their order.
pub(super) struct RunningInstances {
    settings: InstanceSettings,
    running: Vec<Instance>,
}

/// An instance of the service.
struct Instance {
    /// Counted from zero.
    number: u16,
    /// Where buyers reach it: its own address, or the one of its proxy.
    url: String,
    /// Absent while it does not run.
    process: Option<Process>,
    /// Whether the process has said where it listens.
    is_listening: bool,
    /// Keeps the port for it while it does not run. Absent if the user has chosen the port.
    port: Option<Port>,
    /// The proxies around it, if it is exposed to faults.
    links: Option<InstanceLinks>,
}

impl RunningInstances {
    /// Starts all of them, and waits until each listens. With `servers`, each reaches these through proxies of its own, and buyers reach
    /// it through one.
    pub(super) async fn start(
        settings: InstanceSettings,
        servers: Option<&LinkedServers>,
    ) -> Result<RunningInstances, Error> {
        // All processes are started before one is waited for, so that their starts overlap.
        let mut running = Vec::with_capacity(usize::from(settings.service.instances));
        for number in 0..settings.service.instances {
            let is_chosen = service_program::port_of(&settings.service, number).is_some();
            let port = if is_chosen { None } else { Some(Port::reserve()?) };
            let links = match servers.zip(port.as_ref()) {
                Some((servers, port)) => Some(InstanceLinks::start(servers, port.number()).await?),
                None => None,
            };
            let url = links.as_ref().map(InstanceLinks::url).unwrap_or_default();
            let mut instance = Instance { number, url, process: None, is_listening: false, port, links };
            settings.launch(&mut instance, &settings.service)?;
            running.push(instance);
        }
        for instance in &mut running {
            settings.listening(instance).await?;
        }
        Ok(RunningInstances { settings, running })
    }

    /// Returns the base URL of each.
    pub(super) fn urls(&self) -> Vec<String> {
        self.running.iter().map(|instance| instance.url.clone()).collect()
    }

    /// Returns the proxies around an instance, by its index, if it is exposed to faults.
    pub(super) fn links(&self, index: usize) -> Option<&InstanceLinks> {
        self.running.get(index)?.links.as_ref()
    }

    /// Waits until each says that its servers answer. All of them run, and none is frozen.
    pub(super) async fn until_ready(&mut self, service: &Service) -> Result<(), Error> {
        for instance in &mut self.running {
            self.settings.listening(instance).await?;
            self.settings.ready(instance, service).await?;
        }
        Ok(())
    }

    /// Returns how many there are, those that are down included.
    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    /// Tells whether the process of an instance runs. One that has ended by itself, as a start without a server does, is forgotten.
    pub(super) fn is_up(&mut self, index: usize) -> Result<bool, Error> {
        let (_, instance) = self.at(index)?;
        if let Some(process) = &mut instance.process
            && process.try_wait()?.is_some()
        {
            instance.process = None;
            instance.port.as_mut().map_or(Ok(()), Port::take_back)?;
        }
        Ok(instance.process.is_some())
    }

    /// Returns the index of the instance with this name, or of the last one.
    pub(super) fn index_of(&self, name: Option<&str>) -> usize {
        let named =
            |instance: &Instance| name.is_some_and(|name| service_program::instance_name(instance.number) == name);
        self.running.iter().position(named).unwrap_or(self.running.len().saturating_sub(1))
    }

    /// Kills an instance, which stays down until [`launch`](Self::launch).
    pub(super) async fn kill(&mut self, index: usize) -> Result<(), Error> {
        self.end(index, Process::kill).await
    }

    /// Asks an instance to stop, and waits until it has. It stays down until [`launch`](Self::launch).
    pub(super) async fn shut_down(&mut self, index: usize) -> Result<(), Error> {
        self.end(index, Process::stop).await
    }

    /// Ends the process of an instance, if it runs, and keeps its port for the next one.
    async fn end<T>(
        &mut self,
        index: usize,
        end: impl AsyncFnOnce(Process) -> Result<T, testbed::Error>,
    ) -> Result<(), Error> {
        let (_, instance) = self.at(index)?;
        if let Some(process) = instance.process.take() {
            end(process).await?;
        }
        Ok(instance.port.as_mut().map_or(Ok(()), Port::take_back)?)
    }

    /// Starts an instance that is down, where it was. [`until_ready`](Self::until_ready) waits for it.
    pub(super) fn launch(&mut self, index: usize) -> Result<(), Error> {
        let (settings, instance) = self.at(index)?;
        settings.launch(instance, &settings.service)
    }

    /// Starts an instance that is down with this many times its timeouts, of the wait for a lock and of its sessions.
    pub(super) fn launch_with_timeouts(&mut self, index: usize, times: f64) -> Result<(), Error> {
        let (settings, instance) = self.at(index)?;
        let ServiceSettings { lock_wait, session_timeout, .. } = settings.service;
        let [lock_wait, session_timeout] = [lock_wait, session_timeout].map(|timeout| timeout.mul_f64(times));
        settings.launch(instance, &ServiceSettings { lock_wait, session_timeout, ..settings.service.clone() })
    }

    /// Gives an instance that is down another port. Its proxy leads buyers there.
    pub(super) fn relocate(&mut self, index: usize) -> Result<(), Error> {
        let (_, instance) = self.at(index)?;
        let port = Port::reserve()?;
        if let Some(links) = &instance.links {
            links.lead_to(port.number());
        }
        instance.port = Some(port);
        Ok(())
    }

    /// Freezes an instance until [`resume`](Self::resume).
    pub(super) fn pause(&mut self, index: usize) -> Result<(), Error> {
        let (_, instance) = self.at(index)?;
        Ok(instance.process.as_ref().map_or(Ok(()), Process::pause)?)
    }

    /// Lets a frozen instance go on.
    pub(super) fn resume(&mut self, index: usize) -> Result<(), Error> {
        let (_, instance) = self.at(index)?;
        Ok(instance.process.as_ref().map_or(Ok(()), Process::resume)?)
    }

    fn at(&mut self, index: usize) -> Result<(&InstanceSettings, &mut Instance), Error> {
        let missing = || Error::Generator(format!("there is no instance {index}"));
        Ok((&self.settings, self.running.get_mut(index).ok_or_else(missing)?))
    }

    /// Describes the end of an instance, if one has ended.
    pub(super) fn obituary(&mut self) -> Option<Error> {
        self.running.iter_mut().find_map(|instance| self.settings.obituary(instance))
    }

    /// Tells all to stop.
    pub(super) fn request_stop(&self) {
        self.running.iter().filter_map(|instance| instance.process.as_ref()).for_each(Process::request_stop);
    }

    /// Waits for the end of all.
    pub(super) async fn stop(self) -> Result<(), Error> {
        for process in self.running.into_iter().filter_map(|instance| instance.process) {
            process.stop().await?;
        }
        Ok(())
    }
}

impl InstanceSettings {
    /// Starts an instance on its port.
    fn launch(&self, instance: &mut Instance, service: &ServiceSettings) -> Result<(), Error> {
        let own = instance.port.as_mut().map(|port| {
            port.lend();
            port.number()
        });
        let servers = instance.links.as_ref().map_or(&self.servers, InstanceLinks::servers);
        let mut config = ProcessConfig::new(&self.program)
            .args(service_program::arguments(service, instance.number, own))
            .env("ZOOKEEPER_CONNECT", &servers.zookeeper_connect)
            // Secrets, such as the password of the URL, are no flags, because every user can read a command line.
            .env("DATABASE_URL", &servers.database_url)
            .env("ADMIN_TOKEN", &self.admin_token);
        if let Some(url) = &servers.redis_url {
            config = config.env("REDIS_URL", url);
        }
        if std::env::var_os("RUST_LOG").is_none() {
            // The purchases of a burst are counted, not logged.
            config = config.env("RUST_LOG", "warn");
        }
        config.knows = service_program::knows;
        config.stop_within = STOP_WITHIN;
        config.stdout = Stdout::Lines;
        instance.process = Some(Process::spawn(config)?);
        instance.is_listening = false;
        Ok(())
    }

    /// Waits until the process says where it listens.
    async fn listening(&self, instance: &mut Instance) -> Result<(), Error> {
        let Some(process) = instance.process.as_mut().filter(|_| !instance.is_listening) else { return Ok(()) };
        while let Some(line) = process.line(READY_WITHIN).await? {
            if let Some(url) = line.strip_prefix(LISTENING) {
                if instance.links.is_none() {
                    url.trim().clone_into(&mut instance.url);
                }
                instance.is_listening = true;
                return Ok(());
            }
        }
        let status = process.wait().await?;
        if status.code() == Some(Exit::Usage as i32) {
            let log = process.log_tail();
            return Err(Error::Usage(format!("{} refused its arguments:\n{log}", self.described)));
        }
        Err(self.failed(instance, format!("ended while it was starting ({status})")))
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
        let status = instance.process.as_mut()?.try_wait().ok().flatten()?;
        Some(self.failed(instance, format!("ended ({status})")))
    }

    fn failed(&self, instance: &Instance, what: String) -> Error {
        let number = usize::from(instance.number) + 1;
        let log = instance.process.as_ref().map_or_else(String::new, Process::log_tail);
        Error::Instance { number, of: self.described.clone(), what, log }
    }
}
