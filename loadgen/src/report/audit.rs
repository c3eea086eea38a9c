//! What the ledger of a database and the history of the instances say, as a table and as JSON.

use serde::Serialize;
use stats::figures::{ABSENT, count, maybe_count, signed};

use crate::audit::history::HistoryAudit;
use crate::audit::ledger::SaleAudit;
use crate::report::terminal::framed;

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

/// What a database says of its sales.
pub(crate) fn table(findings: &Findings) -> String {
    let header = [
        "SKU",
        "sale",
        "started",
        "strategies",
        "stock",
        "left",
        "orders",
        "sold",
        "oversold",
        "lost\nupdates",
        "sold\ntwice",
        "out of\nsequence",
        "tokens out\nof order",
    ];
    let known = |figure: Option<i64>| figure.map_or_else(|| ABSENT.to_owned(), signed);
    let row = |sale: &SaleAudit| {
        vec![
            sale.goods_no.to_string(),
            sale.sale.to_string(),
            sale.started_at.clone().unwrap_or_else(|| ABSENT.to_owned()),
            sale.strategies.join(", "),
            known(sale.stock_initial),
            known(sale.stock_final),
            count(sale.orders),
            signed(sale.sold),
            known(sale.oversold),
            known(sale.lost_updates),
            count(sale.double_sales),
            maybe_count(sale.out_of_sequence),
            count(sale.tokens_out_of_order),
        ]
    };
    let table = framed(&header.map(str::to_owned), findings.sales.iter().map(row).collect(), 4);
    let mut text = format!("{table}\n");
    if findings.sales.iter().any(|sale| sale.lost_updates.is_some_and(|lost| lost < 0)) {
        text += "lost updates below zero: the deduction of an order was overwritten\n";
    }
    for StrategyHistory { strategy, audit } in &findings.histories {
        text += &format!(
            "history of {strategy}: {} sections, overlaps {}, at most {} inside, token regressions {}, dropped {}\n",
            count(audit.sections),
            maybe_count(audit.overlaps),
            count(audit.inside_max),
            maybe_count(audit.token_regressions),
            count(audit.missing)
        );
    }
    let wrong: Vec<String> = findings
        .sales
        .iter()
        .filter(|sale| sale.is_wrong())
        .map(|sale| format!("sale {} of SKU {}", sale.sale, sale.goods_no))
        .chain(
            findings
                .histories
                .iter()
                .filter(|history| history.audit.is_violated())
                .map(|history| format!("the history of {}", history.strategy)),
        )
        .collect();
    let verdict = match (wrong.is_empty(), findings.sales.len()) {
        (true, 0) => "there is no sale to audit".to_owned(),
        (true, sales) => format!("nothing wrong in {sales} sales"),
        (false, _) => format!("wrong: {}", wrong.join(", ")),
    };
    text + &format!("verdict: {verdict}\n")
}
