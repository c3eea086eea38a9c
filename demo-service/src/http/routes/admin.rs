//! `/admin`: administration. It exists only if there is an `ADMIN_TOKEN`.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum_extra::TypedHeader;
use axum_extra::headers::Authorization;
use axum_extra::headers::authorization::Bearer;
use axum_extra::typed_header::TypedHeaderRejection;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use super::GoodsNoInPath;
use super::answers::{Reset, Restarting, Reviewing};
use super::object::Object;
use super::views::GoodsView;
use super::whole::{self, Whole};
use crate::app::App;
use crate::failure::{self, Failure};
use crate::sale::{NewStock, Quantity, Stock};
use crate::telemetry::clock;
use crate::telemetry::history::Page;

/// Refuses a request without the token of the administrator, before its body is read.
///
/// # Errors
/// 401 without the token.
///
/// # Cancel safety
/// Dropped, the operation is dropped.
pub async fn authorize(
    State(app): State<Arc<App>>,
    bearer: Result<TypedHeader<Authorization<Bearer>>, TypedHeaderRejection>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let is_administrator = bearer.is_ok_and(|TypedHeader(bearer)| {
        app.config.admin_token.as_ref().is_some_and(|token| token.matches(bearer.token().as_bytes()))
    });
    if !is_administrator {
        let detail = "send the service's ADMIN_TOKEN as authorization: Bearer TOKEN";
        return Err(Failure::new(&failure::UNAUTHORIZED, detail));
    }
    Ok(next.run(request).await)
}

/// The body of a reset.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSale {
    /// Units that the sale starts with; `remaining` for those that the current sale has left.
    #[schema(schema_with = stock_schema)]
    #[serde(deserialize_with = "new_stock")]
    stock: NewStock,
    /// The strategy of the sale, whose family guards it. Left out or empty, it is the default of the service.
    strategy: Option<String>,
    /// Most units of the sale that one buyer may have. Left out or null, there is no such limit. Every purchase must then say who
    /// buys. What a buyer has of an earlier sale does not count.
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "whole::optional")]
    per_buyer: Option<i64>,
}

/// The word for the units that the current sale has left.
const REMAINING: &str = "remaining";

fn stock_schema() -> Schema {
    let units = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(i64::MAX));
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([REMAINING]));
    Schema::OneOf(OneOfBuilder::new().item(units).item(word).examples([100]).build())
}

fn new_stock<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NewStock, D::Error> {
    deserializer.deserialize_any(StockOrWord)
}

/// Reads a whole number that is not negative, or the word [`REMAINING`].
struct StockOrWord;

impl StockOrWord {
    fn units<E: Error>(self, units: Result<i64, E>) -> Result<NewStock, E> {
        Stock::new(units?).map(NewStock::Units).ok_or_else(|| E::custom("stock must not be negative"))
    }
}

impl Visitor<'_> for StockOrWord {
    type Value = NewStock;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 64 bits that is not negative, or \"remaining\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<NewStock, E> {
        self.units(Whole.visit_i64(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<NewStock, E> {
        self.units(Whole.visit_u64(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<NewStock, E> {
        self.units(Whole.visit_f64(number))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<NewStock, E> {
        if word == REMAINING { Ok(NewStock::Remaining) } else { Err(E::invalid_value(Unexpected::Str(word), &self)) }
    }
}

/// Starts the next sale of a SKU, which is created if it is new (`PUT`).
///
/// # Errors
/// 404 for an unknown strategy, or for an unknown SKU with the stock `remaining`; 4xx for a malformed body, or for more units than
/// the strategy can sell; 503 if the database is not available or did not answer the commit.
///
/// # Cancel safety
/// Dropped, the sale may have started or not.
#[utoipa::path(
    put,
    path = "/admin/goods/{goods_no}",
    operation_id = "startSale",
    tag = "administration",
    summary = "Start the next sale of a SKU",
    description = "The SKU is created if it is new. The family of the strategy guards the sale. With the stock `remaining`, \
                   the next sale starts with the units that are left. That also resets the fence, which a new ZooKeeper ensemble \
                   could not reach. The strategy `pg-units` sells at most 1000000 units in a sale. Orders of earlier sales stay. The \
                   database keeps a ledger of what each sale began with and \
                   what was left of it.",
    params(GoodsNoInPath),
    request_body = NewSale,
    responses(Reset, Restarting),
    security(("admin_token" = []))
)]
pub async fn start_sale(
    State(app): State<Arc<App>>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    body: Result<Json<Object<NewSale>>, JsonRejection>,
) -> Result<Json<GoodsView>, Failure> {
    let Json(Object(NewSale { stock, strategy, per_buyer })) = body?;
    let entry = strategy.filter(|name| !name.is_empty()).map(|name| app.offer.find(&name)).transpose()?;
    let limit = |units| Quantity::new(units).ok_or_else(|| Failure::invalid_input("per_buyer must be at least 1"));
    let per_buyer = per_buyer.map(limit).transpose()?;
    app.start_sale(goods_no, stock, entry, per_buyer).await.map(|goods| Json(goods.into()))
}

/// The query of a look at the history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// The number of the first record: 0, or `next` of the previous page.
    #[serde(default)]
    #[param(format = "uint64", minimum = 0, maximum = 18_446_744_073_709_551_615u64)]
    from: u64,
    /// Most records of the page. More than 10000 count as 10000.
    #[serde(default = "page_max")]
    #[param(format = "uint64", minimum = 0, maximum = 18_446_744_073_709_551_615u64)]
    limit: u64,
}

/// Upper bound of the records of one page, which is a few MiB.
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
    /// The clock of the times. Times of two instances are comparable only if both name the same clock. Null if the
    /// system does not identify its clock.
    #[schema(required)]
    clock: Option<&'static str>,
    #[serde(flatten)]
    page: Page,
}

/// Returns which purchase was in which critical section, and when, on this instance (`GET /admin/history`).
///
/// # Errors
/// 422 for a malformed query.
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
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<HistoryView>, Failure> {
    let Query(query) = query?;
    let limit = usize::try_from(query.limit).unwrap_or(PAGE_MAX).min(PAGE_MAX);
    let instance = app.config.instance.clone();
    let page = app.shared.history.page(query.from, limit);
    Ok(Json(HistoryView { instance, clock: clock::id(), page }))
}
