//! The `torture` command: rounds of buyers and faults, one strategy after the other.

mod judge_again;
mod results;
mod run;
mod stored;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use confique::Layer as _;
use program::{Epilogue, Exit, Interrupt, ProgramError as _, Progress, chain};
use stats::as_ms;
use stats::figures::things;
use testbed::EnsembleConfig;
use weather::{CALM, Fault, Harm, VERSION, parse_seed};

use self::run::{JSON, RunSettings, remove_old, write};
use crate::commands::before;
use crate::config::service::{ServiceFlags, ServicePlan};
use crate::config::values::{Instances, one_program, parse_rate, parse_time, program_parser};
use crate::error::Error;
use crate::judge::sights::unreached;
use crate::lab::environment::environment;
use crate::lab::servers::ExposedNeeds;
use crate::lab::service_program::DB_GRACE;
use crate::lab::source::{Program, ServiceSettings, Source};
use crate::lab::stack::Stack;
use crate::lab::storm::SITES;
use crate::lab::strategy::{ALL, Mechanism};
use crate::output::Output;
use crate::report::files::Files;
use crate::report::torture::{SCHEMA, TortureReport};
use crate::trial::round::{REDIS_LOCK_TTL, SESSION_TIMEOUT, TortureSettings};

/// How long a buyer waits for the lock: so short that faults outlast every deadline of a purchase.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a reservation holds its units, which buyers leave behind that lose their answers.
const RESERVATION_TTL: Duration = Duration::from_secs(3);
/// Sessions of each instance.
const SESSIONS: u32 = 8;
/// How many buyers may wait for their answers at a time.
const USERS: u32 = 4000;
/// ZooKeeper servers.
const SERVERS: usize = 3;

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
    /// Ends with status 3 if the run has not reached what two hours of all strategies and faults reach. That is each site and each kind of
    /// harm, lost sessions and holds, unknown outcomes, repeated requests, and hazards
    #[arg(long, conflicts_with_all = ["strategies", "faults"])]
    all_sights: bool,
    /// Pause after each fault, for example to see a slow recovery to its end [default: by chance 0.5 s to 4 s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pause: Option<Duration>,
    /// Buyers a second
    #[arg(long, value_name = "N", default_value = "60", value_parser = parse_rate)]
    rate: f64,
    /// Instances of the service
    #[arg(long, value_name = "N", default_value = "2")]
    instances: Instances,
    /// Puts a pooler (pgbouncer) between the instances and Postgres
    #[arg(long)]
    pooler: bool,
    /// Program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", value_parser = program_parser())]
    demo_service: Vec<Program>,
    /// Judges kept rounds again instead, and fails if that finds something else. Starts nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["strategies", "rounds", "lasting", "seed"])]
    judge_again: Vec<PathBuf>,
    /// Prints what earlier runs have found instead, as Markdown: which faults struck which strategies, and how soon these sold again.
    /// Each FILE is a torture.json or a kept round. Judges all rounds again, and fails if that finds something else. Starts nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["strategies", "rounds", "lasting", "seed", "judge_again"])]
    results: Vec<PathBuf>,
    /// Folder to write torture.json into, and each round in which something was found or could not be checked. Removes those of an
    /// earlier run
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
            ("makes sure that a long run reaches what it should", "loadgen torture --for 2h --all-sights"),
            ("writes the tables of two runs", "loadgen torture --results one/torture.json other/torture.json"),
            ("makes the choices of a round again", "loadgen torture --strategies zk-owner --seed 7 --rounds 1"),
        ])
        .note(super::TIME)
        .note("The same seed makes the same choices. What meets what depends on the machine, so a run may differ.")
        .exit_status(&[
            (Exit::Passed, ": no promise was broken"),
            (Exit::Failed, ": --judge-again or --results judged a round otherwise than before"),
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
    if !args.results.is_empty() {
        return results::results(&args.results, output);
    }
    run_all(&args, interrupt, output).await
}

/// Starts everything, runs the rounds, and reports them.
async fn run_all(args: &TortureArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let named = args.faults.as_deref().map(named).transpose()?;
    let service = service(args)?;
    let all = [ALL.to_owned()];
    let offered = interrupt.or(before::offered(&service)).await?;
    let strategies = before::chosen(&offered, Some(args.strategies.as_deref().unwrap_or(&all)))?;
    let has_redis = strategies.iter().any(|strategy| strategy.mechanism == Mechanism::Redis);
    let faults = striking(named, has_redis)?;
    let files = Files::open(&args.out)?;
    remove_old(&args.out)?;
    let progress = Progress::new(args.quiet);
    let clocks = faults.iter().any(|fault| fault.harm == Harm::ClockStepped);
    let needs = ExposedNeeds { redis: has_redis, clocks, pooler: args.pooler };
    let (mut stack, mut report) = start(args, service, needs, (interrupt, &progress)).await?;
    let run = RunSettings {
        strategies: &strategies,
        faults: &faults,
        files: &files,
        seed: args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>() / 2)),
        rounds: args.rounds,
        lasting: args.lasting,
        length: args.length,
        calm: args.pause.map_or(CALM, |pause| [pause; 2]),
        rate: args.rate,
        instances: args.instances.get(),
        lock_wait: LOCK_WAIT,
        users: USERS,
        servers: SERVERS,
    };
    let ended = run.all(&mut stack, &mut report, (interrupt, &progress)).await;
    progress.finish();
    let interrupted = match ended {
        Ok(()) => None,
        Err(error) => {
            let exit = error.exit();
            report.ended_early = Some(chain(&stack.explain(error).await));
            Some(exit).filter(|exit| *exit == Exit::Interrupted)
        }
    };
    // Instances end in order only if their servers answer.
    if let Some(mut exposed) = stack.exposed(None) {
        let _ = exposed.thaw();
    }
    let stopped = if report.ended_early.is_some() {
        // What is down now cannot be asked what is left.
        stack.stop().await
    } else {
        stack.stop_and_look().await.map(|leaks| report.leaks = Some(leaks))
    };
    if args.all_sights {
        report.unreached = unreached(&report.rounds);
    }
    report.generated_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let path = files.path(JSON);
    write(&path, &report)?;
    output.show(&report.text())?;
    output.print(&format!("report: {}\n", path.display()))?;
    stopped?;
    let found = report.exit();
    Ok(interrupted.filter(|_| found != Exit::PromiseBroken).unwrap_or(found).into())
}

/// Starts the servers and the instances. Returns them with the report of a run without rounds.
async fn start(
    args: &TortureArgs,
    service: ServiceSettings,
    needs: ExposedNeeds,
    (interrupt, progress): (&Interrupt, &Progress),
) -> Result<(Stack, TortureReport), Error> {
    let instances = things(service.instances, "instance");
    progress.stage(&format!("starting Postgres, {SERVERS} ZooKeeper servers and {instances}"));
    let starting = async {
        let stack = Stack::start_exposed(&service, needs).await?;
        let environment = environment(&Source::Start(service), &stack).await?;
        Ok((stack, environment))
    };
    let started: Result<_, Error> = interrupt.or(starting).await;
    if started.is_err() {
        progress.finish();
    }
    let (stack, environment) = started?;
    let report = TortureReport {
        schema: SCHEMA.to_owned(),
        generated_at: String::new(),
        environment,
        draws: VERSION,
        settings: settings(args.rate, args.instances.get()),
        arguments: arguments(args),
        rounds: Vec::new(),
        leaks: None,
        unreached: Vec::new(),
        ended_early: None,
    };
    Ok((stack, report))
}

/// Returns the settings of the instances.
fn service(args: &TortureArgs) -> Result<ServiceSettings, Error> {
    let service = ServicePlan::of(ServiceFlags::empty())?.start(USERS, LOCK_WAIT);
    Ok(ServiceSettings {
        instances: args.instances.get(),
        zk_sessions: SESSIONS,
        session_timeout: SESSION_TIMEOUT,
        args: [("--reservation-ttl", RESERVATION_TTL), ("--redis-lock-ttl", REDIS_LOCK_TTL)]
            .into_iter()
            .flat_map(|(flag, time)| [flag.to_owned(), humantime::format_duration(time).to_string()])
            .collect(),
        programs: one_program(args.demo_service.clone(), "torture")?,
        ..service
    })
}

/// Returns what bounds how soon the instances can sell again.
fn settings(rate_per_s: f64, instances: u16) -> TortureSettings {
    TortureSettings {
        rate_per_s,
        instances,
        session_timeout_ms: as_ms(SESSION_TIMEOUT),
        tick_ms: as_ms(EnsembleConfig::default().tick_time),
        db_timeout_ms: as_ms(LOCK_WAIT + DB_GRACE),
        redis_lock_ttl_ms: as_ms(REDIS_LOCK_TTL),
    }
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
    let TortureArgs { length, pause, rate, instances, pooler, .. } = args;
    let mut text = String::new();
    if let Some(faults) = &args.faults {
        text += &format!(" --faults {}", quoted(&faults.join(",")));
    }
    text += &format!(" --length {}ms --rate {rate} --instances {}", length.as_millis(), instances.get());
    if let Some(pause) = pause {
        text += &format!(" --pause {}ms", pause.as_millis());
    }
    if *pooler {
        text += " --pooler";
    }
    if let Some(program) = args.demo_service.iter().find_map(|program| program.path.as_ref()) {
        // The command may be given in another folder.
        let program = std::path::absolute(program).unwrap_or_else(|_| program.clone());
        text += &format!(" --demo-service {}", quoted(&program.display().to_string()));
    }
    text
}

/// Writes a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command as Shell;

    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command};
    use crate::report::torture::tests::{report, round};

    fn parsed(line: &str) -> TortureArgs {
        // A shell splits the line as it does for a user.
        let words = Shell::new("sh").args(["-c", &format!("printf '%s\\n' {line}")]).output().unwrap();
        let words = String::from_utf8(words.stdout).unwrap();
        let Command::Torture(args) = Cli::try_parse_from(words.lines()).unwrap().command else {
            panic!("this is another command: {line}");
        };
        args
    }

    #[test]
    fn the_command_for_a_round_is_one_that_this_program_takes() {
        let given = parsed(
            "loadgen torture --faults 'postgres-*,redis-killed' --length 1500ms --rate 30.5 --instances 3 \
             --pause 8s --pooler --demo-service \"/a folder/it's a service\" --for 1h",
        );
        let report = TortureReport { arguments: arguments(&given), ..report(Vec::new()) };
        let again = parsed(&report.replay(&round("zk-owner", 7)));
        assert_eq!((again.seed, again.rounds, again.strategies), (Some(7), Some(1), Some(vec!["zk-owner".to_owned()])));
        assert_eq!((&again.faults, again.length, again.rate), (&given.faults, given.length, given.rate));
        assert_eq!((again.instances.get(), again.pooler, again.pause), (3, true, given.pause));
        assert_eq!(again.demo_service, given.demo_service);
    }
}
