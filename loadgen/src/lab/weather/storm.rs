//! The storm: lets the faults of a forecast strike, and ends them.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use program::chain;
use sqlx::{Postgres, Transaction};
use testbed::{Direction, LinkFault, Proxy};
use tokio::time::{Instant, sleep_until};

use super::fault::{Harm, Site};
use super::forecast::ComingFault;
use crate::error::Error;
use crate::lab::instances::RunningInstances;
use crate::lab::postgres::Database;
use crate::lab::servers::SESSION_TIMEOUTS;
use crate::lab::strike::Exposed;

/// The longest that a slow link holds a byte in each direction.
const SLOWEST: Duration = Duration::from_millis(400);
/// The fewest and the most bytes a second of a narrow link.
const NARROW: [f64; 2] = [500.0, 50_000.0];
/// The shortest and the longest of the session timeouts that a server grants after a restart with other settings. Both are shorter than
/// what an instance asks for.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(2500)];

/// A fault that has struck.
#[derive(Debug, Clone)]
pub(crate) struct Struck {
    pub(crate) coming: ComingFault,
    pub(crate) begun_at: SystemTime,
    pub(crate) ended_at: SystemTime,
    /// Why it could not be made, or not be ended as it should.
    pub(crate) failed: Option<String>,
}

/// What a fault holds until it ends.
type Held = Option<Transaction<'static, Postgres>>;

/// A moment at which a fault begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    at: Duration,
    /// The index of the fault in the forecast.
    fault: usize,
    is_end: bool,
}

impl Exposed<'_> {
    /// Lets faults strike, one moment after the other, until `is_over`. Those that are under way end then.
    pub(crate) async fn storm(&mut self, coming: &[ComingFault], is_over: impl Future<Output = ()>) -> Vec<Struck> {
        let start = Instant::now();
        let mut is_over = std::pin::pin!(is_over);
        let mut struck: Vec<Option<Struck>> = coming.iter().map(|_| None).collect();
        let mut held: Vec<Held> = coming.iter().map(|_| None).collect();
        let mut has_ended = false;
        for moment in moments(coming) {
            if !has_ended {
                tokio::select! {
                    () = sleep_until(start + moment.at) => {}
                    () = &mut is_over => has_ended = true,
                }
            }
            let fault = &coming[moment.fault];
            if !moment.is_end {
                let begun_at = SystemTime::now();
                let failed = if has_ended {
                    Some("all buyers were gone before it began".to_owned())
                } else {
                    let begun = self.begin(fault).await;
                    begun.map(|begun| held[moment.fault] = begun).err().map(|error| chain(&error))
                };
                struck[moment.fault] = Some(Struck { coming: *fault, begun_at, ended_at: SystemTime::now(), failed });
            } else if let Some(struck) = struck[moment.fault].as_mut().filter(|struck| struck.failed.is_none()) {
                let ended = self.end(fault, held[moment.fault].take()).await;
                struck.ended_at = SystemTime::now();
                struck.failed = ended.err().map(|error| chain(&error));
            }
        }
        struck.into_iter().flatten().collect()
    }

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

    async fn begin(&mut self, coming: &ComingFault) -> Result<Held, Error> {
        let ComingFault { fault, instance, .. } = *coming;
        match fault.site {
            Site::Zookeeper => self.begin_at_ensemble(coming).await?,
            Site::Postgres => return self.begin_at_postgres(fault.harm).await,
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
        }
        Ok(None)
    }

    async fn end(&mut self, coming: &ComingFault, held: Held) -> Result<(), Error> {
        let ComingFault { fault, instance, .. } = *coming;
        match fault.site {
            Site::Zookeeper => self.end_at_ensemble(coming).await?,
            Site::Postgres => match held {
                Some(held) => held.rollback().await.map_err(Error::postgres("unlock the orders"))?,
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
        }
        Ok(())
    }

    async fn begin_at_ensemble(&mut self, coming: &ComingFault) -> Result<(), Error> {
        let ensemble = self.servers.ensemble.as_mut().ok_or_else(nothing)?;
        for server in struck_servers(coming, ensemble.size()) {
            match coming.fault.harm {
                Harm::Frozen => ensemble.pause(server)?,
                Harm::Isolated => ensemble.isolate(server, LinkFault::Cut)?,
                Harm::Silenced => ensemble.isolate(server, LinkFault::Blackhole)?,
                Harm::HalfOpen => ensemble.isolate(server, LinkFault::HalfOpen)?,
                Harm::Stopped => ensemble.stop_server(server).await?,
                Harm::OtherTimeouts => {
                    let longest = TIMEOUTS[0] + (TIMEOUTS[1] - TIMEOUTS[0]).mul_f64(coming.strength);
                    ensemble.set_session_timeouts(server, longest..=longest)?;
                    ensemble.stop_server(server).await?;
                    ensemble.launch_server(server).await?;
                }
                _ => ensemble.kill_server(server).await?,
            }
        }
        Ok(())
    }

    async fn end_at_ensemble(&mut self, coming: &ComingFault) -> Result<(), Error> {
        let ensemble = self.servers.ensemble.as_mut().ok_or_else(nothing)?;
        for server in struck_servers(coming, ensemble.size()) {
            match coming.fault.harm {
                Harm::Frozen => ensemble.resume(server)?,
                Harm::Isolated | Harm::Silenced | Harm::HalfOpen => ensemble.heal(server)?,
                Harm::OtherTimeouts => {
                    ensemble.set_session_timeouts(server, SESSION_TIMEOUTS)?;
                    ensemble.stop_server(server).await?;
                    ensemble.launch_server(server).await?;
                }
                _ => ensemble.launch_server(server).await?,
            }
        }
        Ok(())
    }

    async fn begin_at_postgres(&mut self, harm: Harm) -> Result<Held, Error> {
        let postgres = self.servers.postgres.as_ref().ok_or_else(nothing)?;
        match harm {
            Harm::Crashed => postgres.crash()?,
            Harm::Frozen => postgres.pause()?,
            Harm::ConnectionsEnded => self.deployment.database.end_connections().await?,
            _ => return self.deployment.database.lock_orders().await.map(Some),
        }
        Ok(None)
    }

    fn instances(&mut self) -> Result<&mut RunningInstances, Error> {
        self.deployment.instances.as_mut().ok_or_else(nothing)
    }

    /// Returns the links that a fault strikes.
    fn proxies(&self, coming: &ComingFault) -> Result<Vec<&Proxy>, Error> {
        let instances = self.deployment.instances.as_ref().ok_or_else(nothing)?;
        let links = instances.links(coming.instance).ok_or_else(nothing)?;
        Ok(match coming.fault.site {
            Site::ZookeeperLink => {
                struck_servers(coming, links.zookeeper.len()).filter_map(|server| links.zookeeper.get(server)).collect()
            }
            Site::PostgresLink => vec![&links.postgres],
            Site::RedisLink => links.redis.iter().collect(),
            _ => vec![&links.buyers],
        })
    }
}

/// Returns the ZooKeeper servers that a fault strikes.
fn struck_servers(coming: &ComingFault, servers: usize) -> impl Iterator<Item = usize> {
    let server = coming.server;
    (0..servers).filter(move |number| server.is_none_or(|server| server == *number))
}

fn disturb(proxy: &Proxy, coming: &ComingFault) {
    match coming.fault.harm {
        Harm::Cut => proxy.cut(),
        Harm::Silent => proxy.blackhole(),
        Harm::RequestsHeld => proxy.silence(Direction::ToServer),
        Harm::RepliesHeld => proxy.silence(Direction::FromServer),
        Harm::RepliesLost => proxy.swallow_replies(),
        Harm::Slow => proxy.delay(SLOWEST.mul_f64(coming.strength)),
        Harm::Jittery => proxy.jitter(SLOWEST.mul_f64(coming.strength)),
        Harm::Narrow => proxy.limit(narrow(coming.strength)),
        Harm::SessionsReplaced => {
            proxy.replace_sessions();
            proxy.cut();
        }
        _ => {
            proxy.refuse();
            proxy.cut();
        }
    }
}

/// Returns the bytes a second of a narrow link: the stronger the fault, the fewer.
fn narrow(strength: f64) -> Option<NonZeroU32> {
    let [fewest, most] = NARROW;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between two small bounds")]
    NonZeroU32::new((most * (fewest / most).powf(strength)) as u32)
}

/// Returns the moments of a forecast in their order. A fault that is over at once has no end.
fn moments(coming: &[ComingFault]) -> Vec<Moment> {
    let of = |(fault, coming): (usize, &ComingFault)| {
        let end = Moment { at: coming.ends, fault, is_end: true };
        [Some(Moment { at: coming.begins, fault, is_end: false }), (!coming.fault.harm.is_instant()).then_some(end)]
    };
    let mut moments: Vec<Moment> = coming.iter().enumerate().flat_map(of).flatten().collect();
    moments.sort_unstable();
    moments
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
