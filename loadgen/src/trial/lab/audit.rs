//! The audit of one trial. It checks the orders by the stock, by the answers to buyers, and by the history of the locks.
//! Missing evidence is counted.

use buyers::tally::Told;

use crate::audit::history::Section;
use crate::audit::orders::{OrderRow, foreign_order};
use crate::audit::reservations::ReservationFacts;
use crate::audit::trial::{Audit, LabFacts};
use crate::audit::unchecked::{Gap, Unchecked, without_section};
use crate::error::Error;
use crate::lab::books::Books;
use crate::lab::deployment::Deployment;
use crate::lab::history::HistorySince;
use crate::lab::service::Goods;
use crate::lab::strategy::Strategy;

/// The findings of the audit of a trial, what it could not check, and what it looked at.
pub(super) struct Audited {
    pub(super) audit: Audit,
    pub(super) unchecked: Unchecked,
    /// The facts of each SKU.
    pub(super) facts: Vec<LabFacts>,
}

/// Audits every SKU by itself, and adds the findings up. Another channel has taken `withdrawn` units of each.
pub(super) async fn audit(
    deployment: &Deployment,
    strategy: &Strategy,
    (opened, withdrawn): (&[Goods], i64),
    told: &[Told],
    history: &HistorySince,
) -> Result<Audited, Error> {
    let mut books = deployment.database.books(opened, &strategy.name).await?;
    let arrivals = history.arrivals(&strategy.name);
    let mut audits = Vec::with_capacity(opened.len());
    let mut all_facts = Vec::with_capacity(opened.len());
    let mut gaps = vec![of_history(&books, strategy, opened, history)];
    for (index, ((opened, closed), told)) in opened.iter().zip(&books.goods).zip(told).enumerate() {
        if closed.sale != opened.sale {
            let advice = "nobody else may sell this SKU meanwhile";
            return Err(Error::Reset(format!("sale {} was replaced by sale {}; {advice}", opened.sale, closed.sale)));
        }
        let mut orders = books.orders.remove(&opened.goods_no).unwrap_or_default();
        ensure_own(&orders, strategy)?;
        orders.iter_mut().for_each(|order| order.arrives_as(&arrivals));
        let facts = LabFacts {
            stock_initial: opened.stock_initial - withdrawn,
            stock_final: closed.on_hand,
            permits: strategy.permits,
            per_buyer: opened.per_buyer,
            orders,
            rows: books.rows.get(&opened.goods_no).copied(),
            confirmed: told.confirmed.clone(),
            contradicted: told.contradicted,
            over_limit: told.over_limit.clone(),
            reservations: ReservationFacts {
                told: told.reservations.clone(),
                rows: books.reservations.remove(&opened.goods_no),
            },
            sold_out: told.answers.sold_out,
            refused: told.answers.refused,
            unanswered: told.unanswered.clone(),
        };
        let (mut audit, unchecked) = Audit::of(&facts);
        all_facts.push(facts);
        // Orders without lines belong to no SKU.
        audit.orders_without_lines = if index == 0 { books.orders_without_lines } else { 0 };
        let is_noted = books.ledger.get(&opened.goods_no) == Some(&opened.stock_initial);
        gaps.extend([unchecked, [(Gap::Beginning, u64::from(!is_noted))].into_iter().collect()]);
        audits.push(audit);
    }
    Ok(Audited { audit: Audit::sum(audits), unchecked: Unchecked::sum(&gaps), facts: all_facts })
}

/// Counts what the history lacks. Only a strategy with permits needs all of it.
fn of_history(books: &Books, strategy: &Strategy, opened: &[Goods], history: &HistorySince) -> Unchecked {
    if history.unread > 0 {
        return [(Gap::History, history.unread)].into_iter().collect();
    }
    let is_lock = |count: u64| if strategy.permits.is_some() { count } else { 0 };
    let sections: &[Section] = history.sections.get(&strategy.name).map_or(&[], Vec::as_slice);
    let of_opened = || opened.iter().filter_map(|goods| books.orders.get(&goods.goods_no));
    let of_strangers = of_opened().flatten().filter(|order| !history.names.contains(&*order.instance)).count();
    let unproved = |orders: &Vec<OrderRow>| {
        let orders: Vec<&OrderRow> = orders.iter().collect();
        without_section(&orders, sections, strategy.permits)
    };
    let without_section: u64 = of_opened().map(unproved).sum();
    let gaps = [
        (Gap::Section, without_section),
        (Gap::Instance, of_strangers as u64),
        (Gap::Record, is_lock(history.missing)),
        (Gap::Identity, history.strangers),
        (Gap::Clock, is_lock(u64::from(!history.one_clock) * history.instances)),
    ];
    gaps.into_iter().collect()
}

/// Makes sure that every order is one that the buyers of this trial asked for.
fn ensure_own(orders: &[OrderRow], strategy: &Strategy) -> Result<(), Error> {
    match foreign_order(orders, &strategy.name) {
        None => Ok(()),
        Some(order) => Err(Error::ForeignOrder {
            asked: strategy.name.clone(),
            order_id: order.order_id,
            quantity: order.quantity,
            found: order.strategy.to_string(),
        }),
    }
}
