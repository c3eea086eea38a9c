//! Whether a server is fit for locks, as it says itself (`INFO`). That needs no right to read its configuration.

use redis::aio::MultiplexedConnection;

use super::trouble::RedisTrouble;

/// The oldest version that the service works with. An older one keeps messages that were deleted from a stream pending for ever.
const VERSION_MIN: [u32; 2] = [7, 0];

/// Why a server is not fit for locks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is too old.
    #[error("it is Redis {0}, and 7.0 or newer is needed; upgrade it, or name another one in --redis-url (REDIS_URL)")]
    TooOld(String),
    /// It is no single server.
    #[error("it runs as a {0}, which keeps no locks for others; name a single primary in --redis-url (REDIS_URL)")]
    Mode(String),
    /// It is a replica.
    #[error("it is a replica, which refuses writes; name its primary in --redis-url (REDIS_URL)")]
    Replica,
    /// It deletes keys when it has too many: locks that somebody holds.
    #[error(
        "it has a limit of memory, beyond which it deletes keys of its choice (maxmemory-policy {0}): it would delete locks; set \
         maxmemory-policy noeviction"
    )]
    Evicts(String),
}

/// What a server says about itself.
struct Info(String);

impl Info {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// Finds out whether the server is fit. What it does not say is taken for good.
    fn check(&self) -> Result<(), Unfit> {
        let version = self.get("redis_version").unwrap_or_default();
        if !is_new_enough(version) {
            return Err(Unfit::TooOld(version.to_owned()));
        }
        let is_cluster = self.get("cluster_enabled") == Some("1");
        match self.get("redis_mode") {
            _ if is_cluster => return Err(Unfit::Mode("node of a cluster".to_owned())),
            Some("standalone") | None => {}
            Some(mode) => return Err(Unfit::Mode(mode.to_owned())),
        }
        if self.get("role").is_some_and(|role| role != "master") {
            return Err(Unfit::Replica);
        }
        let policy = self.get("maxmemory_policy").unwrap_or("noeviction");
        if policy != "noeviction" && self.get("maxmemory").is_some_and(|limit| limit != "0") {
            return Err(Unfit::Evicts(policy.to_owned()));
        }
        Ok(())
    }
}

fn is_new_enough(version: &str) -> bool {
    let numbers: Vec<u32> = version.split('.').take(2).filter_map(|number| number.parse().ok()).collect();
    numbers >= VERSION_MIN.to_vec()
}

async fn info(connection: &mut MultiplexedConnection) -> Result<Info, RedisTrouble> {
    redis::cmd("INFO").query_async(connection).await.map(Info).map_err(RedisTrouble::of)
}

/// Makes sure that the server of a connection is fit for locks.
pub(super) async fn look_at(connection: &mut MultiplexedConnection) -> Result<(), RedisTrouble> {
    Ok(info(connection).await?.check()?)
}

/// Returns a warning if a crash of the server would lose locks and tokens that it has granted.
pub(super) async fn loses_at_a_crash(
    connection: &mut MultiplexedConnection,
) -> Result<Option<&'static str>, RedisTrouble> {
    if info(connection).await?.get("aof_enabled") == Some("0") {
        return Ok(Some(NO_LOG));
    }
    // Only a user who may read the configuration learns this.
    let forced: Result<Vec<String>, _> =
        redis::cmd("CONFIG").arg(&["GET", "appendfsync"]).query_async(connection).await;
    Ok(match forced.as_deref() {
        Ok([_, forced]) if forced == "always" => None,
        Ok([_, _]) => Some(LATE_LOG),
        _ => Some(UNKNOWN_LOG),
    })
}

const NO_LOG: &str = "Redis has no durable log. After a crash or a restart it has forgotten the locks that are held, so redis-lock may \
                      oversell. Its counters begin again, so redis-lock-fenced sells nothing until they are as high as before. It has \
                      forgotten orders of redis-gate that their buyers were told of. Set \
                      appendonly yes and appendfsync always";

const LATE_LOG: &str = "Redis forces its log to the disk after its replies. After a crash of its machine it has forgotten the locks of the \
                        last second, so redis-lock may oversell. It has forgotten their tokens, too, so redis-lock-fenced may refuse \
                        its next buyers, and orders of redis-gate. Set appendfsync always";

const UNKNOWN_LOG: &str = "Redis does not tell whether it forces its log to the disk before each reply, because the user may not read \
                           appendfsync. Without appendfsync always, a crash of its machine loses the locks, tokens and orders of the last \
                           moments";

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what a server in its default configuration says behind these lines. The first line of a name counts.
    fn told(changed: &str) -> Result<(), Unfit> {
        let lines = [
            "# Server",
            "redis_version:7.0.15",
            "redis_mode:standalone",
            "# Memory",
            "maxmemory:0",
            "maxmemory_policy:noeviction",
            "role:master",
            "cluster_enabled:0",
        ];
        Info([changed].into_iter().chain(lines).collect::<Vec<_>>().join("\r\n")).check()
    }

    #[test]
    fn a_server_before_7_0_is_too_old() {
        for (version, is_fit) in
            [("6.2.14", false), ("5.0.14", false), ("7.0.0", true), ("7.2.4", true), ("10.0.0", true), ("", false)]
        {
            let expected = if is_fit { Ok(()) } else { Err(Unfit::TooOld(version.to_owned())) };
            assert_eq!(told(&format!("redis_version:{version}")), expected);
        }
    }

    #[test]
    fn replicas_clusters_and_sentinels_keep_no_locks() {
        assert_eq!(told("role:slave"), Err(Unfit::Replica));
        assert_eq!(told("cluster_enabled:1"), Err(Unfit::Mode("node of a cluster".to_owned())));
        assert_eq!(told("redis_mode:sentinel"), Err(Unfit::Mode("sentinel".to_owned())));
    }

    #[test]
    fn a_policy_deletes_locks_only_below_a_limit_of_memory() {
        assert_eq!(told("maxmemory_policy:allkeys-lru"), Ok(()));
        assert_eq!(told("maxmemory:100"), Ok(()));
        let both = told("maxmemory_policy:volatile-ttl\r\nmaxmemory:100");
        assert_eq!(both, Err(Unfit::Evicts("volatile-ttl".to_owned())));
    }
}
