//! The one table of everything that can go wrong with a request. Errors, problem documents, metric labels, log lines
//! and the OpenAPI document are made from it.

mod postgres;
mod unknown;

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;

pub use self::postgres::{has_stale_plan, is_full};
use self::postgres::{is_of_connection, passes, refuses_commit, sqlstate};

/// One row of the table: a kind of failure.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The status of the answer.
    pub status: StatusCode,
    /// The `type` of the problem document. It identifies the kind and never changes.
    pub urn: &'static str,
    /// The label `outcome` of `seckill_deductions_total` for a purchase that ends with this failure. `None` if no
    /// purchase does.
    pub outcome: Option<&'static str>,
    /// How it is logged.
    pub logged: Logged,
    /// The `title` of the problem document.
    pub title: &'static str,
    /// What it means to a client, for the OpenAPI document.
    pub meaning: &'static str,
    /// Whether nothing was written and the same request may succeed in a moment. Then the answer has `Retry-After`.
    pub is_retryable: bool,
}

/// How a failure is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logged {
    /// As `debug`: a busy service causes thousands of them. Metrics count those that end a purchase.
    Debug,
    /// As `warn`, once every few seconds for all failures of the kind.
    WarnSeldom,
    /// As `warn`.
    Warn,
    /// As `error`: a defect.
    Error,
}

impl Kind {
    /// Returns the last part of the URN.
    pub fn slug(&self) -> &'static str {
        self.urn.strip_prefix(URN_PREFIX).unwrap_or(self.urn)
    }
}

/// The prefix of the `type` of every kind in the table.
const URN_PREFIX: &str = "urn:seckill-lab:problem:";

macro_rules! kinds {
    ($($name:ident $status:ident $slug:literal [$($outcome:literal)?] $logged:ident $title:literal, $meaning:literal
       $(, $retryable:ident)?;)*) => {
        $(
            #[doc = concat!("`", $slug, "`: ", $meaning, ".")]
            pub const $name: Kind = Kind {
                status: StatusCode::$status,
                urn: concat!("urn:seckill-lab:problem:", $slug),
                outcome: kinds!(@outcome $($outcome)?),
                logged: Logged::$logged,
                title: $title,
                meaning: $meaning,
                is_retryable: kinds!(@is_retryable $($retryable)?),
            };
        )*

        /// Every row of the table.
        pub const ALL: &[&Kind] = &[$(&$name),*];
    };
    (@outcome $outcome:literal) => { Some($outcome) };
    (@outcome) => { None };
    (@is_retryable retryable) => { true };
    (@is_retryable) => { false };
}

kinds! {
    MALFORMED_BODY BAD_REQUEST "invalid-body" [] Debug "invalid body", "the body is no JSON";
    KEY_MISSING BAD_REQUEST "idempotency-key-missing" [] Debug "no idempotency key", "there is no `Idempotency-Key`";
    INVALID_HOST BAD_REQUEST "invalid-host" [] Debug "invalid host", "the request has no `Host` header, or several";
    UNAUTHORIZED UNAUTHORIZED "unauthorized" [] Debug "not authorized", "the bearer token is missing or wrong";
    UNKNOWN_GOODS NOT_FOUND "unknown-goods" ["unknown_goods"] Debug "unknown goods", "there is no such SKU";
    UNKNOWN_ORDER NOT_FOUND "unknown-order" [] Debug "unknown order", "there is no such order";
    UNKNOWN_TICKET NOT_FOUND "unknown-ticket" [] Debug "unknown ticket", "there is no such ticket";
    UNKNOWN_RESERVATION NOT_FOUND "unknown-reservation" ["unknown_reservation"] Debug "unknown reservation",
        "there is no such reservation";
    UNKNOWN_STRATEGY NOT_FOUND "unknown-strategy" ["unknown_strategy"] Debug "unknown strategy",
        "this instance offers no such strategy";
    BODY_TIMEOUT REQUEST_TIMEOUT "body-timeout" [] Debug "body not received in time",
        "the body did not arrive whole within 5 seconds, or within a shorter `--http-timeout`; nothing was written";
    SOLD_OUT CONFLICT "sold-out" ["sold_out"] Debug "sold out", "the stock is too low for the whole purchase";
    RESERVATION_CANCELLED CONFLICT "reservation-cancelled" ["reservation_cancelled"] Debug "reservation cancelled",
        "the units of the reservation were given back; nothing was sold";
    RESERVATION_CONFIRMED CONFLICT "reservation-confirmed" [] Debug "reservation confirmed",
        "the units of the reservation are sold";
    RESERVATION_EXPIRED GONE "reservation-expired" ["reservation_expired"] Debug "reservation expired",
        "the time of the reservation has passed, or its sale is over; nothing was sold, and never will be by it";
    OVER_LIMIT FORBIDDEN "over-limit" ["over_limit"] Debug "limit per buyer reached",
        "the buyer would have more units of the sale than one buyer may have; nothing was written";
    OVERSIZED_BODY PAYLOAD_TOO_LARGE "invalid-body" [] Debug "invalid body", "the body is larger than 4 KiB";
    MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "invalid-body" [] Debug "invalid body",
        "the body is not declared as `application/json`";
    INVALID_BODY UNPROCESSABLE_ENTITY "invalid-body" [] Debug "invalid body",
        "the body has missing, unknown or mistyped members";
    INVALID_INPUT UNPROCESSABLE_ENTITY "invalid-input" [] Debug "invalid input",
        "a parameter or a member is out of bounds";
    REPEATED_GOODS UNPROCESSABLE_ENTITY "repeated-goods" [] Debug "repeated goods",
        "a SKU is in the cart more than once";
    BUYER_UNCLEAR UNPROCESSABLE_ENTITY "buyer-unclear" ["buyer_unclear"] Debug "unclear who buys",
        "the sale has a limit per buyer and the request names no buyer, or the request names two";
    KEY_REUSED UNPROCESSABLE_ENTITY "idempotency-key-reused" ["key_reused"] Debug "idempotency key reused",
        "another cart was bought under this key";
    ONE_AT_A_TIME UNPROCESSABLE_ENTITY "one-at-a-time" ["one_at_a_time"] Debug "one SKU at a time",
        "the strategy sells one SKU at a time";
    GUARD_MISMATCH UNPROCESSABLE_ENTITY "guard-mismatch" ["guard_mismatch"] Debug "guarded by another family",
        "strategies of another family guard this sale; nothing was locked or written";
    RATE_LIMITED TOO_MANY_REQUESTS "rate-limited" [] Debug "too many purchases",
        "the client, or the idempotency key, asks for more purchases a second than it may; nothing was written", retryable;
    INTERNAL INTERNAL_SERVER_ERROR "internal" ["failed"] Error "internal error", "a defect of the service";
    SALE_RESTARTED SERVICE_UNAVAILABLE "sale-restarted" ["sale_restarted"] Debug "the sale was restarted",
        "a new sale began meanwhile; nothing was written", retryable;
    OVERLOADED SERVICE_UNAVAILABLE "overloaded" [] Debug "too many requests",
        "the service is at its limit of requests or connections; nothing was written", retryable;
    LOCK_TIMEOUT SERVICE_UNAVAILABLE "lock-timeout" ["lock_timeout"] Debug "lock not acquired in time",
        "others held the lock for the whole of the wait; nothing was written", retryable;
    HOLD_LOST SERVICE_UNAVAILABLE "hold-lost" ["hold_lost"] Warn "hold on the lock lost",
        "the lock was lost before the commit; nothing was written", retryable;
    FENCED SERVICE_UNAVAILABLE "fenced" ["fenced"] Warn "overtaken by a later holder",
        "a later holder of the lock came first; nothing was written", retryable;
    OVERTAKEN SERVICE_UNAVAILABLE "overtaken" ["overtaken"] Debug "overtaken by other buyers",
        "other buyers came first in every attempt; nothing was written", retryable;
    CLIENT_GONE SERVICE_UNAVAILABLE "client-gone" ["client_gone"] Debug "the client hung up",
        "nobody waits for the answer; nothing was written", retryable;
    SHUTTING_DOWN SERVICE_UNAVAILABLE "shutting-down" ["shutting_down"] Debug "the service is shutting down",
        "this instance was told to stop; nothing was written", retryable;
    LOCK_SERVICE_UNAVAILABLE SERVICE_UNAVAILABLE "lock-service-unavailable" ["unavailable"] WarnSeldom
        "lock service not available",
        "ZooKeeper or Redis did not answer or refused, and nothing is sold unguarded; nothing was written", retryable;
    DATABASE_UNAVAILABLE SERVICE_UNAVAILABLE "database-unavailable" ["unavailable"] WarnSeldom
        "database not available", "the database did not answer in time; nothing was written", retryable;
    NOT_READY SERVICE_UNAVAILABLE "not-ready" [] WarnSeldom "not ready",
        "a server that the service needs does not answer or refuses", retryable;
    OUTCOME_UNKNOWN SERVICE_UNAVAILABLE "outcome-unknown" ["unknown"] Warn "outcome unknown",
        "the commit was sent and its answer was not seen: look before you send the request again";
    REQUEST_TIMEOUT SERVICE_UNAVAILABLE "request-timeout" [] Debug "the request took too long",
        "no answer in time: the request may have been carried out, so look before you send it again";
    REPEATED INTERNAL_SERVER_ERROR "repeated" [] Debug "repeated",
        "the key has an order already; the service answers with that order";
}

/// Why a request was refused or failed. Unless it is [`OUTCOME_UNKNOWN`] or [`REQUEST_TIMEOUT`], nothing was written.
#[derive(Debug, Clone)]
pub struct Failure {
    kind: &'static Kind,
    detail: Cow<'static, str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
    order_id: Option<i64>,
}

impl Failure {
    /// Makes a failure of that kind. Clients read the detail, so it must name no host and no table.
    pub fn new(kind: &'static Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), cause: None, order_id: None }
    }

    /// Makes a failure of that kind. Its detail is the `meaning` of the kind.
    pub fn of(kind: &'static Kind) -> Self {
        Self::new(kind, kind.meaning)
    }

    /// Makes the failure of a request with a parameter or a member that is out of bounds.
    pub fn invalid_input(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&INVALID_INPUT, detail)
    }

    /// Makes the failure of a request for a SKU that does not exist.
    pub fn unknown_goods(goods_no: impl fmt::Display) -> Self {
        Self::new(&UNKNOWN_GOODS, format!("there is no SKU {goods_no}"))
    }

    /// Makes the failure of a purchase for which the stock of this SKU is too low.
    pub fn sold_out(goods_no: impl fmt::Display) -> Self {
        Self::new(&SOLD_OUT, format!("not enough is left of SKU {goods_no}"))
    }

    /// Makes the failure of a purchase that would give its buyer too many units of this SKU.
    pub fn over_limit(goods_no: impl fmt::Display) -> Self {
        let detail =
            format!("you would have more units of SKU {goods_no} than one buyer may have; nothing was written");
        Self::new(&OVER_LIMIT, detail)
    }

    /// Makes the failure of a purchase that a later holder of the lock has overtaken.
    pub fn fenced() -> Self {
        let detail =
            "a later holder of the lock had read the stock before this purchase could write; nothing was written";
        Self::new(&FENCED, detail)
    }

    /// Makes the failure of a purchase whose ticket was refused for a reason of this kind.
    pub fn of_ticket(kind: &'static Kind, goods_no: i64) -> Self {
        if *kind == SOLD_OUT {
            Self::sold_out(goods_no)
        } else if *kind == OVER_LIMIT {
            Self::over_limit(goods_no)
        } else if *kind == KEY_REUSED {
            Self::key_reused()
        } else {
            Self::of(kind)
        }
    }

    /// Makes the failure of a purchase whose key has an order already.
    pub fn repeated() -> Self {
        Self::new(&REPEATED, "the key has an order already")
    }

    /// Makes the failure of a purchase whose client hung up before anything was written.
    pub fn client_gone() -> Self {
        Self::new(&CLIENT_GONE, "the client hung up; nothing was written")
    }

    /// Makes the failure of a purchase whose key stands for another cart.
    pub fn key_reused() -> Self {
        Self::new(&KEY_REUSED, "another cart was bought under this idempotency key; choose another key")
    }

    /// Makes the failure of a request that the database did not answer in time, or refused for a temporary reason.
    pub fn database_unavailable() -> Self {
        Self::new(&DATABASE_UNAVAILABLE, "the database did not answer in time or refused; nothing was written")
    }

    /// Makes the failure that another instance of the service has told of, by the slug of its kind.
    pub fn told(slug: &str, detail: String, order_id: Option<i64>) -> Self {
        // A kind that this version does not know: whether anything was written is not known either.
        let kind = ALL.iter().find(|kind| kind.outcome.is_some() && kind.slug() == slug);
        let kind = kind.or_else(|| ALL.iter().find(|kind| kind.slug() == slug)).copied().unwrap_or(&OUTCOME_UNKNOWN);
        Self { order_id, ..Self::new(kind, detail) }
    }

    /// Returns the failure for a database error before a commit was sent.
    pub fn of_database(error: sqlx::Error) -> Self {
        let sqlstate = sqlstate(&error);
        let failure = match sqlstate.as_deref() {
            Some("55P03") => Self::new(&LOCK_TIMEOUT, "others held a lock of the database for the whole of the wait"),
            Some("40001" | "40P01") => Self::new(&OVERTAKEN, "the database rolled back for another purchase"),
            Some(sqlstate) if passes(sqlstate) => Self::database_unavailable(),
            None if is_of_connection(&error) => Self::database_unavailable(),
            _ if has_stale_plan(&error) => Self::database_unavailable(),
            _ => Self::new(&INTERNAL, "the request failed inside the service; its log says why"),
        };
        failure.caused_by(error)
    }

    /// Returns the failure for a database error in answer to a commit.
    pub fn of_commit(error: sqlx::Error, order_id: Option<i64>) -> Self {
        if sqlstate(&error).is_some_and(|sqlstate| refuses_commit(&sqlstate)) {
            Self::of_database(error)
        } else {
            Self::outcome_unknown(order_id).caused_by(error)
        }
    }

    /// Returns the failure for an error of a statement that commits by itself. A refusal in words comes before the
    /// commit. If the connection failed or the server shut down, the commit may have happened.
    pub fn of_committing_statement(error: sqlx::Error) -> Self {
        match sqlstate(&error) {
            Some(sqlstate) if !sqlstate.starts_with("08") && !sqlstate.starts_with("57P") => Self::of_database(error),
            _ => Self::outcome_unknown(None).caused_by(error),
        }
    }

    /// Adds the cause, which is logged and never shown to a client.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// Adds the cause of another failure.
    #[must_use]
    pub fn caused_as(mut self, other: &Self) -> Self {
        self.cause.clone_from(&other.cause);
        self
    }

    /// Returns the row of the table for this failure.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns whether the failure is of that kind.
    pub fn is(&self, kind: &Kind) -> bool {
        self.kind == kind
    }

    /// Returns whether the failure is of one of these kinds.
    pub fn is_one_of(&self, kinds: &[&Kind]) -> bool {
        kinds.iter().any(|kind| self.is(kind))
    }

    /// Returns what is wrong and what helps. Clients read it.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the order that may have been committed.
    pub fn order_id(&self) -> Option<i64> {
        self.order_id
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.title, self.detail)?;
        if let Some(cause) = &self.cause {
            write!(f, " ({})", program::chain(&**cause))?;
        }
        Ok(())
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> sqlx::Error {
        sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
    }

    // S28
    #[test]
    fn a_broken_connection_is_harmless_until_the_commit() {
        assert!(Failure::of_database(broken()).is(&DATABASE_UNAVAILABLE));
        let unknown = Failure::of_commit(broken(), Some(7));
        assert!(unknown.is(&OUTCOME_UNKNOWN) && unknown.order_id() == Some(7));
        assert!(unknown.detail().contains("/orders/7"), "{unknown}");
    }

    #[test]
    fn outages_pass_and_defects_do_not() {
        for (sqlstate, expected) in
            [("08006", true), ("25P03", true), ("53300", true), ("57014", true), ("57P01", true), ("42P01", false)]
        {
            assert_eq!(passes(sqlstate), expected, "{sqlstate}");
        }
        assert!(Failure::of_database(sqlx::Error::RowNotFound).is(&INTERNAL));
    }

    #[test]
    fn a_client_never_sees_the_cause_and_the_log_does() {
        let failure = Failure::of_database(broken());
        assert!(!failure.detail().contains("reset") && failure.to_string().contains("reset"), "{failure}");
        assert!(failure.source().is_some());
    }

    #[test]
    fn kinds_differ_in_slug_or_status() {
        for (index, kind) in ALL.iter().enumerate() {
            let twin = ALL[..index].iter().find(|other| other.urn == kind.urn && other.status == kind.status);
            assert!(twin.is_none(), "{}", kind.urn);
        }
    }
}
