//! A temporary folder that outlives the processes that use it, but not this one.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use program::FromSystem as _;

use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::{Error, StopSignal, variables};

/// Does nothing for as long as any owner may live (68 years, the longest that every `sleep` takes).
const SCRIPT: &str = "exec sleep 2147483647";

/// A folder for the data of a server that is stopped and started again.
///
/// The folder of a guarded process is deleted with the process, a stopped server's too. This one is guarded in the same way and
/// deleted with its value, because the process in it only waits.
#[derive(Debug)]
pub(crate) struct KeptFolder {
    path: PathBuf,
    _guard: Guard,
}

impl KeptFolder {
    pub(crate) fn keep(folder: Folder) -> Result<Self, Error> {
        let path = folder.path().to_owned();
        let launch = Launch {
            program: PathBuf::from("/bin/sh"),
            args: ["-c", SCRIPT].map(OsString::from).to_vec(),
            envs: Vec::new(),
            knows: variables::is_of_servers,
            dir: None,
            stop_signal: StopSignal::Terminate,
            stop_within: Duration::from_secs(1),
            stdout: Output::Null,
            log_file: None,
        };
        Ok(Self { path, _guard: Guard::spawn(launch, folder)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a folder of files from another folder, with their accounts.
    pub(crate) fn copy_all(&self, from: &Path, name: &str) -> Result<(), Error> {
        let from = from.join(name);
        let to = self.path.join(name);
        let copy = || {
            copy_owned(&from, &to, |_, to| fs::create_dir(to))?;
            for file in fs::read_dir(&from)? {
                let file = file?;
                copy_owned(&file.path(), &to.join(file.file_name()), |from, to| fs::copy(from, to).map(drop))?;
            }
            Ok(())
        };
        copy().map_err(Error::system(format!("copy {}", from.display())))
    }

    /// Writes a file of the folder, which may be there already. It belongs to the account of the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = self.path.join(name);
        let written = fs::write(&path, content).and_then(|()| give_like(&self.path, &path));
        written.map_err(Error::system(format!("write {}", path.display())))
    }
}

fn copy_owned(from: &Path, to: &Path, copy: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    copy(from, to)?;
    give_like(from, to)
}

/// Gives `to` the account of `like`.
fn give_like(like: &Path, to: &Path) -> io::Result<()> {
    let owner = fs::metadata(like)?;
    chown(to, Some(owner.uid()), Some(owner.gid()))
}
