//! `/tickets`: what became of a purchase that was answered with a ticket.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::answers::{BoughtOne, LookingAtTicket, Queued};
use super::number_in_path;
use super::orders::replayed_if;
use super::views::{Bought, TicketView};
use crate::app::App;
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Ticket};
use crate::store::TicketLook;

/// Seconds after which it is worth while to ask again.
const ASK_AGAIN_S: &str = "1";

/// The `{ticket}` of a path. It is spelt like a SKU number, in digits only.
#[derive(Debug, Clone, Copy)]
pub struct TicketInPath(GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for TicketInPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let ticket = text.ok().and_then(|Path(text)| text.parse().ok());
        ticket.map(Self).ok_or_else(|| {
            Failure::invalid_input(format!("ticket must be a whole number from 1 to {}, in digits only", i64::MAX))
        })
    }
}

impl IntoParams for TicketInPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![number_in_path("ticket", "The number of the ticket, in digits only.")]
    }
}

/// Asks what became of a purchase (`GET /tickets/{ticket}`).
///
/// # Errors
/// What the purchase was refused for. 404 if there is no such ticket, 503 if the database is not available.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/tickets/{ticket}",
    operation_id = "showTicket",
    tag = "orders",
    summary = "Ask what became of a purchase",
    description = "Answers as the purchase would have answered, once it is decided: with the order, or with the refusal.",
    params(TicketInPath),
    responses(BoughtOne, Queued, LookingAtTicket)
)]
pub async fn show(State(app): State<Arc<App>>, TicketInPath(number): TicketInPath) -> Result<Response, Failure> {
    match app.ticket(number.get()).await? {
        Some(TicketLook::Waiting(ticket)) => Ok(waiting(ticket)),
        Some(TicketLook::Sold { order, is_replay }) => Ok(replayed_if(is_replay, Json(Bought::from(order)))),
        Some(TicketLook::Refused(failure)) => Err(failure),
        None => Err(Failure::new(&failure::UNKNOWN_TICKET, format!("there is no ticket {number}"))),
    }
}

/// Answers with a ticket that waits.
pub fn waiting(ticket: Ticket) -> Response {
    let headers = [(LOCATION, format!("/tickets/{}", ticket.ticket)), (RETRY_AFTER, ASK_AGAIN_S.to_owned())];
    (StatusCode::ACCEPTED, headers, Json(TicketView::from(ticket))).into_response()
}
