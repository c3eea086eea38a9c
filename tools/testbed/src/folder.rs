//! The temporary folder that each guarded child has.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use program::FromSystem as _;
use tempfile::TempDir;

use crate::Error;
use crate::account::Account;

/// A temporary folder, owned by the account of the child and readable by nobody else.
///
/// It is removed on drop, until a guard takes over the removal.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: TempDir,
    /// The real path, since servers report it without symbolic links.
    path: PathBuf,
    account: Option<Account>,
}

impl Folder {
    pub(crate) fn create(account: Option<Account>) -> Result<Self, Error> {
        let dir = tempfile::Builder::new()
            .prefix("seckill-testbed-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(Error::system("create a temporary folder"))?;
        let path = fs::canonicalize(dir.path()).map_err(Error::system("resolve the temporary folder"))?;
        if path.to_str().is_none() {
            return Err(Error::Setting(format!("the name of the folder {} (TMPDIR) is not UTF-8", path.display())));
        }
        let folder = Self { dir, path, account };
        folder.hand_over(&folder.path)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn account(&self) -> Option<Account> {
        self.account
    }

    /// Writes a file that the child's account may read and change.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        fs::write(&path, content)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o600)))
            .map_err(Error::system(format!("write {}", path.display())))?;
        self.hand_over(&path)
    }

    /// Makes a folder in it that the child's account may use.
    pub(crate) fn create_dir(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(Error::system(format!("create the folder {}", path.display())))?;
        self.hand_over(&path)
    }

    fn hand_over(&self, path: &Path) -> Result<(), Error> {
        let Some(account) = self.account else { return Ok(()) };
        chown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
            .map_err(Error::system(format!("give {} to the account of the server", path.display())))
    }

    /// Leaves the removal of the folder to the guard, and returns its path.
    pub(crate) fn into_path(self) -> PathBuf {
        let Self { dir, path, .. } = self;
        // `path` is the same folder with its symbolic links resolved.
        let _ = dir.keep();
        path
    }
}
