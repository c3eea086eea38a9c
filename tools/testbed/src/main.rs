//! Runs a command with throwaway servers around it: Postgres, ZooKeeper and, if it is asked for, Redis.

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use program::{Epilogue, Exit, FromSystem as _, run_program};
use sqlx::{ConnectOptions, Connection};
use testbed::{Error, Postgres, PostgresConfig, Redis, RedisConfig, ZooKeeper, ZooKeeperConfig};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

/// The database that is made for the command.
const DATABASE: &str = "seckill";

/// Runs a command with a throwaway Postgres and a throwaway ZooKeeper.
///
/// The command finds them in its environment: DATABASE_URL names an empty database called "seckill", and ZOOKEEPER_CONNECT is
/// HOST:PORT. With --redis, REDIS_URL names an empty Redis whose writes are durable. The servers and their data are gone
/// afterwards, however this ends.
#[derive(Debug, Parser)]
#[command(name = "testbed", version, max_term_width = 100, after_help = epilogue().to_string())]
struct Args {
    /// Time unit of ZooKeeper; sessions time out after at least two of them
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    tick_time: Duration,
    /// Number of connections that Postgres accepts
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: u32,
    /// Start a throwaway Redis, too
    #[arg(long)]
    redis: bool,
    /// Command to run, and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("opens a shell whose environment names both servers", "testbed -- sh"),
            ("does so with a Redis beside them", "testbed --redis -- sh"),
        ])
        .note("SIGINT, SIGTERM and SIGHUP are passed on to the command.")
        .exit_status(&[(Exit::Setup, ""), (Exit::Usage, "")])
        .note("Any other status is the command's own, or 128 + N if signal N ended it.")
}

/// What runs around the command.
struct Servers {
    postgres: Postgres,
    zookeeper: ZooKeeper,
    redis: Option<Redis>,
}

/// The signals that ask this process to end.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// `None` if `SIGHUP` is ignored, as under `nohup`.
    hangup: Option<unix::Signal>,
}

fn main() -> ExitCode {
    run_program(|args: Args| {
        testbed::forget_postgres_variables()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(Error::system("start the runtime"))?.block_on(run(&args))
    })
}

async fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut signals = Signals::listen().map_err(Error::system("listen for signals"))?;
    let started = tokio::select! {
        started = start(args) => started,
        signal = signals.next() => return Ok(signalled(signal)),
    };
    let servers = started?;
    let code = run_command(args, &servers, &mut signals).await;
    let Servers { postgres, zookeeper, redis } = servers;
    // Each drop waits for the end of its server. On threads of their own, all servers stop at once.
    let stopping = [thread::spawn(move || drop(postgres)), thread::spawn(move || drop(redis))];
    drop(zookeeper);
    for stopped in stopping {
        // A panic there has printed its message. The command's status is still the one to report.
        let _ = stopped.join();
    }
    code
}

async fn start(args: &Args) -> Result<Servers, Error> {
    let postgres = async {
        let postgres =
            Postgres::start(PostgresConfig { connections_max: args.connections_max, ..PostgresConfig::default() })
                .await?;
        create_database(&postgres)
            .await
            .map_err(|source| Error::Postgres { action: format!("create database {DATABASE}"), source })?;
        Ok(postgres)
    };
    let zookeeper = ZooKeeper::start(ZooKeeperConfig { tick_time: args.tick_time, ..ZooKeeperConfig::default() });
    let redis = async { if args.redis { Redis::start(RedisConfig::default()).await.map(Some) } else { Ok(None) } };
    let (postgres, zookeeper, redis) = tokio::try_join!(postgres, zookeeper, redis)?;
    Ok(Servers { postgres, zookeeper, redis })
}

async fn create_database(postgres: &Postgres) -> Result<(), sqlx::Error> {
    let options: sqlx::postgres::PgConnectOptions = postgres.url("postgres").parse()?;
    let mut connection = options.connect().await?;
    sqlx::query("create database seckill").execute(&mut connection).await?;
    connection.close().await
}

async fn run_command(args: &Args, servers: &Servers, signals: &mut Signals) -> Result<ExitCode, Error> {
    let (program, arguments) = args.command.split_first().expect("BUG: clap requires a command");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("DATABASE_URL", servers.postgres.url(DATABASE))
        .env("ZOOKEEPER_CONNECT", servers.zookeeper.connect_string())
        .envs(servers.redis.as_ref().map(|redis| ("REDIS_URL", redis.url())));
    let mut child = command.spawn().map_err(Error::system(format!("run {}", program.display())))?;
    loop {
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(Error::system(format!("wait for {}", program.display())))?;
                return Ok(ExitCode::from(code_of(status)));
            }
            signal = signals.next() => forward(signal, &child),
        }
    }
}

/// Passes a signal on, unless it is a Ctrl-C that the terminal has sent to the command as well.
fn forward(signal: Signal, child: &Child) {
    if signal == Signal::SIGINT && in_foreground() {
        return;
    }
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // This fails only if the command has just ended, which the loop notices next.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Returns whether the terminal sends Ctrl-C to the process group of this process and the command.
fn in_foreground() -> bool {
    fn leads(stream: impl AsFd + IsTerminal) -> bool {
        stream.is_terminal() && tcgetpgrp(stream) == Ok(getpgrp())
    }
    leads(io::stdin()) || leads(io::stdout()) || leads(io::stderr())
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: (!program::is_hangup_ignored()).then(|| unix::signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for the next of them. A drop loses none.
    async fn next(&mut self) -> Signal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = hangup => Signal::SIGHUP,
        }
    }
}

/// Returns the status that a shell would report.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn signalled(signal: Signal) -> ExitCode {
    ExitCode::from(code_of(ExitStatus::from_raw(signal as i32)))
}
