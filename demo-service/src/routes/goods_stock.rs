//! `/goods-stock/{goods_no}`: buying.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use serde::Serialize;

use super::{ChosenStrategy, GoodsNoInPath, answer_problem};
use crate::app::{App, Slot};
use crate::problem::Problem;
use crate::purchase::Purchase;
use crate::stock::{Outcome, Quantity};

/// The answer to a purchase.
#[derive(Debug, Serialize)]
pub struct Bought {
    goods_no: i64,
    sale: i64,
    order_id: i64,
    quantity: i64,
    remaining: Option<i64>,
    strategy: String,
    instance: String,
    token: Option<i64>,
}

/// `GET`: buys one unit.
///
/// # Errors
/// 404 for an unknown SKU or strategy, 409 when sold out, 422 for a malformed request, 503 when it could not be done.
///
/// # Cancel safety
/// Dropped, a purchase that has its lock goes on to its end.
pub async fn buy_one(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
) -> Result<Json<Bought>, Problem> {
    let entry = ChosenStrategy::of(query)?.entry_or(app.config.strategy)?;
    let answer = app.deduct(entry, Purchase::of_one(goods_no, Quantity::ONE), slot).await?;
    match answer.outcome {
        Outcome::Sold(order) => {
            let line = order.lines[0];
            Ok(Json(Bought {
                goods_no: line.goods_no,
                sale: line.sale,
                order_id: order.order_id,
                quantity: line.quantity,
                remaining: line.remaining,
                strategy: order.strategy,
                instance: order.instance,
                token: line.token.map(|token| token.number),
            }))
        }
        other => Err(answer_problem(other)),
    }
}

/// `HEAD`: refused, as it must be safe and buying is not.
pub async fn refuse_head() -> Problem {
    Problem::method_not_allowed("GET")
}
