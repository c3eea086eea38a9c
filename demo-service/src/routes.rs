//! The handlers: extract, call, status. One file a resource.

pub mod admin;
pub mod goods;
pub mod goods_stock;
pub mod health;
pub mod metrics;
pub mod strategies;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::{Failure, Progress};
use crate::problem::Problem;
use crate::stock::{GoodsNo, InvalidGoodsNo};

/// The `{goods_no}` of a path.
#[derive(Debug, Clone, Copy)]
pub struct GoodsNoInPath(pub GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for GoodsNoInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| InvalidGoodsNo)?;
        Ok(Self(text.parse()?))
    }
}

/// The answer to a database error outside of a deduction. Logged here, as nothing else sees it.
fn database_problem(error: sqlx::Error) -> Problem {
    let failure = Failure::of_database(error, Progress::Open);
    tracing::warn!(%failure, "a request failed");
    failure.into()
}

fn unknown_goods(goods_no: GoodsNo) -> Problem {
    Problem::unknown_goods(format!("there is no SKU {goods_no}"))
}
