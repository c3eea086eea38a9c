//! The processes that descend from this one, as Linux reports them.
//!
//! A process whose parent has ended becomes the child of its nearest ancestor that has asked for such orphans. This
//! process asks. So whatever COMMAND has started descends from a child of this process, in whatever process group or
//! session it is.
//!
//! The kernel tells whether a child is left, and `/proc` tells which processes to signal. `/proc` may be missing or hide
//! processes. So a process that it does not list is not taken for ended.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// A process, as `/proc/PID/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildProcess {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// When it started, in clock ticks. A later process with the same id has another one.
    started: u64,
}

/// COMMAND and what descends from it.
#[derive(Debug)]
pub(crate) struct Family {
    /// Whether this process had children before COMMAND. A shell that starts processes and then becomes `zk-lock` by `exec`
    /// leaves it such children.
    has_strangers: bool,
    /// The descendants before COMMAND. `None` if they could not be listed.
    strangers: Option<Vec<ChildProcess>>,
}

impl Family {
    /// Makes orphans among the descendants of this process its children from here on. It must be called before COMMAND
    /// is started.
    pub(crate) fn adopt() -> Result<Self, Errno> {
        prctl::set_child_subreaper(true)?;
        let has_strangers = has_children();
        let strangers = if has_strangers { descendants(&[]) } else { Some(Vec::new()) };
        Ok(Self { has_strangers, strangers })
    }

    /// Returns the processes that `/proc` shows. `None` if it does not list processes.
    pub(crate) fn listed(&self) -> Option<Vec<ChildProcess>> {
        descendants(self.strangers.as_deref()?)
    }

    /// Returns whether all processes are gone. COMMAND must have been waited for.
    pub(crate) fn is_gone(&self) -> bool {
        // With strangers among the children, only the list can tell.
        !has_children() || self.has_strangers && self.listed().is_some_and(|left| left.is_empty())
    }
}

/// Clears away the adopted children that have ended. `command` is waited for by others.
pub(crate) fn reap_orphans(command: Pid) {
    // With `WNOWAIT` this only looks, so the status of COMMAND is left for its own waiter.
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(Some(pid)) = waitid(Id::All, ended).map(|status| status.pid())
        && pid != command
    {
        // Nothing else waits for it, so it can still be waited for.
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
}

/// Returns whether a child of this process is in a process group. If not, its number may be another group's.
pub(crate) fn has_child_in(group: Pid) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::PGid(group), look) != Err(Errno::ECHILD)
}

/// Clears away all children that have ended. Returns whether a child is left.
fn has_children() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            // One was cleared away.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Returns the descendants of this process, without `strangers` and their descendants. `None` if `/proc` does not list them.
fn descendants(strangers: &[ChildProcess]) -> Option<Vec<ChildProcess>> {
    let mut all = all_in(Path::new("/proc"))?;
    let is_stranger = |process: &ChildProcess| {
        strangers.iter().any(|stranger| (stranger.pid, stranger.started) == (process.pid, process.started))
    };
    all.retain(|process| !is_stranger(process));
    Some(descendants_of(Pid::this().as_raw(), &all))
}

/// Returns all processes that a `/proc` lists. `None` if it does not know this process by our id, as in a namespace of
/// process ids without a `/proc` of its own: then the other ids are not ours either.
fn all_in(proc: &Path) -> Option<Vec<ChildProcess>> {
    let this = fs::read_link(proc.join("self")).ok()?;
    if this.to_str()?.parse() != Ok(Pid::this().as_raw()) {
        return None;
    }
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let folders = fs::read_dir(proc).ok()?.flatten();
    let paths = folders.filter(|folder| folder.file_name().to_str().is_some_and(is_process));
    // A process may end between the listing and the reading.
    let stats = paths.filter_map(|folder| fs::read(folder.path().join("stat")).ok());
    Some(stats.filter_map(|stat| parse(&String::from_utf8_lossy(&stat))).collect())
}

/// Reads `PID (NAME) STATE PARENT GROUP … STARTED …`; the name may contain anything, parentheses and spaces included.
fn parse(stat: &str) -> Option<ChildProcess> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(1);
    // A signal to a negative number goes to many processes.
    let id = |text: &str| text.parse().ok().filter(|id| *id >= 0);
    Some(ChildProcess {
        pid: id(pid).filter(|pid| *pid > 0)?,
        parent: id(fields.next()?)?,
        group: id(fields.next()?)?,
        // The 22nd field, as `proc(5)` counts; the group is the fifth.
        started: fields.nth(16)?.parse().ok()?,
    })
}

fn descendants_of(ancestor: i32, all: &[ChildProcess]) -> Vec<ChildProcess> {
    let mut found: Vec<ChildProcess> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            // The table is read while it changes, so a number that is used again could close a circle.
            if child.pid != ancestor && !found.iter().any(|known| known.pid == child.pid) {
                found.push(*child);
                parents.push(child.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn process(pid: i32, parent: i32) -> ChildProcess {
        ChildProcess { pid, parent, group: pid, started: 9 }
    }

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        let rest = "5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 100";
        let expected = ChildProcess { pid: 7, parent: 3, group: 5, started: 99 };
        for name in ["sh", "a b", "a) Z 1 (b", "((", ") "] {
            assert_eq!(parse(&format!("7 ({name}) S 3 5 {rest}")), Some(expected), "{name}");
        }
        for malformed in ["", "7", "7 (sh)", "7 (sh) S", "x (sh) S 3 5", "7 (sh) S 3", "7 (sh) S 3 5 5 0"] {
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

    // Z3
    #[test]
    fn a_proc_of_other_processes_lists_nothing() {
        let this = Pid::this().as_raw();
        let is_this = |process: &ChildProcess| process.pid == this;
        assert!(all_in(Path::new("/proc")).unwrap().iter().any(is_this));
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(all_in(proc.path()), None, "nothing is mounted");
        symlink((this + 1).to_string(), proc.path().join("self")).unwrap();
        assert_eq!(all_in(proc.path()), None, "of another namespace");
    }

    // No other test of this process may start one: this one clears away every child.
    // Z3
    #[test]
    fn a_child_that_is_not_listed_is_not_gone() {
        for has_strangers in [false, true] {
            let family = Family { has_strangers, strangers: None };
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            assert_eq!(family.listed(), None);
            assert!(!family.is_gone());
            child.kill().unwrap();
            while !family.is_gone() {
                std::thread::yield_now();
            }
            assert!(child.wait().is_err(), "it was cleared away");
        }
    }
}
