//! The `audit` command: judges all sales in a database by the database alone, even old sales and those of other programs.

use std::env;
use std::process::ExitCode;

use clap::Args;
use program::{Epilogue, Interrupt};

use crate::audit::balance::Holders;
use crate::audit::history::HistoryAudit;
use crate::audit::layout::StockRows;
use crate::audit::ledger::{SaleAudit, SaleRow};
use crate::audit::orders::OrderRow;
use crate::audit::unchecked::{Gap, Unchecked, without_section};
use crate::config::values::parse_url;
use crate::error::{Error, Exit};
use crate::lab::books::SaleAudits;
use crate::lab::history::HistorySince;
use crate::lab::postgres::Database;
use crate::lab::service::Service;
use crate::lab::strategy::Strategy;
use crate::output::Output;
use crate::report::audit::{AuditFindings, StrategyHistory, table};
use crate::report::json;

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
    /// Base URLs of instances whose history of critical sections is also checked. Needs ADMIN_TOKEN in the environment
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
            (Exit::Passed, ": the orders of every sale agree with its stock, and with --target every lock excluded"),
            (Exit::PromiseBroken, ": orders disagree, or a lock did not exclude; controls count"),
            (Exit::Setup, ", or something could not be checked"),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Audits, and returns the exit code of the findings.
pub(crate) async fn audit(args: &AuditArgs, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let findings = interrupt.or(look(args)).await?;
    if let (Some(goods_no), true) = (args.goods_no, findings.sales.is_empty()) {
        let sale = args.sale.map_or_else(String::new, |sale| format!("sale {sale} of "));
        return Err(Error::Usage(format!("the database has no {sale}SKU {goods_no}")));
    }
    if args.json {
        output.print(&json::render(&findings)?)?;
    } else {
        output.show(&table(&findings))?;
    }
    let exit = match (findings.is_wrong(), findings.is_checked()) {
        (true, _) => Exit::PromiseBroken,
        (false, false) => Exit::Setup,
        (false, true) => Exit::Passed,
    };
    Ok(exit.into())
}

async fn look(args: &AuditArgs) -> Result<AuditFindings, Error> {
    let database = Database::connect(&args.database_url).await?;
    // An order that is written after this has no section in it, and counts as unchecked.
    let told = told(args).await?;
    let audit = |sale: &SaleRow, mut orders: Vec<OrderRow>, rows: Option<StockRows>| {
        let (holders, unknown) =
            told.as_ref().map_or_else(|| (Holders::Unknown, Unchecked::default()), |told| told.of(&mut orders));
        SaleAudit::of(sale, holders, &orders, rows.as_ref(), unknown)
    };
    let SaleAudits { sales, orders_without_lines } = database.sale_audits(args.goods_no, args.sale, audit).await?;
    let (histories, gaps) = told.map_or_else(Default::default, InstancesTold::histories);
    let gaps = Unchecked::sum(sales.iter().map(|sale| &sale.gaps).chain([&gaps]));
    Ok(AuditFindings {
        sales,
        orders_without_lines,
        histories,
        unchecked: gaps.words(),
        were_instances_asked: !args.target.is_empty(),
    })
}

/// The history and the names of the instances of `--target`.
struct InstancesTold {
    strategies: Vec<Strategy>,
    history: HistorySince,
}

/// Asks the instances that were named.
async fn told(args: &AuditArgs) -> Result<Option<InstancesTold>, Error> {
    if args.target.is_empty() {
        return Ok(None);
    }
    let token = env::var("ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Error::Usage("--target needs ADMIN_TOKEN in the environment".to_owned()))?;
    let service = Service::new(args.target.clone(), token)?;
    service.ensure_distinct().await?;
    let strategies = service.strategies().await?;
    let history = service.history_since(&service.history_start()).await?;
    if !history.one_clock && !history.sections.is_empty() {
        return Err(Error::Usage(
            "the instances of --target have different clocks, so their times cannot be compared; name those of one host"
                .to_owned(),
        ));
    }
    Ok(Some(InstancesTold { strategies, history }))
}

impl InstancesTold {
    /// Fills in the arrivals of the buyers of a sale. Returns the number of holders that may write at once, and what the
    /// history lacks.
    fn of(&self, orders: &mut [OrderRow]) -> (Holders, Unchecked) {
        let mut gaps = Vec::new();
        let mut holders = Holders::One;
        for strategy in &self.strategies {
            let own: Vec<&OrderRow> = orders.iter().filter(|order| *order.strategy == *strategy.name).collect();
            if own.is_empty() {
                continue;
            }
            if Holders::of(strategy.permits) == Holders::Several {
                holders = Holders::Several;
            }
            let sections = self.history.sections.get(&strategy.name).map_or(&[][..], Vec::as_slice);
            gaps.push((Gap::Section, without_section(&own, sections, strategy.permits)));
            let arrivals = self.history.arrivals(&strategy.name);
            let own = orders.iter_mut().filter(|order| *order.strategy == *strategy.name);
            own.for_each(|order| order.arrives_as(&arrivals));
        }
        let is_known = |order: &OrderRow| self.strategies.iter().any(|strategy| *strategy.name == *order.strategy);
        let holders = if orders.iter().all(is_known) { holders } else { Holders::Unknown };
        (holders, gaps.into_iter().collect())
    }

    /// Returns the findings of each strategy, and what the history lacks.
    fn histories(mut self) -> (Vec<StrategyHistory>, Unchecked) {
        let HistorySince { missing, strangers, .. } = self.history;
        let histories = self.strategies.into_iter().filter_map(|strategy| {
            let sections = self.history.sections.remove(&strategy.name)?;
            let audit = HistoryAudit::of(&sections, strategy.permits, missing);
            Some(StrategyHistory { strategy: strategy.name, audit })
        });
        (histories.collect(), [(Gap::Record, missing), (Gap::Identity, strangers)].into_iter().collect())
    }
}
