//! Every kind of problem: what a client may rely on, and what the document of the interface says about it.

use axum::http::StatusCode;

/// A kind of refusal. Its `urn` identifies it and never changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The status of the answer.
    pub status: StatusCode,
    /// The `type` of the problem.
    pub urn: &'static str,
    /// The `title` of the problem.
    pub title: &'static str,
    /// What it means to a client, for the document of the interface.
    pub meaning: &'static str,
    /// Whether it may have passed in a moment, and nothing was written: the answer says when to come again.
    pub is_retryable: bool,
}

impl Kind {
    /// What tells it from the other kinds of this service; of a kind that is no more than its status, that.
    pub fn slug(&self) -> &'static str {
        self.urn.strip_prefix(URN_PREFIX).unwrap_or(self.urn)
    }
}

/// What the `type` of each problem of this service begins with.
const URN_PREFIX: &str = "urn:seckill-lab:problem:";

macro_rules! kinds {
    ($($name:ident = $status:ident $slug:literal, $title:literal, $meaning:literal $(, $retryable:ident)?;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Kind = Kind {
                status: StatusCode::$status,
                urn: concat!("urn:seckill-lab:problem:", $slug),
                title: $title,
                meaning: $meaning,
                is_retryable: kinds!(@is_retryable $($retryable)?),
            };
        )*

        /// All of them.
        #[cfg(test)]
        pub(crate) const ALL: &[&Kind] = &[$(&$name),*];
    };
    (@is_retryable retryable) => { true };
    (@is_retryable) => { false };
}

kinds! {
    KEY_MISSING = BAD_REQUEST "idempotency-key-missing", "no idempotency key", "there is no `Idempotency-Key`";
    MALFORMED_BODY = BAD_REQUEST "invalid-body", "invalid body", "the body is no JSON";
    UNAUTHORIZED = UNAUTHORIZED "unauthorized", "not authorized", "the bearer token is missing or wrong";
    UNKNOWN_GOODS = NOT_FOUND "unknown-goods", "unknown goods", "there is no such SKU";
    UNKNOWN_ORDER = NOT_FOUND "unknown-order", "unknown order", "there is no such order";
    UNKNOWN_STRATEGY = NOT_FOUND "unknown-strategy", "unknown strategy", "there is no such strategy";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED "method-not-allowed", "method not allowed", "the method is not allowed here";
    SOLD_OUT = CONFLICT "sold-out", "sold out", "not enough is left for the whole purchase";
    OVERSIZED_BODY = PAYLOAD_TOO_LARGE "invalid-body", "invalid body", "the body is larger than 4 KiB";
    MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE "invalid-body", "invalid body", "the body is not declared as `application/json`";
    INVALID_BODY = UNPROCESSABLE_ENTITY "invalid-body", "invalid body", "the body has missing, unknown or mistyped members";
    INVALID_INPUT = UNPROCESSABLE_ENTITY "invalid-input", "invalid input", "a parameter or a member is out of bounds";
    REPEATED_GOODS = UNPROCESSABLE_ENTITY "repeated-goods", "repeated goods", "a SKU is in the cart more than once";
    KEY_REUSED = UNPROCESSABLE_ENTITY "idempotency-key-reused", "idempotency key reused",
        "something else was asked for under this key";
    ONE_AT_A_TIME = UNPROCESSABLE_ENTITY "one-at-a-time", "one SKU at a time", "the strategy sells one SKU at a time";
    INTERNAL = INTERNAL_SERVER_ERROR "internal", "internal error", "a defect of the service";
    SALE_RESTARTED = SERVICE_UNAVAILABLE "sale-restarted", "the sale was restarted",
        "a new sale began meanwhile; nothing was written", retryable;
    OVERLOADED = SERVICE_UNAVAILABLE "overloaded", "too many requests",
        "the service works on as many requests as it may; nothing was written", retryable;
    LOCK_TIMEOUT = SERVICE_UNAVAILABLE "lock-timeout", "lock not had in time",
        "the lock was not had in time; nothing was written", retryable;
    HOLD_LOST = SERVICE_UNAVAILABLE "hold-lost", "hold on the lock lost",
        "the lock was lost before the commit; nothing was written", retryable;
    FENCED = SERVICE_UNAVAILABLE "fenced", "overtaken by a later holder",
        "a later holder of the lock came first; nothing was written", retryable;
    OVERTAKEN = SERVICE_UNAVAILABLE "overtaken", "overtaken by other buyers",
        "other buyers came first in every attempt; nothing was written", retryable;
    CLIENT_GONE = SERVICE_UNAVAILABLE "client-gone", "the client hung up",
        "nobody waits for the answer; nothing was written", retryable;
    SHUTTING_DOWN = SERVICE_UNAVAILABLE "shutting-down", "the service is shutting down",
        "this instance was told to stop; nothing was written", retryable;
    LOCK_SERVICE_UNAVAILABLE = SERVICE_UNAVAILABLE "lock-service-unavailable", "lock service not available",
        "the lock service is away, and nothing is sold unguarded; nothing was written", retryable;
    DATABASE_UNAVAILABLE = SERVICE_UNAVAILABLE "database-unavailable", "database not available",
        "the database did not answer in time; nothing was written", retryable;
    NOT_READY = SERVICE_UNAVAILABLE "not-ready", "not ready", "a server that the service needs does not answer", retryable;
    OUTCOME_UNKNOWN = SERVICE_UNAVAILABLE "outcome-unknown", "outcome unknown",
        "the commit was sent and its answer not seen: look before you ask again";
    REQUEST_TIMEOUT = SERVICE_UNAVAILABLE "request-timeout", "the request took too long",
        "no answer in time: what was asked for may have been done, so look before you ask again";
}

/// What the layer that limits bodies refuses by their declared length. The status is all there is to know.
pub const PAYLOAD_TOO_LARGE: Kind = Kind {
    status: StatusCode::PAYLOAD_TOO_LARGE,
    urn: super::ABOUT_BLANK,
    title: "Payload Too Large",
    meaning: "the declared length of the body is more than 4 KiB",
    is_retryable: false,
};
