//! The settings of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::session::acl::{Acl, Auth, Parents};
use crate::session::tls::Tls;

/// How to open a [`Session`](crate::Session).
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
    /// After how much silence the server expires the session and deletes its nodes. The server may grant another
    /// value, see [`Session::timeout`](crate::Session::timeout). A holder that dies blocks the others for this long. The server is asked for whole
    /// milliseconds, at least 1 and at most `i32::MAX`; a longer or shorter value counts as the nearest of those.
    pub timeout: Duration,
    /// The `tickTime` of the servers. `None` stands for a tick of half the timeout, the longest that servers have unless
    /// their `minSessionTimeout` is set below two ticks: then the tick must be given. A shorter tick that is given lets
    /// holds survive a longer silence, by half the difference: with a timeout of 20 s and a tick of 2 s, at least 14.8 s
    /// after the last proof that the session lives instead of 10.8 s.
    pub tick_time: Option<Duration>,
    /// How long to go on trying to connect.
    pub connect_within: Duration,
    /// How to speak TLS with the servers; without it nothing is encrypted.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    /// Who the session is; nobody in particular when empty.
    pub auth: Vec<Auth>,
    /// Who may do what with the nodes that the session creates: those of its locks and their missing parents.
    pub acl: Acl,
    /// Other ACLs for the nodes of these paths, such as that of a parent under which others may create locks but not
    /// delete them. The paths are those of nodes whose names are known before: parents, the node of a
    /// [`NaiveLock`](crate::NaiveLock), a [`SharedCount`](crate::SharedCount). The server ends the names of all
    /// contenders with a number, so theirs cannot be given, and they always get [`acl`](Self::acl).
    pub acl_of: BTreeMap<String, Acl>,
    /// How missing parents of locks are created.
    pub parents: Parents,
}

impl Default for SessionConfig {
    /// A timeout of 10 s, a tick of at most half of it, 15 s to connect, no TLS, no credentials, nodes that are open to
    /// anyone, containers as parents.
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
        }
    }
}

impl SessionConfig {
    /// With this [`timeout`](Self::timeout).
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// With this [`tick_time`](Self::tick_time).
    #[must_use]
    pub fn with_tick_time(self, tick_time: Duration) -> Self {
        Self { tick_time: Some(tick_time), ..self }
    }

    /// With so much time to connect: [`connect_within`](Self::connect_within).
    #[must_use]
    pub fn with_connect_within(self, connect_within: Duration) -> Self {
        Self { connect_within, ..self }
    }

    /// With TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// With one more identity: [`auth`](Self::auth).
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth.push(auth);
        self
    }

    /// With this [`acl`](Self::acl).
    #[must_use]
    pub fn with_acl(self, acl: Acl) -> Self {
        Self { acl, ..self }
    }

    /// With another ACL for the node of one path: [`acl_of`](Self::acl_of).
    #[must_use]
    pub fn with_acl_of(mut self, path: impl Into<String>, acl: Acl) -> Self {
        self.acl_of.insert(path.into(), acl);
        self
    }

    /// With missing parents of locks that are created like this: [`parents`](Self::parents).
    #[must_use]
    pub fn with_parents(self, parents: Parents) -> Self {
        Self { parents, ..self }
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
