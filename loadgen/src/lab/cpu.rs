//! Processor time of the processes of a trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// The process whose processor time is the generator's own.
pub(crate) const GENERATOR: &str = "generator";

/// Processor time of one process, or of one with all its children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProcessCpu {
    /// `generator`, `postgres`, `zookeeper`, `redis`, or the base URL of an instance.
    pub(crate) process: String,
    /// Seconds of processor time, from before the release until the trial had come to rest, or for the generator until the
    /// last answer.
    pub(crate) cpu_s: f64,
}

/// Processor time of the programs of this machine or of the instances, at one moment. Each name has the seconds of its
/// processes, by process id.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuTimes(Vec<(String, BTreeMap<u32, f64>)>);

impl CpuTimes {
    /// Reads the times of processes of this machine, each with all its children, and joins the times that instances tell. A
    /// process that is gone is left out.
    pub(crate) fn now(instances: Vec<ProcessCpu>, roots: &[(&'static str, i32)]) -> CpuTimes {
        let mut times: Vec<_> =
            instances.into_iter().map(|instance| (instance.process, BTreeMap::from([(0, instance.cpu_s)]))).collect();
        times.extend(of_trees(roots));
        CpuTimes(times)
    }

    /// Returns what each process has used since `before`. A process that was missing before is left out. If a child has
    /// ended, its earlier time is not subtracted from the others.
    pub(crate) fn since(&self, before: &CpuTimes) -> Vec<ProcessCpu> {
        let used = |(process, now): &(String, BTreeMap<u32, f64>)| {
            let (_, was) = before.0.iter().find(|(name, _)| name == process)?;
            let growth = now.iter().map(|(pid, cpu_s)| (cpu_s - was.get(pid).unwrap_or(&0.0)).max(0.0));
            Some(ProcessCpu { process: process.clone(), cpu_s: growth.sum() })
        };
        self.0.iter().filter_map(used).collect()
    }
}

fn of_trees(roots: &[(&'static str, i32)]) -> Vec<(String, BTreeMap<u32, f64>)> {
    if roots.is_empty() {
        return Vec::new();
    }
    let Ok(mut system) = System::new() else { return Vec::new() };
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing().with_cpu());
    // A thread is listed like a process, but the time of its process contains its time already.
    let processes = system.processes().iter().filter(|(_, process)| process.thread_kind().is_none());
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (pid, process) in processes {
        if let Some(parent) = process.parent() {
            children.entry(parent).or_default().push(*pid);
        }
    }
    let of_root = |(name, pid): &(&'static str, i32)| {
        let mut open = vec![Pid::from_u32(u32::try_from(*pid).ok()?)];
        let mut times = BTreeMap::new();
        system.process(open[0])?;
        while let Some(pid) = open.pop() {
            if let Some(process) = system.process(pid) {
                times.insert(pid.as_u32(), stats::as_f64(process.accumulated_cpu_time()) / 1e3);
            }
            open.extend(children.get(&pid).into_iter().flatten());
        }
        Some(((*name).to_owned(), times))
    };
    roots.iter().filter_map(of_root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_tree_includes_the_children() {
        let own = i32::try_from(std::process::id()).unwrap();
        let time = || CpuTimes::now(Vec::new(), &[("this", own), ("nobody", i32::MAX)]);
        let before = time();
        assert_eq!(before.0.len(), 1, "a process that is not there");
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo done; read -r _";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        let busy = of_trees(&[("child", i32::try_from(child.id()).unwrap())])[0].1[&child.id()];
        let used = time().since(&before)[0].cpu_s;
        assert!(busy > 0.0 && used >= busy, "{used} {busy}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn used_time_is_the_growth_of_a_process_and_its_children() {
        let times =
            |postgres: &[(u32, f64)]| CpuTimes(vec![("postgres".to_owned(), postgres.iter().copied().collect())]);
        let used = |before: &CpuTimes, after: &CpuTimes| after.since(before)[0].cpu_s;
        assert!((used(&times(&[(1, 1.5)]), &times(&[(1, 2.0)])) - 0.5).abs() < 1e-9);
        let one_ended = used(&times(&[(1, 1.0), (2, 9.0)]), &times(&[(1, 1.25), (3, 0.5)]));
        assert!((one_ended - 0.75).abs() < 1e-9, "{one_ended}");
        assert!(times(&[(1, 1.0)]).since(&CpuTimes::default()).is_empty());
    }
}
