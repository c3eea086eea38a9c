//! The `audit` command: what a database says of all its sales, by themselves, whoever made them and however long ago.

use std::env;

use loadgen::history::HistoryAudit;
use loadgen::ledger::SaleAudit;
use serde::Serialize;

use crate::cli::AuditArgs;
use crate::database::Database;
use crate::error::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::report::terminal;
use crate::service::Service;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// Every sale, by SKU and number.
    pub(crate) sales: Vec<SaleAudit>,
    /// The critical sections of every strategy that the instances' history has.
    pub(crate) histories: Vec<StrategyHistory>,
}

/// What the history says of one strategy.
#[derive(Debug, Serialize)]
pub(crate) struct StrategyHistory {
    /// Its name.
    pub(crate) strategy: String,
    #[serde(flatten)]
    pub(crate) audit: HistoryAudit,
}

impl Findings {
    /// Whether anything is wrong for certain.
    pub(crate) fn is_wrong(&self) -> bool {
        self.sales.iter().any(SaleAudit::is_wrong) || self.histories.iter().any(|history| history.audit.is_violated())
    }
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
pub(crate) async fn audit(args: &AuditArgs, interrupt: &Interrupt, output: &mut Output) -> Result<u8, Error> {
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
        output.print(&terminal::audit(&findings));
    }
    Ok(if findings.is_wrong() { Exit::PromiseBroken } else { Exit::Held }.code())
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
