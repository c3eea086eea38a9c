//! The `audit` command: judges all sales in a database from the database alone, also old sales and sales of other programs.

use std::env;
use std::process::ExitCode;

use clap::Args;
use program::{Epilogue, Interrupt};

use crate::audit::history::HistoryAudit;
use crate::config::values::parse_url;
use crate::error::{Error, Exit};
use crate::lab::postgres::Database;
use crate::lab::service::Service;
use crate::output::Output;
use crate::report::audit::{Findings, StrategyHistory, table};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Postgres server and database to audit
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
    /// SKU to audit [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) goods_no: Option<i64>,
    /// Sale to audit, by its number among the sales of the SKU [default: all]
    #[arg(long, value_name = "N", requires = "goods_no")]
    pub(crate) sale: Option<i64>,
    /// Base URLs of instances whose history of critical sections is checked, too. Needs ADMIN_TOKEN in the environment
    #[arg(long, value_name = "URL,…", value_delimiter = ',', value_parser = parse_url)]
    pub(crate) target: Vec<String>,
    /// Prints the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("audits every sale", "loadgen audit --database-url postgres://localhost/seckill"),
            (
                "audits one SKU, and the locks of a running instance",
                "loadgen audit --goods-no 5 --target http://a:8080",
            ),
        ])
        .environment(&[super::ADMIN_TOKEN])
        .exit_status(&[
            (Exit::Passed, ": the orders of every sale agree with its stock, and every lock excluded"),
            (Exit::PromiseBroken, ": orders disagree, or a lock did not exclude; controls count"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
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
