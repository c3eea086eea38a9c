//! Variables of the user's environment that are not meant for throwaway servers.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use program::FromSystem as _;

use crate::Error;

/// The variables of the user that a throwaway server has: they name the places of its programs and libraries. A program
/// in `PATH` may be a script that looks for the real one in `HOME`.
const KEPT: [&str; 3] = ["PATH", "HOME", "LD_LIBRARY_PATH"];

/// Returns whether a throwaway server knows a variable of this process.
pub(crate) fn is_of_servers(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| name == *kept)
}

/// Starts this program again without the variables that set the defaults of Postgres clients, such as `PGSSLMODE` and
/// `PGOPTIONS`, if the environment has any. They are meant for a server of the user's, and would reach each connection to a
/// throwaway one: the client library reads them by itself. A program whose Postgres is a throwaway one calls this before
/// anything else. It keeps its process id.
///
/// # Errors
///
/// [`Error::System`] when the operating system refuses.
pub fn forget_postgres_variables() -> Result<(), Error> {
    let names = env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(b"PG"));
    let names: Vec<OsString> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let failed = || Error::system("start this program again without the variables of Postgres clients");
    let mut command = Command::new(env::current_exe().map_err(failed())?);
    let mut arguments = env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    for name in names {
        command.env_remove(name);
    }
    Err(failed()(command.exec()))
}
