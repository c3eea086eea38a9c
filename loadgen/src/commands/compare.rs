//! The `compare` command: draws a schedule, runs its trials, writes a report.

mod schedule;

use std::fs;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use program::{Epilogue, Exit, Interrupt, ProgramError as _, Progress, chain};

use crate::commands::before;
use crate::config::comparison::ComparisonArgs;
use crate::config::settings::{CompareSettings, RequestLog};
use crate::error::Error;
use crate::judge::metrics::METRICS;
use crate::judge::verdict::EndedEarly;
use crate::lab::environment::{cores, environment};
use crate::lab::source::Source;
use crate::lab::stack::Stack;
use crate::lab::strategy::Strategy;
use crate::output::Output;
use crate::progress::{self, starting};
use crate::report::files::{self, Files};
use crate::report::{Findings, Report, terminal};
use crate::trial::jtl::Jtl;
use crate::trial::record::Trial;
use crate::trial::run::{self, Conditions};
use crate::trial::schedule::{Schedule, Subject};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Strategies to compare, or `all` [default: the seven of the service's headline]
    #[arg(long, value_name = "STRATEGY,…", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    #[command(flatten)]
    pub(super) comparison: ComparisonArgs,
}

impl CompareArgs {
    /// Fills in the plan file, the preset, the defaults and the environment.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.comparison.resolve(self.strategies)
    }
}

/// Makes the end of the help of a comparison. `failures` describes the exit status of a failed comparison.
pub(super) fn epilogue_of(examples: &[(&str, &str)], failures: &str) -> Epilogue {
    Epilogue::default()
        .examples(examples)
        .environment(&[
            super::ADMIN_TOKEN,
            ("ZOOKEEPER_AUTH", "user:password of the service in ZooKeeper, for --target, if it has one"),
            ("DATABASE_URL", "Postgres server to use [default: a throwaway one]"),
            ("ZOOKEEPER_CONNECT", "ZooKeeper servers to use [default: a throwaway one]"),
        ])
        .note(super::TIME)
        .exit_status(&[
            (Exit::Passed, ": every promise was kept, and every threshold that was given"),
            (Exit::Failed, failures),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", buyers got no decision or were not let in, or something could not be checked"),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
        .note("With every exit status, the trials that were run are reported.")
}

pub(super) fn epilogue() -> Epilogue {
    let examples = [
        ("compares seven strategies, and writes report/report.html", "loadgen compare"),
        ("shows how the locks scale from 10 to 1500 users", "loadgen compare --preset scale"),
        (
            "sends 50 requests per second, and fails if a rule is broken",
            "loadgen compare --strategies zk-mutex,pg-merge --rate 50 --users 500 --stock 1000 --threshold 'zk-mutex p99<250ms'",
        ),
        (
            "measures two builds in pairs, and fails if the second is worse",
            "loadgen compare --demo-service base=old/demo-service --demo-service head=new/demo-service",
        ),
        (
            "measures instances that run already",
            "loadgen compare --target http://a:8080,http://b:8080 --strategies all",
        ),
    ];
    let failures =
        ": a threshold was crossed, a control did not oversell, no two buyers met under a lock, or a build is worse";
    epilogue_of(&examples, failures)
}

/// Runs a comparison, and returns the exit code of its verdict.
pub(crate) async fn compare(
    settings: &CompareSettings,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let files = Files::open(&settings.report)?;
    if let RequestLog::At(path) = &settings.request_log {
        Files::ensure_writable(path)?;
    }
    let mut progress = Progress::new(settings.quiet);
    let opened = interrupt.or(open(settings, &progress)).await;
    if opened.is_err() {
        progress.finish();
    }
    let (mut stack, compared) = opened.map_err(|error| without_old_report(&files, error))?;
    let measured = measure(settings, &mut stack, compared, interrupt, (&mut progress, &files)).await;
    progress.finish();
    let (report, jtl) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let error = stack.explain(error).await;
            // The first error is the cause.
            let _ = stack.stop().await;
            return Err(without_old_report(&files, error));
        }
    };
    // The terminal gets the figures first: a full disk cannot lose them there.
    let mut shown = output.show(&terminal::render(&report, METRICS, settings.column, output.columns()));
    if settings.jmeter_summary {
        shown = shown.and_then(|()| output.print(&jtl.summary()));
    }
    let written = files.write(&report).map_err(|error| save(&report, error));
    let stopped = stack.stop().await;
    written?;
    stopped?;
    shown?;
    output.print(&format!("report: {}\n", files.path(files::HTML).display()))?;
    Ok(ExitCode::from(report.verdict.exit_code))
}

/// Removes the report of an earlier comparison, which could pass for the result of this failed one. A comparison with wrong
/// arguments, or one that was interrupted first, has not begun and removes nothing.
fn without_old_report(files: &Files, error: Error) -> Error {
    if !matches!(error, Error::Usage(_) | Error::Interrupted(_)) {
        // The first error is the cause.
        let _ = files.remove_old();
    }
    error
}

/// Writes a report to the folder for temporary files after its own folder could not take it, because measuring again takes
/// long. Returns the error with the new folder.
fn save(report: &Report, error: Error) -> Error {
    let folder = std::env::temp_dir().join(format!("loadgen-report-{}", std::process::id()));
    match Files::open(&folder).and_then(|files| files.write(report)) {
        Ok(()) => Error::ReportElsewhere { folder, source: Box::new(error) },
        Err(_) => error,
    }
}

/// What is compared.
struct ComparedSubjects {
    strategies: Vec<Strategy>,
    subjects: Vec<Subject>,
}

impl ComparedSubjects {
    /// Chooses among the strategies that the service offers.
    fn of(settings: &CompareSettings, offered: &[Strategy]) -> Result<ComparedSubjects, Error> {
        let strategies = before::chosen(offered, settings.load.strategies.as_deref())?;
        let subjects = before::subjects(settings, &strategies)?;
        before::ensure_users_fit(settings, &subjects)?;
        Ok(ComparedSubjects { strategies, subjects })
    }
}

/// Checks what can be checked before anything starts, and starts the service or connects to it.
async fn open(settings: &CompareSettings, progress: &Progress) -> Result<(Stack, ComparedSubjects), Error> {
    match &settings.source {
        Source::Start(service) => {
            let compared = ComparedSubjects::of(settings, &before::offered(service).await?)?;
            progress.stage(&starting(service));
            Ok((Stack::start(service).await?, compared))
        }
        Source::Target(target) => {
            let stack = Stack::connect(target).await?;
            let compared = ComparedSubjects::of(settings, &stack.first().service.strategies().await?)?;
            Ok((stack, compared))
        }
    }
}

/// Draws the schedule, runs its trials until an interrupt or a failure, and makes the report.
async fn measure(
    settings: &CompareSettings,
    stack: &mut Stack,
    ComparedSubjects { strategies, subjects }: ComparedSubjects,
    interrupt: &Interrupt,
    (progress, files): (&mut Progress, &Files),
) -> Result<(Report, Jtl), Error> {
    let schedule = interrupt.or(schedule::draw(settings, stack, &subjects)).await?;
    let environment = interrupt.or(environment(&settings.source, stack)).await?;
    // Only now is everything known to be in order. Earlier, a mistake would cost the user the old report.
    files.remove_old()?;
    let conditions = Conditions {
        model: settings.load.model,
        seed: schedule.seed,
        stock: settings.load.stock,
        goods_nos: (settings.load.goods_no..).take(settings.load.goods as usize).collect(),
        lock_wait: settings.load.lock_wait,
        cores: cores(),
        goose_reports: settings.goose_report.map(|format| files.goose_reports(format)).transpose()?,
        log_max: settings.request_log.requests_max(),
    };
    let mut jtl = Jtl::create(match &settings.request_log {
        RequestLog::Off => None,
        RequestLog::InReport => Some(files.path(files::JTL)),
        RequestLog::At(path) => Some(path.clone()),
    })?;
    progress.planned("trial", schedule.len());
    let (trials, ended_early) =
        run_all(stack, &conditions, &strategies, &schedule, interrupt, (progress, &mut jtl)).await?;
    let report = Report::of(
        Findings {
            generated_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            ended_early,
            environment,
            schedule,
            strategies,
            thresholds: settings.load.thresholds.clone(),
            trials,
        },
        METRICS,
    );
    Ok((report, jtl))
}

/// Runs the trials. An interrupted trial is dropped, because its buyers gave up at different moments. Earlier trials are
/// kept, also after a failure.
async fn run_all(
    stack: &mut Stack,
    conditions: &Conditions,
    strategies: &[Strategy],
    schedule: &Schedule,
    interrupt: &Interrupt,
    (progress, jtl): (&mut Progress, &mut Jtl),
) -> Result<(Vec<Trial>, Option<EndedEarly>), Error> {
    let mut trials = Vec::with_capacity(schedule.len());
    for scheduled in schedule.trials() {
        let Subject { users, build, .. } = scheduled.subject;
        let is_scheduled = |strategy: &&Strategy| Subject::of(strategy, *users) == *scheduled.subject;
        let Some(strategy) = strategies.iter().find(is_scheduled) else { continue };
        let Some(deployment) = stack.deployments.iter().find(|deployment| deployment.build == *build) else { continue };
        progress.step_begins(progress::scheduled(scheduled));
        let ran = interrupt.or(run::trial(deployment, conditions, strategy, scheduled)).await;
        // A disk that cannot take the requests of a trial ends the comparison now, not at its end.
        let error = match ran.and_then(|ran| jtl.add(&ran).map(|()| ran.trial)) {
            Ok(trial) => {
                progress.step_ended(&progress::ended(&trial));
                trials.push(trial);
                continue;
            }
            Err(error) => error,
        };
        if let Some(reports) = &conditions.goose_reports {
            // Goose makes the file before the trial, so there is none if it failed even earlier.
            let _ = fs::remove_file(reports.file(scheduled));
        }
        let error = stack.explain(error).await;
        if trials.is_empty() && !matches!(error, Error::Interrupted(_)) {
            return Err(error);
        }
        progress.stage(&format!("error: {}", chain(&error)));
        return Ok((trials, Some(EndedEarly { exit_code: error.exit().code(), reason: chain(&error) })));
    }
    Ok((trials, None))
}
