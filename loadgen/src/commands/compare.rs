//! The `compare` command: a plan, its trials, a report.

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use program::{Interrupt, ProgramError as _, Progress, chain};
use testbed::Counters;

use crate::config::load::LoadArgs;
use crate::config::settings::{CompareSettings, Source};
use crate::error::Error;
use crate::lab::environment::{cores, environment};
use crate::lab::stack::Stack;
use crate::lab::strategy::{Strategy, select};
use crate::output::Output;
use crate::progress::{self, starting};
use crate::report::files::{self, Files};
use crate::report::{Findings, Report, terminal};
use crate::trial::jtl::Jtl;
use crate::trial::plan::{Plan, Subject, blocks};
use crate::trial::record::Trial;
use crate::trial::run::{self, Conditions};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Strategies to compare, or all [default: those that the service calls its headline]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    #[command(flatten)]
    load: LoadArgs,
}

impl CompareArgs {
    /// Fills in the plan file, the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.load.resolve(self.strategies)
    }
}

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
) -> Result<ExitCode, Error> {
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
    Ok(ExitCode::from(report.verdict.exit_code))
}

/// Sees to it that the report of an earlier comparison does not pass for the result of one that failed. One that was never
/// in order, or was given up at once, has not begun.
fn without_old_report(files: &Files, error: Error) -> Error {
    if !matches!(error, Error::Usage(_) | Error::Interrupted(_)) {
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
    let environment = interrupt.or(environment(&settings.source, stack)).await?;
    // Only now that everything is known to be in order, as it cannot be measured again in a moment.
    files.remove_old()?;
    let mut jtl = Jtl::create(&files.path(files::JTL))?;
    progress.planned("trial", plan.len());
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
        progress.step_begins(progress::planned(planned));
        let ran = interrupt.or(run::trial(stack, conditions, strategy, planned)).await;
        // What could not be written of the single requests must not be found out only at the end.
        let error = match ran.and_then(|ran| jtl.add(&ran).map(|()| ran.trial)) {
            Ok(trial) => {
                progress.step_ended(&progress::ended(&trial));
                trials.push(trial);
                continue;
            }
            Err(error) => error,
        };
        let error = stack.explain(error).await;
        if trials.is_empty() && !matches!(error, Error::Interrupted(_)) {
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
    let is_about_nobody = |threshold: &&crate::judge::thresholds::Threshold| {
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
