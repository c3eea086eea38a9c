//! Errors as a client sees them: problem details (RFC 9457), whoever refused the request.

use std::any::Any;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::JsonRejection;
use axum::http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::Failure;
use crate::stock::InvalidGoodsNo;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which a refused request may be sent again.
const RETRY_AFTER_SECONDS: &str = "1";

/// The longest refusal of the framework that is passed on as a problem's detail.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// A refusal. `slug` identifies its kind and never changes; `detail` is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: String,
    header: Option<(HeaderName, &'static str)>,
}

/// The members of the document that a client receives.
#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, slug, title, detail: detail.into(), header: None }
    }

    /// A refusal that may have passed in a moment. It promises that nothing was written.
    fn retryable(slug: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, slug, title, detail);
        Self { header: Some((RETRY_AFTER, RETRY_AFTER_SECONDS)), ..problem }
    }

    /// 409: not enough is left.
    pub fn sold_out(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "sold-out", "sold out", detail)
    }

    /// 404: there is no such SKU.
    pub fn unknown_goods(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-goods", "unknown goods", detail)
    }

    /// 404: the registry has no such strategy.
    pub fn unknown_strategy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-strategy", "unknown strategy", detail)
    }

    /// 422: the request is understood and makes no sense.
    pub fn invalid_input(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-input", "invalid input", detail)
    }

    /// 400: a purchase that can be asked for again only under a key has none.
    pub fn key_missing() -> Self {
        let detail = "send an Idempotency-Key, for instance a random UUID, and the same one when asking again";
        Self::new(StatusCode::BAD_REQUEST, "idempotency-key-missing", "no idempotency key", detail)
    }

    /// 422: the idempotency key belongs to another cart.
    pub fn key_reused() -> Self {
        let detail = "something else was asked for under this idempotency key before; choose another key";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", "idempotency key reused", detail)
    }

    /// 422: this strategy sells one SKU at a time.
    pub fn one_at_a_time(strategy: &str) -> Self {
        let detail = format!("{strategy} sells one SKU at a time; GET /strategies tells which ones sell carts");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "one-at-a-time", "one SKU at a time", detail)
    }

    /// 404: there is no such order.
    pub fn unknown_order(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-order", "unknown order", detail)
    }

    /// 401: no token, or a wrong one.
    pub fn unauthorized() -> Self {
        let detail = "send the service's ADMIN_TOKEN as authorization: Bearer TOKEN";
        let problem = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "not authorized", detail);
        Self { header: Some((WWW_AUTHENTICATE, "Bearer")), ..problem }
    }

    /// 405 for a method that the framework would have let through.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("this resource answers {allow} only");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "method not allowed", detail);
        Self { header: Some((ALLOW, allow)), ..problem }
    }

    /// 503: the sale that was read is over, the next one has begun.
    pub fn sale_restarted() -> Self {
        Self::retryable("sale-restarted", "the sale was restarted", "a new sale began meanwhile; nothing was written")
    }

    /// 503: as many requests are being worked on as the service allows.
    pub fn overloaded() -> Self {
        Self::retryable("overloaded", "too many requests", "the service is at its limit; nothing was written")
    }

    /// 503: a server that the service needs does not answer.
    pub fn not_ready(detail: impl Into<String>) -> Self {
        Self::retryable("not-ready", "not ready", detail)
    }

    /// 503: the answer took too long. What was asked for may have been done, or may be done yet, so this promises
    /// nothing. A deduction normally ends before, and tells more.
    pub fn request_timeout(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "request-timeout", "the request took too long", detail)
    }

    /// 500: a defect of the service. The client learns nothing about it; the log does.
    pub fn internal() -> Self {
        let detail = "the request failed inside the service; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error", detail)
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
            Failure::LockTimeout { waited } => Self::retryable(
                "lock-timeout",
                "lock not had in time",
                format!("the lock was not had within {waited:?} of the request; nothing was written"),
            ),
            // What the lock service and the database said may name hosts or tables, which is no business of a client.
            Failure::HoldLost(_) => Self::retryable(
                "hold-lost",
                "hold on the lock lost",
                "the hold was lost before the commit, so the deduction was stopped; nothing was written",
            ),
            Failure::Fenced => Self::retryable(
                "fenced",
                "overtaken by a later holder",
                "a later holder of the lock had read the stock before this deduction could write; nothing was written",
            ),
            Failure::Overtaken { attempts } => Self::retryable(
                "overtaken",
                "overtaken by other buyers",
                format!("other buyers came between in each of {attempts} attempts; nothing was written"),
            ),
            Failure::ClientGone => {
                Self::retryable("client-gone", "the client hung up", "nobody waited any more; nothing was written")
            }
            Failure::ShuttingDown => Self::retryable(
                "shutting-down",
                "the service is shutting down",
                "this instance was told to stop, another one may sell; nothing was written",
            ),
            Failure::LockServiceUnavailable(_) => Self::retryable(
                "lock-service-unavailable",
                "lock service not available",
                "the lock service did not answer or refused, and nothing is sold unguarded; nothing was written",
            ),
            Failure::DatabaseUnavailable(_) => Self::retryable(
                "database-unavailable",
                "database not available",
                "the database did not answer in time or refused; nothing was written",
            ),
            Failure::OutcomeUnknown(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "outcome-unknown",
                "outcome unknown",
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
        Self::new(rejection.status(), "invalid-body", "invalid body", rejection.body_text())
    }
}

impl From<InvalidGoodsNo> for Problem {
    fn from(invalid: InvalidGoodsNo) -> Self {
        Self::invalid_input(invalid.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: format!("urn:seckill-lab:problem:{}", self.slug),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        let mut response = document.into_response(self.status);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Document<'_> {
    fn into_response(self, status: StatusCode) -> Response {
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
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
    // "about:blank" says that the status is all there is to know (RFC 9457, section 4.2.1).
    let document = Document { r#type: "about:blank".to_owned(), title, status: status.as_u16(), detail };
    let mut problem = document.into_response(status);
    let kept = head.headers.iter().filter(|(name, _)| ![CONTENT_TYPE, CONTENT_LENGTH].contains(name));
    problem.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    problem
}
