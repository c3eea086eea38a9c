//! Starting a server on a free port, and waiting until it answers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use crate::Error;
use crate::guard::{Guard, POLL};

/// How long a server may take to answer; far above what it takes, for machines that are busy with other things.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long the first question may stay without an answer before it is asked anew; twice as long each further time. It
/// happens often: ZooKeeper, asked before it serves, refuses and then sometimes leaves the connection open.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
/// How often another port is tried when somebody took the chosen one before the server could.
const ATTEMPTS_MAX: u32 = 5;

/// Runs `start` with a free loopback port, and again with another when the port was taken in the meantime.
pub(crate) async fn on_free_port<T>(start: impl AsyncFn(u16) -> Result<T, Error>) -> Result<T, Error> {
    let mut attempt = 1;
    loop {
        match start(free_port()?).await {
            Err(Error::Ended { log, .. }) if attempt < ATTEMPTS_MAX && is_port_taken(&log) => attempt += 1,
            result => return result,
        }
    }
}

/// Waits until `probe` says that this very server answers.
pub(crate) async fn until_ready(name: &str, guard: &mut Guard, probe: impl AsyncFn() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut answer_within = ANSWER_WITHIN;
    loop {
        if let Some(status) = guard.try_wait()? {
            return Err(Error::Ended { name: name.to_owned(), status, log: guard.log_tail() });
        }
        match tokio::time::timeout(answer_within, probe()).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(_) => answer_within *= 2,
        }
        if Instant::now() >= deadline {
            return Err(Error::NotReady { name: name.to_owned(), within: READY_WITHIN, log: guard.log_tail() });
        }
        tokio::time::sleep(POLL).await;
    }
}

fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Error::system("find a free port on 127.0.0.1"))
}

/// Both servers print the system's own text, Postgres in the C locale and Java always in English.
fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}
