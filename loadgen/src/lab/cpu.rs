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

/// Processor time of the programs of this machine or of the instances, at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuTimes(Vec<TreeTimes>);

/// Processor time of a process and of all its children.
#[derive(Debug, Clone, PartialEq)]
struct TreeTimes {
    /// Its name in the report.
    name: String,
    /// The process id of the parent. Absent for an instance, which tells its own time.
    root: Option<i32>,
    /// Seconds by process id.
    seconds: BTreeMap<u32, f64>,
}

impl CpuTimes {
    /// Reads the times of processes of this machine, each with all its children, and joins the times that instances tell. A
    /// process that is gone is left out.
    pub(crate) fn now(instances: Vec<ProcessCpu>, roots: &[(&'static str, i32)]) -> CpuTimes {
        let of_instance = |instance: ProcessCpu| TreeTimes {
            name: instance.process,
            root: None,
            seconds: BTreeMap::from([(0, instance.cpu_s)]),
        };
        CpuTimes(instances.into_iter().map(of_instance).chain(of_trees(roots)).collect())
    }

    /// Returns what each process has used since `before`. Empty if a process came, went or was restarted: the others would pass for the
    /// whole. If a child has ended, its earlier time is not subtracted from the others.
    pub(crate) fn since(&self, before: &CpuTimes) -> Vec<ProcessCpu> {
        let used = |now: &TreeTimes| {
            let was = before.0.iter().find(|was| (&was.name, was.root) == (&now.name, now.root))?;
            let growth = now.seconds.iter().map(|(pid, cpu_s)| (cpu_s - was.seconds.get(pid).unwrap_or(&0.0)).max(0.0));
            Some(ProcessCpu { process: now.name.clone(), cpu_s: growth.sum() })
        };
        let all: Option<Vec<ProcessCpu>> = self.0.iter().map(used).collect();
        all.filter(|all| all.len() == before.0.len()).unwrap_or_default()
    }
}

fn of_trees(roots: &[(&'static str, i32)]) -> Vec<TreeTimes> {
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
        let mut seconds = BTreeMap::new();
        system.process(open[0])?;
        while let Some(pid) = open.pop() {
            if let Some(process) = system.process(pid) {
                seconds.insert(pid.as_u32(), stats::as_f64(process.accumulated_cpu_time()) / 1e3);
            }
            open.extend(children.get(&pid).into_iter().flatten());
        }
        Some(TreeTimes { name: (*name).to_owned(), root: Some(*pid), seconds })
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
        let busy = of_trees(&[("child", i32::try_from(child.id()).unwrap())])[0].seconds[&child.id()];
        let used = time().since(&before)[0].cpu_s;
        assert!(busy > 0.0 && used >= busy, "{used} {busy}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn used_time_is_the_growth_of_a_process_and_its_children() {
        let times = |postgres: &[(u32, f64)]| {
            let root = postgres.first().map(|(pid, _)| i32::try_from(*pid).unwrap());
            let seconds = postgres.iter().copied().collect();
            CpuTimes(vec![TreeTimes { name: "postgres".to_owned(), root, seconds }])
        };
        let used = |before: &CpuTimes, after: &CpuTimes| after.since(before)[0].cpu_s;
        assert!((used(&times(&[(1, 1.5)]), &times(&[(1, 2.0)])) - 0.5).abs() < 1e-9);
        let one_ended = used(&times(&[(1, 1.0), (2, 9.0)]), &times(&[(1, 1.25), (3, 0.5)]));
        assert!((one_ended - 0.75).abs() < 1e-9, "{one_ended}");
        assert!(times(&[(1, 1.0)]).since(&CpuTimes::default()).is_empty());
        let instance = || CpuTimes::now(vec![ProcessCpu { process: "http://a".to_owned(), cpu_s: 1.0 }], &[]);
        let with_instance = |mut times: CpuTimes| {
            times.0.extend(instance().0);
            times
        };
        let [first, second] = [with_instance(times(&[(1, 1.0)])), with_instance(times(&[(7, 5.0)]))];
        assert_eq!(first.since(&first).len(), 2);
        assert!(second.since(&first).is_empty(), "a server was restarted, and the instance is not all");
        assert!(instance().since(&first).is_empty(), "a server is gone");
    }
}
