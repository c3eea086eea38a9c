//! The `capacity` command: the highest rate that a strategy or a shop holds.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use buyers::habits::PaymentHabits;
use buyers::model::LoadModel;
use clap::Args;
use program::{Epilogue, Exit, Interrupt, ProgramError as _, Progress, chain};
use stats::capacity::{CapacityEnd, NextLoad, Search};
use stats::figures::{count, figure, percent};

use crate::commands::check;
use crate::commands::compare;
use crate::commands::trials::Prepared;
use crate::config::capacity::{LabArgs, SearchArgs, SearchSettings};
use crate::config::service;
use crate::error::Error;
use crate::judge::capacity::{HeldRule, RateTrial, RuleCapacity, SubjectCapacity, sold_out_share};
use crate::lab::environment::cores;
use crate::lab::strategy::Strategy;
use crate::output::Output;
use crate::report::capacity::{CapacityReport, SCHEMA};
use crate::report::files::Files;
use crate::trial::record::Trial;
use crate::trial::run::Conditions;
use crate::trial::schedule::{ScheduledTrial, Subject};

#[derive(Debug, Args)]
pub(crate) struct CapacityArgs {
    /// Files that describe the shops. Without one, the service of the lab is measured
    #[arg(value_name = "SHOP", conflicts_with_all = service::FLAGS, conflicts_with_all = OF_LAB)]
    shops: Vec<PathBuf>,
    /// Sends requests to a shop that is not on this machine, without a question
    #[arg(long, requires = "shops")]
    yes_this_is_my_shop: bool,
    #[command(flatten, next_help_heading = "Search")]
    search: SearchArgs,
    #[command(flatten)]
    pub(super) lab: LabArgs,
}

/// Flags that only the service of the lab can follow.
const OF_LAB: [&str; 6] = ["strategies", "demo_service", "target", "database_url", "zookeeper", "lock_wait"];

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("searches for the rate at which a shop answers in time", "loadgen capacity shop.toml --until 'p99<250ms'"),
            (
                "compares what two strategies hold, by two rules",
                "loadgen capacity --strategies pg-conditional,pg-merge --until 'p99<100ms' --until 'errors<0.1%'",
            ),
        ])
        .note(super::TIME)
        .note(
            "Each trial is an open load with a reset before it and an audit after it. The search (RFC 9971) doubles the rate from \
             the lowest on, and then narrows the bounds with longer trials.",
        )
        .exit_status(&[
            (Exit::Passed, ": every rule has its bounds, or is held at the highest rate"),
            (Exit::Failed, ": no rate holds a rule"),
            (Exit::PromiseBroken, ": the search of that strategy or shop ends there"),
            (Exit::Setup, ""),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Searches for the capacity of each strategy or shop.
pub(super) async fn capacity(
    args: CapacityArgs,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let CapacityArgs { shops, yes_this_is_my_shop, search, lab } = args;
    let search = search.resolve()?;
    // A search that cannot begin is a mistake, which is found before anything starts.
    Search::new(&search.goals, search.lowest, search.highest).map_err(|error| Error::Usage(error.to_string()))?;
    let users = lab.users();
    let files = Files::open(&search.folder)?;
    let progress = Progress::new(search.quiet);
    let prepared = if shops.is_empty() {
        let settings = lab.resolve()?;
        interrupt.or(compare::prepare(&settings, &progress)).await
    } else {
        let settings = search.for_shops(users);
        let prepared = check::prepare(&settings, &shops, yes_this_is_my_shop, &progress);
        interrupt.or(prepared).await
    };
    if prepared.is_err() {
        progress.finish();
    }
    let mut prepared = prepared?;
    let mut results = Vec::new();
    let mut exits = Vec::new();
    for number in 0..prepared.strategies.len() {
        let (result, exit) = search_one(&search, &mut prepared, number, (users, interrupt, &progress)).await;
        results.push(result);
        exits.push(exit);
        if [Exit::Interrupted, Exit::Setup, Exit::Usage].contains(&exit) {
            break;
        }
    }
    progress.finish();
    let environment = prepared.environment;
    let stopped = prepared.on_trial.stop().await;
    let exit = [Exit::Interrupted, Exit::Usage, Exit::Setup, Exit::PromiseBroken, Exit::Failed, Exit::ClientLimited];
    let exit = exit.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Passed);
    let report = CapacityReport {
        schema: SCHEMA.to_owned(),
        generated_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        exit_code: exit.code(),
        reasons: results.iter().zip(&exits).map(|(result, exit)| reason(result, *exit)).collect(),
        environment,
        users,
        results,
    };
    output.show(&report.text())?;
    files.write_capacity(&report)?;
    let mut end = format!("report: {}\n", files.path(crate::report::files::CAPACITY_MARKDOWN).display());
    stopped?.iter().for_each(|line| end += &format!("{line}\n"));
    output.print(&end)?;
    Ok(exit.into())
}

/// Searches for the capacity of one strategy or shop. Returns what was found, and the exit that it means.
async fn search_one(
    settings: &SearchSettings,
    prepared: &mut Prepared,
    number: usize,
    (users, interrupt, progress): (u32, &Interrupt, &Progress),
) -> (SubjectCapacity, Exit) {
    let strategy = prepared.strategies[number].clone();
    let mut result = SubjectCapacity {
        name: strategy.name.clone(),
        rules: Vec::new(),
        sold_out_share: 0.0,
        trials: Vec::new(),
        ended: None,
    };
    let mut exit = Exit::Passed;
    // The bounds were checked before.
    let Ok(mut search) = Search::new(&settings.goals, settings.lowest, settings.highest) else {
        return (result, Exit::Usage);
    };
    let mut answers = Vec::new();
    while let Some(load) = search.next_load() {
        let ran = interrupt.or(trial(settings, prepared, &strategy, (load, result.trials.len(), users))).await;
        let trial = match ran {
            Ok(Some(trial)) => trial,
            Ok(None) => break,
            Err(error) => {
                let error = prepared.on_trial.explain(error).await;
                exit = error.exit();
                result.ended = Some(chain(&error));
                break;
            }
        };
        let tried = RateTrial::of(load, &trial, &settings.rules);
        progress.stage(&format!("{}: {}", strategy.name, told(&tried, &settings.rules)));
        if tried.client_limited {
            search.add_client_limited();
        } else {
            search.add(tried.offered, |rule| tried.lost[rule]);
        }
        answers.push((trial.answers.sold_out, trial.answers.total()));
        result.trials.push(tried);
        if trial.is_bad() || trial.is_order_violated() {
            exit = Exit::PromiseBroken;
            result.ended = Some(format!("sold wrongly at {} a second, so the search ends", figure(load.rate)));
            break;
        }
    }
    result.sold_out_share = sold_out_share(&answers);
    let capacities = search.capacities().into_iter().zip(&settings.rules);
    result.rules = capacities.map(|(capacity, rule)| RuleCapacity { rule: rule.text.clone(), capacity }).collect();
    if exit == Exit::Passed {
        let ends = |end| result.rules.iter().any(|rule| rule.capacity.end == end);
        if ends(CapacityEnd::NoRateHolds) {
            exit = Exit::Failed;
        } else if ends(CapacityEnd::ClientLimited) {
            exit = Exit::ClientLimited;
        }
    }
    (result, exit)
}

/// Offers a load once.
async fn trial(
    settings: &SearchSettings,
    prepared: &mut Prepared,
    strategy: &Strategy,
    (load, number, users): (NextLoad, usize, u32),
) -> Result<Option<Trial>, Error> {
    let duration_ms = u64::try_from(load.length.as_millis()).unwrap_or(u64::MAX);
    let conditions = Conditions {
        per_buyer: None,
        habits: PaymentHabits::default(),
        model: LoadModel::Open { rate_per_s: load.rate, arrivals: settings.arrivals, duration_ms },
        seed: prepared.schedule.seed,
        stock: prepared.schedule.stock,
        goods_nos: prepared.goods_nos.clone(),
        lock_wait: prepared.lock_wait,
        cores: cores(),
        goose_reports: None,
        log_max: 0,
    };
    let subject = Subject::of(strategy, users);
    let scheduled = ScheduledTrial { block: number, warm_up: false, subject: &subject };
    Ok(prepared.on_trial.trial(&conditions, strategy, scheduled).await?.map(|finished| finished.trial))
}

/// Writes a trial in a line.
fn told(trial: &RateTrial, rules: &[HeldRule]) -> String {
    let share = |lost: &u64| percent(stats::as_f64(*lost) / stats::as_f64(trial.offered.max(1)));
    let of = |(rule, lost): (&HeldRule, &u64)| format!("{} lost by {}", share(lost), rule.text);
    let lost: Vec<String> = rules.iter().zip(&trial.lost).map(of).collect();
    let limited = if trial.client_limited { "; client-limited, so it does not count" } else { "" };
    format!(
        "{} a second for {} s: {} of {}{limited}",
        figure(trial.rate),
        figure(trial.seconds),
        lost.join(", "),
        count(trial.offered)
    )
}

/// Explains an exit.
fn reason(result: &SubjectCapacity, exit: Exit) -> String {
    let name = &result.name;
    match exit {
        Exit::Passed => format!("{name}: the capacity is known by every rule"),
        Exit::Failed => format!("{name}: no rate holds a rule"),
        Exit::ClientLimited => format!("{name}: the load generator is the limit"),
        _ => format!("{name}: {}", result.ended.as_deref().unwrap_or("the search ended early")),
    }
}
