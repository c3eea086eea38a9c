//! The connection to the server: used by all commands, replaced when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisResult};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::ANSWER_WITHIN;
use super::fitness::look_at;
use super::trouble::RedisTrouble;

/// The pause between two questions whether the server still answers. Each costs a command.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The first pause after a failed attempt to connect. The pause doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// The connection, or why there is none.
pub(super) struct RedisLink {
    client: Client,
    current: RwLock<Result<MultiplexedConnection, Arc<RedisTrouble>>>,
    /// Told that a command was not answered, or was refused by a server that has become a replica.
    suspected: Notify,
    /// The commands that were sent.
    commands: AtomicU64,
}

impl RedisLink {
    /// Connects. Returns the link, and the work of replacing its connection, which runs for ever.
    pub(super) async fn open(
        client: Client,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + use<>), RedisTrouble> {
        let connection = connect(&client).await?;
        let current = RwLock::new(Ok(connection));
        let link = Arc::new(Self { client, current, suspected: Notify::new(), commands: AtomicU64::new(0) });
        Ok((Arc::clone(&link), link.keep()))
    }

    /// Returns how many commands were sent.
    pub(super) fn commands_total(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Returns the connection, or why there is none.
    pub(super) fn connection(&self) -> Result<MultiplexedConnection, RedisTrouble> {
        self.current.read().clone().map_err(RedisTrouble::Away)
    }

    /// Opens a connection of its own, for commands that wait at the server.
    pub(super) async fn another(&self) -> Result<MultiplexedConnection, RedisTrouble> {
        connect(&self.client).await
    }

    /// Opens a connection that hears what is published.
    pub(super) async fn listener(&self) -> Result<PubSub, RedisTrouble> {
        let open = timeout(ANSWER_WITHIN, self.client.get_async_pubsub()).await;
        open.unwrap_or_else(|_| Err((ErrorKind::Io, "no answer in time").into())).map_err(RedisTrouble::of)
    }

    /// Sends a command, and waits for its reply.
    pub(super) async fn ask<T>(&self, command: impl Future<Output = RedisResult<T>>) -> Result<T, RedisTrouble> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let answered = match timeout(ANSWER_WITHIN, command).await {
            Ok(answered) => answered.map_err(RedisTrouble::of),
            Err(_) => Err(RedisTrouble::Silent),
        };
        if answered.as_ref().is_err_and(|trouble| trouble.is_unanswered() || trouble.is_of_replica()) {
            self.suspected.notify_one();
        }
        answered
    }

    /// Replaces the connection each time it cannot be used any more. Runs for ever.
    async fn keep(self: Arc<Self>) {
        loop {
            let trouble = self.until_unusable().await;
            warn!(error = program::chain(&trouble), "the connection to Redis is given up, opening another");
            *self.current.write() = Err(Arc::new(trouble));
            let connection = self.reconnect().await;
            info!("the connection to Redis was replaced");
            *self.current.write() = Ok(connection);
        }
    }

    /// Asks the server again and again, until it does not answer. After a suspicion, also whether it is still fit: the name in the URL
    /// may lead to another server after a failover, while this connection leads to the old one.
    async fn until_unusable(&self) -> RedisTrouble {
        loop {
            let is_suspected = timeout(PING_EVERY, self.suspected.notified()).await.is_ok();
            let mut connection = match self.connection() {
                Ok(connection) => connection,
                Err(trouble) => return trouble,
            };
            let answered = if is_suspected {
                timeout(ANSWER_WITHIN, look_at(&mut connection)).await.unwrap_or(Err(RedisTrouble::Silent))
            } else {
                self.ask(redis::cmd("PING").query_async::<()>(&mut connection)).await
            };
            match answered {
                Err(trouble) if trouble.is_unanswered() || trouble.is_unfit() => return trouble,
                // A refusal is an answer.
                Ok(()) | Err(_) => {}
            }
        }
    }

    async fn reconnect(&self) -> MultiplexedConnection {
        let mut backoff = BACKOFF_MIN;
        let mut told = String::new();
        loop {
            let trouble = match connect(&self.client).await {
                Ok(connection) => return connection,
                Err(trouble) => trouble,
            };
            let text = program::chain(&trouble);
            if text != told {
                warn!(error = text, "Redis cannot be used, trying again");
                told = text;
            }
            *self.current.write() = Err(Arc::new(trouble));
            // Random, because the instances lose their connections together.
            sleep(rand::random_range(backoff / 2..=backoff)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }
}

/// Opens a connection, and makes sure that its server is fit for locks.
async fn connect(client: &Client) -> Result<MultiplexedConnection, RedisTrouble> {
    // The time limits are those of this module.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connect = async {
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connect.await.map_err(RedisTrouble::of)?;
        look_at(&mut connection).await?;
        Ok(connection)
    };
    timeout(ANSWER_WITHIN, connect).await.unwrap_or(Err(RedisTrouble::Silent))
}
