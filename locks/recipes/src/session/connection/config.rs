//! The settings of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::session::acl::{Acl, Auth, Parents};
use crate::session::connection::tls::Tls;

/// ZooKeeper's default of `jute.maxbuffer`, in bytes.
const JUTE_MAXBUFFER: u32 = 0xf_ffff;

/// The settings of a [`Session`](crate::Session).
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::SessionConfig;
///
/// let config = SessionConfig::default().with_timeout(Duration::from_secs(20)).with_tick_time(Duration::from_secs(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The silence after which the server expires the session and deletes its nodes. If a holder dies, its locks stay taken for
    /// about this long.
    ///
    /// The server may grant another value: see [`Session::timeout`](crate::Session::timeout). The protocol counts whole
    /// milliseconds, from 1 to `i32::MAX`. A value outside of these limits counts as the nearest limit.
    pub timeout: Duration,
    /// The `tickTime` of the servers. `None` stands for a tick of half the timeout. The tick of servers is not longer, unless
    /// their `minSessionTimeout` is set below two ticks. In that case, give the tick.
    ///
    /// If a shorter tick is given, holds survive a longer silence, by half the difference. Example: the timeout is 20 s, and answers
    /// came at once before the silence. Then a hold survives its last proof by 10.8 s, and with a given tick of 2 s by 14.8 s.
    pub tick_time: Option<Duration>,
    /// Upper bound of the time to open the session, over all attempts. If no name of the connect string has resolved after a quarter of
    /// it, opening fails then.
    pub connect_within: Duration,
    /// The TLS settings. `None`: the connections are not encrypted.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    /// The credentials of the session. Empty: the session is anonymous.
    pub auth: Vec<Auth>,
    /// The ACL of the nodes that the session creates: the nodes of its locks, and their missing parents.
    pub acl: Acl,
    /// Other ACLs for single nodes, by path. Example: a parent in which other sessions may create locks but not delete them.
    ///
    /// Only nodes whose full path is known in advance can be named: parents, the node of a [`NaiveLock`](crate::NaiveLock), and a
    /// [`SharedCount`](crate::SharedCount). The nodes of contenders in a queue get [`acl`](Self::acl), because the server appends a
    /// number to their names.
    pub acl_of: BTreeMap<String, Acl>,
    /// The kind of node that a missing parent of a lock is created as.
    pub parents: Parents,
    /// Upper bound of the bytes that the paths of the session's nodes take on a server. Each node takes the length of its full path,
    /// with the chroot, and 4 bytes.
    ///
    /// At the end of the session, a server deletes all its nodes by one transaction, which lists their paths. A transaction longer
    /// than the servers' `jute.maxbuffer` may break them: a single server never starts again on its data (ZOOKEEPER-4306). The
    /// default is seven eighths of ZooKeeper's default for `jute.maxbuffer`. If all your servers have another limit, give seven
    /// eighths of it.
    ///
    /// Contenders beyond the bound wait in memory in the order of their arrival, and create their nodes when there is room. At
    /// `/locks/goods-1`, the default is enough for about 10 000 waiters. A `try_acquire` without room, and an `acquire_many` of more
    /// permits than ever fit, fail with [`Error::NoRoom`](crate::Error::NoRoom).
    ///
    /// An eighth of the bound is kept for one contender of each lock, so a crowd at one lock does not keep a task that holds this
    /// lock from acquiring another one. But thousands of tasks that each hold a lock and acquire a second one may wait for each
    /// other's room. Such tasks take their locks by a [`MultiLock`](crate::MultiLock), which takes the room for all of them first.
    ///
    /// Every node counts, also the node of a hold that [lingers](crate::CohortMutex::with_linger) while nobody uses it: at most
    /// [`CohortMutex::MAX_LINGERING`](crate::CohortMutex::MAX_LINGERING) of them.
    pub node_bytes_max: u32,
}

impl Default for SessionConfig {
    /// Returns the default settings: a timeout of 10 s, a tick of at most 5 s, and 15 s to connect. No TLS and no credentials.
    /// Nodes are open to everyone, missing parents are containers, and the paths of nodes take at most 917 497 bytes.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            tick_time: None,
            connect_within: Duration::from_secs(15),
            #[cfg(feature = "tls")]
            tls: None,
            auth: Vec::new(),
            acl: Acl::open(),
            acl_of: BTreeMap::new(),
            parents: Parents::default(),
            node_bytes_max: JUTE_MAXBUFFER / 8 * 7,
        }
    }
}

impl SessionConfig {
    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets [`tick_time`](Self::tick_time).
    #[must_use]
    pub fn with_tick_time(self, tick_time: Duration) -> Self {
        Self { tick_time: Some(tick_time), ..self }
    }

    /// Sets [`connect_within`](Self::connect_within).
    #[must_use]
    pub fn with_connect_within(self, connect_within: Duration) -> Self {
        Self { connect_within, ..self }
    }

    /// Sets [`tls`](Self::tls).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Adds credentials to [`auth`](Self::auth).
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth.push(auth);
        self
    }

    /// Sets [`acl`](Self::acl).
    #[must_use]
    pub fn with_acl(self, acl: Acl) -> Self {
        Self { acl, ..self }
    }

    /// Adds the ACL of one node to [`acl_of`](Self::acl_of).
    #[must_use]
    pub fn with_acl_of(mut self, path: impl Into<String>, acl: Acl) -> Self {
        self.acl_of.insert(path.into(), acl);
        self
    }

    /// Sets [`parents`](Self::parents).
    #[must_use]
    pub fn with_parents(self, parents: Parents) -> Self {
        Self { parents, ..self }
    }

    /// Sets [`node_bytes_max`](Self::node_bytes_max).
    #[must_use]
    pub fn with_node_bytes_max(self, node_bytes_max: u32) -> Self {
        Self { node_bytes_max, ..self }
    }

    #[cfg(feature = "tls")]
    pub(super) fn tls_settings(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    #[cfg(not(feature = "tls"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn tls_settings(&self) -> Option<&Tls> {
        None
    }
}
