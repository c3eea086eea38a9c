//! A throwaway pgbouncer in front of a Postgres server.

use std::path::Path;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::account::Account;
use crate::find::pgbouncer as program;
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::port::{Port, on_free_ports};
use crate::ready::until_ready;
use crate::{Error, StopSignal, variables};

/// A pooler of its own, on a free port of 127.0.0.1. Like the server behind it, it trusts every client. Dropping it stops it.
///
/// Run as root, it is started under the account `postgres` or `nobody`, because it refuses root.
#[derive(Debug)]
pub struct PgBouncer {
    // Dropped first: the port is reserved until the pooler has ended.
    _guard: Guard,
    port: Port,
    server: PgConnectOptions,
}

impl PgBouncer {
    /// Starts a pooler in front of the server of this URL, with more lines for the section `[pgbouncer]` of its configuration.
    /// It answers queries when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without pgbouncer on this machine; [`Error::Ended`], with the end of its log, when it refuses its
    /// configuration; [`Error::NotReady`] when no query is answered within a minute; [`Error::Postgres`] when the URL is none;
    /// [`Error::System`] when the operating system refuses a process, a port or a folder.
    ///
    /// # Cancel safety
    ///
    /// A pooler that was starting is stopped, and its folder removed.
    pub async fn start(server: &str, settings: &str) -> Result<Self, Error> {
        let program = program()?;
        let account = Account::unprivileged(&["postgres", "nobody"])?;
        let server: PgConnectOptions = server
            .parse()
            .map_err(|source| Error::Postgres { action: "read the URL of the server".to_owned(), source })?;
        on_free_ports(async || Self::start_on(Port::reserve()?, &program, account, &server, settings).await).await
    }

    async fn start_on(
        mut port: Port,
        program: &Path,
        account: Option<Account>,
        server: &PgConnectOptions,
        settings: &str,
    ) -> Result<Self, Error> {
        let folder = Folder::create(account)?;
        let dir = folder.path().to_owned();
        folder.write("pgbouncer.ini", &configuration(port.number(), server, settings))?;
        let launch = Launch {
            program: program.to_owned(),
            args: vec!["pgbouncer.ini".into()],
            envs: vec![("LC_ALL".into(), "C".into())],
            knows: variables::is_of_servers,
            dir: Some(dir),
            stop_signal: StopSignal::Terminate,
            stop_within: Duration::from_secs(10),
            stdout: Output::Log,
            log_file: None,
        };
        port.lend();
        let mut guard = Guard::spawn(launch, folder)?;
        let number = port.number();
        until_ready("pgbouncer", &mut guard, async || answers(server, number).await.is_ok()).await?;
        Ok(Self { _guard: guard, port, server: server.clone() })
    }

    /// Returns the URL of the server's database behind the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        let database = self.server.get_database().unwrap_or_else(|| self.server.get_username());
        format!("postgres://{}@127.0.0.1:{}/{database}", self.server.get_username(), self.port.number())
    }
}

fn configuration(port: u16, server: &PgConnectOptions, settings: &str) -> String {
    format!(
        "[databases]\n* = host={} port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\n{settings}\n",
        server.get_host(),
        server.get_port(),
        server.get_username(),
    )
}

/// Sends a query. Its connection has few startup parameters, because the pooler refuses those that it does not know.
async fn answers(server: &PgConnectOptions, port: u16) -> Result<(), sqlx::Error> {
    let through = server.clone().host("127.0.0.1").port(port).extra_float_digits(None);
    let mut connection = through.connect().await?;
    sqlx::raw_sql("select 1").execute(&mut connection).await?;
    connection.close().await
}
