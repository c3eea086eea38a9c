//! The clock of the history: the monotonic clock of the system, in nanoseconds. Processes with the same clock can
//! compare their times. That includes processes in different containers of one host. [`id`] tells which processes
//! have the same clock.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The id of the boot of the kernel. The monotonic clock counts from the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The time namespace of this process. A time namespace may shift the monotonic clock.
const TIME_NAMESPACE: &str = "/proc/self/ns/time";

/// The number of the initial time namespace of every Linux. It shifts nothing.
const TIME_NAMESPACE_INITIAL: u64 = 0xEFFF_FFFA;

/// An instant of the clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Returns this instant.
    pub fn now() -> Self {
        // Every system that this runs on has the clock.
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        Self(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the nanoseconds since the start of the clock, for example since the boot of the host.
    pub fn ns(self) -> u64 {
        self.0
    }
}

/// Returns a name for the clock: processes that get the same text have the same clock. Returns `None` if the system
/// does not tell.
///
/// On Linux the text is the id of the boot, and the time namespace unless it is the initial one. One exception:
/// virtual machines that were resumed from one snapshot have the same text, but their clocks may differ.
pub fn id() -> Option<&'static str> {
    static ID: LazyLock<Option<String>> =
        LazyLock::new(|| if cfg!(target_os = "linux") { of_linux() } else { of_darwin() });
    ID.as_deref()
}

fn of_linux() -> Option<String> {
    let boot_id = fs::read_to_string(BOOT_ID).ok()?;
    let time_namespace = match fs::metadata(TIME_NAMESPACE) {
        Ok(namespace) => namespace.ino(),
        // Linux before 5.6 has no time namespaces.
        Err(error) if error.kind() == ErrorKind::NotFound => TIME_NAMESPACE_INITIAL,
        Err(_) => return None,
    };
    linux_id(&boot_id, time_namespace)
}

fn linux_id(boot_id: &str, time_namespace: u64) -> Option<String> {
    let boot = boot_id.trim();
    match (boot.is_empty(), time_namespace) {
        (true, _) => None,
        (false, TIME_NAMESPACE_INITIAL) => Some(format!("linux:{boot}")),
        (false, other) => Some(format!("linux:{boot}:time:{other}")),
    }
}

/// Returns the id of the boot of macOS. Unlike the time of the boot, it stays the same when somebody sets the wall
/// clock. Other systems do not know the name, so the result is `None`.
fn of_darwin() -> Option<String> {
    let told = Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]).output().ok()?;
    let boot = String::from_utf8(told.stdout).ok()?;
    (told.status.success() && !boot.trim().is_empty()).then(|| format!("darwin:{}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let moments: Vec<_> = (0..1000).map(|_| Moment::now()).collect();
        assert!(moments.is_sorted() && moments[0].ns() > 0);
    }

    #[test]
    fn a_clock_is_known_by_its_boot_and_its_time_namespace() {
        let boot_id = "3f1c8f0e-8a0e-4d0e-9a55-0d6c3d7b8a11\n";
        assert_eq!(linux_id(boot_id, 4_026_531_834).as_deref(), Some("linux:3f1c8f0e-8a0e-4d0e-9a55-0d6c3d7b8a11"));
        assert_eq!(
            linux_id(boot_id, 4_026_532_300).as_deref(),
            Some("linux:3f1c8f0e-8a0e-4d0e-9a55-0d6c3d7b8a11:time:4026532300")
        );
        assert_eq!(linux_id("\n", 4_026_531_834), None);
    }

    #[test]
    fn the_clock_of_a_process_stays_the_same() {
        assert_eq!(id(), id());
        assert!(id().is_some_and(|id| id.starts_with("linux:") || id.starts_with("darwin:")), "{:?}", id());
    }
}
