//! The `compare` command: a plan, its trials, a report.

use std::net::IpAddr;
use std::thread;
use std::time::SystemTime;

use nix::sys::utsname::uname;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use program::chain;

use crate::error::Error;
use crate::herd::Counters;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::plan::{Plan, Subject, blocks};
use crate::progress::{Progress, starting};
use crate::report::files::{self, Files};
use crate::report::jtl::Jtl;
use crate::report::{Environment, Findings, Report, terminal};
use crate::run::{self, Conditions};
use crate::settings::{CompareSettings, Source};
use crate::stack::Stack;
use crate::strategies::{Strategy, select};
use crate::trial::Trial;
use crate::verdict::EndedEarly;

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
    let files = Files::open(&settings.report)?;
    let mut progress = Progress::new(settings.quiet);
    if let Source::Start(service) = &settings.source {
        progress.stage(&starting(service));
    }
    let opened = interrupt.or(Stack::open(&settings.source)).await;
    if opened.is_err() {
        progress.finish();
    }
    let mut stack = opened.map_err(|error| without_old_report(&files, error))?;
    let measured = measure(settings, &mut stack, interrupt, &mut progress, &files).await;
    progress.finish();
    let (report, jtl) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let error = stack.explain(error).await;
            // What went wrong first is what the user needs to know.
            let _ = stack.stop().await;
            return Err(without_old_report(&files, error));
        }
    };
    // The figures go to the terminal first, so that they are not lost should the disk be full.
    output.print(&terminal::render(&report));
    if settings.jmeter_summary {
        output.print(&jtl.summary());
    }
    let written = jtl.finish().and_then(|()| files.write(&report)).map_err(|error| save(&report, error));
    let stopped = stack.stop().await;
    written?;
    stopped?;
    output.print(&format!("report: {}\n", files.path(files::HTML).display()));
    Ok(report.verdict.exit_code)
}

/// Sees to it that the report of an earlier comparison does not pass for the result of one that failed. One that was never
/// in order, or was given up at once, has not begun.
fn without_old_report(files: &Files, error: Error) -> Error {
    if !matches!(error, Error::Usage(_) | Error::Interrupted) {
        // What went wrong first is what the user needs to know.
        let _ = files.remove_old();
    }
    error
}

/// Writes a report that its folder could not take to the folder for temporary files, as it cannot be measured again in a
/// moment; returns the error with where it is now.
fn save(report: &Report, error: Error) -> Error {
    let folder = std::env::temp_dir().join(format!("loadgen-report-{}", std::process::id()));
    match Files::open(&folder).and_then(|files| files.write(report)) {
        Ok(()) => Error::ReportElsewhere { folder, source: Box::new(error) },
        Err(_) => error,
    }
}

/// Runs the trials, as many as there are until somebody interrupts or something fails.
async fn measure(
    settings: &CompareSettings,
    stack: &mut Stack,
    interrupt: &Interrupt,
    progress: &mut Progress,
    files: &Files,
) -> Result<(Report, Jtl), Error> {
    let known = interrupt.or(stack.service.strategies()).await?;
    let strategies = select(&known, settings.strategies.as_deref())?;
    let plan = interrupt.or(plan(settings, stack, &strategies)).await?;
    let conditions = Conditions {
        model: settings.model,
        seed: plan.seed,
        stock: settings.stock,
        goods_nos: (settings.goods_no..).take(settings.goods as usize).collect(),
        lock_wait: settings.lock_wait,
        cores: cores(),
    };
    let environment = interrupt.or(environment(settings, stack)).await?;
    // Only now that everything is known to be in order, as it cannot be measured again in a moment.
    files.remove_old()?;
    let mut jtl = Jtl::create(&files.path(files::JTL))?;
    progress.planned(plan.len());
    let (trials, ended_early) =
        run_all(stack, &conditions, &strategies, &plan, interrupt, (progress, &mut jtl)).await?;
    let report = Report::of(Findings {
        generated_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ended_early,
        environment,
        plan,
        strategies,
        thresholds: settings.thresholds.clone(),
        trials,
    });
    Ok((report, jtl))
}

/// A trial that is interrupted is dropped: its buyers gave up at different moments, so it says nothing. What was measured
/// before it is kept, also when something fails.
async fn run_all(
    stack: &mut Stack,
    conditions: &Conditions,
    strategies: &[Strategy],
    plan: &Plan,
    interrupt: &Interrupt,
    (progress, jtl): (&mut Progress, &mut Jtl),
) -> Result<(Vec<Trial>, Option<EndedEarly>), Error> {
    let mut trials = Vec::with_capacity(plan.len());
    for planned in plan.trials() {
        let is_planned = |strategy: &&Strategy| strategy.name == planned.subject.strategy;
        let Some(strategy) = strategies.iter().find(is_planned) else { continue };
        progress.trial_begins(planned);
        let ran = interrupt.or(run::trial(stack, conditions, strategy, planned)).await;
        // What could not be written of the single requests must not be found out only at the end.
        let error = match ran.and_then(|ran| jtl.add(&ran).map(|()| ran.trial)) {
            Ok(trial) => {
                progress.trial_ended(&trial);
                trials.push(trial);
                continue;
            }
            Err(error) => error,
        };
        let error = stack.explain(error).await;
        if trials.is_empty() && !matches!(error, Error::Interrupted) {
            return Err(error);
        }
        progress.stage(&format!("error: {}", chain(&error)));
        return Ok((trials, Some(EndedEarly { exit_code: error.exit().code(), reason: chain(&error) })));
    }
    Ok((trials, None))
}

/// Draws the order of the trials, and notes everything that was asked for.
async fn plan(settings: &CompareSettings, stack: &Stack, strategies: &[Strategy]) -> Result<Plan, Error> {
    let seed = settings.seed.unwrap_or_else(rand::random);
    let subjects = subjects(settings, strategies);
    if subjects.is_empty() {
        let limits = "the limits of the plan or the preset (users-max) leave nothing to run";
        return Err(Error::Usage(format!("no strategy is to be tried with so many users: {limits}; see --users")));
    }
    let is_about_nobody = |threshold: &&crate::threshold::Threshold| {
        !subjects.iter().any(|subject| threshold.is_about(&subject.strategy, subject.users))
    };
    if let Some(idle) = settings.thresholds.iter().find(is_about_nobody) {
        let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name.as_str()).collect();
        return Err(Error::Usage(format!(
            "the threshold {:?} is about nothing that is compared: {} with {} users",
            idle.rule(),
            names.join(", "),
            settings.users.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        )));
    }
    let (hold, lock_wait, zk_sessions_total, service_args) = match &settings.source {
        Source::Start(service) => {
            let total = u64::from(service.zk_sessions) * u64::from(service.instances);
            (Some(service.hold.clone()), Some(service.lock_wait), Some(total), service.args.clone())
        }
        Source::Target(_) => {
            let sessions = Counters::sum(stack.service.metrics().await?.counters).get("zookeeper_sessions");
            (None, None, sessions, Vec::new())
        }
    };
    let users_max = settings.users.iter().max().copied().unwrap_or(0);
    Ok(Plan {
        seed,
        model: settings.model,
        model_described: settings.model.describe(users_max),
        users: settings.users.clone(),
        stock: settings.stock,
        goods_no: settings.goods_no,
        goods: settings.goods,
        trials: settings.trials,
        instances: stack.service.urls().len(),
        zk_sessions_total,
        hold,
        lock_wait_ms: lock_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        service_args,
        blocks: blocks(&subjects, settings.warm_up, settings.trials, seed),
    })
}

/// Every strategy with every number of users that it is to be tried with.
fn subjects(settings: &CompareSettings, strategies: &[Strategy]) -> Vec<Subject> {
    let tried = |strategy: &Strategy, users: u32| {
        let limits = settings.users_max.iter().filter(|(pattern, _)| pattern.matches(&strategy.name));
        limits.clone().all(|(_, users_max)| users <= *users_max)
    };
    let of = |strategy: &Strategy| {
        let name = strategy.name.clone();
        let levels = settings.users.iter().copied().filter(|users| tried(strategy, *users)).collect::<Vec<_>>();
        levels.into_iter().map(move |users| Subject { strategy: name.clone(), users })
    };
    strategies.iter().flat_map(of).collect()
}

async fn environment(settings: &CompareSettings, stack: &Stack) -> Result<Environment, Error> {
    let machine = System::new_with_specifics(
        RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    let machine = machine.as_ref().ok();
    let cpu_model = machine.and_then(|machine| Some(machine.cpus().first()?.brand().trim().to_owned()));
    Ok(Environment {
        loadgen_version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: uname().ok().map(|system| system.release().to_string_lossy().into_owned()),
        cpu_model: cpu_model.filter(|name| !name.is_empty()),
        cpu_count: cores(),
        memory_bytes: machine.map(System::total_memory).filter(|bytes| *bytes > 0),
        postgres_version: stack.database.version().await?,
        postgres_settings: stack.database.settings().await?,
        zookeeper_version: stack.zookeeper.version().await,
        zookeeper_servers: stack.zookeeper.modes().await,
        servers_throwaway: stack.is_throwaway(),
        generator_shares_host: shares_host(&settings.source),
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
