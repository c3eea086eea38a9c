//! What the system says of a process in `/proc`, which only Linux has.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;

/// The state and the parent of a process, or of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// The letter of its state: `T` if a signal has stopped it.
    pub state: char,
    /// The process id of its parent.
    pub parent: i32,
}

impl ProcessStat {
    /// Reads the state of a process.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is no such process, or no `/proc`. [`io::ErrorKind::InvalidData`] if the text is no state.
    pub fn of(process: i32) -> io::Result<ProcessStat> {
        ProcessStat::read(Path::new(&format!("/proc/{process}/stat")))
    }

    /// Tells whether all threads of a process stand still. A thread that has ended does, also while a frozen parent does not take note.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn is_frozen(process: i32) -> io::Result<bool> {
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            match ProcessStat::read(&thread?.path().join("stat")) {
                Ok(stat) if matches!(stat.state, 'T' | 'Z' | 'X') => {}
                Ok(_) => return Ok(false),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns the process ids of the children of a process.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is no `/proc`.
    pub fn children_of(parent: i32) -> io::Result<Vec<i32>> {
        let mut children = Vec::new();
        for process in fs::read_dir("/proc")? {
            let Some(process) = process?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process may end before it is read.
            if ProcessStat::of(process).is_ok_and(|stat| stat.parent == parent) {
                children.push(process);
            }
        }
        Ok(children)
    }

    fn read(path: &Path) -> io::Result<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(path)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads the two words after the name, which is in brackets and may contain brackets and spaces.
    fn parse(text: &str) -> Option<ProcessStat> {
        let (_, rest) = text.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        Some(ProcessStat { state: words.next()?.chars().next()?, parent: words.next()?.parse().ok()? })
    }
}

/// Tells whether a process has ended while it was read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_nobody_has_waited_for_yet_stands_still() {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let process = i32::try_from(ended.id()).unwrap();
        while ProcessStat::of(process).unwrap().state != 'Z' {
            std::thread::yield_now();
        }
        assert!(ProcessStat::is_frozen(process).unwrap());
        ended.wait().unwrap();
    }

    #[test]
    fn a_name_with_brackets_does_not_hide_the_state() {
        let stat = ProcessStat::parse("7 (a) S 1 (b)) T 3 7 7 0").unwrap();
        assert_eq!(stat, ProcessStat { state: 'T', parent: 3 });
        assert_eq!(ProcessStat::parse("7 (sh"), None);
    }
}
