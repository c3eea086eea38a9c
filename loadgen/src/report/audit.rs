//! The audit of a database and of the instances' history, as a table and as JSON.

use serde::Serialize;
use stats::figures::{ABSENT, count, maybe_count, signed, things};

use crate::audit::history::HistoryAudit;
use crate::audit::ledger::SaleAudit;
use crate::report::terminal::framed;

/// The findings.
#[derive(Debug, Serialize)]
pub(crate) struct AuditFindings {
    /// Every sale, by SKU and number.
    pub(crate) sales: Vec<SaleAudit>,
    /// The numbers of orders without lines. They may be of any sale.
    pub(crate) orders_without_lines: Vec<i64>,
    /// The critical sections of every strategy in the history of the instances.
    pub(crate) histories: Vec<StrategyHistory>,
    /// What could not be checked, a line each.
    pub(crate) unchecked: Vec<String>,
    /// Whether instances were asked for the history of their locks.
    pub(crate) were_instances_asked: bool,
}

/// The findings about one strategy in the history.
#[derive(Debug, Serialize)]
pub(crate) struct StrategyHistory {
    /// Its name.
    pub(crate) strategy: String,
    #[serde(flatten)]
    pub(crate) audit: HistoryAudit,
}

impl AuditFindings {
    /// Tells whether anything is wrong for certain.
    pub(crate) fn is_wrong(&self) -> bool {
        let are_locks_wrong = self.histories.iter().any(|history| history.audit.is_violated());
        self.sales.iter().any(SaleAudit::is_wrong) || !self.orders_without_lines.is_empty() || are_locks_wrong
    }

    /// Tells whether there was something to check, and all of it was checked.
    pub(crate) fn is_checked(&self) -> bool {
        !self.sales.is_empty() && self.unchecked.is_empty()
    }
}

/// Renders the findings as a table with a verdict.
pub(crate) fn table(findings: &AuditFindings) -> String {
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
        "overtaken\nin a batch",
        "mis-\nplaced",
        "books",
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
            maybe_count(sale.tokens_out_of_order),
            maybe_count(sale.overtaken_in_batch),
            maybe_count(sale.misplaced),
            word(sale).to_owned(),
        ]
    };
    let table = framed(&header.map(str::to_owned), findings.sales.iter().map(row).collect(), 4);
    let mut text = format!("{table}\n");
    text += &remarks(&findings.sales);
    for order_id in &findings.orders_without_lines {
        text += &format!("order {order_id} has no line\n");
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
    for gap in &findings.unchecked {
        text += &format!("not checked: {gap}\n");
    }
    if !findings.were_instances_asked {
        text += "not checked without --target: whether the locks excluded, and the order of arrival in batches\n";
    }
    text + &format!("verdict: {}\n", verdict(findings))
}

/// Explains what the figures of the sales mean.
fn remarks(sales: &[SaleAudit]) -> String {
    let mut text = String::new();
    if sales.iter().any(|sale| sale.lost_updates.is_some_and(|lost| lost < 0)) {
        text += "lost updates below zero: the deduction of an order was overwritten\n";
    }
    for (sale, why) in sales.iter().flat_map(|sale| sale.misplaced_why.iter().map(move |why| (sale, why))) {
        text += &format!("sale {} of SKU {}: {why}\n", sale.sale, sale.goods_no);
    }
    for sale in sales.iter().filter(|sale| sale.over_limit.unwrap_or(0) > 0) {
        let buyers = things(count(sale.over_limit.unwrap_or(0)), "buyer");
        text += &format!("sale {} of SKU {}: more units than one buyer may have: {buyers}\n", sale.sale, sale.goods_no);
    }
    text
}

/// Judges the books of a sale in a word.
fn word(sale: &SaleAudit) -> &'static str {
    match (sale.is_wrong(), sale.unchecked.is_empty()) {
        (true, _) => "WRONG",
        (false, false) => "unchecked",
        (false, true) => "balance",
    }
}

fn verdict(findings: &AuditFindings) -> String {
    let sales = |is: &dyn Fn(&&SaleAudit) -> bool| -> Vec<String> {
        let those = findings.sales.iter().filter(is);
        those.map(|sale| format!("sale {} of SKU {}", sale.sale, sale.goods_no)).collect()
    };
    let mut wrong = sales(&|sale| sale.is_wrong());
    wrong.extend(findings.orders_without_lines.iter().map(|order_id| format!("order {order_id}")));
    let histories = findings.histories.iter().filter(|history| history.audit.is_violated());
    wrong.extend(histories.map(|history| format!("the history of {}", history.strategy)));
    let unchecked = sales(&|sale| !sale.unchecked.is_empty());
    match findings.sales.len() {
        _ if !wrong.is_empty() => format!("wrong: {}", wrong.join(", ")),
        0 => "there is no sale to audit".to_owned(),
        _ if !unchecked.is_empty() => {
            format!("nothing wrong was found, and not everything was checked: {}", unchecked.join(", "))
        }
        _ if !findings.is_checked() => "nothing wrong was found, and not everything was checked".to_owned(),
        sales => format!("nothing wrong in {}", things(sales, "sale")),
    }
}
