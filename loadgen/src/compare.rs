//! The `compare` command: a plan, its trials, a report.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use nix::sys::utsname::uname;

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::plan::Plan;
use crate::progress::{Progress, starting};
use crate::report::{Environment, Findings, Parameters, Report, json, markdown, terminal};
use crate::run::{self, Conditions};
use crate::settings::{CompareSettings, Source};
use crate::stack::Stack;
use crate::strategies::{Strategy, select};
use crate::trial::Trial;

/// The report for programs.
const JSON: &str = "report.json";
/// The report for people.
const MARKDOWN: &str = "report.md";

/// Runs a comparison, and returns the exit code that its verdict gives.
///
/// # Errors
///
/// [`Error::Interrupted`] when it was stopped before the first trial began; all the others when no report can be made.
///
/// # Cancel safety
///
/// Everything that was started is stopped, which blocks for a moment.
pub(crate) async fn compare(
    settings: &CompareSettings,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<u8, Error> {
    make_folder(&settings.report)?;
    remove_old(&settings.report)?;
    let mut progress = Progress::new(settings.quiet);
    if let Source::Start(service) = &settings.source {
        progress.stage(&starting(service));
    }
    let opened = interrupt.or(Stack::open(&settings.source)).await;
    if opened.is_err() {
        progress.finish();
    }
    let mut stack = opened?;
    let report = measure(settings, &stack, interrupt, &mut progress).await;
    progress.finish();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            let error = stack.explain(error).await;
            // What went wrong first is what the user needs to know.
            let _ = stack.stop().await;
            return Err(error);
        }
    };
    write(&settings.report, JSON, &json::render(&report)?)?;
    write(&settings.report, MARKDOWN, &markdown::render(&report))?;
    output.print(&terminal::render(&report));
    output.print(&format!("report: {}\n", settings.report.join(MARKDOWN).display()));
    stack.stop().await?;
    Ok(report.verdict.exit_code)
}

/// Runs the trials, as many as there are until somebody interrupts.
async fn measure(
    settings: &CompareSettings,
    stack: &Stack,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Report, Error> {
    let known = interrupt.or(stack.service.strategies()).await?;
    let strategies = select(&known, settings.strategies.as_deref())?;
    let names: Vec<String> = strategies.iter().map(|strategy| strategy.name.clone()).collect();
    let plan = Plan::randomized(&names, settings.trials, settings.seed.unwrap_or_else(rand::random));
    let conditions = Conditions {
        users: settings.users,
        stock: settings.stock,
        goods_no: settings.goods_no,
        lock_wait: settings.lock_wait,
        cores: cores(),
    };
    let environment = interrupt.or(environment(settings, stack)).await?;
    let parameters = interrupt.or(parameters(settings, stack)).await?;
    progress.planned(plan.len());
    let trials = run_all(stack, &conditions, &strategies, &plan, interrupt, progress).await?;
    Ok(Report::of(Findings {
        generated_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        interrupted: trials.len() < plan.len(),
        environment,
        parameters,
        plan,
        strategies,
        trials,
    }))
}

/// A trial that is interrupted is dropped: its buyers gave up at different moments, so it says nothing.
async fn run_all(
    stack: &Stack,
    conditions: &Conditions,
    strategies: &[Strategy],
    plan: &Plan,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Vec<Trial>, Error> {
    let mut trials = Vec::with_capacity(plan.len());
    for planned in plan.trials() {
        let Some(strategy) = strategies.iter().find(|strategy| strategy.name == planned.strategy) else { continue };
        progress.trial_begins(planned);
        match interrupt.or(run::trial(stack, conditions, strategy, planned)).await {
            Ok(trial) => {
                progress.trial_ended(&trial);
                trials.push(trial);
            }
            Err(Error::Interrupted) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(trials)
}

async fn environment(settings: &CompareSettings, stack: &Stack) -> Result<Environment, Error> {
    Ok(Environment {
        loadgen_version: env!("CARGO_PKG_VERSION"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        kernel: uname().ok().map(|system| system.release().to_string_lossy().into_owned()),
        cpu_count: cores(),
        postgres_version: stack.database.version().await?,
        zookeeper_version: stack.zookeeper.version().await,
        servers_throwaway: stack.is_throwaway(),
        generator_shares_host: shares_host(&settings.source),
    })
}

async fn parameters(settings: &CompareSettings, stack: &Stack) -> Result<Parameters, Error> {
    let (hold, lock_wait, zk_sessions_total) = match &settings.source {
        Source::Start(service) => {
            let total = u64::from(service.zk_sessions) * u64::from(service.instances);
            (Some(service.hold.clone()), Some(service.lock_wait), Some(total))
        }
        Source::Target(_) => (None, None, stack.service.metrics().await?.get("zookeeper_sessions")),
    };
    Ok(Parameters {
        load_model: "closed burst",
        users: settings.users,
        stock: settings.stock,
        trials: settings.trials,
        instances: stack.service.urls().len(),
        zk_sessions_total,
        hold,
        lock_wait_ms: lock_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        goods_no: settings.goods_no,
    })
}

/// Whether an instance runs on this machine, as far as its address tells: any but a loopback address may be anywhere.
fn shares_host(source: &Source) -> Option<bool> {
    let is_loopback = |url: &String| {
        let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.is_some_and(|host| {
            let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        })
    };
    match source {
        Source::Start(_) => Some(true),
        Source::Target(target) => target.urls.iter().any(is_loopback).then_some(true),
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Made before the trials, so that two minutes of work are not lost for a folder.
fn make_folder(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::system(format!("make the folder {}", folder.display())))
}

/// Removes the report of an earlier comparison, which must not pass for the result of this one should it fail.
fn remove_old(folder: &Path) -> Result<(), Error> {
    for path in [JSON, MARKDOWN].map(|name| folder.join(name)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::system(format!("remove the old {}", path.display()))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes a file as a whole: a reader sees the old one or the new one.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    let unfinished = folder.join(format!(".{name}.unfinished"));
    let failed = || Error::system(format!("write {}", path.display()));
    fs::write(&unfinished, text).map_err(failed())?;
    fs::rename(&unfinished, &path).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TargetSettings;

    #[test]
    fn only_a_loopback_address_tells_where_a_target_runs() {
        let shares = |url: &str| {
            shares_host(&Source::Target(TargetSettings {
                urls: vec![url.to_owned()],
                database_url: String::new(),
                zookeeper: String::new(),
                admin_token: String::new(),
            }))
        };
        for url in ["http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"] {
            assert_eq!(shares(url), Some(true), "{url}");
        }
        for url in ["http://app:8080", "http://127.example.com", "http://10.0.0.1:1"] {
            assert_eq!(shares(url), None, "{url}");
        }
    }
}
