//! What instances have left behind at the servers when they have ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::lab::postgres::Database;
use crate::lab::zookeeper::Servers;

/// How long what an instance used may outlive it: until the servers have ended the session of one that could not close it.
const LEFT_WITHIN: Duration = Duration::from_secs(20);
/// Interval between two looks.
const LEFT_POLL: Duration = Duration::from_millis(200);

/// What was left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaks {
    /// Ephemeral nodes of ZooKeeper.
    pub(crate) nodes: u64,
    /// Watches on nodes, at all servers.
    pub(crate) watches: u64,
    /// Sessions of ZooKeeper.
    pub(crate) sessions: u64,
    /// Connections to Postgres. Absent behind a pooler, which keeps them.
    pub(crate) connections: Option<u64>,
}

impl Leaks {
    /// Waits until nothing is left, and returns what is left all the same.
    pub(crate) async fn of(zookeeper: &Servers, database: &Database, is_pooled: bool) -> Result<Leaks, Error> {
        let deadline = Instant::now() + LEFT_WITHIN;
        loop {
            let left = Leaks::now(zookeeper, database, is_pooled).await?;
            if left.lines().is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            sleep(LEFT_POLL).await;
        }
    }

    async fn now(zookeeper: &Servers, database: &Database, is_pooled: bool) -> Result<Leaks, Error> {
        let unknown = || Error::Generator("a ZooKeeper server does not tell what is left behind".to_owned());
        let servers = zookeeper.counters().await.ok_or_else(unknown)?;
        let mut left = Leaks::default();
        for (_, counters) in servers {
            let count = |name| counters.get(name).ok_or_else(unknown);
            // Each server knows all nodes and sessions, and its own watches.
            left.nodes = left.nodes.max(count("zk_ephemerals_count")?);
            left.sessions = left.sessions.max(count("zk_global_sessions")?);
            left.watches += count("zk_watch_count")?;
        }
        left.connections = if is_pooled { None } else { Some(database.connections_of_service().await?) };
        Ok(left)
    }

    /// Returns what was left, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Leaks { nodes, watches, sessions, connections } = self;
        let all = [
            (*nodes, "ephemeral nodes of ZooKeeper"),
            (*watches, "watches of ZooKeeper"),
            (*sessions, "sessions of ZooKeeper"),
            (connections.unwrap_or_default(), "connections to Postgres"),
        ];
        let left = all.into_iter().filter(|(count, _)| *count > 0);
        left.map(|(count, what)| format!("{what} that ended instances have left behind: {count}")).collect()
    }
}

impl Database {
    /// Counts the connections of the service.
    async fn connections_of_service(&self) -> Result<u64, Error> {
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from pg_stat_activity
               where datname = current_database() and application_name like 'demo-service %'"#
        );
        let count = count.fetch_one(&self.0).await.map_err(Error::postgres("count the connections of the service"))?;
        Ok(count.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions as _;
    use sqlx::postgres::PgConnectOptions;
    use testbed::{TestDatabase, ZooKeeper, ZooKeeperConfig};
    use zookeeper_client::{Acls, Client, CreateMode};

    use super::*;

    // C58
    #[tokio::test]
    async fn what_is_left_behind_is_counted_until_it_is_gone() {
        let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let servers = Servers::of(&zookeeper.connect_string());
        let client = Client::connect(&zookeeper.connect_string()).await.unwrap();
        client.create("/held", &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
        let (_, watcher) = client.get_and_watch_data("/held").await.map(|(data, _, watcher)| (data, watcher)).unwrap();
        let database = TestDatabase::create().await.unwrap();
        let of_instance: PgConnectOptions = database.url().parse().unwrap();
        let connection = of_instance.application_name("demo-service i1").connect().await.unwrap();
        let database = Database::connect(database.url()).await.unwrap();

        let left = Leaks::now(&servers, &database, false).await.unwrap();
        assert_eq!(left, Leaks { nodes: 1, watches: 1, sessions: 1, connections: Some(1) });
        assert_eq!(left.lines().len(), 4);
        let pooled = Leaks::now(&servers, &database, true).await.unwrap();
        assert_eq!(pooled.lines().len(), 3, "a pooler keeps connections");

        drop((watcher, client, connection));
        let left = Leaks::of(&servers, &database, false).await.unwrap();
        assert_eq!(left.lines(), [""; 0]);
    }
}
