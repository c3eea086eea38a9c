//! Changes the number that a stopped server gives to the next sequential child of a node.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::configuration::{self, Installation};
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::{Error, StopSignal, variables};

const PROGRAM: &str = include_str!("ChildNumber.java");
const PROGRAM_NAME: &str = "ChildNumber.java";

/// Runs the program on the data of the server whose files are in `dir`.
pub(crate) async fn set(installation: &Installation, dir: &Path, path: &str, number: i32) -> Result<(), Error> {
    let folder = Folder::create(installation.account)?;
    folder.write(PROGRAM_NAME, PROGRAM)?;
    let launch = Launch {
        program: installation.java.clone(),
        args: arguments(installation, &folder, dir, path, number),
        envs: configuration::variables(),
        knows: variables::is_of_servers,
        dir: Some(folder.path().to_owned()),
        stop_signal: StopSignal::Terminate,
        stop_within: Duration::from_secs(10),
        stdout: Output::Log,
        log_file: None,
    };
    let mut guard = Guard::spawn(launch, folder)?;
    let status = guard.wait().await?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { action: format!("number the next child of {path}"), status, log: guard.log_tail() })
}

/// Returns the arguments of Java, which compiles and runs a source file by itself.
fn arguments(installation: &Installation, folder: &Folder, dir: &Path, path: &str, number: i32) -> Vec<OsString> {
    let mut tmpdir = OsString::from("-Djava.io.tmpdir=");
    tmpdir.push(folder.path());
    vec![
        "-XX:-UsePerfData".into(),
        // The program is short, so its start matters more than its speed.
        "-XX:TieredStopAtLevel=1".into(),
        "-XX:+UseSerialGC".into(),
        tmpdir,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error".into(),
        "-cp".into(),
        installation.class_path.clone(),
        folder.path().join(PROGRAM_NAME).into(),
        dir.join("data").into(),
        path.into(),
        number.to_string().into(),
    ]
}
