//! `/goods/{goods_no}`: looking.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ChosenStrategy, GoodsNoInPath, unknown_goods};
use crate::app::App;
use crate::openapi::answers::{Looking, Stock};
use crate::problem::Problem;
use crate::stock::Goods;

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
}

impl From<Goods> for GoodsView {
    fn from(goods: Goods) -> Self {
        Self {
            goods_no: goods.goods_no.get(),
            sale: goods.sale,
            stock_initial: goods.stock_initial,
            on_hand: goods.on_hand,
        }
    }
}

/// `GET`: what is left, as the strategy looks that is named, or the default.
///
/// # Errors
/// 404 for an unknown SKU or strategy, 422 for a malformed number, 503 when the database is away, or the lock was not had.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/goods/{goods_no}",
    operation_id = "showGoods",
    tag = "goods",
    summary = "Look at the stock of a SKU",
    description = "Reads as the strategy does: `zk-rwlock` under its read lock, so that it waits for whoever sells.",
    params(GoodsNoInPath, ChosenStrategy),
    responses(Stock, Looking)
)]
pub async fn show(
    State(app): State<Arc<App>>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
) -> Result<Json<GoodsView>, Problem> {
    let entry = ChosenStrategy::of(query)?.entry_or(app.config.strategy, &app.config)?;
    let goods = app.look(entry, goods_no).await?;
    goods.map(|goods| Json(goods.into())).ok_or_else(|| unknown_goods(goods_no))
}
