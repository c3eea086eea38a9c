//! How each fault of a torture run begins and ends at the service and its servers.

use testbed::Proxy;
use weather::{ComingFault, Harm, Site, Stand, begin_at_ensemble, disturb, end_at_ensemble};

use crate::error::Error;
use crate::lab::instances::RunningInstances;
use crate::lab::postgres::Database;
use crate::lab::servers::SESSION_TIMEOUTS;
use crate::lab::strike::Exposed;

/// Where the faults of a torture run strike.
pub(crate) const SITES: [Site; 8] = [
    Site::ZookeeperLink,
    Site::PostgresLink,
    Site::RedisLink,
    Site::BuyersLink,
    Site::Zookeeper,
    Site::Postgres,
    Site::Redis,
    Site::Instance,
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
                    _ => instances.kill(instance).await?,
                }
            }
            Site::ZookeeperLink | Site::PostgresLink | Site::RedisLink | Site::BuyersLink => {
                self.proxies(coming)?.into_iter().for_each(|proxy| disturb(proxy, coming));
            }
            Site::Contender | Site::Nodes => return Err(nothing()),
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
            Site::Postgres => match self.locked_orders.take() {
                Some(locked) => locked.rollback().await.map_err(Error::postgres("unlock the orders"))?,
                None => self.servers.postgres.as_ref().ok_or_else(nothing)?.resume()?,
            },
            Site::Redis => {
                let redis = self.servers.redis.as_mut().ok_or_else(nothing)?;
                if fault.harm == Harm::Killed { redis.restart().await? } else { redis.resume()? }
            }
            Site::Instance if fault.harm == Harm::Frozen => self.instances()?.resume(instance)?,
            Site::Instance => self.instances()?.launch(instance)?,
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
        instances.until_ready(&self.deployment.service).await
    }

    /// Lets every frozen process go on, and heals every link. What is down stays down.
    pub(crate) fn thaw(&mut self) -> Result<(), Error> {
        self.servers.postgres.as_ref().map_or(Ok(()), |postgres| postgres.resume())?;
        if let Some(redis) = &self.servers.redis
            && redis.pid().is_some()
        {
            redis.resume()?;
        }
        if let Some(ensemble) = &self.servers.ensemble {
            for server in 0..ensemble.size() {
                ensemble.heal(server)?;
                // A server that is down cannot go on.
                let _ = ensemble.resume(server);
            }
        }
        let instances = self.deployment.instances.as_mut().ok_or_else(nothing)?;
        for index in 0..instances.count() {
            if instances.is_up(index)? {
                instances.resume(index)?;
            }
            instances.links(index).into_iter().for_each(|links| links.heal());
        }
        Ok(())
    }

    async fn begin_at_postgres(&mut self, harm: Harm) -> Result<(), Error> {
        let postgres = self.servers.postgres.as_ref().ok_or_else(nothing)?;
        match harm {
            Harm::Crashed => postgres.crash()?,
            Harm::Frozen => postgres.pause()?,
            Harm::ConnectionsEnded => self.deployment.database.end_connections().await?,
            _ => self.locked_orders = Some(self.deployment.database.lock_orders().await?),
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

impl Database {
    /// Ends all connections of the service.
    async fn end_connections(&self) -> Result<(), Error> {
        let ended = sqlx::query!(
            r#"select count(pg_terminate_backend(pid)) as "count!" from pg_stat_activity
               where datname = current_database() and application_name like 'demo-service %'"#
        );
        ended.fetch_one(&self.0).await.map(drop).map_err(Error::postgres("end the connections of the service"))
    }
}
