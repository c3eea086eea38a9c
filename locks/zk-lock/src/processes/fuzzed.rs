//! Lines of `/proc/PID/stat`: a process may have any name.

use super::{ChildProcess, parse};

/// Returns the line of a process as Linux writes it.
fn line(process: &ChildProcess, name: &str) -> String {
    let ChildProcess { pid, parent, group, started } = process;
    format!("{pid} ({name}) S {parent} {group} 1 0 -1 4194304 2 3 4 5 6 7 8 9 20 0 1 0 {started} 99 100\n")
}

// Z17
#[test]
fn a_process_is_read_whatever_its_name_is() {
    fuzz::any_text("process-names", |text| {
        let process = ChildProcess { pid: 7, parent: 3, group: 5, started: 99 };
        assert_eq!(parse(&line(&process, text)), Some(process), "{text:?}");
        if let Some(read) = parse(text) {
            assert_eq!(parse(&line(&read, "sh")), Some(read), "{text:?}");
            assert!(read.pid > 0 && read.parent >= 0 && read.group >= 0, "a signal to {read:?} would be one to many");
        }
    });
}
