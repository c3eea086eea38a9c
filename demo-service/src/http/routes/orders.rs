//! `/goods/{goods_no}/orders` and `/orders`: buying with an idempotency key, so that a client can safely repeat a
//! request.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, FromRequestParts, Path, Query, State};
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

use super::super::problem::IDEMPOTENT_REPLAYED;
use super::answers::{BuyingCart, BuyingUnderKey, LookingAtOrder, Placed, Queued, Shown};
use super::object::Object;
use super::tickets::waiting;
use super::views::OrderView;
use super::{BuyerHeader, ChosenStrategy, GoodsNoInPath, number_in_path, whole};
use crate::app::{App, PurchaseAnswer, Slot};
use crate::failure::{self, Failure};
use crate::sale::{Cart, GoodsNo, IdempotencyKey, InvalidKey, Line, Purchase, Quantity, Receipt};
use crate::store::PromiseLook;
use crate::strategy::entry::Entry;

/// The request header with the key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The `Idempotency-Key` of a request, which must have one.
#[derive(Debug)]
pub struct RequiredKey(pub IdempotencyKey);

impl<S: Send + Sync> FromRequestParts<S> for RequiredKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        key_of(&parts.headers).map(Self)
    }
}

/// Returns the key in the headers of a request.
///
/// # Errors
/// 400 without a key, 422 for several or a malformed one.
pub fn key_of(headers: &HeaderMap) -> Result<IdempotencyKey, Failure> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Err(key_missing()) };
    if values.next().is_some() {
        return Err(Failure::invalid_input("there is more than one Idempotency-Key"));
    }
    let text = value.to_str().unwrap_or_default();
    // In the draft of the header, the key is a structured string: the text between its quotes.
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    text.parse().map_err(|invalid: InvalidKey| invalid.into())
}

fn key_missing() -> Failure {
    let detail = "send an Idempotency-Key, for instance a random UUID, and the same one when asking again";
    Failure::new(&failure::KEY_MISSING, detail)
}

impl IntoParams for RequiredKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "What the client calls this purchase, for instance a random UUID. Asked again under the same \
                           key, the service sells nothing more and repeats its answer. Quotes around it do not count.";
        let key = Parameter::builder()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some(IdempotencyKey::PATTERN))));
        vec![key.build()]
    }
}

/// The `{order_id}` of a path. It is spelt like a SKU number, in digits only.
#[derive(Debug, Clone, Copy)]
pub struct OrderIdInPath(GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for OrderIdInPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let order_id = text.ok().and_then(|Path(text)| text.parse().ok());
        order_id.map(Self).ok_or_else(|| {
            Failure::invalid_input(format!("order_id must be a whole number from 1 to {}, in digits only", i64::MAX))
        })
    }
}

impl IntoParams for OrderIdInPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![number_in_path("order_id", "The number of the order, in digits only.")]
    }
}

/// The body of a purchase of one SKU.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOrder {
    /// How many units; all of them are sold, or none.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807i64, example = 1)]
    #[serde(deserialize_with = "whole::deserialize")]
    quantity: i64,
    /// The buyer, unless the header `Buyer-Id` names it. A sale with a limit per buyer needs it.
    #[schema(pattern = "^[!-~]{1,64}$")]
    buyer: Option<String>,
}

/// The body of a purchase of several SKUs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCart {
    /// What is bought together, each SKU at most once.
    #[schema(min_items = 1, max_items = 20, value_type = Vec<NewLine>)]
    lines: Vec<Object<NewLine>>,
    /// The buyer, unless the header `Buyer-Id` names it. A sale with a limit per buyer needs it.
    #[schema(pattern = "^[!-~]{1,64}$")]
    buyer: Option<String>,
}

/// One SKU of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLine {
    /// The number of the SKU.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807i64, example = 1)]
    #[serde(deserialize_with = "whole::deserialize")]
    goods_no: i64,
    /// How many units.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807i64, example = 1)]
    #[serde(deserialize_with = "whole::deserialize")]
    quantity: i64,
}

/// Buys some units of one SKU (`POST /goods/{goods_no}/orders`).
///
/// # Errors
/// 400 without a key, 404 for an unknown SKU or strategy, 409 if sold out, 422 for a malformed request or a strategy
/// of another family, 503 if the purchase could not be made.
///
/// # Cancel safety
/// Dropped, a purchase that has its lock runs to its end.
#[utoipa::path(
    post,
    path = "/goods/{goods_no}/orders",
    operation_id = "placeOrder",
    tag = "orders",
    summary = "Buy some units of one SKU",
    description = "All of them or none. Safe to repeat under the same `Idempotency-Key`.",
    params(GoodsNoInPath, ChosenStrategy, RequiredKey, BuyerHeader),
    request_body = NewOrder,
    responses(Placed, Queued, BuyingUnderKey)
)]
pub async fn buy(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
    RequiredKey(key): RequiredKey,
    header: BuyerHeader,
    body: Result<Json<Object<NewOrder>>, JsonRejection>,
) -> Result<Response, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    let Json(Object(new)) = body?;
    let cart = Cart::of_one(goods_no, quantity(new.quantity)?);
    let buyer = header.or_member(new.buyer)?;
    place(&app, slot, named, Purchase { cart, key: Some(key), buyer }).await
}

/// Buys some units of several SKUs, all or nothing (`POST /orders`).
///
/// # Errors
/// As [`buy`].
///
/// # Cancel safety
/// As [`buy`].
#[utoipa::path(
    post,
    path = "/orders",
    operation_id = "placeCart",
    tag = "orders",
    summary = "Buy a cart of SKUs, all or nothing",
    description = "Safe to repeat under the same `Idempotency-Key`. Not every strategy sells several SKUs together; see `carts` in `GET /strategies`.",
    params(ChosenStrategy, RequiredKey, BuyerHeader),
    request_body = NewCart,
    responses(Placed, BuyingCart)
)]
pub async fn buy_cart(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    query: Result<Query<ChosenStrategy>, QueryRejection>,
    RequiredKey(key): RequiredKey,
    header: BuyerHeader,
    body: Result<Json<Object<NewCart>>, JsonRejection>,
) -> Result<Response, Failure> {
    let named = ChosenStrategy::of(query, &app.offer)?;
    let Json(Object(new)) = body?;
    let lines: Result<Vec<_>, Failure> = new.lines.into_iter().map(line).collect();
    let buyer = header.or_member(new.buyer)?;
    place(&app, slot, named, Purchase { cart: Cart::new(lines?)?, key: Some(key), buyer }).await
}

/// Looks at an order (`GET /orders/{order_id}`).
///
/// # Errors
/// 404 if there is no such order, 503 if the database is not available.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/orders/{order_id}",
    operation_id = "showOrder",
    tag = "orders",
    summary = "Look at an order",
    description = "There once it is committed, and for ever.",
    params(OrderIdInPath),
    responses(Shown, LookingAtOrder)
)]
pub async fn show(
    State(app): State<Arc<App>>,
    OrderIdInPath(order_id): OrderIdInPath,
) -> Result<Json<OrderView>, Failure> {
    let detail = match app.order(order_id.get()).await? {
        PromiseLook::Written(order) => return Ok(Json(order.into())),
        PromiseLook::Refused(reason) => format!("order {order_id} was promised, and is refused: {}", reason.title),
        PromiseLook::Undecided => format!("there is no order {order_id}; it may be under way yet"),
    };
    Err(Failure::new(&failure::UNKNOWN_ORDER, detail))
}

pub(super) fn quantity(units: i64) -> Result<Quantity, Failure> {
    Quantity::new(units).ok_or_else(|| Failure::invalid_input("quantity must be at least 1"))
}

fn line(Object(new): Object<NewLine>) -> Result<Line, Failure> {
    Ok(Line { goods_no: GoodsNo::try_from(new.goods_no)?, quantity: quantity(new.quantity)? })
}

async fn place(
    app: &Arc<App>,
    slot: Slot,
    named: Option<&'static Entry>,
    purchase: Purchase,
) -> Result<Response, Failure> {
    app.purchase(purchase, named, slot).await.map(placed)
}

/// Answers with an order, new or replayed, or with a ticket.
pub fn placed(PurchaseAnswer { receipt, is_replay }: PurchaseAnswer) -> Response {
    let response = match receipt {
        Receipt::Order(order) | Receipt::Promised { order, .. } => {
            let location = format!("/orders/{}", order.order_id);
            (StatusCode::CREATED, [(LOCATION, location)], Json(OrderView::from(order))).into_response()
        }
        Receipt::Ticket(ticket) => waiting(ticket),
    };
    replayed_if(is_replay, response)
}

/// Makes an answer, which says if an earlier request with the same key was answered like that.
pub fn replayed_if(is_replay: bool, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if is_replay {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod fuzzed;
