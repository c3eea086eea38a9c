//! The unprivileged account of the servers when this process is root, because Postgres refuses root.

use nix::unistd::{Gid, Uid, User};

use crate::Error;

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl Account {
    /// Returns the account to switch to: the first of `names` that exists, and none unless this process is root.
    pub(crate) fn unprivileged(names: &[&str]) -> Result<Option<Self>, Error> {
        if !Uid::effective().is_root() {
            return Ok(None);
        }
        names
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Some(Self { uid: user.uid, gid: user.gid }))
            .ok_or_else(|| {
                let names = names.join(" or ");
                Error::Setting(format!("running as root, but there is no account {names} to run the server under"))
            })
    }
}
