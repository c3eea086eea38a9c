//! Apache JMeter, for tests that let it load a service or read a log.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::find::{class_path, java, jmeter_home};

/// Returns a command that runs the source file `program` with Java and everything of JMeter in its class path. Arguments
/// that are added to the command are those of the program. The property `jmeter.home` tells the program where JMeter is.
///
/// `jmeter/JMeter.java` starts JMeter itself, which Debian's own command cannot.
///
/// # Errors
///
/// [`Error::NotInstalled`] when there is no Java or no JMeter.
pub fn jmeter(program: &Path) -> Result<Command, Error> {
    let home = jmeter_home()?;
    let mut home_property = OsString::from("-Djmeter.home=");
    home_property.push(&home);
    let mut command = Command::new(java()?);
    command.args(["-Djava.awt.headless=true", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]);
    // Several JMeters on one machine reach each other at this address.
    command.arg("-Djava.rmi.server.hostname=127.0.0.1");
    command.arg(home_property).arg("-cp");
    command.arg(class_path(["bin/ApacheJMeter.jar", "lib/*", "lib/ext/*"].map(|part| home.join(part))));
    command.arg(program);
    Ok(command)
}
