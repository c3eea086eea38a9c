//! The OpenAPI 3.1 document of the interface. This file has the parts that all operations share. Each handler in
//! [`super::routes`] has the documentation of its own operation. The router and the document are made from these
//! handlers.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::header::Header;
use utoipa::openapi::info::InfoBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{Components, ComponentsBuilder, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{OpenApi, OpenApiBuilder, RefOr};

use super::problem::PROBLEM_SCHEMA;
use super::routes::answers::header;
use super::routes::views::{Bought, GoodsView, OrderLineView, OrderView, ReservationView, TicketView};
use crate::config::Config;

/// The name of the security scheme of administrators.
pub const ADMIN_SCHEME: &str = "admin_token";

const DESCRIPTION: &str = "\
The stock of a flash sale. A sale has one guard, a family of strategies that exclude each other. The strategy of the sale \
decides a purchase, unless the purchase names another strategy of the family.

Every error is a [problem](https://www.rfc-editor.org/rfc/rfc9457) whose `type` says what happened. A 429, \
or a 503 with `Retry-After`, promises that nothing was written, so the request may be sent again; after a 503 without, look \
first. An unknown path is answered with 404, and a method that is not listed here with 405, both of the type `about:blank`.

Every answer has an `x-request-id`: the value in the request if it has 1 to 128 visible ASCII characters, else a new UUID.";

/// Returns a document without operations.
pub fn base() -> OpenApi {
    let tags = [
        ("goods", "What is sold, and how."),
        ("orders", "Buying, and what was bought."),
        ("reservations", "Buying in two steps, in sales of `pg-reserve`."),
        ("administration", "For holders of the `ADMIN_TOKEN`; there only if the service has one."),
        ("operation", "Probes, metrics, this document."),
    ];
    let info = InfoBuilder::new()
        .title("seckill lab: demo-service")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION));
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components()))
        .tags(Some(tags.map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build())))
        .build()
}

/// Adds to the document of a listener what every answer has, and the strategies that can be named. If the listener
/// has administration, adds its security scheme. Removes links to operations that the listener does not have, unused
/// tags, and refusals for a rate if there is none.
pub fn complete(mut document: OpenApi, config: &Config) -> OpenApi {
    let mut ids = BTreeSet::new();
    let mut tags = BTreeSet::new();
    let mut is_administered = false;
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        ids.extend(operation.operation_id.clone());
        tags.extend(operation.tags.clone().unwrap_or_default());
        is_administered |= operation.security.is_some();
    }
    document.tags.get_or_insert_default().retain(|tag| tags.contains(&tag.name));
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter
                && parameter.name == "strategy"
            {
                let names = config.offered().map(|entry| entry.name).chain([""]);
                let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
                parameter.schema = Some(schema.into());
            }
        }
        let responses = &mut operation.responses.responses;
        if !config.limits_rates() {
            responses.remove(StatusCode::TOO_MANY_REQUESTS.as_str());
        }
        for response in responses.values_mut() {
            if let RefOr::T(response) = response {
                response.links.retain(|_, link| !matches!(link, RefOr::T(link) if !ids.contains(&link.operation_id)));
                response.headers.insert("x-request-id".to_owned(), header("RequestId"));
            }
        }
    }
    if is_administered {
        let scheme =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The service's `ADMIN_TOKEN`."));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(ADMIN_SCHEME, SecurityScheme::Http(scheme.build()));
    }
    document
}

/// Returns the document as it is sent.
pub fn to_json(document: &OpenApi) -> String {
    let mut json = json!(document);
    // The builder of headers cannot set `required`.
    for name in ["Location", "ReservationLocation", "RequestId", "WwwAuthenticate"] {
        json["components"]["headers"][name]["required"] = Value::Bool(true);
    }
    json.to_string()
}

/// Returns the operations of one path, for all methods that this service has.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut path.get, &mut path.put, &mut path.post].into_iter().flatten()
}

fn components() -> Components {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let problem = ObjectBuilder::new()
        .description(Some("Why a request was refused or failed (RFC 9457)."))
        .property("type", text().format(uri()).description(Some("The kind of the problem; never changes.")))
        .property("title", text().description(Some("The kind of the problem, for people.")))
        .property("status", ObjectBuilder::new().schema_type(Type::Integer).description(Some("The status code.")))
        .property("detail", text().description(Some("What is wrong and what helps, for people.")))
        .property(
            "order_id",
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(1))
                .description(Some("The order that may have been committed, if its number is known.")),
        )
        .property(
            "instance",
            text()
                .format(uri())
                .description(Some("`urn:seckill-lab:request:` and the id of the request, percent-encoded.")),
        )
        .required("type")
        .required("title")
        .required("status")
        .required("detail")
        .required("instance");
    let headers = [
        ("RequestId", "The id of the request.", text().pattern(Some("^[!-~]{1,128}$"))),
        ("Location", "The path of the order.", text().pattern(Some("^/orders/[1-9][0-9]*$"))),
        ("TicketLocation", "The path of the ticket.", text().pattern(Some("^/tickets/[1-9][0-9]*$"))),
        ("ReservationLocation", "The path of the reservation.", text().pattern(Some("^/reservations/[1-9][0-9]*$"))),
        (
            "IdempotentReplayed",
            "Only on the repeated answer to an earlier request.",
            text().enum_values(Some(["true"])),
        ),
        (
            "RetryAfter",
            "Seconds after which to ask again. Its absence from a 503 means that something may have been written.",
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)),
        ),
        ("WwwAuthenticate", "The scheme.", text().enum_values(Some(["Bearer"]))),
    ];
    let components = ComponentsBuilder::new()
        .schema(PROBLEM_SCHEMA, problem)
        .schema_from::<Bought>()
        .schema_from::<GoodsView>()
        .schema_from::<OrderView>()
        .schema_from::<TicketView>()
        .schema_from::<OrderLineView>()
        .schema_from::<ReservationView>();
    let components = headers.into_iter().fold(components, |components, (name, description, schema)| {
        components.header(name, Header::builder().description(Some(description)).schema(Some(schema)).build())
    });
    components.build()
}

fn uri() -> Option<SchemaFormat> {
    Some(SchemaFormat::Custom("uri".to_owned()))
}
