//! The processes that descend from this one, as Linux lists them.
//!
//! A process whose parent has ended becomes the child of its nearest ancestor that has asked for such orphans. This
//! process asks ([`adopt_orphans`]), so that whatever COMMAND has started stays findable, in whatever process group or
//! session it is.

use std::fs;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// A process that is there, as `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Whether it has ended, and only its status is left.
    pub(crate) is_zombie: bool,
}

/// Makes orphans among the descendants of this process its children from here on.
pub(crate) fn adopt_orphans() -> Result<(), Errno> {
    prctl::set_child_subreaper(true)
}

/// The descendants of this process.
pub(crate) fn descendants() -> Vec<Process> {
    descendants_of(Pid::this().as_raw(), &all())
}

/// Clears away the adopted children that have ended. `command` is waited for by others.
pub(crate) fn reap_orphans(command: Pid) {
    let this = Pid::this().as_raw();
    for process in all() {
        if process.is_zombie && process.parent == this && process.pid != command.as_raw() {
            // Nobody else waits for it, so it is still there.
            let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

fn all() -> Vec<Process> {
    let Ok(folders) = fs::read_dir("/proc") else { return Vec::new() };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let paths = folders.flatten().filter(|folder| folder.file_name().to_str().is_some_and(is_process));
    // A process may end between the listing and the reading.
    let stats = paths.filter_map(|folder| fs::read(folder.path().join("stat")).ok());
    stats.filter_map(|stat| parse(&String::from_utf8_lossy(&stat))).collect()
}

/// Reads `PID (NAME) STATE PARENT GROUP …`; the name may contain anything, parentheses and spaces included.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: number()?,
        group: number()?,
        is_zombie: matches!(state, "Z" | "X" | "x"),
    })
}

fn descendants_of(ancestor: i32, all: &[Process]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            // The table is read while it changes, so that a number that is used again could close a circle.
            if child.pid != ancestor && !found.iter().any(|known| known.pid == child.pid) {
                found.push(*child);
                parents.push(child.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, group: pid, is_zombie: false }
    }

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        let expected = Process { pid: 7, parent: 3, group: 5, is_zombie: false };
        for name in ["sh", "a b", "a) Z 1 (b", "((", ") "] {
            assert_eq!(parse(&format!("7 ({name}) S 3 5 5 0 -1 4194304 100")), Some(expected), "{name}");
        }
        assert_eq!(parse("7 (sh) Z 3 5 5 0"), Some(Process { is_zombie: true, ..expected }));
        for malformed in ["", "7", "7 (sh)", "7 (sh) S", "x (sh) S 3 5", "7 (sh) S 3"] {
            assert_eq!(parse(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn descendants_are_found_over_any_number_of_generations() {
        let all = [process(1, 0), process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 4)];
        let mut pids: Vec<i32> = descendants_of(2, &all).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [3, 4, 6]);
        assert_eq!(descendants_of(5, &all), []);
    }

    #[test]
    fn a_table_that_goes_round_in_a_circle_ends() {
        let all = [process(2, 4), process(3, 2), process(4, 3)];
        assert_eq!(descendants_of(2, &all).len(), 2);
    }

    #[test]
    fn this_process_is_no_descendant_of_its_own() {
        assert!(descendants().iter().all(|process| process.pid != Pid::this().as_raw()));
        assert!(all().iter().any(|process| process.pid == Pid::this().as_raw()));
    }
}
