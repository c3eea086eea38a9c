//! A disk that takes nothing more.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::Pid;
use program::FromSystem as _;

use crate::Error;

/// Lets every write of a process to a file fail from now on (`EFBIG`). What it starts later is limited, too. Linux only.
///
/// A program treats this as a full disk: the call fails, and what was written before stays.
pub(crate) fn fill_disk(name: &str, process: Pid) -> Result<(), Error> {
    let failed = |source: io::Error| Error::system(format!("limit the files of {name} (with prlimit)"))(source);
    if cfg!(not(target_os = "linux")) {
        return Err(failed(io::ErrorKind::Unsupported.into()));
    }
    let entry = format!("/proc/{process}");
    let owner = match std::fs::metadata(&entry) {
        Ok(owner) => owner,
        // It has ended.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    // As its owner: in a container, even root may not limit the processes of others. The hard limit stays, so no privilege is needed.
    let limit = Command::new("prlimit")
        .args([format!("--pid={process}"), "--fsize=0:".to_owned()])
        .uid(owner.uid())
        .gid(owner.gid())
        .output()
        .map_err(failed)?;
    if limit.status.success() || !Path::new(&entry).exists() {
        return Ok(());
    }
    Err(failed(io::Error::other(String::from_utf8_lossy(&limit.stderr).trim().to_owned())))
}
