//! `/goods/{goods_no}/reservations` and `/reservations`: buying in two steps, in sales of `pg-reserve`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use super::super::problem::IDEMPOTENT_REPLAYED;
use super::answers::{
    Cancelling, Confirming, GivenBack, LookingAtReservation, Placed, ReservationMade, ReservationShown, Reserving,
};
use super::object::Object;
use super::orders::{RequiredKey, placed, quantity};
use super::views::ReservationView;
use super::{BuyerHeader, GoodsNoInPath, number_in_path, whole};
use crate::app::{App, Slot};
use crate::failure::{self, Failure};
use crate::sale::{Cart, GoodsNo, Purchase};
use crate::strategy::ReservationAnswer;

/// The `{reservation_id}` of a path. It is spelt like a SKU number, in digits only.
#[derive(Debug, Clone, Copy)]
pub struct ReservationIdInPath(GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for ReservationIdInPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let number = text.ok().and_then(|Path(text)| text.parse().ok());
        number.map(Self).ok_or_else(|| {
            Failure::invalid_input(format!(
                "reservation_id must be a whole number from 1 to {}, in digits only",
                i64::MAX
            ))
        })
    }
}

impl IntoParams for ReservationIdInPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![number_in_path("reservation_id", "The number of the reservation, in digits only.")]
    }
}

/// The body of a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReservation {
    /// How many units; all of them are held, or none.
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807i64, example = 1)]
    #[serde(deserialize_with = "whole::deserialize")]
    quantity: i64,
    /// The buyer, unless the header `Buyer-Id` names it. A sale with a limit per buyer needs it.
    #[schema(pattern = "^[!-~]{1,64}$")]
    buyer: Option<String>,
}

/// Holds some units of one SKU (`POST /goods/{goods_no}/reservations`).
///
/// # Errors
/// 400 without a key, 404 for an unknown SKU, 409 if sold out, 422 for a malformed request or a sale of another family, 503 if the
/// reservation could not be made.
///
/// # Cancel safety
/// Dropped, the units may be held or not.
#[utoipa::path(
    post,
    path = "/goods/{goods_no}/reservations",
    operation_id = "reserveUnits",
    tag = "reservations",
    summary = "Hold some units of one SKU until they are paid",
    description = "All of them or none, until `expires_at`. Safe to repeat under the same `Idempotency-Key`. Only sales of `pg-reserve` \
                   sell in two steps.",
    params(GoodsNoInPath, RequiredKey, BuyerHeader),
    request_body = NewReservation,
    responses(ReservationMade, Reserving)
)]
pub async fn reserve(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    GoodsNoInPath(goods_no): GoodsNoInPath,
    RequiredKey(key): RequiredKey,
    header: BuyerHeader,
    body: Result<Json<Object<NewReservation>>, JsonRejection>,
) -> Result<Response, Failure> {
    let Json(Object(new)) = body?;
    let cart = Cart::of_one(goods_no, quantity(new.quantity)?);
    let buyer = header.or_member(new.buyer)?;
    let answer = app.reserve(Purchase { cart, key: Some(key), buyer }, slot).await?;
    let location = format!("/reservations/{}", answer.reservation.reservation_id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], shown(answer)).into_response())
}

/// Turns a reservation into an order (`POST /reservations/{reservation_id}/confirm`).
///
/// # Errors
/// 404 if there is no such reservation, 409 if it was cancelled, 410 if it is too late, 503 if the order could not be made.
///
/// # Cancel safety
/// Dropped, a confirmation that has begun runs to its end.
#[utoipa::path(
    post,
    path = "/reservations/{reservation_id}/confirm",
    operation_id = "confirmReservation",
    tag = "reservations",
    summary = "Pay a reservation, which makes the order",
    description = "Safe to repeat: the answer is the same order. The clock of the database decides whether it is in time.",
    params(ReservationIdInPath),
    responses(Placed, Confirming)
)]
pub async fn confirm(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    ReservationIdInPath(reservation_id): ReservationIdInPath,
) -> Result<Response, Failure> {
    app.confirm(reservation_id.get(), slot).await.map(placed)
}

/// Gives the units of a reservation back (`POST /reservations/{reservation_id}/cancel`).
///
/// # Errors
/// 404 if there is no such reservation, 409 if it was confirmed, 410 if it has expired, 503 if the database is not available.
///
/// # Cancel safety
/// Dropped, a cancellation that has begun runs to its end.
#[utoipa::path(
    post,
    path = "/reservations/{reservation_id}/cancel",
    operation_id = "cancelReservation",
    tag = "reservations",
    summary = "Give the units of a reservation back",
    description = "Safe to repeat.",
    params(ReservationIdInPath),
    responses(GivenBack, Cancelling)
)]
pub async fn cancel(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Slot>,
    ReservationIdInPath(reservation_id): ReservationIdInPath,
) -> Result<Response, Failure> {
    app.cancel(reservation_id.get(), slot).await.map(shown)
}

/// Looks at a reservation (`GET /reservations/{reservation_id}`).
///
/// # Errors
/// 404 if there is no such reservation, 503 if the database is not available.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/reservations/{reservation_id}",
    operation_id = "showReservation",
    tag = "reservations",
    summary = "Look at a reservation",
    description = "There for ever. Past `expires_at` it is shown as expired.",
    params(ReservationIdInPath),
    responses(ReservationShown, LookingAtReservation)
)]
pub async fn show(
    State(app): State<Arc<App>>,
    ReservationIdInPath(reservation_id): ReservationIdInPath,
) -> Result<Json<ReservationView>, Failure> {
    let reservation = app.reservation(reservation_id.get()).await?;
    let unknown = || Failure::new(&failure::UNKNOWN_RESERVATION, format!("there is no reservation {reservation_id}"));
    reservation.map(|reservation| Json(reservation.into())).ok_or_else(unknown)
}

fn shown(ReservationAnswer { reservation, is_replay }: ReservationAnswer) -> Response {
    let mut response = Json(ReservationView::from(reservation)).into_response();
    if is_replay {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
