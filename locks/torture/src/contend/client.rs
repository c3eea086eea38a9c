//! `Client::lock` of `zookeeper-client`.

use std::time::Duration;

use parking_lot::Mutex as Cell;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient, SessionState};

use super::{HeldLock, Life, LockLibrary, Wanted, say};
use crate::lines::{LockKind, Said, Token};

/// The time of an acquire that does not wait: the library has no other way to ask.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The version of the library, as the workspace pins it.
const VERSION: &str = "0.11.2";

/// The library, and the session of the moment.
pub(super) struct ClientLocks {
    connect_string: String,
    timeout: Duration,
    client: Cell<Client>,
    /// Opens one session at a time.
    opening: tokio::sync::Mutex<()>,
}

impl ClientLocks {
    pub(super) async fn open(connect_string: &str, timeout: Duration) -> Result<Self, String> {
        let client = connect(connect_string, timeout).await?;
        Ok(Self {
            connect_string: connect_string.to_owned(),
            timeout,
            client: Cell::new(client),
            opening: tokio::sync::Mutex::new(()),
        })
    }

    async fn client(&self) -> Result<Client, String> {
        let _one_at_a_time = self.opening.lock().await;
        let client = self.client.lock().clone();
        if !client.state().is_terminated() {
            return Ok(client);
        }
        let client = connect(&self.connect_string, self.timeout).await?;
        *self.client.lock() = client.clone();
        Ok(client)
    }
}

impl LockLibrary for ClientLocks {
    type Held = OwnedLockClient;

    fn ready(&self) -> Said {
        let version = Some(VERSION.to_owned());
        Said::Ready { locks: vec![LockKind::Mutex], version, reenters: false, cancels: true }
    }

    async fn acquire(&self, wanted: &Wanted) -> Result<Option<OwnedLockClient>, String> {
        let client = self.client().await?;
        let path = wanted.paths.first().map_or("", String::as_str);
        let prefix = LockPrefix::new_curator(path, "lock-").map_err(|error| error.to_string())?;
        let ancestors = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(ancestors);
        let options = options.map_err(|error| error.to_string())?;
        match timeout(wanted.within.max(AT_ONCE), client.lock(prefix, b"", options)).await {
            Ok(lock) => lock.map(|lock| Some(lock.into_owned())).map_err(|error| error.to_string()),
            Err(_) => Ok(None),
        }
    }
}

impl HeldLock for OwnedLockClient {
    fn tokens(&self) -> Vec<Token> {
        Vec::new()
    }

    fn life(&self) -> Life {
        match self.client().state() {
            SessionState::SyncConnected => Life::Held,
            state if state.is_terminated() => Life::Lost,
            _ => Life::Unknown,
        }
    }

    async fn again(&self) -> Result<Self, String> {
        Err("this lock has no owners".to_owned())
    }

    /// The library deletes the node in the background.
    async fn release(self) -> Result<(), String> {
        Ok(())
    }
}

async fn connect(connect_string: &str, timeout: Duration) -> Result<Client, String> {
    let connector = Client::connector().with_session_timeout(timeout);
    let client = connector.connect(connect_string).await.map_err(|error| error.to_string())?;
    say(&Said::Session { session: Some(client.session_id().0) });
    Ok(client)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_the_one_that_the_workspace_pins() {
        let locked = include_str!("../../../../Cargo.lock").split("[[package]]");
        let library = locked.into_iter().find(|package| package.contains("name = \"zookeeper-client\"")).unwrap();
        assert!(library.contains(&format!("version = \"{}\"", super::VERSION)), "{library}");
    }
}
