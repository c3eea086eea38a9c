//! The `check` command: shops that files describe.

mod before;
mod dry_run;
mod remedy;
pub(super) mod scenario;
mod strangers;
mod transcript;

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use buyers::script::{Meanings, Pattern};
use clap::Args;
use program::{Epilogue, FromSystem as _, Interrupt, Progress};

use crate::commands::trials::{self, Prepared};
use crate::config::check::{CheckSettings, ShopTrialsArgs};
use crate::config::values::Stock;
use crate::error::{Error, Exit};
use crate::output::Output;
use crate::shop::{self, QuickShop, Shop, TEMPLATE, parse_pattern};

/// The ways to name a shop.
const SHOPS: [&str; 3] = ["file", "shop", "buy"];

/// What a shop without a file excludes. Each of its flags says so, because clap asks for no argument that is excluded.
const OTHERS: [&str; 3] = ["file", "shop", "init"];

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Files that describe the shops. Several shops, or two builds of one, are judged against each other
    #[arg(value_name = "SHOP", required_unless_present_any = ["init", "shop", "buy"])]
    file: Vec<PathBuf>,
    /// File that describes a shop, named by a flag. May be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    shop: Vec<PathBuf>,
    /// Writes a shop file with every key in comments, to be filled in [default file: shop.toml]
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = "shop.toml",
        conflicts_with_all = SHOPS
    )]
    init: Option<PathBuf>,
    /// Puts the stock on sale and lets one buyer buy. Shows each request, its answer and how the answer was read
    #[arg(long, conflicts_with = "init")]
    dry_run: bool,
    /// Sends requests to a shop that is not on this machine, without a question
    #[arg(long, conflicts_with = "init")]
    yes_this_is_my_shop: bool,
    /// Does not look for the fewest buyers that make a shop sell wrongly, which takes up to a minute
    #[arg(long, conflicts_with_all = ["init", "dry_run"])]
    no_reproduction: bool,
    #[command(flatten, next_help_heading = "Shop without a file")]
    quick: QuickArgs,
    #[command(flatten)]
    trials: ShopTrialsArgs,
}

/// The flags that describe a shop without a file.
#[derive(Debug, Args)]
struct QuickArgs {
    /// Request of a purchase, as a line of curl
    #[arg(long, value_name = "CURL", conflicts_with_all = OTHERS, requires_all = ["reset", "stock", "sold"])]
    buy: Option<String>,
    /// Request that puts the stock on sale, as a line of curl
    #[arg(long, value_name = "CURL", requires = "buy", conflicts_with_all = OTHERS)]
    reset: Option<String>,
    /// Units on sale
    #[arg(long, value_name = "N", requires = "buy", conflicts_with_all = OTHERS)]
    stock: Option<Stock>,
    /// Answer that means sold: 201, or '200 $.success=true'. May be given several times, as the next four. A header or a text of a
    /// page needs a shop file
    #[arg(long, value_name = PATTERN, value_parser = parse_pattern, requires = "buy", conflicts_with_all = OTHERS)]
    sold: Vec<Pattern>,
    /// Answer that means sold out [default: 409 and 410]
    #[arg(long, value_name = PATTERN, value_parser = parse_pattern, requires = "buy", conflicts_with_all = OTHERS)]
    sold_out: Vec<Pattern>,
    /// Answer that means that the buyer has as many units as one buyer may have
    #[arg(long, value_name = PATTERN, value_parser = parse_pattern, requires = "buy", conflicts_with_all = OTHERS)]
    over_limit: Vec<Pattern>,
    /// Answer that means refused, and nothing was bought [default: 429 and 503]
    #[arg(long, value_name = PATTERN, value_parser = parse_pattern, requires = "buy", conflicts_with_all = OTHERS)]
    refused: Vec<Pattern>,
    /// Answer that means queued. The buyer then asks by --outcome
    #[arg(long, value_name = PATTERN, value_parser = parse_pattern, requires = "outcome", conflicts_with_all = OTHERS)]
    queued: Vec<Pattern>,
    /// Request of a queued buyer for the outcome, as a line of curl
    #[arg(long, value_name = "CURL", requires = "queued", conflicts_with_all = OTHERS)]
    outcome: Option<String>,
    /// Number of the order in the answer: $.PATH, header:NAME or cookie:NAME
    #[arg(long, value_name = "SOURCE", requires = "buy", conflicts_with_all = OTHERS)]
    order: Option<String>,
}

const PATTERN: &str = "STATUS [PATH=VALUE]…";

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("writes a shop file, to be filled in", "loadgen check --init shop.toml"),
            ("tries the file with one buyer", "loadgen check --dry-run shop.toml"),
            ("lets 300 buyers buy at the same instant, and tells what was sold", "loadgen check shop.toml"),
            (
                "tries a shop without a file",
                "loadgen check --dry-run --buy 'curl -X POST http://127.0.0.1:8000/buy' --reset 'curl -X POST \
                 http://127.0.0.1:8000/reset' --stock 100 --sold 201",
            ),
        ])
        .environment(&[("NAME", "the value of {{env.NAME}} in a request; it is never shown")])
        .note("docs/your-own-shop.md explains every key of a shop file, and lists the supported options of curl.")
        .exit_status(&[
            (Exit::Passed, "; --dry-run: the answer to the purchase has a meaning"),
            (Exit::Failed, ": a threshold"),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", or buyers got no decision; --dry-run: the answer has no meaning"),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ", or the shop file is wrong"),
            (Exit::Interrupted, ""),
        ])
}

/// Writes a shop file, tries a shop with one buyer, or runs trials.
pub(super) async fn check(args: CheckArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    if let Some(path) = &args.init {
        write_template(path)?;
        output
            .show(&format!("wrote {0}; fill it in, and try it by `loadgen check --dry-run {0}`\n", path.display()))?;
        return Ok(Exit::Passed.into());
    }
    let CheckArgs { file, shop, dry_run, yes_this_is_my_shop, no_reproduction, quick, trials: of_trials, .. } = args;
    let shops = read(&[file, shop].concat(), quick)?;
    if dry_run {
        interrupt.or(confirm(&shops, yes_this_is_my_shop)).await?;
        for shop in &shops {
            interrupt.or(dry_run::run(shop, output)).await?;
        }
        return Ok(Exit::Passed.into());
    }
    let mut settings = of_trials.resolve()?;
    settings.report.reproduction = !no_reproduction;
    interrupt.or(admitted(&settings, &shops, yes_this_is_my_shop)).await?;
    let prepare = async |progress: &Progress| before::prepare(&settings, shops, progress);
    trials::run(&settings.report, prepare, interrupt, output).await
}

/// Makes sure that a check of these shops can begin, and that they are the user's own.
async fn admitted(settings: &CheckSettings, shops: &[Shop], is_confirmed: bool) -> Result<(), Error> {
    before::ensure(settings, shops)?;
    confirm(shops, is_confirmed).await
}

/// Makes sure that shops on other machines are the user's own.
pub(super) async fn confirm(shops: &[Shop], is_confirmed: bool) -> Result<(), Error> {
    for shop in shops {
        strangers::confirm(&shop.strangers(), is_confirmed).await?;
    }
    Ok(())
}

/// Reads the shops that files describe.
pub(super) fn read_files(files: &[PathBuf]) -> Result<Vec<Shop>, Error> {
    files.iter().map(|file| shop::read(file)).collect()
}

/// Reads shops for another command, and prepares trials at them.
pub(super) async fn prepare(
    settings: &CheckSettings,
    files: &[PathBuf],
    is_confirmed: bool,
    progress: &Progress,
) -> Result<Prepared, Error> {
    let shops = read_files(files)?;
    admitted(settings, &shops, is_confirmed).await?;
    before::prepare(settings, shops, progress)
}

/// Reads the shops that files or flags describe.
fn read(files: &[PathBuf], quick: QuickArgs) -> Result<Vec<Shop>, Error> {
    if !files.is_empty() {
        return read_files(files);
    }
    let QuickArgs { buy, reset, stock, sold, sold_out, over_limit, refused, queued, outcome, order } = quick;
    let (Some(buy), Some(reset), Some(stock)) = (buy, reset, stock) else {
        return Err(Error::Usage("no shop is named; name a shop file, or write --buy, --reset and --stock".to_owned()));
    };
    let stock = stock.get();
    let meanings = Meanings { sold, sold_out, over_limit, refused, queued };
    let quick = QuickShop { buy, reset, outcome, stock, meanings, order };
    Ok(vec![shop::read_quick(quick)?])
}

/// Writes the shop file to fill in. A file that is there stays.
fn write_template(path: &Path) -> Result<(), Error> {
    let opened = File::options().write(true).create_new(true).open(path);
    let name = path.display();
    let written = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::Usage(format!(
                "{name} exists, and is not replaced; name another file, as in --init other.toml"
            )));
        }
        Err(error) => Err(error),
        Ok(mut file) => file.write_all(TEMPLATE.as_bytes()),
    };
    written.map_err(Error::system(format!("write {name}")))
}
