//! The answers that several operations share, most of them refusals. An answer may have links to operations that a
//! listener does not have, and a status that it never sends. [`complete`](super::super::openapi::complete) removes them
//! from the document of that listener.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::json;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::header::Header;
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{IntoResponses, ToSchema};

use super::super::problem::{PROBLEM_JSON, PROBLEM_SCHEMA};
use super::views::{Bought, GoodsView, OrderView, ReservationView, TicketView};
use crate::failure::{self, Kind};

/// Where an answer about a SKU has the number of the SKU.
const GOODS_NO: &str = "$response.body#/goods_no";

/// Returns a reference to a header that the document describes once.
pub fn header(name: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{name}")))
}

type Responses = BTreeMap<String, RefOr<Response>>;

/// What can happen to any request.
const ANY: &[&Kind] = &[&failure::INVALID_HOST, &failure::REQUEST_TIMEOUT, &failure::INTERNAL];

/// What can happen to requests that take a slot. Their body is received first.
const LIMITED: &[&Kind] =
    &[&failure::OVERLOADED, &failure::MALFORMED_BODY, &failure::OVERSIZED_BODY, &failure::BODY_TIMEOUT];

/// What can happen to requests that need the database.
const STORED: &[&Kind] = &[&failure::DATABASE_UNAVAILABLE, &failure::LOCK_TIMEOUT, &failure::OVERTAKEN];

/// What can happen to requests that name a SKU, and a strategy with its lock.
const LOCKED: &[&Kind] = &[
    &failure::INVALID_INPUT,
    &failure::UNKNOWN_GOODS,
    &failure::UNKNOWN_STRATEGY,
    &failure::GUARD_MISMATCH,
    &failure::LOCK_TIMEOUT,
    &failure::HOLD_LOST,
    &failure::LOCK_SERVICE_UNAVAILABLE,
    &failure::SHUTTING_DOWN,
];

/// What can happen to purchases, beside the sets above.
const BOUGHT: &[&Kind] = &[
    &failure::SOLD_OUT,
    &failure::RESERVATION_EXPIRED,
    &failure::BUYER_UNCLEAR,
    &failure::OVER_LIMIT,
    &failure::RATE_LIMITED,
    &failure::SALE_RESTARTED,
    &failure::FENCED,
    &failure::OVERTAKEN,
    &failure::OUTCOME_UNKNOWN,
];

/// What can happen to requests that end a reservation.
const ENDING: &[&Kind] = &[
    &failure::INVALID_INPUT,
    &failure::UNKNOWN_RESERVATION,
    &failure::RESERVATION_EXPIRED,
    &failure::SHUTTING_DOWN,
    &failure::OUTCOME_UNKNOWN,
];

/// What can be wrong with a body.
const BODY: &[&Kind] = &[
    &failure::MALFORMED_BODY,
    &failure::OVERSIZED_BODY,
    &failure::MEDIA_TYPE,
    &failure::INVALID_BODY,
    &failure::INVALID_INPUT,
];

/// What can be wrong with an idempotency key.
const KEY: &[&Kind] = &[&failure::KEY_MISSING, &failure::KEY_REUSED];

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($kinds:expr),+;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> Responses {
                    refusals(&[$($kinds),+])
                }
            }
        )*

        /// Every kind that some operation documents.
        #[cfg(test)]
        const DOCUMENTED: &[&[&[&Kind]]] = &[$(&[$($kinds),+]),*];
    };
}

refusals! {
    /// Refusals of operations that need no server and have no limit.
    Alive: ANY;
    /// Refusals of operations that need no server and have a limit.
    Overloaded: ANY, LIMITED;
    /// Refusals of the probe that asks the servers.
    Ready: ANY, &[&failure::OVERLOADED, &failure::NOT_READY];
    /// Refusals of a look at a SKU.
    Looking: ANY, LIMITED, STORED, LOCKED;
    /// Refusals of a look at an order.
    LookingAtOrder: ANY, LIMITED, STORED, &[&failure::INVALID_INPUT, &failure::UNKNOWN_ORDER];
    /// Refusals of a look at a ticket: its own, and those of the purchase.
    LookingAtTicket: ANY, LIMITED, STORED, &[
        &failure::INVALID_INPUT,
        &failure::UNKNOWN_TICKET,
        &failure::SOLD_OUT,
        &failure::OVER_LIMIT,
        &failure::SALE_RESTARTED,
        &failure::KEY_REUSED,
    ];
    /// Refusals of a purchase without a key.
    Buying: ANY, LIMITED, STORED, LOCKED, BOUGHT;
    /// Refusals of a purchase of one SKU under a key.
    BuyingUnderKey: ANY, LIMITED, STORED, LOCKED, BOUGHT, BODY, KEY;
    /// Refusals of a purchase of a cart.
    BuyingCart: ANY, LIMITED, STORED, LOCKED, BOUGHT, BODY, KEY, &[&failure::ONE_AT_A_TIME, &failure::REPEATED_GOODS];
    /// Refusals of a reservation.
    Reserving: ANY, LIMITED, STORED, LOCKED, BOUGHT, BODY, KEY;
    /// Refusals of a confirmation.
    Confirming: ANY, LIMITED, STORED, ENDING, &[&failure::RESERVATION_CANCELLED, &failure::KEY_REUSED];
    /// Refusals to give the units of a reservation back.
    Cancelling: ANY, LIMITED, STORED, ENDING, &[&failure::RESERVATION_CONFIRMED];
    /// Refusals of a look at a reservation.
    LookingAtReservation: ANY, LIMITED, STORED, &[&failure::INVALID_INPUT, &failure::UNKNOWN_RESERVATION];
    /// Refusals of a reset.
    Restarting: ANY, LIMITED, STORED, BODY, &[
        &failure::UNAUTHORIZED,
        &failure::UNKNOWN_GOODS,
        &failure::UNKNOWN_STRATEGY,
        &failure::OUTCOME_UNKNOWN,
    ];
    /// Refusals of a look at the history.
    Reviewing: ANY, LIMITED, &[&failure::UNAUTHORIZED, &failure::INVALID_INPUT];
}

/// Returns the answers of these kinds, by status.
fn refusals(sets: &[&[&'static Kind]]) -> Responses {
    let mut by_status: BTreeMap<StatusCode, Vec<&Kind>> = BTreeMap::new();
    for kind in sets.iter().copied().flatten() {
        let kinds = by_status.entry(kind.status).or_default();
        if !kinds.contains(kind) {
            kinds.push(kind);
        }
    }
    let answers = by_status.into_iter().map(|(status, kinds)| {
        let mut response = refusal(status, &kinds);
        if kinds.contains(&&failure::KEY_REUSED) {
            response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        }
        (status.as_str().to_owned(), response.into())
    });
    answers.collect()
}

/// Makes one answer that stands for several kinds.
fn refusal(status: StatusCode, kinds: &[&Kind]) -> Response {
    let lines: Vec<_> = kinds.iter().map(|kind| format!("- `{}`: {}", kind.slug(), kind.meaning)).collect();
    let urns: BTreeSet<_> = kinds.iter().map(|kind| kind.urn).collect();
    let particular = ObjectBuilder::new()
        .property("type", ObjectBuilder::new().schema_type(Type::String).enum_values(Some(urns)))
        .property("status", ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([status.as_u16()])));
    let schema = AllOfBuilder::new().item(Ref::from_schema_name(PROBLEM_SCHEMA)).item(particular);
    let example = json!({
        "type": kinds[0].urn,
        "title": kinds[0].title,
        "status": status.as_u16(),
        "detail": kinds[0].meaning,
        "instance": "urn:seckill-lab:request:0b8a2c7e-94f1-4d0e-8c55-3d6c3d7b8a11",
    });
    let content = ContentBuilder::new().schema(Some(schema)).example(Some(example)).build();
    let mut response = ResponseBuilder::new().description(lines.join("\n")).content(PROBLEM_JSON, content).build();
    if kinds.iter().any(|kind| kind.is_retryable) {
        response.headers.insert("Retry-After".to_owned(), header("RetryAfter"));
    }
    if kinds.contains(&&failure::UNAUTHORIZED) {
        response.headers.insert("WWW-Authenticate".to_owned(), header("WwwAuthenticate"));
    }
    response
}

/// The answer to a purchase of one unit without a key.
#[derive(Debug)]
pub struct BoughtOne;

impl IntoResponses for BoughtOne {
    fn responses() -> Responses {
        let mut response = with_body::<Bought>("Sold.").link("order", order_link()).build();
        response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        only("200", response)
    }
}

/// The answer to a purchase that waits for its decision. Only `pg-queue` gives it.
#[derive(Debug)]
pub struct Queued;

impl IntoResponses for Queued {
    fn responses() -> Responses {
        let ticket = LinkBuilder::new()
            .operation_id("showTicket")
            .parameter("ticket", "$response.body#/ticket")
            .description("What became of the purchase.");
        let response = with_body::<TicketView>("Not decided yet: the ticket tells, once it is.");
        let mut response = response.link("ticket", ticket.build()).build();
        response.headers.insert("Location".to_owned(), header("TicketLocation"));
        response.headers.insert("Retry-After".to_owned(), header("RetryAfter"));
        response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        only("202", response)
    }
}

/// The answer to a purchase under a key.
#[derive(Debug)]
pub struct Placed;

impl IntoResponses for Placed {
    fn responses() -> Responses {
        let response = with_body::<OrderView>("Sold, now or when it was first asked for under this key.");
        let mut response = response.link("order", order_link()).build();
        response.headers.insert("Location".to_owned(), header("Location"));
        response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        only("201", response)
    }
}

/// The answer to a reservation.
#[derive(Debug)]
pub struct ReservationMade;

impl IntoResponses for ReservationMade {
    fn responses() -> Responses {
        let response = with_body::<ReservationView>("Held, now or when it was first asked for under this key.");
        let response = response
            .link("confirm", reservation_link("confirmReservation", "Pay, which makes the order."))
            .link("cancel", reservation_link("cancelReservation", "Give the units back."))
            .link("reservation", reservation_link("showReservation", "The reservation."));
        let mut response = response.build();
        response.headers.insert("Location".to_owned(), header("ReservationLocation"));
        response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        only("201", response)
    }
}

/// The answer of a reservation whose units were given back.
#[derive(Debug)]
pub struct GivenBack;

impl IntoResponses for GivenBack {
    fn responses() -> Responses {
        let mut response = with_body::<ReservationView>("Cancelled, now or earlier.").build();
        response.headers.insert("Idempotent-Replayed".to_owned(), header("IdempotentReplayed"));
        only("200", response)
    }
}

/// A reservation that is looked at.
#[derive(Debug)]
pub struct ReservationShown;

impl IntoResponses for ReservationShown {
    fn responses() -> Responses {
        only("200", with_body::<ReservationView>("The reservation as it stands."))
    }
}

fn reservation_link(operation_id: &str, description: &str) -> Link {
    LinkBuilder::new()
        .operation_id(operation_id)
        .parameter("reservation_id", "$response.body#/reservation_id")
        .description(description)
        .build()
}

/// An order that is looked at.
#[derive(Debug)]
pub struct Shown;

impl IntoResponses for Shown {
    fn responses() -> Responses {
        let goods = LinkBuilder::new()
            .operation_id("showGoods")
            .parameter("goods_no", "$response.body#/lines/0/goods_no")
            .description("The stock of what was sold first.");
        only("200", with_body::<OrderView>("What was sold.").link("goods", goods.build()))
    }
}

/// A SKU that is looked at.
#[derive(Debug)]
pub struct GoodsAnswer;

impl IntoResponses for GoodsAnswer {
    fn responses() -> Responses {
        let response = links_of_goods(with_body::<GoodsView>("The stock as it stands."));
        only("200", response.link("restart", goods_link("startSale", "The next sale.")))
    }
}

/// The answer to a reset.
#[derive(Debug)]
pub struct Reset;

impl IntoResponses for Reset {
    fn responses() -> Responses {
        let response = links_of_goods(with_body::<GoodsView>("The sale has started."));
        only("200", response.link("goods", goods_link("showGoods", "What is left.")))
    }
}

fn links_of_goods(response: ResponseBuilder) -> ResponseBuilder {
    let cart = json!({ "lines": [{ "goods_no": GOODS_NO, "quantity": 1 }] });
    let cart = LinkBuilder::new().operation_id("placeCart").request_body(Some(cart)).description("A cart with it.");
    response
        .link("one", goods_link("buyOne", "One unit of it."))
        .link("some", goods_link("placeOrder", "Some units of it."))
        .link("cart", cart.build())
}

fn goods_link(operation_id: &str, description: &str) -> Link {
    LinkBuilder::new().operation_id(operation_id).parameter("goods_no", GOODS_NO).description(description).build()
}

fn order_link() -> Link {
    LinkBuilder::new()
        .operation_id("showOrder")
        .parameter("order_id", "$response.body#/order_id")
        .description("The order that was made.")
        .build()
}

/// Starts a response with this description and a JSON body.
fn with_body<T: ToSchema>(description: &str) -> ResponseBuilder {
    let content = Content::new(Some(Ref::from_schema_name(T::name())));
    ResponseBuilder::new().description(description).content("application/json", content)
}

/// Makes the only response of its kind.
fn only(status: &str, response: impl Into<Response>) -> Responses {
    BTreeMap::from([(status.to_owned(), response.into().into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_one_status_share_an_answer_that_names_each_once() {
        let answers =
            refusals(&[&[&failure::SOLD_OUT, &failure::FENCED], &[&failure::FENCED, &failure::OUTCOME_UNKNOWN]]);
        assert_eq!(answers.keys().collect::<Vec<_>>(), ["409", "503"]);
        let RefOr::T(unavailable) = &answers["503"] else { panic!("an answer is no reference") };
        assert_eq!(unavailable.description.matches("`fenced`").count(), 1);
        assert!(unavailable.headers.contains_key("Retry-After"));
    }

    #[test]
    fn every_kind_that_a_client_can_see_is_documented_somewhere() {
        let documented: Vec<_> = DOCUMENTED.iter().copied().flatten().copied().flatten().collect();
        for kind in failure::ALL {
            // No client is there to see `CLIENT_GONE`, and `REPEATED` is never an answer.
            let is_unseen = [&failure::CLIENT_GONE, &failure::REPEATED].contains(kind);
            assert_ne!(documented.contains(&kind), is_unseen, "{}", kind.urn);
        }
    }
}
