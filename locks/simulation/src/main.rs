//! Runs the machines of the locks in simulated weather. Each seed is one walk.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum as _};
use lock_weather::campaign::{Broken, Machine, Tally};
use program::{Epilogue, Exit, Interrupt, ProgramError, print, run_program, tell};

/// The walks of each machine, if neither their number nor their time is given.
const WALKS: u64 = 100_000;
/// Upper bound of numbers and seeds, so that they can be added.
const NUMBERS_MAX: u64 = u64::MAX / 4;

/// Runs the machines of the locks in simulated weather.
///
/// Each walk draws users, sessions and faults by its seed. It lets them meet in a random order, and checks all rules after each step. Then
/// the faults stop, and everybody has to be served.
#[derive(Debug, Parser)]
#[command(name = "lock-weather", max_term_width = 80, after_help = epilogue().to_string())]
struct Args {
    /// Machines to run [default: all]
    #[arg(long, value_name = "MACHINE,…", value_delimiter = ',', value_enum)]
    machines: Vec<Machine>,
    /// Walks of each machine [default: 100000, or any number within --time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=NUMBERS_MAX))]
    walks: Option<u64>,
    /// Time for each machine, for example 15m. It ends the walks early [default: none]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// Seed of the first walk. Each further walk has the next one [default: chosen by the clock, and printed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=NUMBERS_MAX))]
    seed: Option<u64>,
    /// Fails if the walks of a machine do not reach everything that they are made to reach
    #[arg(long)]
    all_sights: bool,
    /// Prints each action and the state after it. For one walk of one machine
    #[arg(long, requires = "seed", conflicts_with_all = ["walks", "time", "all_sights"])]
    trace: bool,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("runs each machine for ten minutes", "lock-weather --time 10m --all-sights"),
            ("prints one walk", "lock-weather --machines queue --seed 7 --trace"),
        ])
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a rule is broken, or a sight was not reached"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("--trace prints one walk, so name one machine in --machines")]
    SeveralMachines,
    #[error("could not handle signals")]
    Signals(#[source] io::Error),
    #[error("could not write to standard output")]
    Output(#[source] io::Error),
}

impl ProgramError for Error {
    fn exit(&self) -> Exit {
        match self {
            Self::SeveralMachines => Exit::Usage,
            Self::Signals(_) | Self::Output(_) => Exit::Setup,
        }
    }
}

fn main() -> ExitCode {
    run_program(|args: Args| run(&args))
}

fn run(args: &Args) -> Result<Exit, Error> {
    let seed = args.seed.unwrap_or_else(seed_by_the_clock);
    let machines = if args.machines.is_empty() { Machine::value_variants() } else { &args.machines };
    if args.trace {
        return trace(machines, seed);
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_interrupted);
    Interrupt::install_with(move || noted.store(true, Ordering::Relaxed)).map_err(Error::Signals)?;
    let is_interrupted = || is_interrupted.load(Ordering::Relaxed);
    tell(format_args!("walking from seed {seed} on"));
    let walks = args.walks.unwrap_or(if args.time.is_some() { NUMBERS_MAX } else { WALKS });
    let mut exit = Exit::Passed;
    for machine in machines {
        let started = Instant::now();
        let is_over = || is_interrupted() || args.time.is_some_and(|time| started.elapsed() >= time);
        let tally = machine.run(seed..seed + walks, is_over);
        print(&described(*machine, seed, &tally, started.elapsed())).map_err(Error::Output)?;
        let name = machine.name();
        for Broken { seed, rule, steps } in &tally.broken {
            tell(format_args!("error: {name}: seed {seed} breaks a rule after {steps} steps: {rule}"));
            tell(format_args!("to see it: make weather ARGS='--machines {name} --seed {seed} --trace'"));
            exit = Exit::Failed;
        }
        if is_interrupted() {
            return Ok(if exit == Exit::Failed { exit } else { Exit::Interrupted });
        }
        for sight in tally.unseen().filter(|_| args.all_sights) {
            tell(format_args!("error: no walk of {name} has reached: {sight}"));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn trace(machines: &[Machine], seed: u64) -> Result<Exit, Error> {
    let [machine] = machines else { return Err(Error::SeveralMachines) };
    let mut printed = Ok(());
    let walk = machine.trace(seed, |line| {
        if printed.is_ok() {
            printed = print(&format!("{line}\n"));
        }
    });
    printed.map_err(Error::Output)?;
    let Some(rule) = walk.broken else { return Ok(Exit::Passed) };
    tell(format_args!("error: broken after {} steps: {rule}", walk.steps));
    Ok(Exit::Failed)
}

/// Describes what the walks of a machine have found.
fn described(machine: Machine, seed: u64, tally: &Tally, took: Duration) -> String {
    let Tally { walks, steps, slowest: (slowest, slow_seed), sights, patience, .. } = tally;
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let speed = *steps as f64 / took.as_secs_f64() / 1e6;
    let name = machine.name();
    let mut told = format!("{name}: {walks} walks from seed {seed} on, {steps} steps, {speed:.2} million a second\n");
    if *slowest > 0 {
        let _ =
            writeln!(told, "  calm steps per visit: {slowest} at most (seed {slow_seed}), and {patience} are allowed");
    }
    for (sight, seen) in sights {
        let _ = writeln!(told, "  {seen:>9}  {sight}");
    }
    told
}

fn seed_by_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}
