//! `/goods/{goods_no}`: looking.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};

use super::answers::{GoodsAnswer, Looking};
use super::views::GoodsView;
use super::{ChosenStrategy, GoodsNoInPath};
use crate::app::App;
use crate::failure::Failure;

/// Looks at the stock with the named strategy, or with the sale's own (`GET`).
///
/// # Errors
/// 404 for an unknown SKU or strategy, 422 for a malformed number or a strategy of another family, 503 if the
/// database is not available or the lock was not acquired in time.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/goods/{goods_no}",
    operation_id = "showGoods",
    tag = "goods",
    summary = "Look at the stock of a SKU",
    description = "Reads as the strategy does: `zk-rwlock` under its read lock, so that it waits for purchases under way.",
    params(GoodsNoInPath, ChosenStrategy),
    responses(GoodsAnswer, Looking)
)]
pub async fn show(
    State(app): State<Arc<App>>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
) -> Result<Json<GoodsView>, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    app.look(goods_no, named).await.map(|goods| Json(goods.into()))
}
