//! Errors as a client sees them: problem details (RFC 9457), whoever refused the request.

pub mod kind;

use std::any::Any;
use std::borrow::Cow;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::JsonRejection;
use axum::http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::Failure;
use crate::problem::kind::Kind;
use crate::purchase::InvalidCart;
use crate::request_id;
use crate::stock::InvalidGoodsNo;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which a refused request may be sent again.
const RETRY_AFTER_SECONDS: &str = "1";

/// The longest refusal of the framework that is passed on as a problem's detail.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// The `type` of a problem of which the status says all there is to know (RFC 9457, section 4.2.1).
const ABOUT_BLANK: &str = "about:blank";

/// A refusal: its kind, and a detail for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: &'static Kind,
    detail: Cow<'static, str>,
    header: Option<(HeaderName, &'static str)>,
}

/// The members of the document that a client receives.
#[derive(Serialize)]
struct Document<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

impl Problem {
    /// A problem of that kind.
    pub fn new(kind: &'static Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        let header = kind.is_retryable.then_some((RETRY_AFTER, RETRY_AFTER_SECONDS));
        Self { kind, detail: detail.into(), header }
    }

    /// A parameter or a member is out of bounds.
    pub fn invalid_input(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&kind::INVALID_INPUT, detail)
    }

    /// A purchase that can be asked for again only under a key has none.
    pub fn key_missing() -> Self {
        let detail = "send an Idempotency-Key, for instance a random UUID, and the same one when asking again";
        Self::new(&kind::KEY_MISSING, detail)
    }

    /// This strategy sells one SKU at a time.
    pub fn one_at_a_time(strategy: &str) -> Self {
        let detail = format!("{strategy} sells one SKU at a time; GET /strategies tells which ones sell carts");
        Self::new(&kind::ONE_AT_A_TIME, detail)
    }

    /// No token, or a wrong one.
    pub fn unauthorized() -> Self {
        let detail = "send the service's ADMIN_TOKEN as authorization: Bearer TOKEN";
        Self { header: Some((WWW_AUTHENTICATE, "Bearer")), ..Self::new(&kind::UNAUTHORIZED, detail) }
    }

    /// A method that the framework would have let through.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("this resource answers {allow} only");
        Self { header: Some((ALLOW, allow)), ..Self::new(&kind::METHOD_NOT_ALLOWED, detail) }
    }

    /// As many requests are being worked on as the service allows.
    pub fn overloaded() -> Self {
        Self::new(&kind::OVERLOADED, "the service is at its limit; nothing was written")
    }

    /// A defect of the service. The client learns nothing about it; the log does.
    pub fn internal() -> Self {
        Self::new(&kind::INTERNAL, "the request failed inside the service; its log says why")
    }

    /// The answer to a panic in a handler.
    pub fn of_panic(panic: Box<dyn Any + Send>) -> Response {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        tracing::error!(panic = text.unwrap_or("not a text"), "a handler panicked");
        Self::internal().into_response()
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::LockTimeout { waited } => Self::new(
                &kind::LOCK_TIMEOUT,
                format!("the lock was not had within {waited:?} of the request; nothing was written"),
            ),
            // What the lock service and the database said may name hosts or tables, which is no business of a client.
            Failure::HoldLost(_) => Self::new(
                &kind::HOLD_LOST,
                "the hold was lost before the commit, so the deduction was stopped; nothing was written",
            ),
            Failure::Fenced => Self::new(
                &kind::FENCED,
                "a later holder of the lock had read the stock before this deduction could write; nothing was written",
            ),
            Failure::Overtaken { attempts } => Self::new(
                &kind::OVERTAKEN,
                format!("other buyers came between in each of {attempts} attempts; nothing was written"),
            ),
            Failure::ClientGone => Self::new(&kind::CLIENT_GONE, "nobody waited any more; nothing was written"),
            Failure::ShuttingDown => Self::new(
                &kind::SHUTTING_DOWN,
                "this instance was told to stop, another one may sell; nothing was written",
            ),
            Failure::LockServiceUnavailable(_) => Self::new(
                &kind::LOCK_SERVICE_UNAVAILABLE,
                "the lock service did not answer or refused, and nothing is sold unguarded; nothing was written",
            ),
            Failure::DatabaseUnavailable(_) => Self::new(
                &kind::DATABASE_UNAVAILABLE,
                "the database did not answer in time or refused; nothing was written",
            ),
            Failure::OutcomeUnknown(_) => Self::new(
                &kind::OUTCOME_UNKNOWN,
                "the commit was sent and its answer was not seen: the unit may have been sold or not, and may be sold \
                 yet; do not repeat the request before looking, and not while the commit may be under way",
            ),
            Failure::Database(_) => Self::internal(),
        }
    }
}

impl From<JsonRejection> for Problem {
    /// The framework tells well what is wrong with a body; its status stays.
    fn from(rejection: JsonRejection) -> Self {
        let kind = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => &kind::OVERSIZED_BODY,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => &kind::MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY => &kind::INVALID_BODY,
            _ => &kind::MALFORMED_BODY,
        };
        Self::new(kind, rejection.body_text())
    }
}

impl From<InvalidCart> for Problem {
    fn from(invalid: InvalidCart) -> Self {
        let kind = match invalid {
            InvalidCart::Lines(_) => &kind::INVALID_INPUT,
            InvalidCart::Repeated(_) => &kind::REPEATED_GOODS,
        };
        Self::new(kind, invalid.to_string())
    }
}

impl From<InvalidGoodsNo> for Problem {
    fn from(invalid: InvalidGoodsNo) -> Self {
        Self::invalid_input(invalid.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = document(self.kind.urn, self.kind.title, self.kind.status, &self.detail);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

fn document(urn: &str, title: &str, status: StatusCode, detail: &str) -> Response {
    let instance = request_id::current_urn();
    let document = Document { r#type: urn, title, status: status.as_u16(), detail, instance };
    let mut response = (status, Json(document)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

/// Turns every refusal that is not a problem yet, such as the framework's own for an unknown route, a wrong method or a
/// body that does not parse, into one. Its text becomes the detail, its headers stay.
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
    let mut problem = document(ABOUT_BLANK, title, status, detail);
    let kept = head.headers.iter().filter(|(name, _)| ![CONTENT_TYPE, CONTENT_LENGTH].contains(name));
    problem.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    problem
}
