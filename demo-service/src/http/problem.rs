//! Problem documents (RFC 9457). Every refusal has one, including refusals of the framework.

use std::any::Any;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::request_id;
use crate::failure::{self, Failure};
use crate::sale::{InvalidBuyer, InvalidCart, InvalidGoodsNo, InvalidKey};

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The name of its schema in the OpenAPI document.
pub const PROBLEM_SCHEMA: &str = "Problem";

/// The response header of an answer that was given before or follows from an earlier request.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Seconds after which a refused request may be sent again.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The longest refusal of the framework that becomes the detail of a problem, in bytes.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// The `type` of a problem that its status fully describes (RFC 9457, section 4.2.1).
const ABOUT_BLANK: &str = "about:blank";

/// The members of the document that a client receives.
#[derive(Serialize)]
struct Document<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let mut response = document(kind.urn, kind.title, kind.status, self.detail(), self.order_id());
        let headers = response.headers_mut();
        if kind.is_retryable {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if self.is(&failure::UNAUTHORIZED) {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.is(&failure::KEY_REUSED) {
            headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// Answers a panic in a handler. The client learns nothing about the panic. The log has its text.
pub fn of_panic(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("not a text"), "a handler panicked");
    Failure::new(&failure::INTERNAL, "the request failed inside the service; its log says why").into_response()
}

impl From<JsonRejection> for Failure {
    /// Keeps the framework's status and its text, which says well what is wrong with a body.
    fn from(rejection: JsonRejection) -> Self {
        let kind = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => &failure::OVERSIZED_BODY,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => &failure::MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY => &failure::INVALID_BODY,
            _ => &failure::MALFORMED_BODY,
        };
        Self::new(kind, rejection.body_text())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid_input(rejection.body_text())
    }
}

impl From<InvalidCart> for Failure {
    fn from(invalid: InvalidCart) -> Self {
        let kind = match invalid {
            InvalidCart::Lines(_) => &failure::INVALID_INPUT,
            InvalidCart::Repeated(_) => &failure::REPEATED_GOODS,
        };
        Self::new(kind, invalid.to_string())
    }
}

impl From<InvalidGoodsNo> for Failure {
    fn from(invalid: InvalidGoodsNo) -> Self {
        Self::invalid_input(invalid.to_string())
    }
}

impl From<InvalidBuyer> for Failure {
    fn from(invalid: InvalidBuyer) -> Self {
        Self::invalid_input(invalid.to_string())
    }
}

impl From<InvalidKey> for Failure {
    fn from(invalid: InvalidKey) -> Self {
        Self::invalid_input(invalid.to_string())
    }
}

fn document(urn: &str, title: &str, status: StatusCode, detail: &str, order_id: Option<i64>) -> Response {
    let instance = request_id::current_urn();
    let document = Document { r#type: urn, title, status: status.as_u16(), detail, order_id, instance };
    let mut response = (status, Json(document)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

/// Turns every refusal that is not a problem yet into one, such as the framework's refusal of an unknown route, a
/// wrong method or a body that does not parse. Its text becomes the detail. Its other headers stay.
pub async fn of_any_refusal(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == PROBLEM_JSON);
    if !is_error || is_problem {
        return response;
    }
    let (head, body) = response.into_parts();
    let text = to_bytes(body, DETAIL_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let title = status.canonical_reason().unwrap_or("refused");
    let detail = if text.is_empty() { title } else { &text };
    let mut problem = document(ABOUT_BLANK, title, status, detail, None);
    // The problem replaces the body, and with it the type and the length.
    let kept = head.headers.iter().filter(|(name, _)| ![CONTENT_TYPE, CONTENT_LENGTH].contains(name));
    problem.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    problem
}
