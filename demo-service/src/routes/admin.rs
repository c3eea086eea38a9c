//! `/admin`: the administrator's part. It exists only where there is an `ADMIN_TOKEN`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequestParts, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::goods::GoodsView;
use super::{GoodsNoInPath, database_problem, whole};
use crate::app::App;
use crate::clock;
use crate::history::Page;
use crate::openapi::answers::{Reset, Restarting, Reviewing};
use crate::problem::Problem;
use crate::stock::Stock;

/// Proof that the request bears the token.
#[derive(Debug)]
pub struct Administrator;

impl FromRequestParts<Arc<App>> for Administrator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        match (header.and_then(bearer), &app.config.admin_token) {
            (Some(candidate), Some(token)) if token.matches(candidate) => Ok(Self),
            _ => Err(Problem::unauthorized()),
        }
    }
}

/// The token of `Bearer TOKEN`; the scheme may be written in any case (RFC 9110, section 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = header.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// The body of a reset.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSale {
    /// Units that the sale starts with.
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807i64, example = 100)]
    #[serde(deserialize_with = "whole::deserialize")]
    stock: i64,
}

/// `PUT`: starts the next sale of a SKU, which is created if it is new.
///
/// # Errors
/// 401 without the token, 4xx for a body that is not `{"stock":100}`, 503 when the database is away.
///
/// # Cancel safety
/// Dropped, the sale may have started or not.
#[utoipa::path(
    put,
    path = "/admin/goods/{goods_no}",
    operation_id = "startSale",
    tag = "administration",
    summary = "Start the next sale of a SKU",
    description = "The SKU is created if it is new. Orders of earlier sales stay, and so does what each sale began with and \
                   what was left of it: the database keeps a ledger.",
    params(GoodsNoInPath),
    request_body = NewSale,
    responses(Reset, Restarting),
    security(("admin_token" = []))
)]
pub async fn start_sale(
    State(app): State<Arc<App>>,
    _: Administrator,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    body: Result<Json<NewSale>, JsonRejection>,
) -> Result<Json<GoodsView>, Problem> {
    let Json(new) = body?;
    let stock = Stock::new(new.stock).ok_or_else(|| Problem::invalid_input("stock must not be negative"))?;
    let goods = app.store.start_sale(goods_no, stock).await.map_err(database_problem)?;
    Ok(Json(goods.into()))
}

/// The query of a look at the history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// The number of the first record that is wanted: 0, or `next` of the page before.
    #[serde(default)]
    #[param(format = "uint64", minimum = 0, maximum = 18_446_744_073_709_551_615u64)]
    from: u64,
    /// The most records that are wanted; of a larger number, 10000 are had.
    #[serde(default = "page_max")]
    #[param(format = "uint64", minimum = 0, maximum = 18_446_744_073_709_551_615u64)]
    limit: u64,
}

/// The most records of one page: a few MiB.
const PAGE_MAX: usize = 10_000;

fn page_max() -> u64 {
    PAGE_MAX as u64
}

/// A part of the history of this instance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = History)]
pub struct HistoryView {
    /// The name of the instance.
    instance: String,
    /// The clock that the times of the records were taken by. Those of instances that answer the same here can be compared,
    /// and no others; null where the system does not tell its clock from others.
    #[schema(required)]
    clock: Option<&'static str>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/history`: who was in which critical section when, on this instance.
///
/// # Errors
/// 401 without the token, 422 for a malformed query.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/admin/history",
    operation_id = "showHistory",
    tag = "administration",
    summary = "Read who was in which critical section when",
    description = "On this instance, the latest ones only.",
    params(HistoryQuery),
    responses((status = 200, description = "A page of the history.", body = HistoryView), Reviewing),
    security(("admin_token" = []))
)]
pub async fn history(
    State(app): State<Arc<App>>,
    _: Administrator,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<HistoryView>, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::invalid_input(rejection.body_text()))?;
    let limit = usize::try_from(query.limit).unwrap_or(PAGE_MAX).min(PAGE_MAX);
    let (instance, page) = (app.config.instance.clone(), app.history.page(query.from, limit));
    Ok(Json(HistoryView { instance, clock: clock::id(), page }))
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn only_the_bearer_scheme_bears_a_token() {
        assert_eq!(bearer(b"Bearer sesame"), Some(&b"sesame"[..]));
        assert_eq!(bearer(b"bearer  sesame "), Some(&b"sesame"[..]));
        for header in ["", "Bearer", "sesame", "Basic sesame", "Bearersesame"] {
            assert_eq!(bearer(header.as_bytes()), None, "{header:?}");
        }
    }
}
