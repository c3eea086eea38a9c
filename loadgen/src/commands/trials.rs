//! What `compare`, `run`, `check` and `judge` share: they run the trials of a schedule at what is on trial, and report what was found.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use buyers::model::LoadModel;
use program::{Interrupt, ProgramError as _, Progress, chain};

use crate::config::settings::{ReportSettings, RequestLog};
use crate::error::Error;
use crate::judge::thresholds::Threshold;
use crate::judge::verdict::EndedEarly;
use crate::lab::environment::{Environment, cores};
use crate::lab::stack::Stack;
use crate::lab::strategy::Strategy;
use crate::output::Output;
use crate::progress;
use crate::report::files::{self, Files};
use crate::report::{Findings, Report, terminal};
use crate::trial::any::{self, ShopOnTrial};
use crate::trial::jtl::Jtl;
use crate::trial::lab;
use crate::trial::logged::LoggedShop;
use crate::trial::record::{Reproduction, Trial};
use crate::trial::reproduce::{Sought, reproduce};
use crate::trial::run::{Conditions, FinishedTrial};
use crate::trial::schedule::{Schedule, ScheduledTrial, Subject};

/// What is on trial.
pub(super) enum OnTrial {
    /// The service of the lab, or two builds of it.
    Lab(Box<Stack>),
    /// Shops that files describe.
    Shops(Vec<ShopOnTrial>),
    /// Shops at which other engines have bought.
    Logs(Vec<LoggedShop>),
}

impl OnTrial {
    pub(super) async fn trial(
        &mut self,
        conditions: &Conditions,
        strategy: &Strategy,
        scheduled: ScheduledTrial<'_>,
    ) -> Result<Option<FinishedTrial>, Error> {
        Ok(match self {
            OnTrial::Lab(stack) => match stack.exposed(scheduled.subject.build.as_deref()) {
                Some(exposed) => Some(lab::trial(exposed, conditions, strategy, scheduled).await?),
                None => None,
            },
            OnTrial::Shops(shops) => match shops.iter().find(|shop| shop.name() == strategy.name) {
                Some(shop) => Some(any::trial(shop, conditions, scheduled).await?),
                None => None,
            },
            OnTrial::Logs(shops) => match shops.iter().find(|shop| shop.name() == strategy.name) {
                Some(shop) => shop.trial(conditions, scheduled).await?,
                None => None,
            },
        })
    }

    /// Replaces an error by its cause, if that is known.
    pub(super) async fn explain(&mut self, error: Error) -> Error {
        match self {
            OnTrial::Lab(stack) => stack.explain(error).await,
            OnTrial::Shops(_) | OnTrial::Logs(_) => error,
        }
    }

    /// Stops what was started, and cleans up what the files of shops name. Returns what is left, one line each.
    pub(super) async fn stop(self) -> Result<Vec<String>, Error> {
        match self {
            OnTrial::Lab(stack) => stack.stop().await.map(|()| Vec::new()),
            OnTrial::Shops(shops) => any::clean(&shops).await,
            OnTrial::Logs(_) => Ok(Vec::new()),
        }
    }
}

/// All that is known before the first trial.
pub(super) struct Prepared {
    pub(super) on_trial: OnTrial,
    pub(super) strategies: Vec<Strategy>,
    pub(super) schedule: Schedule,
    pub(super) environment: Environment,
    pub(super) thresholds: Vec<Threshold>,
    pub(super) goods_nos: Vec<i64>,
    /// How long a buyer of the lab waits for the lock.
    pub(super) lock_wait: Duration,
}

/// Prepares the trials, runs them, and returns the exit code of their verdict. Whatever ends them, what was started is
/// stopped.
pub(super) async fn run(
    settings: &ReportSettings,
    prepare: impl AsyncFnOnce(&Progress) -> Result<Prepared, Error>,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let files = Files::open(&settings.folder)?;
    if let RequestLog::At(path) = &settings.request_log {
        Files::ensure_writable(path)?;
    }
    let mut progress = Progress::new(settings.quiet);
    let prepared = interrupt.or(prepare(&progress)).await;
    if prepared.is_err() {
        progress.finish();
    }
    let mut prepared = prepared.map_err(|error| without_old_report(&files, error))?;
    let measured = measure(settings, &mut prepared, interrupt, (&mut progress, &files)).await;
    progress.finish();
    let Prepared { mut on_trial, .. } = prepared;
    let (report, jtl) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let error = on_trial.explain(error).await;
            // The first error is the cause.
            let _ = on_trial.stop().await;
            return Err(without_old_report(&files, error));
        }
    };
    // The terminal gets the figures first: a full disk cannot lose them there.
    let mut shown = output.show(&terminal::render(&report, &report.metrics(), settings.column, output.columns()));
    if settings.jmeter_summary {
        shown = shown.and_then(|()| output.print(&jtl.summary()));
    }
    let written = files.write(&report).map_err(|error| save(&report, error));
    let stopped = on_trial.stop().await;
    written?;
    let left = stopped?;
    shown?;
    let mut end = format!("report: {}\n", files.path(files::HTML).display());
    for Reproduction { shop, crowd, wrong, tries, .. } in &report.reproductions {
        let script = files.path(&Files::script_of(shop));
        end += &format!("reproduction: sh {}: {crowd}, wrong in {wrong} of {tries} tries\n", script.display());
    }
    report.unreproduced.iter().chain(&left).for_each(|line| end += &format!("{line}\n"));
    output.print(&end)?;
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

/// Runs the trials until an interrupt or a failure, and makes the report.
async fn measure(
    settings: &ReportSettings,
    prepared: &mut Prepared,
    interrupt: &Interrupt,
    (progress, files): (&mut Progress, &Files),
) -> Result<(Report, Jtl), Error> {
    // Only now is everything known to be in order. Earlier, a mistake would cost the user the old report.
    files.remove_old()?;
    let conditions = Conditions {
        // A load that another engine made is over, so it needs no model.
        model: prepared.schedule.model.unwrap_or(LoadModel::BURST),
        seed: prepared.schedule.seed,
        stock: prepared.schedule.stock,
        per_buyer: prepared.schedule.per_buyer,
        habits: prepared.schedule.habits.unwrap_or_default(),
        goods_nos: prepared.goods_nos.clone(),
        lock_wait: prepared.lock_wait,
        cores: cores(),
        goose_reports: settings.goose_report.map(|format| files.goose_reports(format)).transpose()?,
        log_max: settings.request_log.requests_max(),
    };
    let path = match &settings.request_log {
        RequestLog::Off => None,
        RequestLog::InReport => Some(files.path(files::JTL)),
        RequestLog::At(path) => Some(path.clone()),
    };
    let mut jtl = Jtl::create(path, matches!(prepared.on_trial, OnTrial::Shops(_)))?;
    progress.planned("trial", prepared.schedule.len());
    let (trials, ended_early) = run_all(prepared, &conditions, interrupt, (progress, &mut jtl)).await?;
    let (reproductions, unreproduced) = match ended_early {
        None if settings.reproduction => reproductions(prepared, &conditions, &trials, interrupt, progress).await,
        _ => (Vec::new(), Vec::new()),
    };
    let findings = Findings {
        generated_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ended_early,
        environment: prepared.environment.clone(),
        schedule: prepared.schedule.clone(),
        strategies: prepared.strategies.clone(),
        thresholds: prepared.thresholds.clone(),
        trials,
    };
    Ok((Report { reproductions, unreproduced, ..Report::of(findings) }, jtl))
}

/// Looks for the fewest buyers that make each shop sell wrongly which has done so. A failure or an interrupt ends the search of
/// a shop, and the trials stay what they are. Returns also why other shops have no reproduction, one line each.
async fn reproductions(
    prepared: &Prepared,
    conditions: &Conditions,
    trials: &[Trial],
    interrupt: &Interrupt,
    progress: &Progress,
) -> (Vec<Reproduction>, Vec<String>) {
    let mut found = Vec::new();
    let mut unreproduced = Vec::new();
    let shops = match &prepared.on_trial {
        OnTrial::Shops(shops) => shops.as_slice(),
        OnTrial::Lab(_) | OnTrial::Logs(_) => &[],
    };
    for shop in shops {
        let name = shop.name();
        let is_bad = |trial: &&Trial| trial.strategy == name && trial.is_bad();
        let Some(bad) = trials.iter().filter(is_bad).min_by_key(|trial| trial.users) else { continue };
        if shop.shop.scenario.is_some() {
            let why = "a scenario sends its requests, and no script of curl can";
            unreproduced.push(format!("no reproduction of {name}: {why}"));
            continue;
        }
        progress.stage(&format!("looking for the fewest buyers that make {name} sell wrongly"));
        match interrupt.or(reproduce(shop, conditions, bad)).await {
            Ok(Sought::Found(reproduction)) => found.push(reproduction),
            Ok(Sought::Nothing(line)) => unreproduced.push(line),
            Err(error) => {
                // The output of a command may follow in further lines, and reports have no secret.
                let cause = shop.shop.secrets.hide(chain(&error).lines().next().unwrap_or_default());
                unreproduced.push(format!("no reproduction of {name}: the search for it ended early: {cause}"));
            }
        }
    }
    (found, unreproduced)
}

/// Runs the trials. An interrupted trial is dropped, because its buyers gave up at different moments. Earlier trials are
/// kept, also after a failure.
async fn run_all(
    prepared: &mut Prepared,
    conditions: &Conditions,
    interrupt: &Interrupt,
    (progress, jtl): (&mut Progress, &mut Jtl),
) -> Result<(Vec<Trial>, Option<EndedEarly>), Error> {
    let Prepared { on_trial, strategies, schedule, .. } = prepared;
    let mut trials = Vec::with_capacity(schedule.len());
    for scheduled in schedule.trials() {
        let is_scheduled = |strategy: &&Strategy| Subject::of(strategy, scheduled.subject.users) == *scheduled.subject;
        let Some(strategy) = strategies.iter().find(is_scheduled) else { continue };
        progress.step_begins(progress::scheduled(scheduled));
        let ran = interrupt.or(on_trial.trial(conditions, strategy, scheduled)).await;
        // A disk that cannot take the requests of a trial ends the comparison now, not at its end.
        let logged = ran.and_then(|ran| ran.map(|ran| jtl.add(&ran).map(|()| ran.trial)).transpose());
        let error = match logged {
            Ok(None) => continue,
            Ok(Some(trial)) => {
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
        let error = on_trial.explain(error).await;
        if trials.is_empty() && !matches!(error, Error::Interrupted(_)) {
            return Err(error);
        }
        progress.stage(&format!("error: {}", chain(&error)));
        return Ok((trials, Some(EndedEarly { exit_code: error.exit().code(), reason: chain(&error) })));
    }
    Ok((trials, None))
}
