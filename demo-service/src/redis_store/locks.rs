//! Locks: a key with a random value and a time to live.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::fitness::loses_at_a_crash;
use super::{PREFIX, RedisStore, RedisTrouble};
use crate::sale::GoodsNo;

/// Takes a lock that is free, and counts the grant. Returns the count.
static TAKE_WITH_TOKEN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return redis.call('incr', KEYS[2]) end
         return false",
    )
});

/// Begins the time to live of a lock anew, if it has our value. Returns whose the lock is: 1 for ours, 0 for nobody's, -1 for
/// another holder's.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local value = redis.call('get', KEYS[1])
         if value == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
         if value then return -1 end
         return 0",
    )
});

/// Deletes a lock if it has our value. Returns as the renewal does.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local value = redis.call('get', KEYS[1])
         if value == ARGV[1] then return redis.call('del', KEYS[1]) end
         if value then return -1 end
         return 0",
    )
});

/// The time to live of the lock of a probe, which is released at once.
const PROBE_TTL: Duration = Duration::from_secs(5);

/// The key of a lock.
#[derive(Debug, Clone)]
pub struct Key(String);

/// Why a hold was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RedisLoss {
    /// No renewal has succeeded for the time to live.
    #[error(
        "the lock was not renewed within its time to live, because Redis did not answer or this process stood still"
    )]
    Silence,
    /// The key is gone: its time was over by the clock of the server, somebody deleted it, or the server has lost its data.
    #[error("the key of the lock is gone")]
    KeyGone,
    /// Another holder has the lock.
    #[error("the lock has another holder")]
    Taken,
}

impl RedisLoss {
    fn of(owner: i64) -> Result<(), Self> {
        match owner {
            0 => Err(Self::KeyGone),
            owner if owner < 0 => Err(Self::Taken),
            _ => Ok(()),
        }
    }
}

impl RedisStore {
    /// Returns the key of the lock of a SKU. Families of strategies have locks of their own.
    pub fn lock_key(&self, family: &str, goods_no: GoodsNo) -> Key {
        Key(format!("{PREFIX}{}:{family}:{goods_no}", self.database))
    }

    /// Takes a lock if it is free. `value` is a random text that no other hold has. Returns whether the lock was taken.
    ///
    /// # Errors
    /// If it is [unanswered](RedisTrouble::is_unanswered), the lock may have been taken, or may be taken later.
    ///
    /// # Cancel safety
    /// As after such an error.
    pub async fn take(&self, key: &Key, value: &str, ttl: Duration) -> Result<bool, RedisTrouble> {
        let mut connection = self.link.connection()?;
        let mut set = redis::cmd("SET");
        set.arg(&[&*key.0, value, "NX", "PX", &millis(ttl)]);
        let taken: Option<String> = self.link.ask(set.query_async(&mut connection)).await?;
        Ok(taken.is_some())
    }

    /// Takes a lock as [`take`](Self::take) does, and counts its grants. Returns the count.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    ///
    /// # Cancel safety
    /// As [`take`](Self::take).
    pub async fn take_with_token(&self, key: &Key, value: &str, ttl: Duration) -> Result<Option<i64>, RedisTrouble> {
        let mut connection = self.link.connection()?;
        let mut call = TAKE_WITH_TOKEN.key(&key.0);
        call.key(format!("{}:token", key.0)).arg(value).arg(millis(ttl));
        self.link.ask(call.invoke_async(&mut connection)).await
    }

    /// Begins the time to live of a lock anew. Returns whether the lock still has our value, or why not.
    ///
    /// # Errors
    /// If it is [unanswered](RedisTrouble::is_unanswered), the lock may have been renewed.
    ///
    /// # Cancel safety
    /// As after such an error.
    pub async fn renew(&self, key: &Key, value: &str, ttl: Duration) -> Result<Result<(), RedisLoss>, RedisTrouble> {
        let mut connection = self.link.connection()?;
        let mut call = RENEW.key(&key.0);
        call.arg(value).arg(millis(ttl));
        self.link.ask(call.invoke_async(&mut connection)).await.map(RedisLoss::of)
    }

    /// Deletes a lock that has our value. Returns whether it had, or why not.
    ///
    /// # Errors
    /// If it is [unanswered](RedisTrouble::is_unanswered), the lock may have been released.
    ///
    /// # Cancel safety
    /// As after such an error.
    pub async fn release(&self, key: &Key, value: &str) -> Result<Result<(), RedisLoss>, RedisTrouble> {
        let mut connection = self.link.connection()?;
        let mut call = RELEASE.key(&key.0);
        call.arg(value);
        self.link.ask(call.invoke_async(&mut connection)).await.map(RedisLoss::of)
    }

    /// Takes a lock that protects nothing, renews it and releases it. Success shows that the server grants locks.
    ///
    /// # Errors
    /// Why it does not.
    ///
    /// # Cancel safety
    /// Dropped, the lock ends after a few seconds.
    pub async fn probe(&self) -> Result<(), RedisTrouble> {
        let value = format!("{:032x}", rand::random::<u128>());
        let key = Key(format!("{PREFIX}{}:probe", self.database));
        // If another instance has it, that shows it, too.
        if self.take_with_token(&key, &value, PROBE_TTL).await?.is_some() {
            // Whether the lock is still there tells nothing.
            let _ = self.renew(&key, &value, PROBE_TTL).await?;
            let _ = self.release(&key, &value).await?;
        }
        Ok(())
    }

    /// Returns a warning if a crash of the server would lose locks.
    pub(super) async fn loses_at_a_crash(&self) -> Option<&'static str> {
        let mut connection = self.link.connection().ok()?;
        tokio::time::timeout(super::ANSWER_WITHIN, loses_at_a_crash(&mut connection)).await.ok()?.ok()?
    }
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
