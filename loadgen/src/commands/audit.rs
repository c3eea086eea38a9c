//! The `audit` command: what a database says of all its sales, by themselves, whoever made them and however long ago.

use std::env;
use std::process::ExitCode;

use clap::Args;
use program::Interrupt;

use crate::config::values::parse_url;
use crate::error::{Error, Exit};
use crate::judge::history::HistoryAudit;
use crate::lab::postgres::Database;
use crate::lab::service::Service;
use crate::output::Output;
use crate::report::audit::{Findings, StrategyHistory, table};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The database
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
    /// Only the sales of this SKU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) goods_no: Option<i64>,
    /// Only this sale of the SKU
    #[arg(long, value_name = "N", requires = "goods_no")]
    pub(crate) sale: Option<i64>,
    /// Base URLs of the instances, whose history of critical sections is checked too; needs ADMIN_TOKEN in the environment
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_url)]
    pub(crate) target: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Audits, and returns the exit code that the findings give.
///
/// # Errors
///
/// [`Error::Usage`] when something is missing, [`Error::PostgresUnreachable`], [`Error::Postgres`] and [`Error::Service`]
/// when the database or an instance does not answer.
///
/// # Cancel safety
///
/// Cancelling loses nothing.
pub(crate) async fn audit(args: &AuditArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let findings = interrupt.or(look(args)).await?;
    if let (Some(goods_no), true) = (args.goods_no, findings.sales.is_empty()) {
        let sale = args.sale.map_or_else(String::new, |sale| format!("sale {sale} of "));
        return Err(Error::Usage(format!("the database has no {sale}SKU {goods_no}")));
    }
    if args.json {
        let json = serde_json::to_string_pretty(&findings)
            .map_err(|error| Error::Generator(format!("the findings cannot be written as JSON: {error}")))?;
        output.print(&format!("{json}\n"));
    } else {
        output.print(&table(&findings));
    }
    Ok(if findings.is_wrong() { Exit::PromiseBroken } else { Exit::Passed }.into())
}

async fn look(args: &AuditArgs) -> Result<Findings, Error> {
    let database = Database::connect(&args.database_url).await?;
    let sales = database.sale_audits(args.goods_no, args.sale).await?;
    Ok(Findings { sales, histories: histories(args).await? })
}

/// Checks the history of the instances that were named.
async fn histories(args: &AuditArgs) -> Result<Vec<StrategyHistory>, Error> {
    if args.target.is_empty() {
        return Ok(Vec::new());
    }
    let token = env::var("ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Error::Usage("--target needs ADMIN_TOKEN in the environment".to_owned()))?;
    let service = Service::new(args.target.clone(), token)?;
    let strategies = service.strategies().await?;
    let mut since = service.history_since(&service.history_begin()).await?;
    if !since.one_clock && !since.sections.is_empty() {
        return Err(Error::Usage(
            "the instances of --target have different clocks, so their times cannot be compared; name those of one host"
                .to_owned(),
        ));
    }
    let histories = strategies.into_iter().filter_map(|strategy| {
        let sections = since.sections.remove(&strategy.name)?;
        let audit = HistoryAudit::of(&sections, strategy.permits, since.missing);
        Some(StrategyHistory { strategy: strategy.name, audit })
    });
    Ok(histories.collect())
}
