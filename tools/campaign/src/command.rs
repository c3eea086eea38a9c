//! The command line of a program that makes very many runs.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use program::{Exit, Interrupt, ProgramError, print, tell};

use crate::{Broken, RunTally, Subject, run_all};

/// Upper bound of numbers and seeds, so that they can be added.
const NUMBERS_MAX: u64 = u64::MAX / 4;

/// The statuses that such a program ends with.
pub const EXIT_STATUS: &[(Exit, &str)] = &[
    (Exit::Passed, ""),
    (Exit::Failed, ": a rule is broken, or a sight was not reached"),
    (Exit::Setup, ""),
    (Exit::Usage, ""),
    (Exit::Interrupted, ""),
];

/// The arguments of such a program.
#[derive(Debug, clap::Args)]
pub struct CampaignArgs<S: Subject> {
    /// What to run [default: all]
    #[arg(value_name = "SUBJECT", value_enum)]
    subjects: Vec<S>,
    /// Runs of each subject [default: 100000, or any number within --time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=NUMBERS_MAX))]
    runs: Option<u64>,
    /// Time for each subject, for example 15m. It ends the runs early [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Seed of the first run. Each further run has the next one [default: chosen by the clock, and printed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=NUMBERS_MAX))]
    seed: Option<u64>,
    /// Fails if the runs of a subject do not reach everything that they are made to reach
    #[arg(long)]
    all_sights: bool,
    /// Prints what happens. For one run of one subject
    #[arg(long, requires = "seed", conflicts_with_all = ["runs", "time", "all_sights"])]
    trace: bool,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(time) }
}

/// The runs of each subject, if neither their number nor their time is given.
const RUNS: u64 = 100_000;

/// Why a program ends before its runs.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A trace has one run.
    #[error("--trace prints one run, so name one of: {0}")]
    SeveralSubjects(String),
    /// The system does not let it handle signals.
    #[error("could not handle signals")]
    Signals(#[source] io::Error),
    /// Nobody takes what it prints.
    #[error("could not write to standard output")]
    Output(#[source] io::Error),
}

impl ProgramError for CampaignError {
    fn exit(&self) -> Exit {
        match self {
            Self::SeveralSubjects(_) => Exit::Usage,
            Self::Signals(_) | Self::Output(_) => Exit::Setup,
        }
    }
}

/// Makes the runs, and prints what they have found. `goal` is the goal of `make` that does so.
///
/// # Errors
/// A [`CampaignError`].
pub fn command<S: Subject>(args: &CampaignArgs<S>, goal: &str) -> Result<Exit, CampaignError> {
    let seed = args.seed.unwrap_or_else(seed_by_the_clock);
    let is_named = |subject: &&S| args.subjects.is_empty() || args.subjects.contains(subject);
    let subjects: Vec<_> = S::value_variants().iter().filter(is_named).collect();
    if args.trace {
        return trace(&subjects, seed);
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_interrupted);
    Interrupt::install_with(move || noted.store(true, Ordering::Relaxed)).map_err(CampaignError::Signals)?;
    let is_interrupted = || is_interrupted.load(Ordering::Relaxed);
    tell(format_args!("running from seed {seed} on"));
    let runs = args.runs.unwrap_or(if args.time.is_some() { NUMBERS_MAX } else { RUNS });
    let mut exit = Exit::Passed;
    for subject in subjects {
        let started = Instant::now();
        let is_over = || is_interrupted() || args.time.is_some_and(|time| started.elapsed() >= time);
        let tally = run_all(seed..seed + runs, subject.sights(), |seed| subject.run(seed, None), is_over);
        print(&described(subject, seed, &tally, started.elapsed())).map_err(CampaignError::Output)?;
        let name = name_of(subject);
        for Broken { seed, rule, steps } in &tally.broken {
            tell(format_args!("error: {name}: seed {seed} breaks a rule, in {steps} steps: {rule}"));
            tell(format_args!("to see it: make {goal} ARGS='{name} --seed {seed} --trace'"));
            exit = Exit::Failed;
        }
        if is_interrupted() {
            return Ok(if exit == Exit::Failed { exit } else { Exit::Interrupted });
        }
        // A broken rule has ended the runs early.
        for sight in tally.unseen().filter(|_| args.all_sights && tally.broken.is_empty()) {
            tell(format_args!("error: no run of {name} has reached: {sight}"));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn trace<S: Subject>(subjects: &[&S], seed: u64) -> Result<Exit, CampaignError> {
    let [subject] = subjects else {
        let names: Vec<_> = subjects.iter().copied().map(name_of).collect();
        return Err(CampaignError::SeveralSubjects(names.join(", ")));
    };
    let mut printed = Ok(());
    let run = subject.run(
        seed,
        Some(&mut |line| {
            if printed.is_ok() {
                printed = print(&format!("{line}\n"));
            }
        }),
    );
    printed.map_err(CampaignError::Output)?;
    let Some(rule) = run.broken else { return Ok(Exit::Passed) };
    tell(format_args!("error: a rule is broken, in {} steps: {rule}", run.steps));
    Ok(Exit::Failed)
}

/// Describes what the runs of a subject have found.
fn described<S: Subject>(subject: &S, seed: u64, tally: &RunTally, took: Duration) -> String {
    let RunTally { runs, steps, slowest: (slowest, slow_seed), sights, .. } = tally;
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let per_second = |count: u64| count as f64 / took.as_secs_f64();
    let name = name_of(subject);
    let speed = format!("{:.0} runs and {:.2} million steps a second", per_second(*runs), per_second(*steps) / 1e6);
    let mut told = format!("{name}: {runs} runs from seed {seed} on, {steps} steps, {speed}\n");
    if *slowest > 0 {
        let (what, patience) = subject.patience();
        let _ = writeln!(told, "  {what}: {slowest} at most (seed {slow_seed}), and {patience} are allowed");
    }
    for (sight, seen) in sights {
        let _ = writeln!(told, "  {seen:>9}  {sight}");
    }
    told
}

fn name_of<S: Subject>(subject: &S) -> String {
    subject.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn seed_by_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}
