//! Predicts what a drain of very many waiters costs: measures a few small ones, fits the latency model to some of them, and
//! simulates the others and many more.

mod drain;
mod measure;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use program::{Epilogue, FromSystem as _, Interrupt, Progress};
use simulation::{LatencyModel, Measured, Point, Recipe, SCHEMA, Simulation};
use stats::as_ms;
use stats::figures::ms;

use crate::error::{Error, Exit};
use crate::output::Output;
use crate::report::files::Files;
use crate::report::json;

/// Bounds the memory of a simulated queue, and the time for the rounds of the herd.
const WAITERS_MAX: u32 = 100_000;

/// Each waiter may have a session, whose connection takes two sockets of one machine.
const MEASURED_MAX: u32 = 5_000;

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Numbers of simultaneous waiters to predict for, from the fewest to the most, in steps of 1, 2, 5, 10 and so on
    #[arg(long, value_name = "N..N", default_value = "100..100000", value_parser = parse_range)]
    waiters: (u32, u32),
    /// Recipes of the lock library to simulate [default: all]
    #[arg(
        long,
        value_name = "RECIPE,…",
        value_delimiter = ',',
        default_values = Recipe::ALL.map(Recipe::name),
        hide_default_value = true,
        value_parser = PossibleValuesParser::new(Recipe::ALL.map(value)).try_map(|name| recipe(&name))
    )]
    recipes: Vec<Recipe>,
    /// ZooKeeper sessions that the waiters share in turns [default: one per waiter; 3 for a cohort]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WAITERS_MAX)))]
    sessions: Option<u32>,
    /// Numbers of waiters to measure on a throwaway server, at least two. The model is tested at the largest number and at
    /// every second one below it, and fitted to the others
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "10,30,100,300,1000",
        conflicts_with = "from",
        value_parser = clap::value_parser!(u32).range(2..=i64::from(MEASURED_MAX))
    )]
    measure: Vec<u32>,
    /// File that --out wrote, whose measurements are used instead of new ones
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Seed of the order in which simultaneous waiters ask [default: random; the table names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// File to write everything into, as JSON [default: none]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Shows no progress on standard error
    #[arg(long)]
    quiet: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("measures for two minutes, and predicts up to 100 000 waiters", "loadgen simulate --out simulation.json"),
            ("predicts again without measuring", "loadgen simulate --from simulation.json --waiters 10..5000"),
        ])
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, ""), (Exit::Interrupted, "")])
}

/// Measures, unless it was measured before, predicts, and prints both.
pub(crate) async fn simulate(
    args: SimulateArgs,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let SimulateArgs { waiters, recipes, sessions, measure, from, seed, out, quiet } = args;
    let recipes = each_once(recipes);
    let seed = seed.unwrap_or_else(rand::random);
    out.as_deref().map_or(Ok(()), Files::ensure_writable)?;
    let progress = Progress::new(quiet);
    let measured = match from {
        Some(file) => read_measured(&file)?,
        None => {
            let numbers = sorted(measure);
            refuse_single(
                &numbers,
                "--measure needs at least two numbers of waiters: one to fit the model to, and a larger one to test it",
            )?;
            interrupt.or(measure::measure(&recipes, &numbers, sessions, &progress)).await?
        }
    };
    let simulation = interrupt.or(predict(recipes, waiters, sessions, measured, seed, &progress)).await;
    progress.finish();
    let simulation = simulation?;
    let shown = output.show(&table::render(&simulation));
    if let Some(file) = out {
        let text = json::render(&simulation)?;
        fs::write(&file, text).map_err(Error::system(format!("write {}", file.display())))?;
    }
    shown?;
    Ok(Exit::Passed.into())
}

/// Fits the model and simulates every recipe, on a thread that may be busy.
async fn predict(
    recipes: Vec<Recipe>,
    (first, last): (u32, u32),
    sessions: Option<u32>,
    measured: Vec<Measured>,
    seed: u32,
    progress: &Progress,
) -> Result<Simulation, Error> {
    let began = Instant::now();
    progress.stage("fitting the latency model to the measurements");
    let samples = measured.clone();
    let model: LatencyModel = busy(move || simulation::fit(&samples, seed)).await?;
    let mut numbers = simulation::spaced(first, last);
    numbers.extend(simulation::numbers(&measured));
    let numbers = sorted(numbers);
    let mut predicted = Vec::new();
    for recipe in recipes {
        progress.stage(&format!("simulating {} with up to {last} waiters", recipe.name()));
        let mut points: Vec<Point> = Vec::with_capacity(numbers.len());
        for &waiters in &numbers {
            let sessions = sessions.unwrap_or_else(|| recipe.sessions_default(waiters));
            points.push(busy(move || simulation::predict(recipe, waiters, sessions, seed, &model)).await?);
        }
        predicted.push((recipe, points));
    }
    let simulation = busy(move || simulation::compare(predicted, &measured, model, seed)).await?;
    progress.stage(&format!("fitted and simulated in {}", ms(as_ms(began.elapsed()))));
    Ok(simulation)
}

/// Runs a long computation on a thread of its own, so that the runtime can still react to an interrupt.
async fn busy<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| Error::Generator(format!("the simulation ended early: {error}")))
}

const REMEDY: &str = "name a file that `loadgen simulate --out FILE` wrote";

/// Reads the simulation that an earlier call has written.
pub(crate) fn read(file: &Path) -> Result<Simulation, Error> {
    let shown = file.display();
    let refused = |cause: &dyn std::fmt::Display| Error::Usage(format!("{shown} is no simulation: {cause}; {REMEDY}"));
    let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
    let simulation: Simulation = serde_json::from_str(&text).map_err(|error| refused(&error))?;
    if simulation.schema == SCHEMA {
        Ok(simulation)
    } else {
        Err(refused(&format_args!("it says that it is {}, not {SCHEMA}", simulation.schema)))
    }
}

/// Reads the points that an earlier call has measured.
fn read_measured(file: &Path) -> Result<Vec<Measured>, Error> {
    let measured: Vec<Measured> = read(file)?
        .recipes
        .into_iter()
        .filter(|of| !of.measured.is_empty())
        .map(|of| Measured { recipe: of.recipe, points: of.measured })
        .collect();
    let is_sound = |point: &Point| (2..=MEASURED_MAX).contains(&point.waiters) && point.is_sound();
    let shown = file.display();
    if !measured.iter().flat_map(|of| &of.points).all(is_sound) {
        return Err(Error::Usage(format!("{shown} has a point that cannot have been measured; {REMEDY}")));
    }
    let numbers = simulation::numbers(&measured);
    refuse_single(&numbers, &format!("{shown} has fewer than two measured numbers of waiters; {REMEDY}"))?;
    Ok(measured)
}

fn refuse_single(numbers: &[u32], refusal: &str) -> Result<(), Error> {
    if numbers.len() < 2 { Err(Error::Usage(refusal.to_owned())) } else { Ok(()) }
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn each_once(recipes: Vec<Recipe>) -> Vec<Recipe> {
    let mut once: Vec<Recipe> = Vec::with_capacity(recipes.len());
    for recipe in recipes {
        if !once.contains(&recipe) {
            once.push(recipe);
        }
    }
    once
}

/// Returns the name of a recipe as a value on the command line, with its help.
fn value(recipe: Recipe) -> PossibleValue {
    PossibleValue::new(recipe.name()).help(match recipe {
        Recipe::Naive => "One fixed node that all waiters watch: the herd",
        Recipe::Mutex => "A queue of nodes, in which each waiter watches the previous node",
        Recipe::Handoff => "The same queue, in which a release tells the next waiter that no contender is ahead",
        Recipe::Cohort => "A queue of processes, each of which hands the lock over within itself",
    })
}

/// Finds a recipe by its name.
fn recipe(name: &str) -> Result<Recipe, String> {
    let found = Recipe::ALL.into_iter().find(|recipe| recipe.name() == name);
    found.ok_or_else(|| format!("{name:?} is no recipe"))
}

/// Parses a range of numbers of waiters, or one number.
fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| {
        let number = text.parse().ok().filter(|number| (1..=WAITERS_MAX).contains(number));
        number.ok_or_else(|| {
            format!(
                "{text:?} is no number from 1 to {WAITERS_MAX}; write a range such as 100..{WAITERS_MAX}, or one number"
            )
        })
    };
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let first = number(first)?;
    let last = number(last)?;
    if first > last {
        return Err(format!("the range ends before it begins; write {last}..{first}"));
    }
    Ok((first, last))
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_its_ends_and_one_number_is_a_range() {
        assert_eq!(parse_range("100..100000"), Ok((100, 100_000)));
        assert_eq!(parse_range("7"), Ok((7, 7)));
        assert_eq!(parse_range("7..7"), Ok((7, 7)));
    }

    #[test]
    fn an_impossible_range_is_refused_with_the_remedy() {
        for text in ["", "..", "100..", "..100", "0..10", "1..100001", "a..b", "1..2..3", "-1..5"] {
            let refusal = parse_range(text).unwrap_err();
            assert!(refusal.contains("write a range such as"), "{text}: {refusal}");
        }
        assert_eq!(parse_range("1000..10").unwrap_err(), "the range ends before it begins; write 10..1000");
    }

    #[test]
    fn a_recipe_that_is_named_twice_is_simulated_once() {
        let recipes = vec![Recipe::Mutex, Recipe::Naive, Recipe::Mutex];
        assert_eq!(each_once(recipes), [Recipe::Mutex, Recipe::Naive]);
    }
}
