//! The `judge` command: what the engines of others have bought at a shop.

mod books;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use buyers::model::LoadModel;
use clap::Args;
use program::{Epilogue, Exit, Interrupt, Progress};
use stats::figures::things;
use tokio::sync::oneshot;

use self::books::{put_on_sale, read_before};
use crate::commands::check::{confirm, read_files};
use crate::commands::shops::{TrialsAtShops, ensure_comparable, ensure_rules, strategy};
use crate::commands::trials::{self, OnTrial, Prepared};
use crate::config::check::rule;
use crate::config::settings::ReportSettings;
use crate::config::values::{Users, parse_share};
use crate::engines;
use crate::error::Error;
use crate::judge::metrics::TableWidth;
use crate::judge::thresholds::Threshold;
use crate::lab::environment::Environment;
use crate::output::Output;
use crate::shop::Shop;
use crate::trial::logged::gathered::{Gathering, LoggedTrial, TimedLog, gather};
use crate::trial::logged::{JudgedBooks, LoggedShop};
use crate::trial::schedule::{Block, JudgedLog, Limits, Subject};

/// The share of failed purchases above which a trial is undecided.
const ERRORS_MAX: f64 = 0.01;

#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// Logs of JMeter (CSV), k6 (JSON or CSV) and Locust, from any number of machines
    #[arg(value_name = "RESULTS", required_unless_present = "put_on_sale")]
    results: Vec<PathBuf>,
    /// File that describes the shop. May be given several times
    #[arg(long, value_name = "FILE", required = true)]
    shop: Vec<PathBuf>,
    /// Puts the stock on sale instead, and writes the books from before the sale into FILE, for --before
    #[arg(long, value_name = "FILE", conflicts_with = "results")]
    put_on_sale: Option<PathBuf>,
    #[command(flatten)]
    books: BooksArgs,
    /// Sends requests to a shop that is not on this machine, without a question
    #[arg(long)]
    yes_this_is_my_shop: bool,
    #[command(flatten, next_help_heading = "Logs")]
    logs: LogArgs,
    #[command(flatten, next_help_heading = "Report")]
    report: JudgeReportArgs,
}

/// Which books are used.
#[derive(Debug, Args)]
struct BooksArgs {
    /// Books from before the sale, as --put-on-sale wrote them. Without them, the orders in the books are not used
    #[arg(long, value_name = "FILE", conflicts_with_all = ["put_on_sale", "no_books"])]
    before: Option<PathBuf>,
    /// Reads no books: the answers alone are judged
    #[arg(long, conflicts_with = "put_on_sale")]
    no_books: bool,
}

/// How the logs are read.
#[derive(Debug, Args)]
struct LogArgs {
    /// Users of the load. A user in no log counts as an error. Without this, missing logs are possible, so orders that no buyer was
    /// told of prove nothing [default: the buyers in the logs]
    #[arg(long, value_name = "N")]
    users: Option<Users>,
    /// Trials of each shop, from the first on, that only warm up. A check has one for each number of users [default: 0]
    #[arg(long, value_name = "N")]
    warm_ups: Option<usize>,
    /// Name of the purchase in logs that have only statuses
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Lead of the clock of a log's machine: r.csv=3.2ms, or r.csv=-1ms if it was behind. May be given several times [default: the
    /// clocks are not compared]
    #[arg(long, value_name = "RESULTS=TIME", value_parser = parse_clock)]
    clock: Vec<(PathBuf, f64)>,
    /// Largest share of purchases that end in an error or a timeout. With more of them, a trial is undecided [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    errors_max: Option<f64>,
    /// Rule that must be met, or the exit status is 1: 'p99<250ms', or 'my-shop errors<1%' for one shop. May be given several
    /// times. docs/reports.md lists the metrics
    #[arg(long = "threshold", value_name = "RULE", value_parser = rule)]
    thresholds: Vec<Threshold>,
}

/// What is reported.
#[derive(Debug, Args)]
struct JudgeReportArgs {
    /// Folder to write the report into; an earlier report in it is removed
    #[arg(long, value_name = "DIR", default_value = "judged")]
    out: PathBuf,
    /// Prints every column of the table, not only those that fit 100 characters
    #[arg(long)]
    wide: bool,
    /// Shows no progress on standard error
    #[arg(long)]
    quiet: bool,
}

/// Reads a file, and how far its clock was ahead, in milliseconds.
fn parse_clock(text: &str) -> Result<(PathBuf, f64), String> {
    let remedy = "write a log and a time, such as results.csv=3.2ms or results.csv=-1.5ms";
    let (file, time) = text.rsplit_once('=').ok_or(remedy)?;
    let (sign, time) = time.strip_prefix('-').map_or((1.0, time), |time| (-1.0, time));
    let (number, ms) = match time.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (time.strip_suffix('s').ok_or(remedy)?, 1000.0),
    };
    let number: f64 = number.parse().map_err(|_| remedy)?;
    // A clock that is a day off is set, and not corrected for.
    let ahead = Some(sign * number * ms).filter(|ahead| number >= 0.0 && ahead.abs() <= 86_400_000.0);
    ahead.map(|ahead| (PathBuf::from(file), ahead)).ok_or_else(|| remedy.to_owned())
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("puts the stock on sale, before the engines run", "loadgen judge --shop shop.toml --put-on-sale before.json"),
            ("judges what they bought, on three machines", "loadgen judge a.jtl b.jtl c.jtl --shop shop.toml --before before.json --users 3000"),
            ("judges the answers of an earlier check", "loadgen judge report/results.jtl --shop shop.toml --no-books --warm-ups 1"),
        ])
        .note("`loadgen export --shop` writes files for the engines. Their logs have the answers and not only the statuses.")
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a threshold"),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", or buyers got no decision"),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ", or a log cannot be read"),
            (Exit::Interrupted, ""),
        ])
}

/// Judges logs, or puts the stock on sale for the engines.
pub(super) async fn judge(args: JudgeArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let shops = read_files(&args.shop)?;
    if !args.books.no_books || args.put_on_sale.is_some() {
        interrupt.or(confirm(&shops, args.yes_this_is_my_shop)).await?;
    }
    if let Some(file) = &args.put_on_sale {
        let progress = Progress::new(args.report.quiet);
        let told = interrupt.or(put_on_sale(&shops, file, &progress)).await;
        progress.finish();
        output.print(&told?)?;
        return Ok(Exit::Passed.into());
    }
    let JudgeReportArgs { out, wide, quiet } = args.report;
    let column = if wide { TableWidth::Wide } else { TableWidth::Narrow };
    let settings = ReportSettings { column, quiet, ..ReportSettings::in_folder(out) };
    // A log that cannot be read leaves an earlier report where it is.
    ensure_kept(&args.results, &settings.folder)?;
    let JudgeArgs { results, books, logs, .. } = args;
    let prepared = interrupt.or(in_a_thread(move || prepare(shops, &results, &books, logs))).await?;
    trials::run(&settings, async |_: &Progress| Ok(prepared), interrupt, output).await
}

/// Refuses a log in the folder of the report, in which an earlier report is removed.
fn ensure_kept(results: &[PathBuf], folder: &Path) -> Result<(), Error> {
    let whole = |path: &Path| path.canonicalize().ok();
    let is_inside = |log: &&PathBuf| whole(log).zip(whole(folder)).is_some_and(|(log, folder)| log.starts_with(folder));
    match results.iter().find(is_inside) {
        None => Ok(()),
        Some(log) => Err(Error::Usage(format!(
            "the log {} lies in the folder of the report, which is written anew; name another folder by --out",
            log.display()
        ))),
    }
}

/// Runs what reads large files in a thread of its own. Ctrl-C ends the program meanwhile, which does not wait for the thread.
async fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    // Nobody listens any more after Ctrl-C.
    std::thread::spawn(move || sender.send(work()).is_ok());
    receiver.await.map_err(|_| Error::Generator("the logs were not read".to_owned()))?
}

/// Reads the logs and the books from before, and makes the schedule of the trials that they have.
fn prepare(shops: Vec<Shop>, results: &[PathBuf], books: &BooksArgs, logs: LogArgs) -> Result<Prepared, Error> {
    let LogArgs { users, warm_ups, label, clock, errors_max, thresholds } = logs;
    let meanings = shops.first().map(|shop| shop.script.meanings.clone());
    ensure_comparable(&shops)?;
    let files: BTreeSet<PathBuf> = results.iter().filter_map(|log| log.canonicalize().ok()).collect();
    if files.len() < results.iter().filter(|log| log.exists()).count() {
        return Err(Error::Usage("a log is named twice; name each file once".to_owned()));
    }
    let read = engines::read(results, &meanings.ok_or_else(|| Error::Usage("name a shop by --shop".to_owned()))?)?;
    if let Some((file, _)) = clock.iter().find(|(file, _)| !results.contains(file)) {
        return Err(Error::Usage(format!(
            "--clock names {}, which is no log here; name it as the log",
            file.display()
        )));
    }
    let clocks: BTreeMap<PathBuf, f64> = clock.into_iter().collect();
    let timed = |log: engines::EngineLog| TimedLog { clock_ahead_ms: clocks.get(&log.path).copied(), log };
    let read: Vec<TimedLog> = read.into_iter().map(timed).collect();
    let warm_ups = warm_ups.unwrap_or(0);
    let gathering = Gathering {
        shops: shops.iter().map(|shop| &*shop.name).collect(),
        label: label.as_deref(),
        users: users.map(Users::get),
        warm_ups,
    };
    let (trials, logs) = gather(read, &gathering)?;
    let limits = Limits { dropped_share_max: 0.0, errors_share_max: errors_max.unwrap_or(ERRORS_MAX) };
    let schedule = plan(&trials, logs, warm_ups, limits).at(&shops);
    ensure_rules(&thresholds, &shops, &schedule.users)?;
    let mut before = books.before.as_deref().map(read_before).transpose()?;
    let strategies = shops.iter().map(strategy).collect();
    let mut trials_of: BTreeMap<Arc<str>, Vec<LoggedTrial>> = BTreeMap::new();
    trials.into_iter().for_each(|trial| trials_of.entry(Arc::clone(&trial.shop)).or_default().push(trial));
    let of_shop = |shop: Shop| {
        let own = trials_of.remove(&*shop.name).unwrap_or_default();
        let books = match &mut before {
            _ if books.no_books => JudgedBooks::Unread,
            None => JudgedBooks::Now,
            Some(before) => JudgedBooks::Since(before.take(&shop.name)?),
        };
        LoggedShop::of(shop, own, books)
    };
    Ok(Prepared {
        on_trial: OnTrial::Logs(shops.into_iter().map(of_shop).collect::<Result<_, _>>()?),
        strategies,
        schedule,
        // The machines of the engines are not known.
        environment: Environment::of_shops(&[]),
        thresholds,
        goods_nos: vec![0],
        lock_wait: Duration::ZERO,
    })
}

/// Describes trials that are over.
fn plan(trials: &[LoggedTrial], logs: Vec<JudgedLog>, warm_ups: usize, limits: Limits) -> TrialsAtShops {
    let mut users: Vec<u32> = trials.iter().map(|trial| trial.users).collect();
    users.sort_unstable();
    users.dedup();
    let model = trials.iter().all(|trial| trial.is_burst).then_some(LoadModel::BURST);
    let most = users.last().copied().unwrap_or(0);
    let load = model.map_or_else(|| format!("load of {}", things(most, "user")), |model| model.describe(most));
    let mut engines: Vec<&str> = logs.iter().map(|log| &*log.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let subject = |trial: &LoggedTrial| Subject {
        strategy: trial.shop.to_string(),
        users: trial.users,
        build: None,
        hazard: None,
    };
    let blocks = trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    let in_block = |number: usize| trials.iter().filter(move |trial| trial.block == number).map(subject).collect();
    TrialsAtShops {
        seed: 0,
        model,
        model_described: format!("{load}, by {}", engines.join(", ")),
        users,
        trials: u32::try_from(blocks.saturating_sub(warm_ups)).unwrap_or(u32::MAX),
        limits,
        logs,
        blocks: (0..blocks).map(|number| Block { warm_up: number < warm_ups, subjects: in_block(number) }).collect(),
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_file_and_a_time() {
        let read = |text: &str| parse_clock(text).map(|(file, ms)| (file.display().to_string(), ms));
        assert_eq!(read("a=b.csv=3.2ms"), Ok(("a=b.csv".to_owned(), 3.2)));
        assert_eq!(read("r.csv=-0.5s"), Ok(("r.csv".to_owned(), -500.0)));
        for wrong in ["r.csv", "r.csv=3", "r.csv=ms", "r.csv=xms", "r.csv=NaNms", "r.csv=1e9s", "r.csv=--3ms"] {
            assert!(read(wrong).unwrap_err().starts_with("write a log and a time"), "{wrong}");
        }
    }
}
