//! Runs the machines of the locks in simulated weather. Each seed is one run.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum as _};
use lock_weather::campaign::{Broken, Kind, Tally};
use program::{Epilogue, Exit, command_line, print, tell};

/// Runs the machines of the locks in simulated weather.
///
/// Each run draws users, sessions and faults by its seed. It lets them meet in a random order, and checks all rules after each step. Then
/// the faults stop, and everybody has to be served.
#[derive(Debug, Parser)]
#[command(name = "lock-weather", max_term_width = 80, after_help = epilogue().to_string())]
struct Args {
    /// Kinds of models to run [default: all]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_enum)]
    models: Vec<Kind>,
    /// Runs of each kind
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Time for each kind, in seconds. It ends the runs early [default: none]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    seconds: Option<u64>,
    /// Seed of the first run. Each further run has the next one [default: chosen by the clock, and printed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..u64::MAX / 2))]
    seed: Option<u64>,
    /// Fails if the runs of a kind do not reach everything that they are made to reach
    #[arg(long)]
    all_sights: bool,
    /// Prints each action and the state after it. For one run of one kind
    #[arg(long, requires = "seed", conflicts_with_all = ["runs", "seconds", "all_sights"])]
    trace: bool,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("runs each kind for ten minutes", "lock-weather --runs 1000000000 --seconds 600 --all-sights"),
            ("prints one run", "lock-weather --models queue --seed 7 --trace"),
        ])
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a rule is broken, or a sight was not reached"),
            (Exit::Usage, ""),
        ])
}

fn main() -> ExitCode {
    match command_line::<Args>() {
        Ok(args) => run(&args).into(),
        Err(exit) => exit,
    }
}

fn run(args: &Args) -> Exit {
    let seed = args.seed.unwrap_or_else(seed_by_the_clock);
    let kinds = if args.models.is_empty() { Kind::value_variants() } else { &args.models };
    if args.trace {
        return trace(kinds, seed);
    }
    let mut exit = Exit::Passed;
    for kind in kinds {
        let started = Instant::now();
        let until = args.seconds.map(|seconds| started + Duration::from_secs(seconds));
        let tally = kind.run(seed..seed.saturating_add(args.runs), until);
        let told = described(*kind, seed, &tally, started.elapsed());
        if print(&told).is_err() {
            return Exit::Setup;
        }
        let unseen: Vec<&str> = tally.unseen().filter(|_| args.all_sights).collect();
        for sight in &unseen {
            tell(format_args!("error: no run of {} has reached: {sight}", kind.name()));
        }
        for Broken { seed, rule, steps } in &tally.broken {
            let name = kind.name();
            tell(format_args!("error: {name}: seed {seed} breaks a rule after {steps} steps: {rule}"));
            tell(format_args!(
                "replay: cargo run --profile weather -p lock-weather -- --models {name} --seed {seed} --trace"
            ));
        }
        if !unseen.is_empty() || !tally.broken.is_empty() {
            exit = Exit::Failed;
        }
    }
    exit
}

fn trace(kinds: &[Kind], seed: u64) -> Exit {
    let [kind] = kinds else {
        tell("error: --trace prints one run, so name one kind in --models");
        return Exit::Usage;
    };
    let mut is_read = true;
    let walk = kind.trace(seed, |line| is_read = is_read && print(&format!("{line}\n")).is_ok());
    match walk.broken {
        Some(rule) => {
            tell(format_args!("error: broken after {} steps: {rule}", walk.steps));
            Exit::Failed
        }
        None => Exit::Passed,
    }
}

/// Describes what the runs of a kind have found.
fn described(kind: Kind, seed: u64, tally: &Tally, took: Duration) -> String {
    let Tally { walks, steps, slowest, sights, .. } = tally;
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let speed = *steps as f64 / took.as_secs_f64() / 1e6;
    let mut told = format!(
        "{}: {walks} runs from seed {seed} on, {steps} steps, {speed:.2} million a second; the slowest visit in calm weather took {} \
         steps (seed {})\n",
        kind.name(),
        slowest.0,
        slowest.1
    );
    for (name, seen) in sights {
        let _ = writeln!(told, "  {seen:>9}  {name}");
    }
    told
}

fn seed_by_the_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}
