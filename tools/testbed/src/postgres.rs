//! A throwaway Postgres.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use program::FromSystem as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection};

use crate::account::Account;
use crate::disk::fill_disk;
use crate::find::postgres_bin;
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::kept::KeptFolder;
use crate::port::{Port, on_free_ports};
use crate::ready::until_ready;
use crate::stat::ProcessStat;
use crate::{Error, Identity, StopSignal, variables};

/// The one account of the server, a superuser without a password.
const USER: &str = "postgres";
/// Creates the cluster if there is none, then becomes the server: one child for both, so that an end in between leaves nothing.
/// The server's log is in English whatever the locale of the user.
const SCRIPT: &str = r#"initdb=$1; shift; [ -d data ] || "$initdb" --pgdata=data --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync >&2 || exit; exec "$@""#;
/// The name of the server in errors.
const NAME: &str = "postgres";

/// The files of the server's certificate and key in its folder.
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// Settings of a throwaway Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Number of connections that the server accepts. Postgres itself keeps three of them for superusers, which every
    /// user of this server is.
    pub connections_max: u32,
    /// The certificate for clients that ask for TLS. Without it, the server speaks no TLS. Clients that do not ask are
    /// served all the same.
    pub tls: Option<Identity>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self { connections_max: 200, tls: None }
    }
}

/// A Postgres server of its own, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// Commits are durable (`fsync` and `synchronous_commit` are on), as they are part of what is measured. It trusts everybody
/// who can connect, which is every user of this machine, and listens nowhere else. Run as root, it is started under the
/// account `postgres` or `nobody`. Dropping it stops it ("fast" shutdown) and removes its data; that blocks, usually for less
/// than a second.
#[derive(Debug)]
pub struct Postgres {
    // Dropped first: the server uses the data and the port until it has ended.
    running: Option<Guard>,
    data: KeptFolder,
    port: Port,
    launch: Launch,
    account: Option<Account>,
    is_encrypted: bool,
}

impl Postgres {
    /// Creates and starts a server. It answers queries when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without Postgres on this machine; [`Error::Ended`], with the end of its log, when the server
    /// gives up; [`Error::NotReady`] when it does not answer within a minute; [`Error::System`] when the operating system
    /// refuses a process, a port or a folder.
    ///
    /// # Cancel safety
    ///
    /// A server that was starting is stopped, and its folder removed.
    pub async fn start(config: PostgresConfig) -> Result<Self, Error> {
        let bin = postgres_bin()?;
        let account = Account::unprivileged(&["postgres", "nobody"])?;
        on_free_ports(async || {
            let mut postgres = Self::create(&config, &bin, account)?;
            postgres.restart().await?;
            Ok(postgres)
        })
        .await
    }

    /// Prepares a server, which does not run yet.
    fn create(config: &PostgresConfig, bin: &Path, account: Option<Account>) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let folder = Folder::create(account)?;
        if let Some(identity) = &config.tls {
            let [certificate, key] = identity.read()?;
            folder.write(CERTIFICATE, &certificate)?;
            folder.write(KEY, &key)?;
        }
        let data = KeptFolder::keep(folder)?;
        let launch = Launch {
            program: PathBuf::from("/bin/sh"),
            args: arguments(port.number(), data.path(), config, bin),
            envs: vec![("LC_ALL".into(), "C".into())],
            knows: variables::is_of_servers,
            dir: Some(data.path().to_owned()),
            stop_signal: StopSignal::Interrupt,
            stop_within: Duration::from_secs(10),
            stdout: Output::Log,
            log_file: None,
        };
        Ok(Self { running: None, data, port, launch, account, is_encrypted: config.tls.is_some() })
    }

    /// Stops the server ("fast" shutdown: it ends all connections), and keeps its data and its port.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell how the server ended, or does not give back its port.
    ///
    /// # Cancel safety
    ///
    /// The server stops all the same; this or [`restart`](Self::restart) then waits for it.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if let Some(guard) = &mut self.running {
            guard.request_stop();
            // Waited for here, because the drop of a running guard blocks the thread.
            guard.wait().await?;
        }
        self.running = None;
        self.port.take_back()
    }

    /// Starts the server again on the same port with the same data; one that still runs is stopped first. It answers queries when this
    /// returns.
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
        self.port.lend();
        let folder = Folder::create(self.account)?;
        let guard = self.running.insert(Guard::spawn(self.launch.clone(), folder)?);
        let data = self.data.path().join("data");
        let port = self.port.number();
        let serves = async || data_directory(port).await.is_ok_and(|found| found == data);
        until_ready(NAME, guard, serves).await
    }

    /// Lets the disk of the server take nothing more: every write to a file fails until [`restart`](Self::restart). Linux only.
    ///
    /// The server cannot keep its log. So it ends all connections, and may end itself.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not run, and on other systems.
    pub fn fill_disk(&self) -> Result<(), Error> {
        self.processes()?.into_iter().try_for_each(|process| fill_disk(NAME, process))
    }

    /// Returns the URL of `database` for any Postgres client. The databases of a new server are `postgres` and the templates.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        // Without the parameter, `PGSSLMODE` for the user's own server would apply to this one.
        let plain = if self.is_encrypted { "" } else { "?sslmode=disable" };
        format!("postgres://{USER}@127.0.0.1:{}/{database}{plain}", self.port.number())
    }

    /// Kills one of its processes, so that the server crashes: it ends all connections, recovers from its log, and serves again at the
    /// same address.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not run, or on a system without `/proc`.
    pub fn crash(&self) -> Result<(), Error> {
        let processes = self.processes()?;
        // The last one serves a client, if there is any.
        let child = processes.into_iter().skip(1).next_back();
        let killed = child.ok_or(Errno::ESRCH).and_then(|child| kill(child, Signal::SIGKILL));
        killed.map_err(|errno| Error::system("kill a process of postgres")(errno.into()))
    }

    /// Freezes all of its processes until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// As for [`crash`](Self::crash).
    pub fn pause(&self) -> Result<(), Error> {
        // The first process goes first, so that it starts no other one meanwhile.
        self.signal_all(Signal::SIGSTOP)
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    ///
    /// As for [`crash`](Self::crash).
    pub fn resume(&self) -> Result<(), Error> {
        self.signal_all(Signal::SIGCONT)
    }

    fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        let failed = |errno: Errno| Error::system(format!("send {signal} to postgres"))(errno.into());
        for process in self.processes()? {
            match kill(process, signal) {
                // It has ended.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }

    /// Returns the first process of the server and its children, which it may go on to start.
    fn processes(&self) -> Result<Vec<Pid>, Error> {
        let first = self.first()?;
        let children =
            ProcessStat::children_of(first.as_raw()).map_err(Error::system("list the processes of postgres"))?;
        Ok([first].into_iter().chain(children.into_iter().map(Pid::from_raw)).collect())
    }

    fn first(&self) -> Result<Pid, Error> {
        let first = self.running.as_ref().map(Guard::pid).ok_or(Errno::ESRCH);
        first.map_err(|errno| Error::system(format!("find the processes of {NAME}"))(errno.into()))
    }

    /// Returns the process id of the server, whose children serve its connections. `None` if it was stopped.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|guard| guard.pid().as_raw())
    }
}

fn arguments(port: u16, dir: &Path, config: &PostgresConfig, bin: &Path) -> Vec<OsString> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        // No Unix socket: nothing here uses one, and its path may be too long for one under a deep temporary folder.
        "unix_socket_directories=".to_owned(),
        format!("max_connections={}", config.connections_max),
        "superuser_reserved_connections=0".to_owned(),
        "shared_buffers=64MB".to_owned(),
        // So that a reader learns when an order was committed, and not only when it was written.
        "track_commit_timestamp=on".to_owned(),
        "logging_collector=off".to_owned(),
    ];
    if config.tls.is_some() {
        settings.push("ssl=on".to_owned());
        settings.push(format!("ssl_cert_file={}", dir.join(CERTIFICATE).display()));
        settings.push(format!("ssl_key_file={}", dir.join(KEY).display()));
    }
    let mut args: Vec<OsString> = vec!["-c".into(), SCRIPT.into(), "postgres".into()];
    args.push(bin.join("initdb").into());
    args.push(bin.join("postgres").into());
    args.extend(["-D", "data"].map(OsString::from));
    args.extend(settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting.into()]));
    args
}

/// Returns the data folder of the server that listens at the port. It proves that this is the server that was started.
async fn data_directory(port: u16) -> Result<PathBuf, sqlx::Error> {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username(USER).database(USER);
    // A variable of the user's must not decide this.
    let options = options.ssl_mode(PgSslMode::Disable);
    let mut connection = options.connect().await?;
    let data: String =
        sqlx::query_scalar("select current_setting('data_directory')").fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(PathBuf::from(data))
}
