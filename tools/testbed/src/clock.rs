//! A wall clock of a process that can be stepped, by libfaketime. The monotonic clock stays as it is.

use std::ffi::OsString;
use std::path::Path;

use crate::Error;
use crate::find::libfaketime;
use crate::kept::KeptFolder;

/// The file with the distance from the clock of the machine.
const FILE: &str = "clock";

/// Writes by how many seconds the clock is ahead. The process follows within a second.
pub(crate) fn set(folder: &KeptFolder, ahead: i64) -> Result<(), Error> {
    folder.write(FILE, format!("{ahead:+}"))
}

/// Returns the environment of a process whose clock follows the file.
///
/// # Errors
///
/// [`Error::NotInstalled`] without libfaketime.
pub(crate) fn variables(folder: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
    let fixed = [
        ("FAKETIME_CACHE_DURATION", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        // A repair for an old C library. With it, each timed wait of Java ends at once.
        ("FAKETIME_FORCE_MONOTONIC_FIX", "0"),
    ];
    let fixed = fixed.into_iter().map(|(name, value)| (name.into(), value.into()));
    let own = [
        ("LD_PRELOAD".into(), libfaketime()?.into_os_string()),
        ("FAKETIME_TIMESTAMP_FILE".into(), folder.join(FILE).into_os_string()),
    ];
    Ok(own.into_iter().chain(fixed).collect())
}
