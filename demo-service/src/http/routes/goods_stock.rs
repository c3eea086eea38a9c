//! `/goods-stock/{goods_no}`: buying.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::answers::{BoughtOne, Buying};
use super::{ChosenStrategy, GoodsNoInPath};
use crate::app::{App, Slot};
use crate::failure::Failure;
use crate::sale::{Purchase, Quantity};

/// The answer to a purchase of one unit.
#[derive(Debug, Serialize, ToSchema)]
pub struct Bought {
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// The sale that the unit was taken from.
    #[schema(minimum = 1)]
    sale: i64,
    /// The number of the order.
    #[schema(minimum = 1)]
    order_id: i64,
    /// How many units.
    #[schema(minimum = 1)]
    quantity: i64,
    /// Units left, as the strategy saw them.
    #[schema(required)]
    remaining: Option<i64>,
    /// The strategy that decided the purchase.
    strategy: String,
    /// The instance of the service that made it.
    instance: String,
    /// The fencing token of the lock, for a strategy with a lock in ZooKeeper.
    #[schema(required)]
    token: Option<i64>,
}

/// `GET`: buys one unit.
///
/// # Errors
/// 404 for an unknown SKU or strategy, 409 if sold out, 422 for a malformed request or a strategy of another family,
/// 503 if the purchase could not be made.
///
/// # Cancel safety
/// Dropped, a purchase that has its lock runs to its end.
#[utoipa::path(
    get,
    path = "/goods-stock/{goods_no}",
    operation_id = "buyOne",
    tag = "orders",
    summary = "Buy one unit",
    description = "For load plans: a GET that **buys**. It is neither safe nor idempotent, so do not ask again without \
                   looking. `HEAD` is refused.",
    params(GoodsNoInPath, ChosenStrategy),
    responses(BoughtOne, Buying)
)]
pub async fn buy_one(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
) -> Result<Json<Bought>, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    let order = app.purchase(Purchase::of_one(goods_no, Quantity::ONE), named, slot).await?.order;
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

/// Refuses any other method. It refuses `HEAD`, too, because `HEAD` must be safe and buying is not.
pub async fn refuse_method() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET")], "this resource answers GET only").into_response()
}
