//! The `compare` command: draws a schedule, runs its trials, writes a report.

mod schedule;

use std::process::ExitCode;

use clap::Args;
use program::{Epilogue, Exit, Interrupt, Progress};

use crate::commands::before;
use crate::commands::trials::{self, OnTrial, Prepared};
use crate::config::comparison::ComparisonArgs;
use crate::config::settings::CompareSettings;
use crate::error::Error;
use crate::lab::environment::{Environment, environment};
use crate::lab::servers::RedisNeed;
use crate::lab::source::Source;
use crate::lab::stack::Stack;
use crate::lab::strategy::Strategy;
use crate::output::Output;
use crate::progress::starting;
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
            ("REDIS_URL", "Redis server for strategies that need one [default: a throwaway one]"),
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
    trials::run(&settings.report, async |progress| prepare(settings, progress).await, interrupt, output).await
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
        let strategies = before::under_hazards(settings, strategies)?;
        let subjects = before::subjects(settings, &strategies)?;
        before::ensure_users_fit(settings, &subjects)?;
        Ok(ComparedSubjects { strategies, subjects })
    }
}

/// Starts the service or connects to it, and draws the schedule.
pub(super) async fn prepare(settings: &CompareSettings, progress: &Progress) -> Result<Prepared, Error> {
    let (mut stack, compared) = open(settings, progress).await?;
    match planned(settings, &stack, &compared.subjects).await {
        Ok((schedule, environment)) => Ok(Prepared {
            on_trial: OnTrial::Lab(Box::new(stack)),
            strategies: compared.strategies,
            schedule,
            environment,
            thresholds: settings.load.thresholds.clone(),
            goods_nos: (settings.load.goods_no..).take(settings.load.goods as usize).collect(),
            lock_wait: settings.load.lock_wait,
        }),
        Err(error) => {
            let error = stack.explain(error).await;
            // The first error is the cause.
            let _ = stack.stop().await;
            Err(error)
        }
    }
}

async fn planned(
    settings: &CompareSettings,
    stack: &Stack,
    subjects: &[Subject],
) -> Result<(Schedule, Environment), Error> {
    Ok((schedule::draw(settings, stack, subjects).await?, environment(&settings.source, stack).await?))
}

/// Checks what can be checked before anything starts, and starts the service or connects to it.
async fn open(settings: &CompareSettings, progress: &Progress) -> Result<(Stack, ComparedSubjects), Error> {
    match &settings.source {
        Source::Start(service) => {
            let compared = ComparedSubjects::of(settings, &before::offered(service).await?)?;
            progress.stage(&starting(service));
            Ok((Stack::start(service, RedisNeed::of(&compared.strategies)).await?, compared))
        }
        Source::Target(target) => {
            let stack = Stack::connect(target).await?;
            let compared = ComparedSubjects::of(settings, &stack.first().service.strategies().await?)?;
            Ok((stack, compared))
        }
    }
}
