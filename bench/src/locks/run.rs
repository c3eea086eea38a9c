//! A whole run: set up, measure as planned, write the report.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use bench::Error;
use program::{Exit, FromSystem as _, Interrupt, Progress, print, tell};
use stats::figures::count;

use crate::cli::Settings;
use crate::harness::{Harness, Outcome, Way};
use crate::open_load::{self, OUTSTANDING_MAX, Offer, SESSIONS};
use crate::progress;
use crate::ratios::ratios;
use crate::report::{Report, chart, json, markdown};
use crate::results::{Missing, Results};
use crate::schedule::{Load, Repetition, Step, schedule};
use crate::waiters::{self, Waiters};
use crate::waits::waits;

const MARKDOWN: &str = "bench-peers.md";
const JSON: &str = "bench-peers.json";
const CHART: &str = "bench-peers.svg";
/// A file that is written and removed to find out whether the folder is writable.
const PROBE: &str = ".bench-peers";

/// Measures and reports.
pub(crate) async fn run(settings: &Settings, interrupt: &Interrupt) -> Result<Exit, Error> {
    // A folder that cannot be written to must not cost a whole run.
    prepare(&settings.out)?;
    let steps = schedule(&settings.implementations(), &settings.loads(), settings.reps(), settings.seed);
    let mut progress = Progress::new(false);
    progress.planned("step", steps.len());
    let outcome = interrupt.or(measure(settings, &steps, &mut progress)).await;
    progress.finish();
    let (report, exit) = outcome?;
    let text = markdown::render(&report);
    // The files are written even if the output cannot be, so its error is told last.
    let shown = print(&text).map_err(Error::system("write to standard output"));
    write(&settings.out, MARKDOWN, &text)?;
    write(&settings.out, JSON, &json::render(&report)?)?;
    write(&settings.out, CHART, &chart::render(&report.rows)?)?;
    let files = [MARKDOWN, JSON, CHART].map(|name| settings.out.join(name).display().to_string());
    tell(format_args!("written: {}", files.join(", ")));
    shown?;
    Ok(exit)
}

async fn measure(settings: &Settings, steps: &[Step], progress: &mut Progress) -> Result<(Report, Exit), Error> {
    progress.stage("starting ZooKeeper and the workers");
    let mut hosts: Vec<_> = settings.implementations().into_iter().map(|each| each.host()).collect();
    if settings.waiters > 0 {
        hosts.push(waiters::HOST);
    }
    let mut harness = Harness::start(hosts).await?;
    let mut results = Results::new(&settings.implementations(), &settings.loads(), settings.reps());
    for &step in steps {
        progress.step_begins(progress::describe(step));
        let outcome =
            if results.is_given_up(step) { None } else { Some(measure_step(settings, &mut harness, step).await?) };
        progress.step_ended(&progress::ended(step, outcome.as_ref()));
        match outcome {
            None => {}
            Some(Outcome::Measured(window)) => results.measured(step, window),
            Some(Outcome::OutOfBounds(reason)) => {
                results.not_measured(step, Missing { reason, is_failure: false });
            }
            Some(Outcome::Failed(reason)) => results.not_measured(step, Missing { reason, is_failure: true }),
        }
    }
    let mut waiters = None;
    if settings.waiters > 0 {
        progress.stage(&format!("serving {} waiters of one {}", settings.waiters, waiters::RECIPE.name()));
        waiters = Some(waiters::serve(&mut harness, settings.waiters).await);
    }
    let has_failed = results.has_failures() || waiters.as_ref().is_some_and(|waiters: &Waiters| !waiters.is_served());
    let report = Report {
        conditions: conditions(settings, &harness),
        rows: results.rows(),
        waits: waits(&results),
        ratios: ratios(&results, waiters.as_ref()),
        waiters,
    };
    Ok((report, if has_failed { Exit::Failed } else { Exit::Passed }))
}

async fn measure_step(settings: &Settings, harness: &mut Harness, step: Step) -> Result<Outcome, Error> {
    let way = match step.repetition {
        Repetition::Bytes => Way::Proxied,
        Repetition::WarmUp | Repetition::Timed(_) => Way::Direct,
    };
    match step.load {
        Load::Contenders(contenders) => harness.measure(step.implementation, contenders, settings.window, way).await,
        Load::Rate(rate_per_s) => {
            let seed = arrivals_seed(settings.seed, step.repetition);
            let offer = Offer { rate_per_s, timed: settings.timed_arrivals(), seed };
            open_load::measure(harness, step.implementation, offer).await
        }
    }
}

/// Returns the seed of the arrivals: another one in each repetition, the same for all implementations.
fn arrivals_seed(seed: u64, repetition: Repetition) -> u64 {
    let number = match repetition {
        Repetition::Timed(repetition) => u64::try_from(repetition + 1).unwrap_or(0),
        Repetition::WarmUp | Repetition::Bytes => 0,
    };
    // The runs of small seeds, which users choose, have no seeds in common.
    seed.rotate_left(32).wrapping_add(number)
}

fn conditions(settings: &Settings, harness: &Harness) -> Vec<String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut conditions = vec![
        format!(
            "{} after one that warms up, windows of {}, seed {}; within a repetition all implementations one after \
             another in random order, at a fresh path each",
            if settings.reps() == 1 { "1 repetition".to_owned() } else { format!("{} repetitions", settings.reps()) },
            humantime::format_duration(settings.window),
            settings.seed,
        ),
        "contenders share up to 3 sessions; each implementation runs in one process that lives as long as the run"
            .to_owned(),
        format!("server and contenders share one machine with {cores} cores ({})", std::env::consts::ARCH),
        format!("one throwaway ZooKeeper server with durable writes; {}", harness.fleet.versions()),
    ];
    if settings.loads().iter().any(|load| matches!(load, Load::Rate(_))) {
        conditions.push(format!(
            "open load: {} acquires are timed at each rate in each repetition, over {SESSIONS} sessions; at most {} are \
             outstanding",
            count(settings.timed_arrivals().into()),
            count(OUTSTANDING_MAX.into()),
        ));
    }
    conditions
}

/// Makes the folder of the report, and checks that files can be written there.
fn prepare(folder: &Path) -> Result<(), Error> {
    let is_writable = || {
        fs::create_dir_all(folder)?;
        let probe = folder.join(PROBE);
        fs::write(&probe, "")?;
        fs::remove_file(&probe)
    };
    is_writable().map_err(|source: io::Error| Error::Setup {
        action: format!("write the report into {}", folder.display()),
        source: source.into(),
        remedy: "name another folder with --out".to_owned(),
    })
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(Error::system(format!("write {}", path.display())))
}
