//! The `torture` command: rounds of buyers and faults, one strategy after the other.

mod judge_again;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use buyers::habits::PaymentHabits;
use buyers::model::{Arrivals, LoadModel};
use clap::Args;
use confique::Layer as _;
use program::{Epilogue, Exit, FromSystem as _, Interrupt, ProgramError as _, Progress, chain};
use serde::Serialize;
use stats::figures::{count, things};

use crate::commands::before;
use crate::config::service::{ServiceFlags, ServicePlan};
use crate::config::values::{Instances, one_program, parse_rate, parse_time, program_parser};
use crate::error::Error;
use crate::judge::round::{RoundFindings, judge};
use crate::lab::environment::cores;
use crate::lab::forecast::Forecast;
use crate::lab::source::{Program, ServiceSettings};
use crate::lab::stack::Stack;
use crate::lab::storm::SITES;
use crate::lab::strategy::{ALL, Mechanism, Strategy};
use crate::output::Output;
use crate::report::files::Files;
use crate::report::torture::{ROUND_SCHEMA, SCHEMA, TortureReport};
use crate::trial::lab::round::round;
use crate::trial::round::{KeptRound, Round};
use crate::trial::run::Conditions;
use crate::trial::schedule::{ScheduledTrial, Subject};
use weather::{Fault, Targets, parse_seed, written};

/// The name of the file in the folder of a run.
const JSON: &str = "torture.json";
/// The SKU on sale.
const GOODS_NO: i64 = 1;
/// How long a buyer waits for the lock: so short that faults outlast every deadline of a purchase.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Timeout of a ZooKeeper session: short, so that faults outlast it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a reservation holds its units, which buyers leave behind that lose their answers.
const RESERVATION_TTL: &str = "3s";
/// Sessions of each instance.
const SESSIONS: u32 = 8;
/// The longest time of a fault: longer than every deadline of a purchase.
const LASTS_MAX: Duration = Duration::from_secs(20);
/// How many buyers may wait for their answers at a time.
const USERS: u32 = 4000;
/// ZooKeeper servers.
const SERVERS: usize = 3;
/// How long buyers go on coming after the last fault has ended.
const TAIL: Duration = Duration::from_secs(5);
/// The share of the buyers that get a unit if the stock does not last.
const SCARCE: f64 = 0.4;
/// The stock for each buyer, if it does.
const AMPLE: f64 = 2.0;

#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// Strategies that sell, in turn [default: all]
    #[arg(long, value_name = "STRATEGY,…", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    /// Faults that strike: names, or patterns such as 'postgres-*' [default: all that can strike]
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Prints the faults, and ends
    #[arg(long)]
    list_faults: bool,
    /// Number of rounds [default: one of each strategy]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "lasting")]
    rounds: Option<u64>,
    /// Begins rounds for this long
    #[arg(long = "for", id = "lasting", value_name = "TIME", value_parser = parse_time)]
    lasting: Option<Duration>,
    /// Seed of the first round; each later round has the next one [default: random]
    #[arg(long, value_name = "N", value_parser = parse_seed)]
    seed: Option<u64>,
    /// Time within which faults begin in a round
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
    length: Duration,
    /// Buyers a second
    #[arg(long, value_name = "N", default_value = "60", value_parser = parse_rate)]
    rate: f64,
    /// Instances of the service
    #[arg(long, value_name = "N", default_value = "2")]
    instances: Instances,
    /// Program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", value_parser = program_parser())]
    demo_service: Vec<Program>,
    /// Judges kept rounds again instead, and fails if that finds something else. Starts nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["strategies", "rounds", "lasting", "seed"])]
    judge_again: Vec<PathBuf>,
    /// Folder to write torture.json into, and each round in which something was found
    #[arg(long, value_name = "DIR", default_value = "torture")]
    out: PathBuf,
    /// Shows no progress on standard error
    #[arg(long)]
    quiet: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("lets all faults strike each strategy in one round", "loadgen torture"),
            (
                "lets Postgres and its links fail for ten minutes while two strategies sell",
                "loadgen torture --strategies zk-mutex,pg-merge --faults 'postgres*' --for 10m",
            ),
            ("makes the choices of a round again", "loadgen torture --strategies zk-owner --seed 7 --rounds 1"),
        ])
        .note(super::TIME)
        .note("The same seed makes the same choices. What meets what depends on the machine, so a run may differ.")
        .exit_status(&[
            (Exit::Passed, ": no promise was broken"),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", a fault could not be made, or something could not be checked"),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Runs the rounds, reports them, and returns the exit code.
pub(super) async fn torture(args: TortureArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    if args.list_faults {
        let list: String = Fault::at(&SITES).map(|fault| format!("{fault}\n")).collect();
        output.print(&list)?;
        return Ok(Exit::Passed.into());
    }
    if !args.judge_again.is_empty() {
        return judge_again::judge_again(&args.judge_again, output);
    }
    let named = args.faults.as_deref().map(named).transpose()?;
    let service = service(&args)?;
    let all = [ALL.to_owned()];
    let offered = interrupt.or(before::offered(&service)).await?;
    let strategies = before::chosen(&offered, Some(args.strategies.as_deref().unwrap_or(&all)))?;
    let has_redis = strategies.iter().any(|strategy| strategy.mechanism == Mechanism::Redis);
    let faults = striking(named, has_redis)?;
    let files = Files::open(&args.out)?;
    let progress = Progress::new(args.quiet);
    progress.stage(&format!(
        "starting Postgres, {SERVERS} ZooKeeper servers and {}",
        things(service.instances, "instance")
    ));
    let started = interrupt.or(Stack::start_exposed(&service, has_redis)).await;
    if started.is_err() {
        progress.finish();
    }
    let mut stack = started?;
    let mut report = TortureReport {
        schema: SCHEMA.to_owned(),
        generated_at: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        arguments: arguments(&args),
        rounds: Vec::new(),
        ended_early: None,
    };
    let run = RunSettings { args: &args, strategies: &strategies, faults: &faults, files: &files };
    let ended = run.all(&mut stack, &mut report, (interrupt, &progress)).await;
    progress.finish();
    let exit = match ended {
        Ok(()) => report.exit(),
        Err(error) => {
            let exit = error.exit();
            report.ended_early = Some(chain(&stack.explain(error).await));
            let found = report.exit();
            if exit == Exit::Interrupted && found != Exit::PromiseBroken { exit } else { found }
        }
    };
    // A frozen Postgres could not end by itself.
    if let Some(mut exposed) = stack.exposed(None) {
        let _ = exposed.thaw();
    }
    let stopped = stack.stop().await;
    report.generated_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let path = files.path(JSON);
    write(&path, &report)?;
    output.show(&report.text())?;
    output.print(&format!("report: {}\n", path.display()))?;
    stopped?;
    Ok(exit.into())
}

/// Returns the settings of the instances.
fn service(args: &TortureArgs) -> Result<ServiceSettings, Error> {
    let service = ServicePlan::of(ServiceFlags::empty())?.start(USERS, LOCK_WAIT);
    Ok(ServiceSettings {
        instances: args.instances.get(),
        zk_sessions: SESSIONS,
        session_timeout: SESSION_TIMEOUT,
        args: ["--reservation-ttl", RESERVATION_TTL].map(str::to_owned).to_vec(),
        programs: one_program(args.demo_service.clone(), "torture")?,
        ..service
    })
}

/// Returns the faults that these patterns name.
fn named(patterns: &[String]) -> Result<Vec<Fault>, Error> {
    Fault::matching(&SITES, patterns).map_err(|error| Error::Usage(error.to_string()))
}

/// Returns the faults that can strike. Those that were named must be able to.
fn striking(named: Option<Vec<Fault>>, has_redis: bool) -> Result<Vec<Fault>, Error> {
    let exists = |fault: &Fault| has_redis || !fault.site.needs_redis();
    let Some(named) = named else { return Ok(Fault::at(&SITES).filter(exists).collect()) };
    let striking: Vec<Fault> = named.into_iter().filter(exists).collect();
    if striking.is_empty() {
        let text = "no fault that is named can strike, as no strategy that is chosen needs Redis";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(striking)
}

/// Returns the arguments that each round has, for the command that makes it again.
fn arguments(args: &TortureArgs) -> String {
    let faults = args.faults.as_ref().map(|faults| format!(" --faults '{}'", faults.join(",")));
    let length = args.length.as_millis();
    let instances = args.instances.get();
    format!("{} --length {length}ms --rate {} --instances {instances}", faults.unwrap_or_default(), args.rate)
}

fn write(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    let json = serde_json::to_string(what).map_err(|error| Error::Generator(format!("{error}")))?;
    fs::write(path, json + "\n").map_err(Error::system(format!("write {}", path.display())))
}

/// What all rounds have in common.
struct RunSettings<'a> {
    args: &'a TortureArgs,
    strategies: &'a [Strategy],
    faults: &'a [Fault],
    files: &'a Files,
}

impl RunSettings<'_> {
    /// Runs rounds until there are enough.
    async fn all(
        &self,
        stack: &mut Stack,
        report: &mut TortureReport,
        (interrupt, progress): (&Interrupt, &Progress),
    ) -> Result<(), Error> {
        let seed = self.args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>() / 2));
        let begun = Instant::now();
        let strategies = self.strategies.len() as u64;
        for number in 0.. {
            let is_enough = match (self.args.rounds, self.args.lasting) {
                (Some(rounds), _) => number >= rounds,
                (None, Some(lasting)) => begun.elapsed() >= lasting,
                (None, None) => number >= strategies,
            };
            if is_enough {
                break;
            }
            let strategy = &self.strategies[usize::try_from(number % strategies).unwrap_or_default()];
            progress.stage(&format!(
                "round {}, seed {}: {}",
                number + 1,
                written(seed.wrapping_add(number)),
                strategy.name
            ));
            let kept = interrupt.or(self.round(stack, strategy, seed.wrapping_add(number))).await?;
            progress.stage(&told(number, &kept.round));
            if !(kept.round.broken.is_empty() && kept.round.hazards.is_empty()) {
                write(&self.files.path(&format!("round-{}-{}.json", seed.wrapping_add(number), strategy.name)), &kept)?;
            }
            report.rounds.push(kept.round);
            // A run may last for hours, and end in any way.
            write(&self.files.path(JSON), report)?;
        }
        Ok(())
    }

    async fn round(&self, stack: &mut Stack, strategy: &Strategy, seed: u64) -> Result<KeptRound, Error> {
        let TortureArgs { length, rate, instances, .. } = self.args;
        let instances = usize::from(instances.get());
        // A round has the same faults whichever strategies sell in other rounds.
        let has_redis = strategy.mechanism == Mechanism::Redis;
        let faults: Vec<Fault> =
            self.faults.iter().filter(|fault| has_redis || !fault.site.needs_redis()).copied().collect();
        let targets =
            Targets { faults: &faults, processes: instances, servers: SERVERS, length: *length, lasts_max: LASTS_MAX };
        let Forecast { is_scarce, is_limited, coming } = Forecast::draw(seed, &targets);
        let last = coming.iter().map(|coming| coming.ends).max().unwrap_or(*length);
        let duration = last + TAIL;
        let buyers = rate * duration.as_secs_f64();
        let share = if is_scarce { SCARCE } else { AMPLE };
        let conditions = Conditions {
            model: LoadModel::Open {
                rate_per_s: *rate,
                arrivals: Arrivals::Poisson,
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            },
            seed: u32::try_from(seed & u64::from(u32::MAX)).unwrap_or_default(),
            stock: units(buyers * share),
            per_buyer: is_limited.then_some(1),
            habits: PaymentHabits::default(),
            goods_nos: vec![GOODS_NO],
            lock_wait: LOCK_WAIT,
            cores: cores(),
            goose_reports: None,
            log_max: 0,
        };
        let subject = Subject::of(strategy, USERS);
        let scheduled = ScheduledTrial { block: 0, warm_up: false, subject: &subject };
        let exposed = stack.exposed(None).ok_or_else(|| Error::Generator("there is no service".to_owned()))?;
        let (seen, evidence) = round(exposed, &conditions, strategy, (scheduled, &coming)).await?;
        let RoundFindings { broken, hazards } = judge(strategy.promise, &seen);
        let round = Round { strategy: strategy.name.clone(), seed, seen, broken, hazards };
        Ok(KeptRound { schema: ROUND_SCHEMA.to_owned(), round, evidence })
    }
}

/// Returns a number of units, at least one.
fn units(wanted: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float keeps to the bounds"
    )]
    let units = wanted as u32;
    units.max(1)
}

/// Writes a round in a line.
fn told(number: u64, round: &Round) -> String {
    let answers = &round.seen.answers;
    let found = match (round.broken.is_empty(), round.hazards.is_empty()) {
        (false, _) => "BROKEN",
        (true, false) => "hazard seen",
        (true, true) => "kept",
    };
    format!(
        "round {}, {} under {}: {} of {} sold, {} refused, {} unknown: {found}",
        number + 1,
        round.strategy,
        things(round.seen.faults.len(), "fault"),
        count(answers.sold),
        count(answers.total()),
        count(answers.refused),
        count(answers.failed()),
    )
}
