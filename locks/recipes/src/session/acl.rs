//! The credentials of a session, and the access control lists of the nodes that it creates.

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
    /// Returns the credentials of a user with a password, for ZooKeeper's scheme `digest`.
    ///
    /// The server keeps no list of users. It compares the digest of user and password with the digests in a node's ACL. Without
    /// TLS, the password crosses the network as plain text.
    #[must_use]
    pub fn digest(user: &str, password: &str) -> Self {
        Self::new("digest", format!("{user}:{password}"))
    }

    /// Returns credentials for any scheme that the servers know.
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

/// Permissions on a node. Combine them with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions(Permission);

impl Permissions {
    /// Permission to read the data and list the children.
    pub const READ: Self = Self(Permission::READ);
    /// Permission to set the data.
    pub const WRITE: Self = Self(Permission::WRITE);
    /// Permission to create children.
    pub const CREATE: Self = Self(Permission::CREATE);
    /// Permission to delete children.
    pub const DELETE: Self = Self(Permission::DELETE);
    /// Permission to change the ACL.
    pub const ADMIN: Self = Self(Permission::ADMIN);
    /// All permissions.
    pub const ALL: Self = Self(Permission::ALL);

    /// Tells whether all of `permissions` are included.
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

/// An access control list: the permissions that each identity has on a node. It does not apply to the node's children.
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
    /// Returns an ACL that gives all permissions to everyone.
    #[must_use]
    pub fn open() -> Self {
        Self::of("world", "anyone", Permissions::ALL)
    }

    /// Returns an ACL that gives all permissions to sessions with the creator's credentials, and none to other sessions. If the
    /// creating session has no credentials, the server refuses this ACL.
    #[must_use]
    pub fn creator() -> Self {
        Self::of("auth", "", Permissions::ALL)
    }

    /// Returns an ACL that gives these permissions to `id` only. `scheme` says how the server reads `id`.
    #[must_use]
    pub fn of(scheme: &str, id: &str, permissions: Permissions) -> Self {
        Self { entries: Vec::new() }.and(scheme, id, permissions)
    }

    /// Adds these permissions for `id`. `scheme` says how the server reads `id`.
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
    /// Returns [`Acl::open`].
    fn default() -> Self {
        Self::open()
    }
}

/// The kind of node that a missing parent of a lock is created as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parents {
    /// A container. The server deletes it some time after its last child was deleted.
    #[default]
    Container,
    /// A persistent node. It stays until somebody deletes it. Use it for locks shared with clients that create the parent once and
    /// fail if it is gone, such as kazoo.
    Persistent,
}

/// The ACLs and the kind of parents that a session uses for the nodes that it creates.
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
