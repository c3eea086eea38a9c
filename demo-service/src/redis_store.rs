//! Every command to Redis.
//!
//! An instance has one connection. Its commands are sent as they come, without waiting for the replies to earlier ones. The client
//! library has to keep a connection that many tasks use at once, to let a reply be given up, and to tell the errors of the server by
//! their code. The rest is done here:
//!
//! * Each command has a [time limit](ANSWER_WITHIN).
//! * A connection that breaks or is silent is replaced. Until then, commands fail at once. The attempts to connect become rarer, up to
//!   one a second.
//! * A server is [looked at](fitness) before its connection is used, also after each reconnect. It may have changed in the meantime.
//! * Scripts are called by their hash. A server that has forgotten them, as after a restart, gets them again.

pub mod fitness;
pub mod gate;
pub mod locks;
pub mod stream;

mod link;
mod trouble;

pub use self::locks::{Key, RedisLoss};
pub use self::trouble::RedisTrouble;

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo, TlsCertificates};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use self::gate::Gates;
use self::link::RedisLink;
use crate::secrets::Secret;

/// The time limit for the reply to a command, and for a connect.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The beginning of every key.
const PREFIX: &str = "seckill:";

/// A Redis server, by its URL.
pub struct RedisServer(Client);

/// The commands to one Redis server, for one database of the shop.
#[derive(Clone)]
pub struct RedisStore {
    link: Arc<RedisLink>,
    /// The identity of the shop's database, which every key names. Several databases may share a server.
    database: Arc<str>,
    _keeper: Arc<AbortOnDropHandle<()>>,
}

impl RedisServer {
    /// Reads a URL. It may have the user, the password and the number of the database. `authority` is a certificate in PEM. With it,
    /// the URL must ask for TLS, and only servers of that authority are trusted.
    ///
    /// # Errors
    /// What is wrong with the URL or the certificate, without the URL.
    pub fn parse(url: &Secret, authority: Option<String>) -> Result<Self, String> {
        let info = url.expose().into_connection_info();
        let client = info.and_then(|info| match authority {
            Some(authority) => {
                let root_cert = Some(authority.into_bytes());
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            None => Client::open(info),
        });
        client.map(Self).map_err(|error| error.to_string())
    }

    /// Returns the host and the port.
    pub fn address(&self) -> String {
        self.0.get_connection_info().addr().to_string()
    }
}

impl RedisStore {
    /// Connects, and makes sure that the server is fit for locks, and grants one. `database` is the identity of the shop's database.
    /// Warns if a crash of the server would lose locks.
    ///
    /// # Errors
    /// Why the server cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed.
    pub async fn open(server: RedisServer, database: &str) -> Result<Self, RedisTrouble> {
        let (link, keeper) = RedisLink::open(server.0).await?;
        let database = database.into();
        let store = Self { link, database, _keeper: Arc::new(AbortOnDropHandle::new(tokio::spawn(keeper))) };
        store.probe().await?;
        if let Some(loses) = store.loses_at_a_crash().await {
            warn!("{loses}");
        }
        Ok(store)
    }

    /// Returns the gates of a family of strategies.
    pub fn gates(&self, family: &str) -> Gates {
        // What stands in braces decides on which node of a cluster a key lies, should there ever be one.
        Gates::new(self.clone(), &format!("{PREFIX}{{{}}}", self.database), family)
    }

    /// Returns how many commands were sent. A script counts as one.
    pub fn commands_total(&self) -> u64 {
        self.link.commands_total()
    }
}

#[cfg(test)]
mod fuzzed;
