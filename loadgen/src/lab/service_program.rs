//! The program of the service: its path, the arguments of an instance, and the strategies that it offers.

use std::env;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use program::FromSystem as _;
use tokio::process::Command;

use crate::error::{Error, Exit};
use crate::lab::servers::is_set;
use crate::lab::source::{Program, ServiceSettings};
use crate::lab::strategy::{Strategy, StrategyList};

/// Timeout of a session, unless faults are to end it. A burst may occupy all processors for seconds, and no session may end because of that.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Added to the wait for the lock, this is an instance's limit for the database, from the start of a purchase. The longest
/// business time must be shorter.
pub(crate) const DB_GRACE: Duration = Duration::from_secs(5);
/// Added to the wait for the lock, this is an instance's limit for its answer.
pub(crate) const HTTP_GRACE: Duration = Duration::from_secs(10);
/// Connections that an instance accepts for the generator's own requests, in addition to those of the buyers.
const CONNECTIONS_SPARE: u32 = 64;
/// Critical sections that an instance records: those of a long loop, in some 100 MiB.
const HISTORY: u32 = 1_000_000;
/// Connections that an instance keeps to Postgres for its buyers.
pub(super) const DB_CONNECTIONS: u32 = 20;

/// Open files of an instance in addition to those of clients, sessions and the buyers' connections to Postgres: two more
/// connections to Postgres, up to 288 between instances, and 64 for everything else.
const FILES_ASIDE: u64 = 354;
/// An instance reserves the same number of files for its port for other instances as for the buyers.
const LISTENERS: u64 = 2;

/// Returns the path of a program of the service: the one named, or else the one beside this program.
pub(crate) fn find(program: &Program) -> Result<PathBuf, Error> {
    let program = match &program.path {
        Some(path) => path.clone(),
        None => {
            env::current_exe().map_err(Error::system("find this program's own folder"))?.with_file_name("demo-service")
        }
    };
    if program.is_file() { Ok(program) } else { Err(Error::ServiceMissing(program)) }
}

/// Returns the port of instance `number`, if the ports were chosen. Their range was checked with the command line.
pub(super) fn port_of(settings: &ServiceSettings, number: u16) -> Option<u16> {
    settings.port.and_then(|first| first.checked_add(number))
}

/// Returns the name of instance `number`, counted from zero.
pub(crate) fn instance_name(number: u16) -> String {
    format!("lab-{}", number + 1)
}

/// Returns the open files that an instance needs for this number of connected buyers.
pub(super) fn files_needed(settings: &ServiceSettings, connections: u64) -> u64 {
    let clients = LISTENERS * (connections + u64::from(CONNECTIONS_SPARE));
    clients + u64::from(settings.zk_sessions) + u64::from(DB_CONNECTIONS) + FILES_ASIDE
}

/// Returns the arguments of instance `number`, counted from zero. If no port was chosen, it listens on this one, or else on any.
pub(super) fn arguments(settings: &ServiceSettings, number: u16, port: Option<u16>) -> impl Iterator<Item = String> {
    // Each limit has to be longer than the one inside it, so that the innermost one gives the answer.
    let lock_wait = settings.lock_wait;
    let time = |time: Duration| humantime::format_duration(time).to_string();
    let port = port_of(settings, number).or(port).unwrap_or(0);
    let flags = [
        ("--listen", format!("{}:{port}", Ipv4Addr::LOCALHOST)),
        ("--zk-sessions", settings.zk_sessions.to_string()),
        ("--business-time", settings.business_time.clone()),
        ("--lock-wait", time(lock_wait)),
        ("--zk-session-timeout", time(settings.session_timeout)),
        ("--db-timeout", time(lock_wait + DB_GRACE)),
        ("--http-timeout", time(lock_wait + HTTP_GRACE)),
        ("--db-connections", DB_CONNECTIONS.to_string()),
        ("--concurrency-max", settings.buyers_max.to_string()),
        ("--connections-max", (settings.buyers_max + CONNECTIONS_SPARE).to_string()),
        ("--history", HISTORY.to_string()),
        ("--instance", instance_name(number)),
    ];
    let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    flags.chain(settings.args.clone())
}

/// Tells whether an instance inherits this variable: variables of the system and of the log, and those that say how to reach
/// a server that the environment names. Settings are arguments, because the report names them.
pub(super) fn knows(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_of_system = ["PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR"].contains(&&*name) || name.starts_with("RUST_");
    let is_of = |family: &str, server: &str| name.starts_with(family) && is_set(server);
    // The URL of Redis is not inherited: instances get it only if a strategy needs it.
    let is_of_redis = name == "REDIS_CA" && is_set("REDIS_URL");
    is_of_system || is_of_redis || is_of("PG", "DATABASE_URL") || is_of("ZOOKEEPER_", "ZOOKEEPER_CONNECT")
}

/// Asks the program which strategies its instances would offer. The program checks its whole command line for that, and
/// connects to nothing.
pub(crate) async fn strategies(settings: &ServiceSettings, of: &Program) -> Result<Vec<Strategy>, Error> {
    let program = find(of)?;
    let answered = Command::new(&program)
        .arg("--list-strategies")
        .args(arguments(settings, 0, None))
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| knows(name)))
        // The program requires addresses, but does not use them here.
        .envs([("DATABASE_URL", "postgres://localhost"), ("ZOOKEEPER_CONNECT", "localhost")])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(Error::system(format!("run {}", program.display())))?;
    let told = String::from_utf8_lossy(&answered.stderr).trim_end().to_owned();
    if answered.status.code() == Some(Exit::Usage as i32) {
        return Err(Error::Usage(format!("{} refused its arguments:\n{told}", of.described())));
    }
    let failed = |what: String| Error::ServiceProgram { program: program.clone(), what };
    if !answered.status.success() {
        return Err(failed(format!("it ended ({}) and wrote:\n{told}", answered.status)));
    }
    let list: StrategyList =
        serde_json::from_slice(&answered.stdout).map_err(|error| failed(format!("its answer is no list: {error}")))?;
    Ok(list.strategies.into_iter().map(|strategy| Strategy { build: of.name.clone(), ..strategy }).collect())
}
