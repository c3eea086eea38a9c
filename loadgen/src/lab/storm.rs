//! How each fault of a torture run begins and ends at the service and its servers.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use testbed::{Proxy, delete_below, lasting_below, restore_nodes};
use tokio::time::{sleep, timeout};
use weather::{ComingFault, Harm, Site, Stand, begin_at_ensemble, disturb, end_at_ensemble};

use crate::error::Error;
use crate::lab::instances::RunningInstances;
use crate::lab::postgres::Database;
use crate::lab::servers::SESSION_TIMEOUTS;
use crate::lab::strike::Exposed;
use crate::lab::zookeeper::{IDENTITY, LOCKS};

/// The least and the most that the timeouts of an instance are multiplied by.
const TIMES: [f64; 2] = [0.3, 2.0];
/// How long somebody may take who deletes the nodes of the locks.
const DELETED_WITHIN: Duration = Duration::from_secs(10);
const DELETED_POLL: Duration = Duration::from_millis(100);

/// Defaults of a database that fail transactions of a program that relies on others.
const STRICT_DEFAULTS: [(&str, &str); 3] = [
    ("default_transaction_isolation", "repeatable read"),
    ("lock_timeout", "1ms"),
    ("idle_in_transaction_session_timeout", "1ms"),
];

/// Where the faults of a torture run strike.
pub(crate) const SITES: [Site; 9] = [
    Site::ZookeeperLink,
    Site::PostgresLink,
    Site::RedisLink,
    Site::BuyersLink,
    Site::Zookeeper,
    Site::Postgres,
    Site::Redis,
    Site::Instance,
    Site::Nodes,
];

impl Stand for Exposed<'_> {
    type Error = Error;

    async fn begin(&mut self, coming: &ComingFault) -> Result<(), Error> {
        let ComingFault { fault, process: instance, .. } = *coming;
        match fault.site {
            Site::Zookeeper => {
                let ensemble = self.servers.ensemble.as_mut().ok_or_else(nothing)?;
                begin_at_ensemble(ensemble, coming).await?;
            }
            Site::Postgres => self.begin_at_postgres(fault.harm).await?,
            Site::Redis => {
                let redis = self.servers.redis.as_mut().ok_or_else(nothing)?;
                if fault.harm == Harm::Killed { redis.kill().await? } else { redis.pause()? }
            }
            Site::Instance => {
                let instances = self.instances()?;
                match fault.harm {
                    Harm::Frozen => instances.pause(instance)?,
                    Harm::Stopped => instances.shut_down(instance).await?,
                    Harm::Moved => {
                        instances.kill(instance).await?;
                        instances.relocate(instance)?;
                    }
                    Harm::OtherTimeouts => {
                        instances.shut_down(instance).await?;
                        instances.launch_with_timeouts(instance, TIMES[0] + (TIMES[1] - TIMES[0]) * coming.strength)?;
                    }
                    _ => instances.kill(instance).await?,
                }
            }
            Site::ZookeeperLink | Site::PostgresLink | Site::RedisLink | Site::BuyersLink => {
                self.proxies(coming)?.into_iter().for_each(|proxy| disturb(proxy, coming));
            }
            Site::Nodes => {
                let servers = &self.deployment.zookeeper_connect;
                let until_deleted = async {
                    let lasting = until_done(|| lasting_below(servers, LOCKS, IDENTITY)).await;
                    until_done(|| delete_below(servers, LOCKS, IDENTITY)).await;
                    if fault.harm == Harm::Remade {
                        until_done(|| restore_nodes(servers, &lasting)).await;
                    }
                };
                let deleted = timeout(DELETED_WITHIN, until_deleted).await;
                deleted
                    .map_err(|_| Error::Generator(format!("no ZooKeeper server changes the nodes below {LOCKS}")))?;
            }
            Site::Contender => return Err(nothing()),
        }
        Ok(())
    }

    async fn end(&mut self, coming: &ComingFault) -> Result<(), Error> {
        let ComingFault { fault, process: instance, .. } = *coming;
        match fault.site {
            Site::Zookeeper => {
                let ensemble = self.servers.ensemble.as_mut().ok_or_else(nothing)?;
                end_at_ensemble(ensemble, coming, SESSION_TIMEOUTS).await?;
            }
            Site::Postgres => self.end_at_postgres(fault.harm).await?,
            Site::Redis => {
                let redis = self.servers.redis.as_mut().ok_or_else(nothing)?;
                if fault.harm == Harm::Killed { redis.restart().await? } else { redis.resume()? }
            }
            Site::Instance if fault.harm == Harm::Frozen => self.instances()?.resume(instance)?,
            Site::Instance => {
                let instances = self.instances()?;
                // It runs with other timeouts, or is down.
                instances.shut_down(instance).await?;
                instances.launch(instance)?;
            }
            Site::ZookeeperLink | Site::PostgresLink | Site::RedisLink | Site::BuyersLink => {
                self.proxies(coming)?.into_iter().for_each(Proxy::heal);
            }
            Site::Contender | Site::Nodes => return Err(nothing()),
        }
        Ok(())
    }
}

impl Exposed<'_> {
    /// Ends every fault that is in force, and starts what is down. Then waits until all serve.
    pub(crate) async fn calm(&mut self) -> Result<(), Error> {
        self.thaw()?;
        if let Some(postgres) = &mut self.servers.postgres
            && postgres.pid().is_none()
        {
            postgres.restart().await?;
        }
        // A fault may have been made, or ended, by half. If this fails, the rest is done all the same.
        let database = &self.deployment.database;
        let restored = timeout(DELETED_WITHIN, until_done(|| database.restore_settings())).await;
        if let Some(ensemble) = &mut self.servers.ensemble {
            ensemble.revive().await?;
            ensemble.until_serving().await?;
        }
        if let Some(redis) = &mut self.servers.redis
            && redis.pid().is_none()
        {
            redis.restart().await?;
        }
        let instances = self.deployment.instances.as_mut().ok_or_else(nothing)?;
        for index in 0..instances.count() {
            if !instances.is_up(index)? {
                instances.launch(index)?;
            }
        }
        instances.until_ready(&self.deployment.service).await?;
        restored.map_err(|_| Error::Generator("the settings of Postgres could not be taken back".to_owned()))
    }

    /// Lets every frozen process go on, and heals every link. What is down stays down. If something fails, the rest is done all the same.
    pub(crate) fn thaw(&mut self) -> Result<(), Error> {
        let mut thawed: Result<(), Error> = Ok(());
        if let Some(postgres) = self.servers.postgres.as_ref().filter(|postgres| postgres.pid().is_some()) {
            thawed = thawed.and(postgres.resume().map_err(Error::from));
        }
        if let Some(redis) = self.servers.redis.as_ref().filter(|redis| redis.pid().is_some()) {
            thawed = thawed.and(redis.resume().map_err(Error::from));
        }
        if let Some(ensemble) = &self.servers.ensemble {
            for server in 0..ensemble.size() {
                thawed = thawed.and(ensemble.heal(server).map_err(Error::from));
                // A server that is down cannot go on.
                let _ = ensemble.resume(server);
            }
        }
        let instances = self.deployment.instances.as_mut().ok_or_else(nothing)?;
        for index in 0..instances.count() {
            instances.links(index).into_iter().for_each(|links| links.heal());
            let resumed = match instances.is_up(index) {
                Ok(true) => instances.resume(index),
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            thawed = thawed.and(resumed);
        }
        thawed
    }

    async fn begin_at_postgres(&mut self, harm: Harm) -> Result<(), Error> {
        let database = &self.deployment.database;
        let postgres = self.servers.postgres.as_mut().ok_or_else(nothing)?;
        match harm {
            Harm::Crashed => {
                // A crash amid the recovery from another one would end the server.
                database.until_answering().await?;
                postgres.crash()?;
            }
            Harm::Frozen => postgres.pause()?,
            Harm::Stopped => postgres.stop().await?,
            Harm::DiskFull => postgres.fill_disk()?,
            Harm::ConnectionsEnded => database.end_connections().await?,
            Harm::OtherDefaults => database.change_defaults(true).await?,
            Harm::CommitsHeld => database.hold_commits(true).await?,
            _ => self.locked_orders = Some(database.lock_orders().await?),
        }
        Ok(())
    }

    async fn end_at_postgres(&mut self, harm: Harm) -> Result<(), Error> {
        let postgres = self.servers.postgres.as_mut().ok_or_else(nothing)?;
        match (harm, self.locked_orders.take()) {
            (_, Some(locked)) => locked.rollback().await.map_err(Error::postgres("unlock the orders"))?,
            (Harm::Stopped | Harm::DiskFull, None) => postgres.restart().await?,
            (Harm::OtherDefaults, None) => self.deployment.database.change_defaults(false).await?,
            (Harm::CommitsHeld, None) => self.deployment.database.hold_commits(false).await?,
            (_, None) => postgres.resume()?,
        }
        Ok(())
    }

    fn instances(&mut self) -> Result<&mut RunningInstances, Error> {
        self.deployment.instances.as_mut().ok_or_else(nothing)
    }

    /// Returns the links that a fault strikes.
    fn proxies(&self, coming: &ComingFault) -> Result<Vec<&Proxy>, Error> {
        let instances = self.deployment.instances.as_ref().ok_or_else(nothing)?;
        let links = instances.links(coming.process).ok_or_else(nothing)?;
        Ok(match coming.fault.site {
            Site::ZookeeperLink => {
                coming.servers(links.zookeeper.len()).filter_map(|server| links.zookeeper.get(server)).collect()
            }
            Site::PostgresLink => vec![&links.postgres],
            Site::RedisLink => links.redis.iter().collect(),
            _ => vec![&links.buyers],
        })
    }
}

fn nothing() -> Error {
    Error::Generator("a fault is to strike what was not started for it".to_owned())
}

/// Tries until it is done. Servers that have just started again do not serve yet.
async fn until_done<T, E>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(_) => sleep(DELETED_POLL).await,
        }
    }
}

impl Database {
    /// Waits until the server answers a query.
    async fn until_answering(&self) -> Result<(), Error> {
        sqlx::query("select 1").execute(&self.0).await.map(drop).map_err(Error::postgres("ask whether it serves"))
    }

    /// Lets no commit end, as they wait for a copy of the server that is gone; or ends that.
    async fn hold_commits(&self, is_held: bool) -> Result<(), Error> {
        let set = if is_held {
            "alter system set synchronous_standby_names = 'gone'"
        } else {
            "alter system reset synchronous_standby_names"
        };
        for statement in [set, "select pg_reload_conf()"] {
            let done = sqlx::query(statement).execute(&self.0).await;
            done.map_err(Error::postgres("set for which copy a commit waits"))?;
        }
        Ok(())
    }

    /// Gives the database defaults that fail a careless program, or takes them back. Connections that are open keep theirs, so all are ended.
    async fn change_defaults(&self, are_strict: bool) -> Result<(), Error> {
        let changes = STRICT_DEFAULTS.map(|(setting, value)| {
            let change = if are_strict { format!("set {setting} = ''{value}''") } else { format!("reset {setting}") };
            format!("execute format('alter database %I {change}', current_database());")
        });
        let change = AssertSqlSafe(format!("do $$ begin {} end $$", changes.concat()));
        let end_others = "select pg_terminate_backend(pid) from pg_stat_activity
                          where datname = current_database() and pid <> pg_backend_pid()";
        // One connection for both: another one of the pool could have been opened in between. It has old defaults, so it does not go back.
        let changed = async {
            let mut connection = self.0.acquire().await?.detach();
            connection.execute(change).await?;
            connection.execute(end_others).await?;
            connection.close().await
        };
        changed.await.map_err(Error::postgres("change its defaults"))
    }

    /// Takes back what faults change, as far as it is not as before.
    async fn restore_settings(&self) -> Result<(), Error> {
        // No defaults change while no commit ends.
        self.hold_commits(false).await?;
        let (setting, _) = STRICT_DEFAULTS[0];
        let is_strict = "select exists (select from pg_db_role_setting join pg_database on oid = setdatabase
                         where datname = current_database() and array_to_string(setconfig, ' ') like '%' || $1 || '%')";
        let is_strict: Result<bool, _> = sqlx::query_scalar(is_strict).bind(setting).fetch_one(&self.0).await;
        if is_strict.map_err(Error::postgres("read its defaults"))? {
            self.change_defaults(false).await?;
        }
        Ok(())
    }

    /// Ends all connections of the service.
    async fn end_connections(&self) -> Result<(), Error> {
        let ended = sqlx::query!(
            r#"select count(pg_terminate_backend(pid)) as "count!" from pg_stat_activity
               where datname = current_database() and application_name like 'demo-service %'"#
        );
        ended.fetch_one(&self.0).await.map(drop).map_err(Error::postgres("end the connections of the service"))
    }
}

#[cfg(test)]
mod tests {
    use testbed::{Postgres, PostgresConfig};
    use weather::Fault;

    use super::*;

    // C58
    #[tokio::test]
    async fn what_faults_left_at_postgres_is_taken_back() {
        let server = Postgres::start(PostgresConfig::default()).await.unwrap();
        let database = Database::connect(&server.url("postgres")).await.unwrap();
        // A connection reads new settings of the server at one of its next statements.
        let until_shown = async |setting: &str, value: &str| {
            let shown = || sqlx::query_scalar("select current_setting($1)").bind(setting);
            let until_shown = async {
                while !shown().fetch_one(&database.0).await.is_ok_and(|shown: String| shown == value) {
                    sleep(DELETED_POLL).await;
                }
            };
            timeout(DELETED_WITHIN, until_shown).await.unwrap();
        };
        database.change_defaults(true).await.unwrap();
        database.hold_commits(true).await.unwrap();
        for (setting, value) in STRICT_DEFAULTS {
            until_shown(setting, value).await;
        }
        until_shown("synchronous_standby_names", "gone").await;
        database.restore_settings().await.unwrap();
        until_shown("lock_timeout", "0").await;
        until_shown("synchronous_standby_names", "").await;
    }

    #[test]
    fn the_documents_know_all_kinds_of_faults() {
        let said = format!("lets {} kinds of faults strike", Fault::at(&SITES).count());
        assert!(
            include_str!("../../../docs/GUARANTEES.md").contains(&said),
            "docs/GUARANTEES.md does not say that it {said}"
        );
        let described = include_str!("../../../docs/torture.md");
        for fault in Fault::at(&SITES) {
            // The table of links has what goes wrong at all four kinds of them.
            let name = fault.to_string();
            let described_as = name.split_once("-link-").map_or(&*name, |(_, harm)| harm);
            assert!(described.contains(&format!("`{described_as}`")), "docs/torture.md lacks {fault}");
        }
    }
}
