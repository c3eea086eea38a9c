//! Processor time of the processes of a trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Processor time of one process, or of one with all its children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProcessCpu {
    /// `generator`, `postgres`, `zookeeper`, or the base URL of an instance.
    pub(crate) process: String,
    /// Seconds of processor time, from before the release until all was quiet; for the generator until the last answer.
    pub(crate) cpu_s: f64,
}

/// Total processor time of each process at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuTimes(pub(crate) Vec<ProcessCpu>);

impl CpuTimes {
    /// What each process has used since `before`; one that was not there before is left out.
    pub(crate) fn since(&self, before: &CpuTimes) -> Vec<ProcessCpu> {
        let used = |now: &ProcessCpu| {
            let was = before.0.iter().find(|was| was.process == now.process)?;
            Some(ProcessCpu { process: now.process.clone(), cpu_s: (now.cpu_s - was.cpu_s).max(0.0) })
        };
        self.0.iter().filter_map(used).collect()
    }
}

/// The processor time of processes of this machine with all their children; one that is gone is left out.
pub(crate) fn of_trees(roots: &[(&'static str, i32)]) -> Vec<ProcessCpu> {
    if roots.is_empty() {
        return Vec::new();
    }
    let Ok(mut system) = System::new() else { return Vec::new() };
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing().with_cpu());
    // A thread is listed like a process, but its time is in that of its process already.
    let processes = system.processes().iter().filter(|(_, process)| process.thread_kind().is_none());
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (pid, process) in processes {
        if let Some(parent) = process.parent() {
            children.entry(parent).or_default().push(*pid);
        }
    }
    let of_root = |(name, pid): &(&'static str, i32)| {
        let mut open = vec![Pid::from_u32(u32::try_from(*pid).ok()?)];
        let mut total_ms = 0;
        system.process(open[0])?;
        while let Some(pid) = open.pop() {
            total_ms += system.process(pid).map_or(0, |process| process.accumulated_cpu_time());
            open.extend(children.get(&pid).into_iter().flatten());
        }
        Some(ProcessCpu { process: (*name).to_owned(), cpu_s: loadgen::stats::as_f64(total_ms) / 1e3 })
    };
    roots.iter().filter_map(of_root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_tree_has_that_of_the_children() {
        let own = i32::try_from(std::process::id()).unwrap();
        let time = || of_trees(&[("this", own), ("nobody", i32::MAX)]);
        assert_eq!(time().len(), 1, "a process that is not there");
        let before = time()[0].cpu_s;
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo done; read -r _";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        let busy = of_trees(&[("child", i32::try_from(child.id()).unwrap())])[0].cpu_s;
        assert!(busy > 0.0 && time()[0].cpu_s >= before + busy, "{busy}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn what_a_process_used_is_the_growth_of_its_time() {
        let times = |times: &[(&str, f64)]| {
            let of = |(process, cpu_s): &(&str, f64)| ProcessCpu { process: (*process).to_owned(), cpu_s: *cpu_s };
            CpuTimes(times.iter().map(of).collect())
        };
        let (before, after) = (times(&[("postgres", 1.5)]), times(&[("postgres", 2.0), ("zookeeper", 1.0)]));
        assert_eq!(after.since(&before), times(&[("postgres", 0.5)]).0);
    }
}
