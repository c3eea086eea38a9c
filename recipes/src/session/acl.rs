//! Who a session is, and who may touch the nodes that it creates.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use zookeeper_client::{AuthId, Permission};

/// Credentials that a session presents to every server it connects to.
///
/// ```
/// use zk_recipes::{Acl, Auth, SessionConfig};
///
/// let config = SessionConfig::default().with_auth(Auth::digest("shop", "a secret")).with_acl(Acl::creator());
/// assert!(!format!("{config:?}").contains("a secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    pub(crate) scheme: String,
    pub(crate) credentials: Vec<u8>,
}

impl Auth {
    /// A user with a password, by ZooKeeper's scheme `digest`. The server keeps no list of users: it compares the digest
    /// of both with those in a node's ACL. The password crosses the network as it is.
    #[must_use]
    pub fn digest(user: &str, password: &str) -> Self {
        Self::new("digest", format!("{user}:{password}"))
    }

    /// Credentials for any other scheme that the servers know.
    #[must_use]
    pub fn new(scheme: &str, credentials: impl Into<Vec<u8>>) -> Self {
        Self { scheme: scheme.to_owned(), credentials: credentials.into() }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// What somebody may do with a node. Combine them with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions(Permission);

impl Permissions {
    /// To read its data and list its children.
    pub const READ: Self = Self(Permission::READ);
    /// To set its data.
    pub const WRITE: Self = Self(Permission::WRITE);
    /// To create children.
    pub const CREATE: Self = Self(Permission::CREATE);
    /// To delete children.
    pub const DELETE: Self = Self(Permission::DELETE);
    /// To change its ACL.
    pub const ADMIN: Self = Self(Permission::ADMIN);
    /// All of them.
    pub const ALL: Self = Self(Permission::ALL);

    /// Whether these are among the permissions.
    ///
    /// ```
    /// use zk_recipes::Permissions;
    ///
    /// let mut permissions = Permissions::READ;
    /// permissions |= Permissions::WRITE;
    /// assert!(permissions.contains(Permissions::WRITE));
    /// assert!(!permissions.contains(Permissions::WRITE | Permissions::ADMIN));
    /// ```
    #[must_use]
    pub fn contains(self, permissions: Self) -> bool {
        self.0.has(permissions.0)
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Permissions {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// An access control list: who may do what with a node. It does not extend to the node's children.
///
/// ```
/// use zk_recipes::{Acl, Permissions};
///
/// let acl = Acl::creator().and("world", "anyone", Permissions::READ);
/// # let _ = acl;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<zookeeper_client::Acl>,
}

impl Acl {
    /// Anyone may do anything.
    #[must_use]
    pub fn open() -> Self {
        Self::of("world", "anyone", Permissions::ALL)
    }

    /// Only who has presented the same credentials as the session that creates the node may do anything. The server
    /// refuses it from a session without credentials.
    #[must_use]
    pub fn creator() -> Self {
        Self::of("auth", "", Permissions::ALL)
    }

    /// Only `id`, by the rules of `scheme`, and only that.
    #[must_use]
    pub fn of(scheme: &str, id: &str, permissions: Permissions) -> Self {
        Self { entries: Vec::new() }.and(scheme, id, permissions)
    }

    /// `id`, by the rules of `scheme`, as well.
    #[must_use]
    pub fn and(mut self, scheme: &str, id: &str, permissions: Permissions) -> Self {
        self.entries.push(zookeeper_client::Acl::new(permissions.0, AuthId::new(scheme, id)));
        self
    }

    pub(crate) fn entries(&self) -> &[zookeeper_client::Acl] {
        &self.entries
    }
}

impl Default for Acl {
    /// [`Acl::open`].
    fn default() -> Self {
        Self::open()
    }
}

/// How missing parents of locks are created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parents {
    /// As containers: the server removes them once they have been empty for a while.
    #[default]
    Container,
    /// To stay until somebody deletes them. For locks that are shared with clients that create the parent once and fail
    /// when it is gone, such as kazoo.
    Persistent,
}

/// What a session gives the nodes that it creates.
#[derive(Clone, Debug)]
pub(crate) struct NodePolicy {
    pub(crate) acl: Acl,
    pub(crate) acl_of: BTreeMap<String, Acl>,
    pub(crate) parents: Parents,
}

impl NodePolicy {
    pub(crate) fn acl(&self, path: &str) -> &Acl {
        self.acl_of.get(path).unwrap_or(&self.acl)
    }
}
