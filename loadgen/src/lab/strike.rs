//! The strike of a hazard.
//!
//! A hazard strikes when a quarter of the stock is ordered. A moment before, another transaction locks the rows of the SKUs, as a slow
//! report does. So orders are under way when it strikes, on any machine. Before it kills an instance, the table of orders is locked:
//! workers that decide tickets, and buyers of a row a unit, pass over locked rows.

use std::time::{Duration, SystemTime};

use sqlx::{Postgres, Transaction};
use testbed::Redis;

use crate::error::Error;
use crate::lab::deployment::Deployment;
use crate::lab::hazard::Hazard;
use crate::lab::postgres::Database;
use crate::lab::servers::{ExposedServers, REDIS_PROCESS};
use crate::lab::service::Goods;
use crate::lab::strategy::Strategy;

/// How long the rows are locked before a hazard strikes.
const LOCKED_FOR: Duration = Duration::from_millis(250);
/// Interval between looks at how much is ordered.
const LOOK_POLL: Duration = Duration::from_millis(20);
/// An instance that stands still amid a purchase keeps the orders from being locked.
const LOCK_WITHIN: &str = "set local lock_timeout = '5s'";
/// The part of the stock after which a backup of Redis is made.
const BACKUP_AFTER: u64 = 8;
/// The part of the stock after which a hazard strikes.
const STRIKES_AFTER: u64 = 4;
/// The part of the stock that is gone when the database refuses orders.
const WITHDRAWN: i64 = 8;

/// What a hazard strikes.
pub(crate) struct Exposed<'a> {
    pub(crate) deployment: &'a mut Deployment,
    pub(crate) servers: ExposedServers<'a>,
    /// Locks the table of orders, while a fault does so.
    pub(super) locked_orders: Option<Transaction<'static, Postgres>>,
}

/// A hazard that has struck.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strike {
    pub(crate) at: SystemTime,
    /// When all processes ran again.
    pub(crate) over_at: SystemTime,
    /// Units of each SKU that another channel has taken.
    pub(crate) withdrawn: i64,
}

impl Exposed<'_> {
    /// Waits until a quarter of the stock is ordered, and strikes. `None` if the load was over before, or the stock was gone. `is_over`
    /// tells whether the load is.
    pub(crate) async fn strike(
        &mut self,
        hazard: Hazard,
        strategy: &Strategy,
        opened: &[Goods],
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Strike>, Error> {
        let mut backup = None;
        if hazard == Hazard::RedisRestored {
            if !self.until_ordered(opened, BACKUP_AFTER, &is_over).await? {
                return Ok(None);
            }
            backup = Some(self.redis()?.dump().await?);
        }
        if !self.until_ordered(opened, STRIKES_AFTER, &is_over).await? {
            return Ok(None);
        }
        let locked = self.delay_orders(hazard, opened).await?;
        tokio::time::sleep(LOCKED_FOR).await;
        if self.are_ordered(opened, 1).await? {
            // Nobody has anything to lose.
            unlock(locked).await?;
            return Ok(None);
        }
        let at = SystemTime::now();
        let mut withdrawn = 0;
        match hazard {
            Hazard::RedisKilled => {
                self.redis()?.kill().await?;
                unlock(locked).await?;
                self.redis()?.restart().await?;
            }
            Hazard::RedisRestored => {
                self.redis()?.kill().await?;
                unlock(locked).await?;
                if let Some(backup) = &backup {
                    self.redis()?.restore(backup).await?;
                }
            }
            Hazard::InstanceKilled => {
                // The one in whose transaction the sale waits: it may hold the lock of the SKU.
                let waiting = self.deployment.database.waiting_instance().await?;
                let Deployment { instances, service, .. } = &mut *self.deployment;
                let instances = instances.as_mut().ok_or_else(|| missing("an instance"))?;
                let index = instances.index_of(waiting.as_deref());
                instances.kill(index).await?;
                unlock(locked).await?;
                instances.launch(index)?;
                instances.until_ready(service).await?;
            }
            Hazard::DeliveredTwice => {
                let stream = self.key(strategy, "orders").await?;
                self.command(&["XGROUP", "SETID", &stream, "writers", "0"]).await?;
                unlock(locked).await?;
            }
            Hazard::StreamTrimmed => {
                let stream = self.key(strategy, "orders").await?;
                self.command(&["XTRIM", &stream, "MAXLEN", "0"]).await?;
                unlock(locked).await?;
            }
            Hazard::GateLoadedAgain => {
                for goods in opened {
                    for key in ["gate", "buyers"] {
                        let key = self.key(strategy, &format!("{key}:{}", goods.goods_no)).await?;
                        self.command(&["DEL", &key]).await?;
                    }
                }
                unlock(locked).await?;
            }
            Hazard::OrdersRefused => match withdraw(locked, opened).await? {
                Some(units) => withdrawn = units,
                None => return Ok(None),
            },
        }
        let over_at = SystemTime::now();
        self.note_redis();
        Ok(Some(Strike { at, over_at, withdrawn }))
    }

    /// Returns how many orders of a gate are promised, and neither written nor refused.
    pub(crate) async fn streamed(&self, strategy: &Strategy) -> Result<u64, Error> {
        let stream = self.key(strategy, "orders").await?;
        let redis = self.servers.redis.as_deref().ok_or_else(|| missing("a Redis"))?;
        let length = redis.command(&["XLEN", &stream]).await?;
        let length = length.and_then(|length| length.parse().ok());
        length.ok_or_else(|| Error::Generator("Redis does not tell the length of a stream".to_owned()))
    }

    /// Waits until a part of the stock is ordered. Returns false if the load was over before.
    async fn until_ordered(&self, opened: &[Goods], part: u64, is_over: impl Fn() -> bool) -> Result<bool, Error> {
        loop {
            if is_over() {
                return Ok(false);
            }
            if self.are_ordered(opened, part).await? {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_POLL).await;
        }
    }

    /// Locks what each order needs, until the transaction ends.
    async fn delay_orders(&self, hazard: Hazard, opened: &[Goods]) -> Result<Transaction<'static, Postgres>, Error> {
        match hazard {
            Hazard::InstanceKilled => self.deployment.database.lock_orders().await,
            _ => self.deployment.database.lock_rows(opened).await,
        }
    }

    /// Tells whether a part of the stock is ordered.
    async fn are_ordered(&self, opened: &[Goods], part: u64) -> Result<bool, Error> {
        let stock: u64 = opened.iter().map(|goods| goods.stock_initial.unsigned_abs()).sum();
        Ok(self.deployment.database.order_count(opened).await? * part >= stock)
    }

    /// Notes the process of a Redis that was started again, so that its processor time is read.
    fn note_redis(&mut self) {
        if let Some(pid) = self.servers.redis.as_deref().and_then(Redis::pid) {
            let processes = &mut self.deployment.server_processes;
            processes.iter_mut().filter(|(name, _)| *name == REDIS_PROCESS).for_each(|(_, noted)| *noted = pid);
        }
    }

    fn redis(&mut self) -> Result<&mut Redis, Error> {
        self.servers.redis.as_deref_mut().ok_or_else(|| missing("a Redis"))
    }

    async fn command(&mut self, words: &[&str]) -> Result<(), Error> {
        self.redis()?.command(words).await?;
        Ok(())
    }

    /// Returns a key of the gates of a strategy.
    async fn key(&self, strategy: &Strategy, name: &str) -> Result<String, Error> {
        let database = self.deployment.database.identity().await?;
        Ok(format!("seckill:{{{database}}}:{}:{name}", strategy.family))
    }
}

fn missing(what: &str) -> Error {
    Error::Generator(format!("a hazard is to strike {what}, and none was started"))
}

impl Database {
    /// Locks the rows of these SKUs until the transaction ends.
    async fn lock_rows(&self, opened: &[Goods]) -> Result<Transaction<'static, Postgres>, Error> {
        let goods_nos: Vec<i64> = opened.iter().map(|goods| goods.goods_no).collect();
        let mut locked = self.0.begin().await.map_err(Error::postgres("begin to lock the rows of the SKUs"))?;
        let rows = sqlx::query_scalar!(
            "select goods_no from goods where goods_no = any($1) order by goods_no for update",
            &goods_nos[..]
        );
        rows.fetch_all(&mut *locked).await.map_err(Error::postgres("lock the rows of the SKUs"))?;
        Ok(locked)
    }

    /// Locks the table of orders until the transaction ends. Nobody can write an order meanwhile.
    pub(super) async fn lock_orders(&self) -> Result<Transaction<'static, Postgres>, Error> {
        let mut locked = self.0.begin().await.map_err(Error::postgres("begin to lock the orders"))?;
        sqlx::query(LOCK_WITHIN)
            .execute(&mut *locked)
            .await
            .map_err(Error::postgres("bound the wait for the orders"))?;
        let lock = sqlx::query!("lock table orders in share mode").execute(&mut *locked).await;
        lock.map_err(Error::postgres("lock the orders"))?;
        Ok(locked)
    }

    /// Returns the name of an instance that waits for a lock of Postgres. `None` if none does, or if the instances tell no name.
    async fn waiting_instance(&self) -> Result<Option<String>, Error> {
        let waiting = sqlx::query_scalar!(
            r#"select split_part(application_name, ' ', 2) as "instance!" from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock' and application_name like 'demo-service %'
               order by query_start limit 1"#
        );
        waiting.fetch_optional(&self.0).await.map_err(Error::postgres("look which instance waits"))
    }

    /// Reads the identity of the database, which the keys in Redis have.
    async fn identity(&self) -> Result<String, Error> {
        let identity = sqlx::query_scalar!("select database from lock_service");
        identity.fetch_one(&self.0).await.map_err(Error::postgres("read its identity"))
    }
}

async fn unlock(locked: Transaction<'static, Postgres>) -> Result<(), Error> {
    locked.rollback().await.map_err(Error::postgres("unlock the rows of the SKUs"))
}

/// Takes a part of each stock without an order, as another channel of sale does. Returns the units of each SKU. `None` if a row has too
/// few left, and then takes none.
async fn withdraw(mut locked: Transaction<'static, Postgres>, opened: &[Goods]) -> Result<Option<i64>, Error> {
    let goods_nos: Vec<i64> = opened.iter().map(|goods| goods.goods_no).collect();
    let units = opened.iter().map(|goods| goods.stock_initial).min().unwrap_or(0) / WITHDRAWN;
    let action = "take units for another channel";
    let taken = sqlx::query!(
        "update goods set on_hand = on_hand - $2 where goods_no = any($1) and on_hand >= $2 and $2 > 0",
        &goods_nos[..],
        units
    );
    let taken = taken.execute(&mut *locked).await.map_err(Error::postgres(action))?.rows_affected();
    if taken < opened.len() as u64 {
        unlock(locked).await?;
        return Ok(None);
    }
    locked.commit().await.map_err(Error::postgres(action))?;
    Ok(Some(units))
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{ConnectOptions, Executor};
    use testbed::TestDatabase;

    use super::*;

    // C55
    #[tokio::test]
    async fn an_instance_that_writes_an_order_is_found_while_it_waits() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        sqlx::migrate!("../migrations").run(&database.0).await.unwrap();
        let instance: PgConnectOptions = server.url().parse().unwrap();
        let mut instance = instance.application_name("demo-service i7").connect().await.unwrap();
        let locked = database.lock_orders().await.unwrap();
        assert_eq!(database.waiting_instance().await.unwrap(), None);
        let order = instance.execute("insert into orders (strategy, instance) values ('pg-queue', 'i7')");
        let watch = async {
            while database.waiting_instance().await.unwrap().as_deref() != Some("i7") {
                tokio::task::yield_now().await;
            }
            unlock(locked).await.unwrap();
        };
        let both = async { tokio::join!(order, watch) };
        let (ordered, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it waits for the table");
        assert_eq!(ordered.unwrap().rows_affected(), 1, "it goes on once the table is free");
    }
}
