//! A throwaway Redis.

mod configuration;
mod protocol;

use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use program::FromSystem as _;

use self::configuration::{CONFIGURATION, DUMP, LOG_FOLDER, OLD_LOG, Primary, RedisSettings, in_url};
pub use self::configuration::{RedisConfig, RedisDurability};
use crate::account::Account;
use crate::find::redis_server;
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output, POLL};
use crate::kept::KeptFolder;
use crate::pause::{pause, resume, signal};
use crate::port::{Port, on_free_ports};
use crate::ready::until_ready;
use crate::{Counters, Error, StopSignal, variables};

/// Time within which a running server answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a dump. It is long, because a machine may be busy with other work.
const DUMPED_WITHIN: Duration = Duration::from_secs(60);
/// The beginning of the refusal of a dump while the process that made one for a replica has not been waited for.
const IS_DUMPING: &str = "ERR Background save already in progress";
/// The name of the server in errors.
const NAME: &str = "redis";

/// The data of a Redis at an instant: what a backup has.
#[derive(Debug, Clone)]
pub struct RedisDump(Vec<u8>);

/// A Redis server of its own, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// By default, each write is durable before it is answered. It listens nowhere else. It is Redis 7 or newer. Run as root, it is
/// started under the account `redis` or `nobody`. Dropping it stops it and removes its data; that blocks, usually for less than
/// a second.
///
/// # Examples
///
/// A server that lost what came after its last backup:
///
/// ```no_run
/// # async fn example() -> Result<(), testbed::Error> {
/// use testbed::{Redis, RedisConfig};
///
/// let mut redis = Redis::start(RedisConfig::default()).await?;
/// redis.command(&["INCR", "token"]).await?;
/// let backup = redis.dump().await?;
/// redis.command(&["INCR", "token"]).await?;
/// redis.restore(&backup).await?;
/// assert_eq!(redis.command(&["GET", "token"]).await?.as_deref(), Some("1"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Redis {
    // Dropped first: the process uses the data and the ports until it has ended.
    running: Option<Guard>,
    data: KeptFolder,
    port: Port,
    /// The port for the other nodes of a cluster.
    bus: Option<Port>,
    config: RedisConfig,
    launch: Launch,
    account: Option<Account>,
}

impl Redis {
    /// Starts a server. It carries out commands when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without Redis on this machine; [`Error::Misnamed`] when `REDIS_BIN` names a folder without it;
    /// [`Error::Setting`] for an empty password; [`Error::Ended`], with the end of its log, when the server gives up;
    /// [`Error::NotReady`] when it does not answer within a minute; [`Error::System`] when the operating system refuses a
    /// process, a port or a folder.
    ///
    /// # Cancel safety
    ///
    /// A server that was starting is stopped, and its folder removed.
    pub async fn start(config: RedisConfig) -> Result<Self, Error> {
        Self::start_as(&config, None).await
    }

    /// Starts a replica of this server, which refuses writes. It has this server's data when this returns, and follows each
    /// later write after a moment.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start). A node of a cluster gives up.
    ///
    /// # Cancel safety
    ///
    /// As for [`start`](Self::start).
    pub async fn start_replica(&self, config: RedisConfig) -> Result<Self, Error> {
        let primary = Primary { port: self.port(), password: self.config.password.as_deref() };
        let mut replica = Self::start_as(&config, Some(primary)).await?;
        // The log begins anew behind the primary's data.
        let ready = ["master_link_status:up", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        replica.until_told(|info| ready.iter().all(|line| info.contains(line))).await?;
        Ok(replica)
    }

    async fn start_as(config: &RedisConfig, primary: Option<Primary<'_>>) -> Result<Self, Error> {
        if config.password.as_deref() == Some("") {
            return Err(Error::Setting("an empty password of Redis is no password".to_owned()));
        }
        let program = redis_server()?;
        let account = Account::unprivileged(&["redis", "nobody"])?;
        on_free_ports(async || {
            let mut redis = Self::create(config, primary, &program, account)?;
            redis.launch()?;
            redis.until_serving().await?;
            Ok(redis)
        })
        .await
    }

    /// Prepares a server, which does not run yet.
    fn create(
        config: &RedisConfig,
        primary: Option<Primary<'_>>,
        program: &Path,
        account: Option<Account>,
    ) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let bus = config.is_cluster.then(Port::reserve).transpose()?;
        let folder = Folder::create(account)?;
        let settings = RedisSettings { port: port.number(), bus: bus.as_ref().map(Port::number), primary };
        folder.write(CONFIGURATION, &settings.text(config))?;
        let data = KeptFolder::keep(folder)?;
        let launch = Launch {
            program: program.to_owned(),
            args: vec![CONFIGURATION.into()],
            envs: vec![("LC_ALL".into(), "C".into())],
            knows: variables::is_of_servers,
            dir: Some(data.path().to_owned()),
            stop_signal: StopSignal::Terminate,
            stop_within: Duration::from_secs(10),
            stdout: Output::Log,
            log_file: None,
        };
        Ok(Self { running: None, data, port, bus, config: config.clone(), launch, account })
    }

    /// Returns the URL for any client, with the password if there is one. A restart does not change it.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.config.password.as_deref().map(|password| format!(":{}@", in_url(password)));
        format!("redis://{}127.0.0.1:{}/", password.unwrap_or_default(), self.port())
    }

    /// Returns the port. A restart does not change it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the process id of the server; `None` after [`kill`](Self::kill).
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|guard| guard.pid().as_raw())
    }

    /// Carries out a command and returns its answer, a text or a number. `None` if the server has nothing to tell, as for a key
    /// that does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server refuses the command, answers by a list, or does not answer within five seconds.
    ///
    /// # Cancel safety
    ///
    /// The command may be carried out all the same.
    pub async fn command(&self, words: &[&str]) -> Result<Option<String>, Error> {
        let answer = within(ANSWER_WITHIN, self.ask(words)).await;
        answer.map_err(Error::system(format!("have {NAME} carry out {}", words.join(" "))))
    }

    /// Returns one count of the server, by the name that `INFO` gives it, for example `total_commands_processed`. `None` if it is
    /// not listed or no whole number.
    ///
    /// `total_commands_processed` has the commands that scripts carry out, too. `cmdstat_evalsha` has the calls of scripts, and is
    /// not listed before the first one. Each call of this method sends a command, and one for the password if there is one. The
    /// server counts both when they are done, so the next call sees them.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not answer within five seconds, as while it is frozen.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metric(&self, name: &str) -> Result<Option<u64>, Error> {
        Ok(self.metrics().await?.get(name))
    }

    /// Returns every count that `INFO` lists, all of one moment.
    ///
    /// # Errors
    ///
    /// As for [`metric`](Self::metric).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metrics(&self) -> Result<Counters, Error> {
        Ok(Counters::from_info(&self.command(&["INFO", "everything"]).await?.unwrap_or_default()))
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, and nothing is answered. Blocks for the moment that it takes.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not run.
    pub fn pause(&self) -> Result<(), Error> {
        pause(NAME, self.running.as_ref())
    }

    /// Lets a frozen server go on. Keys have expired in the meantime.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not run.
    pub fn resume(&self) -> Result<(), Error> {
        resume(NAME, self.running.as_ref())
    }

    /// Kills the server (`SIGKILL`), and keeps its folder and its port, where connections are refused from now on. A server that
    /// does not run stays so.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell how the server ended, or does not give back its port.
    ///
    /// # Cancel safety
    ///
    /// The server ends all the same; this or [`restart`](Self::restart) then waits for it.
    pub async fn kill(&mut self) -> Result<(), Error> {
        // This fails only if the server does not run any more.
        let _ = signal(NAME, self.running.as_ref(), Signal::SIGKILL);
        self.until_ended().await
    }

    /// Starts the server again on the same port with what it had written to its disk; one that still runs is stopped first. It
    /// carries out commands when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`], [`Error::NotReady`] and [`Error::System`] as for [`start`](Self::start). It may be tried again.
    ///
    /// # Cancel safety
    ///
    /// The server goes on starting, or stays stopped; another call starts it afresh.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop().await?;
        // A dump is not what the server has written for itself, and it would load the file.
        self.remove(DUMP, |path| fs::remove_file(path))?;
        self.launch()?;
        self.until_serving().await
    }

    /// Returns the data of this instant. The server carries out nothing else meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not answer within a minute, or the file cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn dump(&self) -> Result<RedisDump, Error> {
        let saved = async {
            loop {
                match self.ask(&["SAVE"]).await {
                    Err(error) if error.to_string().starts_with(IS_DUMPING) => tokio::time::sleep(POLL).await,
                    saved => return saved,
                }
            }
        };
        within(DUMPED_WITHIN, saved).await.map_err(Error::system(format!("have {NAME} dump its data")))?;
        let path = self.data.path().join(DUMP);
        fs::read(&path).map(RedisDump).map_err(Error::system(format!("read {}", path.display())))
    }

    /// Stops the server and starts it again with the data of a dump, of its own or of another server: a Redis that was restored
    /// from a backup. All that came after the dump is gone. It carries out commands when this returns.
    ///
    /// # Errors
    ///
    /// As for [`restart`](Self::restart).
    ///
    /// # Cancel safety
    ///
    /// The server may have no data. Another call restores them.
    pub async fn restore(&mut self, dump: &RedisDump) -> Result<(), Error> {
        self.stop().await?;
        // A server with a log reads nothing else. A log in the form of older servers may begin by a dump, and be nothing more.
        self.remove(LOG_FOLDER, |path| fs::remove_dir_all(path))?;
        let has_log = self.config.durability != RedisDurability::None;
        self.data.write(if has_log { OLD_LOG } else { DUMP }, &dump.0)?;
        self.launch()?;
        self.until_serving().await
    }

    /// Stops the server, and keeps its folder and its port.
    async fn stop(&mut self) -> Result<(), Error> {
        if let Some(guard) = &self.running {
            guard.request_stop();
        }
        self.until_ended().await
    }

    async fn until_ended(&mut self) -> Result<(), Error> {
        if let Some(guard) = &mut self.running {
            // Waited for here, because the drop of a running guard blocks the thread.
            guard.wait().await?;
        }
        self.running = None;
        self.ports().try_for_each(Port::take_back)
    }

    /// Starts the process. The server does not answer yet.
    fn launch(&mut self) -> Result<(), Error> {
        self.ports().for_each(Port::lend);
        self.running = Some(Guard::spawn(self.launch.clone(), Folder::create(self.account)?)?);
        Ok(())
    }

    /// Waits until the launched server has its data and answers.
    async fn until_serving(&mut self) -> Result<(), Error> {
        self.until_told(|_| true).await
    }

    /// Waits until the launched server carries out commands, and its answer to `INFO` has what is looked for. The process id in
    /// it proves that this is the server that was started.
    async fn until_told(&mut self, is_found: impl Fn(&str) -> bool) -> Result<(), Error> {
        let port = self.port();
        let password = self.config.password.as_deref();
        let guard = self.running.as_mut().expect("BUG: a server is launched before it is waited for");
        let pid = u64::try_from(guard.pid().as_raw()).ok();
        let is_ready = async || {
            let ask = async |word| protocol::ask(port, password, &[word]).await.ok().flatten();
            let is_meant = |info: String| Counters::from_info(&info).get("process_id") == pid && is_found(&info);
            ask("PING").await.as_deref() == Some("PONG") && ask("INFO").await.is_some_and(is_meant)
        };
        until_ready(NAME, guard, is_ready).await
    }

    async fn ask(&self, words: &[&str]) -> io::Result<Option<String>> {
        protocol::ask(self.port(), self.config.password.as_deref(), words).await
    }

    fn ports(&mut self) -> impl Iterator<Item = &mut Port> {
        [&mut self.port].into_iter().chain(&mut self.bus)
    }

    /// Removes something of the folder, if it is there.
    fn remove(&self, name: &str, remove: impl FnOnce(&PathBuf) -> io::Result<()>) -> Result<(), Error> {
        let path = self.data.path().join(name);
        match remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::system(format!("remove {}", path.display()))),
        }
    }
}

async fn within<T>(limit: Duration, answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
