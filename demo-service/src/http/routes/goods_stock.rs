//! `/goods-stock/{goods_no}`: buying.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};

use super::answers::{BoughtOne, Buying, Queued};
use super::tickets::waiting;
use super::views::Bought;
use super::{BuyerHeader, ChosenStrategy, GoodsNoInPath};
use crate::app::{App, PurchaseAnswer, Slot};
use crate::failure::Failure;
use crate::sale::{Purchase, Quantity, Receipt};

/// Buys one unit (`GET`).
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
    params(GoodsNoInPath, ChosenStrategy, BuyerHeader),
    responses(BoughtOne, Queued, Buying)
)]
pub async fn buy_one(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
    BuyerHeader(buyer): BuyerHeader,
) -> Result<Response, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    let PurchaseAnswer { receipt, .. } =
        app.purchase(Purchase::of_one(goods_no, Quantity::ONE, buyer), named, slot).await?;
    Ok(match receipt {
        Receipt::Order(order) | Receipt::Promised { order, .. } => Json(Bought::from(order)).into_response(),
        Receipt::Ticket(ticket) => waiting(ticket),
    })
}

/// Refuses any other method. It refuses `HEAD`, too, because `HEAD` must be safe and buying is not.
pub async fn refuse_method() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET")], "this resource answers GET only").into_response()
}
