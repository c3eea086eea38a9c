//! A throwaway MariaDB.

use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::account::Account;
use crate::find::{MariaDbPrograms, mariadb};
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::port::{Port, on_free_ports};
use crate::ready::until_ready;
use crate::{Error, StopSignal, variables};

/// Creates the system tables, then becomes the server: one child for both, so that an end in between leaves nothing.
const SCRIPT: &str = r#"install=$1 server=$2 port=$3
shift 3
set -- --no-defaults "$@" "--datadir=$PWD/data" "--tmpdir=$PWD" --skip-name-resolve
set -- "$@" --innodb-flush-method=nosync --innodb-log-file-size=4M
"$install" "$@" --auth-root-authentication-method=normal --skip-test-db >&2 || exit
set -- "$@" --bind-address=127.0.0.1 "--port=$port" --socket= "--pid-file=$PWD/mariadb.pid" --innodb-buffer-pool-size=16M
exec "$server" "$@"
"#;
/// The file of the script in which the server writes its process id once it listens. The guard has another one.
const PID_FILE: &str = "mariadb.pid";
/// The version of the protocol. It is the first byte behind the four of the header in the packet with which the server begins.
const PROTOCOL: u8 = 10;

/// A MariaDB server of its own, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// Its account `root` has no password, and it listens nowhere else. Its commits are not durable: nothing is measured with it. Run
/// as root, it is started under the account `mysql`, `postgres` or `nobody`. Dropping it stops it and removes its data; that
/// blocks, usually for less than a second.
#[derive(Debug)]
pub struct MariaDb {
    // Dropped first: the port is reserved until the server has ended.
    guard: Guard,
    port: Port,
}

impl MariaDb {
    /// Creates and starts a server, which takes about two seconds. It accepts connections when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without MariaDB on this machine; [`Error::Ended`], with the end of its log, when the server gives
    /// up; [`Error::NotReady`] when it does not answer within a minute; [`Error::System`] when the operating system refuses a
    /// process, a port or a folder.
    ///
    /// # Cancel safety
    ///
    /// A server that was starting is stopped, and its folder removed.
    pub async fn start() -> Result<Self, Error> {
        let programs = mariadb()?;
        let account = Account::unprivileged(&["mysql", "postgres", "nobody"])?;
        on_free_ports(async || Self::start_on(Port::reserve()?, &programs, account).await).await
    }

    async fn start_on(mut port: Port, programs: &MariaDbPrograms, account: Option<Account>) -> Result<Self, Error> {
        let folder = Folder::create(account)?;
        let dir = folder.path().to_owned();
        let launch = Launch {
            program: PathBuf::from("/bin/sh"),
            args: arguments(port.number(), programs),
            envs: vec![("LC_ALL".into(), "C".into())],
            knows: variables::is_of_servers,
            dir: Some(dir.clone()),
            stop_signal: StopSignal::Terminate,
            stop_within: Duration::from_secs(10),
            stdout: Output::Log,
            log_file: None,
        };
        port.lend();
        let mut guard = Guard::spawn(launch, folder)?;
        // The file is in a folder of its own, so this is the server that was started.
        let pid_file = dir.join(PID_FILE);
        let serves = async || pid_file.exists() && greets(port.number()).await.unwrap_or(false);
        until_ready("mariadb", &mut guard, serves).await?;
        Ok(Self { guard, port })
    }

    /// Returns the URL of `database` for any client of MySQL. A new server has only its own database, `mysql`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port.number())
    }

    /// Returns the process id of the server.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.guard.pid().as_raw()
    }
}

fn arguments(port: u16, programs: &MariaDbPrograms) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["-c".into(), SCRIPT.into(), "mariadb".into()];
    args.extend([programs.install.as_os_str().into(), programs.server.as_os_str().into(), port.to_string().into()]);
    args.extend(programs.base.as_ref().map(|base| {
        let mut argument = OsString::from("--basedir=");
        argument.push(base);
        argument
    }));
    args
}

/// Returns whether the program at the port begins as a server of MySQL's protocol does. This crate has no driver for it, because
/// `loadgen` can be built without one.
async fn greets(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut beginning = [0; 5];
    stream.read_exact(&mut beginning).await?;
    Ok(beginning[4] == PROTOCOL)
}
