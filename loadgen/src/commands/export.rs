//! The `export` command: the same load for another engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction, Args};
use program::{Epilogue, FromSystem as _, Interrupt};

use crate::commands::before;
use crate::config::load::{LoadArgs, Resolved, refuse_comparison_settings};
use crate::config::service;
use crate::config::settings::ExportSettings;
use crate::config::values::{one_program, parse_url, program_parser};
use crate::error::{Error, Exit};
use crate::export::shop::{ShopFiles, ShopLoad};
use crate::export::{Engine, render, shop};
use crate::lab::source::{Program, ServiceSettings, Source};
use crate::lab::strategy::select;
use crate::output::Output;

/// Flags of `compare` about servers, trials and reports, which no exported load has.
const OF_COMPARE: [(&str, ArgAction); 13] = [
    ("database-url", ArgAction::Set),
    ("zookeeper", ArgAction::Set),
    ("trials", ArgAction::Set),
    ("no-warm-up", ArgAction::SetTrue),
    ("seed", ArgAction::Set),
    ("dropped-max", ArgAction::Set),
    ("errors-max", ArgAction::Set),
    ("request-log", ArgAction::Set),
    ("no-request-log", ArgAction::SetTrue),
    ("wide", ArgAction::SetTrue),
    ("jmeter-summary", ArgAction::SetTrue),
    ("goose-report", ArgAction::Set),
    ("quiet", ArgAction::SetTrue),
];

/// Makes an argument that clap refuses as unknown, with a reason.
fn refused((flag, action): (&'static str, ArgAction)) -> Arg {
    let reason = "an exported load has no servers, trials and reports; `loadgen compare` has this flag";
    let parser = UnknownArgumentValueParser::suggest(reason);
    Arg::new(flag).long(flag).hide(true).action(action).value_name("VALUE").value_parser(parser)
}

#[derive(Debug, Args)]
#[command(args(OF_COMPARE.map(refused)))]
pub(crate) struct ExportArgs {
    /// Load tool to write for
    #[arg(value_enum)]
    engine: Engine,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Strategies, or `all`; a run has one of them, by default the first. A plan may name them instead
    #[arg(long, value_name = "STRATEGY,…", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    /// Program of the service, which says what strategies and arguments there are [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", value_parser = program_parser(), help_heading = "Service")]
    demo_service: Vec<Program>,
    /// Base URLs of the instances to load [default: http://127.0.0.1:8080]
    #[arg(
        long,
        value_name = "URL,…",
        value_delimiter = ',',
        value_parser = parse_url,
        conflicts_with_all = service::FLAGS,
        help_heading = "Service"
    )]
    target: Option<Vec<String>>,
    #[command(flatten, next_help_heading = "Shop of your own")]
    of_shop: ShopExportArgs,
    #[command(flatten, next_help_heading = "Load")]
    load: LoadArgs,
}

/// Flags about our service, which another shop does not have.
const OF_SERVICE: [&str; 8] =
    ["strategies", "demo_service", "target", "stock", "goods", "goods_no", "lock_wait", "thresholds"];

/// The flags of a shop that a file describes.
#[derive(Debug, Args)]
struct ShopExportArgs {
    /// File that describes a shop, as for `loadgen check`. The load is then purchases there, by --users, --ramp-up, --duration
    /// and --rate
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = OF_SERVICE,
        conflicts_with_all = service::FLAGS
    )]
    shop: Option<PathBuf>,
    /// Common start of all machines, as 2026-11-27T12:00:00Z [default: each run names it by START_AT]
    #[arg(long, value_name = "INSTANT", requires = "shop", value_parser = parse_instant)]
    start_at: Option<String>,
}

/// Checks an instant. The engines read it, so it stays a text.
fn parse_instant(text: &str) -> Result<String, String> {
    match humantime::parse_rfc3339(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("write an instant of UTC such as 2026-11-27T12:00:00Z".to_owned()),
    }
}

/// What is exported, for which tool, and into which file.
pub(crate) struct Export {
    pub(crate) engine: Engine,
    pub(crate) settings: ExportSettings,
    /// The service that is asked for its strategies and arguments.
    service: ServiceSettings,
    out: Option<PathBuf>,
}

impl ExportArgs {
    /// Fills in the plan file, the preset and the defaults.
    pub(crate) fn resolve(self) -> Result<Export, Error> {
        let Resolved { load, service, .. } = self.load.resolve(self.strategies)?;
        refuse_comparison_settings(&load, "an exported load", "buys in one step")?;
        let service = ServiceSettings { programs: one_program(self.demo_service, "export")?, ..service };
        let source = self.target.map_or_else(|| Source::Start(service.clone()), Source::Target);
        Ok(Export { engine: self.engine, settings: ExportSettings { source, load }, service, out: self.out })
    }
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("writes the JMeter plan of the preset jmeter", "loadgen export jmeter --preset jmeter --strategies zk-mutex --out sale.jmx"),
            (
                "writes 50 requests per second for k6, with a threshold",
                "loadgen export k6 --rate 50 --stock 1000 --strategies zk-mutex --threshold 'zk-* p99<250ms' --out sale.js",
            ),
            ("writes purchases at your own shop for Locust", "loadgen export locust --shop shop.toml --users 300 --out locustfile.py"),
        ])
        .note(super::TIME)
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, ""), (Exit::Interrupted, "")])
}

/// Writes the load.
pub(super) async fn export(args: ExportArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    if args.of_shop.shop.is_some() {
        return export_shop(args, output);
    }
    let Export { engine, mut settings, service, out } = args.resolve()?;
    let offered = interrupt.or(before::listed(&service)).await?;
    if let Some(named) = settings.load.strategies.as_deref().filter(|named| !named.is_empty()) {
        let chosen = select(&offered, Some(named))?;
        settings.load.strategies = Some(chosen.into_iter().map(|strategy| strategy.name).collect());
    }
    // The exported file notes a rule about strategies that it does not sell by. A rule about no known strategy is a mistake.
    for threshold in &settings.load.thresholds {
        let users = threshold.parts().users.unwrap_or(0);
        if !offered.iter().any(|strategy| threshold.is_about(&strategy.name, users)) {
            return Err(before::idle(
                threshold,
                &settings.load.users,
                offered.iter().map(|strategy| strategy.name.as_str()),
            ));
        }
    }
    let text = render(engine, &settings, out.as_deref())?;
    write(&text, out.as_deref(), output)?;
    Ok(Exit::Passed.into())
}

/// Writes the purchases at a shop. The manifest for k6's operator is written beside the script.
fn export_shop(args: ExportArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let ExportArgs { engine, out, of_shop: ShopExportArgs { shop, start_at }, load, .. } = args;
    let Resolved { load, .. } = load.resolve(None)?;
    refuse_comparison_settings(&load, "an exported load", "pays as the file of the shop says")?;
    if load.per_buyer.is_some() {
        let text = "per-buyer is for our service: the file of a shop has the limit per buyer; write it there";
        return Err(Error::Usage(text.to_owned()));
    }
    let [users] = load.users[..] else {
        return Err(Error::Usage(
            "an export for a shop has one number of users; write one, as in --users 300".to_owned(),
        ));
    };
    let load = ShopLoad { shop: crate::shop::read(&shop.unwrap_or_default())?, users, model: load.model, start_at };
    let ShopFiles { script, manifest } = shop::render(engine, &load, out.as_deref())?;
    if let (Some(manifest), Some(out)) = (manifest, &out) {
        let beside = out.with_extension("yaml");
        if beside == *out {
            return Err(Error::Usage(format!(
                "the manifest for k6-operator is written to {}; give the script another name, as in --out sale.js",
                beside.display()
            )));
        }
        write(&manifest, Some(&beside), output)?;
    }
    write(&script, out.as_deref(), output)?;
    Ok(Exit::Passed.into())
}

/// Writes a text into a file, or to standard output.
fn write(text: &str, out: Option<&Path>, output: &mut Output) -> Result<(), Error> {
    match out {
        Some(path) => fs::write(path, text).map_err(Error::system(format!("write {}", path.display()))),
        None => Ok(output.print(text)?),
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{CommandFactory as _, Parser as _};

    use crate::commands::Cli;

    #[test]
    fn export_takes_or_refuses_every_flag_of_compare() {
        let cli = Cli::command();
        let flags = |name: &str| {
            let args = cli.find_subcommand(name).unwrap().get_arguments().filter(|arg| !arg.is_hide_set());
            args.filter_map(clap::Arg::get_long).collect::<Vec<_>>()
        };
        let of_compare = flags("compare");
        let of_export = flags("export");
        for flag in of_compare.iter().filter(|flag| !of_export.contains(flag)) {
            let refused = Cli::try_parse_from(["loadgen", "export", "k6", &format!("--{flag}"), "1"]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::UnknownArgument, "--{flag}");
            assert!(refused.to_string().contains("`loadgen compare` has this flag"), "{refused}");
        }
        assert!(of_compare.len() > of_export.len());
    }
}
