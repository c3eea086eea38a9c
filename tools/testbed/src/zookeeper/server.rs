//! One ZooKeeper process and its data, alone or in an ensemble.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use program::FromSystem as _;

use super::child_number;
use super::configuration::{self, Configuration, Installation, Membership, ServerSettings, ZOO_CFG};
use crate::clock;
use crate::disk::fill_disk;
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::kept::KeptFolder;
use crate::pause::{pause, resume, signal};
use crate::port::Port;
use crate::ready::until_ready;
use crate::{Counters, Error, StopSignal, four_letter_word, variables};

/// The ports of one server, which stay its own while it is stopped.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) client: Port,
    /// The one for TLS.
    pub(crate) secure: Option<Port>,
    /// The two for the other servers of an ensemble.
    pub(crate) peers: Option<[Port; 2]>,
}

impl Ports {
    fn each(&mut self) -> impl Iterator<Item = &mut Port> {
        [&mut self.client].into_iter().chain(&mut self.secure).chain(self.peers.iter_mut().flatten())
    }
}

/// A server that is running or stopped. It is created stopped.
#[derive(Debug)]
pub(crate) struct Server {
    // Dropped first: the process uses the data and the ports until it has ended.
    running: Option<Guard>,
    data: KeptFolder,
    ports: Ports,
    name: String,
    configuration: Configuration,
    launch: Launch,
    installation: Installation,
    is_paused: AtomicBool,
}

impl Server {
    /// Prepares a server, called `name` in errors.
    pub(crate) fn create(
        name: String,
        installation: &Installation,
        settings: ServerSettings,
        ports: Ports,
        membership: Option<Membership>,
    ) -> Result<Self, Error> {
        let folder = Folder::create(installation.account)?;
        let secure_port = ports.secure.as_ref().map(Port::number);
        let configuration = Configuration { client_port: ports.client.number(), secure_port, settings, membership };
        configuration.write_files(&folder)?;
        let data = KeptFolder::keep(folder)?;
        let launch = Launch {
            program: installation.java.clone(),
            args: configuration.arguments(data.path(), &installation.class_path),
            envs: configuration::variables(),
            knows: variables::is_of_servers,
            dir: Some(data.path().to_owned()),
            stop_signal: StopSignal::Terminate,
            stop_within: Duration::from_secs(10),
            stdout: Output::Log,
            log_file: None,
        };
        let is_paused = AtomicBool::new(false);
        Ok(Self {
            running: None,
            data,
            ports,
            name,
            configuration,
            launch,
            installation: installation.clone(),
            is_paused,
        })
    }

    /// Prepares a server with a copy of the data that this server has now.
    pub(crate) fn copy(&self, ports: Ports) -> Result<Self, Error> {
        let name = format!("the copy of {}", self.name);
        let copy = Self::create(name, &self.installation, self.configuration.settings.clone(), ports, None)?;
        copy.data.copy_all(self.data.path(), "data/version-2")?;
        Ok(copy)
    }

    /// Sets the limits of the session timeouts, which the process reads when it starts.
    pub(crate) fn set_session_timeouts(&mut self, limits: &RangeInclusive<Duration>) -> Result<(), Error> {
        let settings = self.configuration.settings.clone().with_session_timeouts(Some(limits))?;
        let configuration = Configuration { settings, ..self.configuration.clone() };
        self.data.write(ZOO_CFG, configuration.zoo_cfg(self.data.path()))?;
        self.configuration = configuration;
        Ok(())
    }

    /// Sets the number of the next sequential child of a node, while the process is stopped.
    pub(crate) async fn number_next_child(&mut self, path: &str, number: i32) -> Result<(), Error> {
        if self.running.is_some() {
            return Err(Error::Setting(format!("{} must be stopped before its data are changed", self.name)));
        }
        child_number::set(&self.installation, self.data.path(), path, number).await
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.client.number())
    }

    pub(crate) fn secure_address(&self) -> Option<String> {
        self.ports.secure.as_ref().map(|port| format!("127.0.0.1:{}", port.number()))
    }

    /// Returns whether the server was started and is not frozen.
    pub(crate) fn is_up(&self) -> bool {
        self.running.is_some() && !self.is_paused.load(Ordering::Relaxed)
    }

    /// Starts the process, and first stops one that still runs. The server does not answer yet.
    pub(crate) async fn launch(&mut self) -> Result<(), Error> {
        self.stop().await?;
        self.ports.each().for_each(Port::lend);
        self.running = Some(Guard::spawn(self.launch.clone(), Folder::create(self.installation.account)?)?);
        self.is_paused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until the launched server serves requests. One of an ensemble does so once there is a quorum.
    pub(crate) async fn until_serving(&mut self) -> Result<(), Error> {
        let address = self.address();
        let dir = self.data.path();
        let guard = self.running.as_mut().expect("BUG: a server is launched before it is waited for");
        until_ready(&self.name, guard, async || serves_from(dir, &address).await).await
    }

    /// Waits until the launched server answers at all, even if it does not serve.
    pub(crate) async fn until_answering(&mut self) -> Result<(), Error> {
        let address = self.address();
        let guard = self.running.as_mut().expect("BUG: a server is launched before it is waited for");
        until_ready(&self.name, guard, async || four_letter_word(&address, "conf").await.is_ok()).await
    }

    /// Returns the process id while the process runs.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|guard| guard.pid().as_raw())
    }

    /// Asks the process to stop, without waiting for it.
    pub(crate) fn request_stop(&self) {
        if let Some(guard) = &self.running {
            guard.request_stop();
        }
    }

    /// Stops the process; its data and its ports stay.
    pub(crate) async fn stop(&mut self) -> Result<(), Error> {
        self.request_stop();
        if let Some(guard) = &mut self.running {
            // Waited for here, because the drop of a running guard blocks the thread.
            guard.wait().await?;
        }
        self.running = None;
        self.ports.each().try_for_each(Port::take_back)
    }

    /// Kills the process (`SIGKILL`); its data and its ports stay.
    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        // This fails only if the process does not run any more.
        let _ = signal(&self.name, self.running.as_ref(), Signal::SIGKILL);
        self.stop().await
    }

    pub(crate) fn pause(&self) -> Result<(), Error> {
        pause(&self.name, self.running.as_ref())?;
        self.is_paused.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the server a wall clock of its own from its next launch on, if this machine has libfaketime.
    pub(crate) fn own_clock(&mut self) -> Result<(), Error> {
        if let Ok(variables) = clock::variables(self.data.path()) {
            self.launch.envs.extend(variables);
        }
        clock::set(&self.data, 0)
    }

    /// Sets by how many seconds its own clock is ahead of the machine's.
    pub(crate) fn step_clock(&self, ahead: i64) -> Result<(), Error> {
        let own = clock::variables(self.data.path())?;
        if !own.iter().all(|variable| self.launch.envs.contains(variable)) {
            return Err(Error::Setting(format!("{} was not started with a clock of its own", self.name)));
        }
        clock::set(&self.data, ahead)
    }

    pub(crate) fn fill_disk(&self) -> Result<(), Error> {
        self.running.as_ref().map_or(Ok(()), |guard| fill_disk(&self.name, guard.pid()))
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        resume(&self.name, self.running.as_ref())?;
        self.is_paused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the answer to a four-letter word.
    pub(crate) async fn ask(&self, word: &str) -> Result<String, Error> {
        let answer = four_letter_word(&self.address(), word).await;
        answer.map_err(Error::system(format!("ask {} for {word}", self.name)))
    }

    /// Returns one counter of `mntr`, zero if it is not listed.
    pub(crate) async fn metric(&self, name: &str) -> Result<u64, Error> {
        Ok(self.metrics().await?.get(name).unwrap_or(0))
    }

    /// Returns every counter of `mntr`.
    pub(crate) async fn metrics(&self) -> Result<Counters, Error> {
        Ok(Counters::from_mntr(&self.ask("mntr").await?))
    }
}

/// Returns whether the server at the address serves requests and keeps its data in `dir`, which proves that it is the
/// one that was started.
///
/// `conf` is refused by a server that does not serve yet, while `ruok` is not.
async fn serves_from(dir: &Path, address: &str) -> bool {
    let data_dir = configuration::data_dir_line(dir);
    match four_letter_word(address, "conf").await {
        Ok(answer) => answer.lines().any(|line| line.starts_with(&data_dir)),
        Err(_) => false,
    }
}
