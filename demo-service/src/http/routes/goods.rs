//! `/goods/{goods_no}`: looking.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::answers::{Looking, Stock};
use super::{ChosenStrategy, GoodsNoInPath};
use crate::app::App;
use crate::failure::Failure;
use crate::sale::Goods;

/// A SKU as a client sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Goods)]
pub struct GoodsView {
    /// The number of the SKU.
    #[schema(minimum = 1)]
    goods_no: i64,
    /// Which sale this is; every reset starts the next.
    #[schema(minimum = 1)]
    sale: i64,
    /// Units at the start of the sale.
    #[schema(minimum = 0)]
    stock_initial: i64,
    /// Units left.
    on_hand: i64,
    /// The family of strategies that may write the sale; null until the first purchase claims it.
    #[schema(required)]
    guard: Option<String>,
    /// The strategy of the purchases that name none; null as long as the guard is.
    #[schema(required)]
    strategy: Option<String>,
}

impl From<Goods> for GoodsView {
    fn from(goods: Goods) -> Self {
        let (guard, strategy) = goods.guard.map(|guard| (guard.family, guard.strategy)).unzip();
        Self {
            goods_no: goods.goods_no.get(),
            sale: goods.sale,
            stock_initial: goods.stock_initial,
            on_hand: goods.on_hand,
            guard,
            strategy,
        }
    }
}

/// `GET`: looks at the stock with the named strategy, or with the sale's own.
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
    responses(Stock, Looking)
)]
pub async fn show(
    State(app): State<Arc<App>>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
) -> Result<Json<GoodsView>, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    app.look(goods_no, named).await.map(|goods| Json(goods.into()))
}
