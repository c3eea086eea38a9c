//! `/goods-stock/{goods_no}`: buying.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use serde::{Deserialize, Serialize};

use super::{GoodsNoInPath, unknown_goods};
use crate::app::{App, Slot};
use crate::problem::Problem;
use crate::stock::{GoodsNo, Outcome, Quantity};
use crate::strategy::Deduction;
use crate::strategy::registry::{self, Entry};

/// The query of a purchase. An unknown parameter is refused: a misspelt `strategy` must not buy by another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuyQuery {
    strategy: Option<String>,
}

/// The answer to a purchase.
#[derive(Debug, Serialize)]
pub struct Bought {
    goods_no: i64,
    sale: i64,
    order_id: i64,
    quantity: i64,
    remaining: i64,
    strategy: &'static str,
    instance: String,
    token: Option<i64>,
}

/// `GET`: buys one unit.
///
/// # Errors
/// 404 for an unknown SKU or strategy, 409 when sold out, 422 for a malformed request, 503 when it could not be done.
///
/// # Cancel safety
/// Dropped, the purchase goes on to its end.
pub async fn buy_one(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<BuyQuery>, QueryRejection>,
) -> Result<Json<Bought>, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::invalid_input(rejection.body_text()))?;
    // Load plans that leave their variable for the strategy empty mean the default.
    let named = query.strategy.as_deref().filter(|name| !name.is_empty());
    let entry = named.map_or(Ok(app.config.strategy), chosen)?;
    let quantity = Quantity::ONE;
    let outcome = app.deduct(entry, Deduction { goods_no, quantity }, slot).await?;
    let sold = match outcome {
        Outcome::Sold(sold) => sold,
        Outcome::SoldOut => return Err(sold_out(goods_no)),
        Outcome::UnknownGoods => return Err(unknown_goods(goods_no)),
        Outcome::SaleRestarted => return Err(Problem::sale_restarted()),
    };
    Ok(Json(Bought {
        goods_no: goods_no.get(),
        sale: sold.sale,
        order_id: sold.order_id,
        quantity: quantity.get(),
        remaining: sold.remaining,
        strategy: entry.name,
        instance: app.config.instance.clone(),
        token: sold.token,
    }))
}

/// `HEAD`: refused, as it must be safe and buying is not.
pub async fn refuse_head() -> Problem {
    Problem::method_not_allowed("GET")
}

fn chosen(name: &str) -> Result<&'static Entry, Problem> {
    registry::find(name).ok_or_else(|| {
        let known: Vec<_> = registry::names().collect();
        Problem::unknown_strategy(format!("there is no strategy {name:?}; choose one of {}", known.join(", ")))
    })
}

fn sold_out(goods_no: GoodsNo) -> Problem {
    Problem::sold_out(format!("nothing is left of SKU {goods_no}"))
}
