//! What the service's answer to a purchase means.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::sample::{Confirmation, OrderTold, Outcome, Receipt};

/// Beginning of the `type` of every problem of the service.
pub const PROBLEM_TYPE: &str = "urn:seckill-lab:problem:";

/// The problem of a 409 that says that nothing is left.
pub const SOLD_OUT: &str = "sold-out";

/// The problem of a 403 that says that the buyer has as many units as one buyer may have.
pub const OVER_LIMIT: &str = "over-limit";

/// The problem of a 503 that decides a ticket: its sale is over, and nothing was written.
pub const SALE_RESTARTED: &str = "sale-restarted";

/// The problems of a 503 that promise that nothing was written. After any other problem, such as `outcome-unknown` or
/// `request-timeout`, the unit may have been sold.
pub const NOTHING_WRITTEN: [&str; 11] = [
    "lock-timeout",
    "hold-lost",
    "lock-service-unavailable",
    "database-unavailable",
    SALE_RESTARTED,
    "overloaded",
    "not-ready",
    "fenced",
    "overtaken",
    "client-gone",
    "shutting-down",
];

/// How much of a problem's type goes into a report.
const TYPE_SHOWN_CHARS: usize = 80;

#[derive(Deserialize)]
struct ProblemDocument {
    r#type: String,
}

/// An order of one line, as an answer 201 has it.
#[derive(Deserialize)]
struct PlacedOrder {
    order_id: i64,
    lines: [PlacedLine; 1],
}

#[derive(Deserialize)]
struct PlacedLine {
    goods_no: i64,
    quantity: i64,
    remaining: Option<i64>,
}

/// Reads the order in the body of a 201.
pub(crate) fn placed(body: &str) -> Result<Receipt, serde_json::Error> {
    let PlacedOrder { order_id, lines: [PlacedLine { goods_no, quantity, remaining }] } = serde_json::from_str(body)?;
    Ok(Receipt { order_id, goods_no, quantity, remaining })
}

/// Returns the last part of a problem's type, or what is wrong with an answer without a problem of ours.
fn slug_of(status: StatusCode, body: &str) -> Result<String, String> {
    let Ok(ProblemDocument { r#type }) = serde_json::from_str(body) else {
        return Err(format!("a {} without a problem document", status.as_u16()));
    };
    let slug = r#type.strip_prefix(PROBLEM_TYPE).map(str::to_owned);
    slug.ok_or_else(|| left_open(status, &r#type))
}

/// Classifies a 503. Its problem document tells whether something may have been sold.
fn classify_unavailable(body: &str) -> (Outcome, String) {
    match slug_of(StatusCode::SERVICE_UNAVAILABLE, body) {
        Ok(slug) if NOTHING_WRITTEN.contains(&slug.as_str()) => (Outcome::Refused, format!("refused: {slug}")),
        Ok(slug) => (Outcome::Error, left_open(StatusCode::SERVICE_UNAVAILABLE, &slug)),
        Err(problem) => (Outcome::Error, problem),
    }
}

/// Tells whether an answer to a question for a ticket decides the purchase. A ticket that waits does not, and neither does a failure of the
/// question itself, such as `database-unavailable`: the ticket may be decided all the same.
pub(crate) fn decides(status: StatusCode, body: &str) -> bool {
    let is_failure = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let is_restarted = || slug_of(status, body).is_ok_and(|slug| slug == SALE_RESTARTED);
    status != StatusCode::ACCEPTED && (!is_failure || is_restarted())
}

/// Classifies an answer that means `outcome` if it has this problem. Only the service itself can say so. A proxy in front of it
/// may answer with the same status.
fn classify_said(status: StatusCode, body: &str, said: &str, outcome: Outcome) -> (Outcome, Option<String>) {
    match slug_of(status, body) {
        Ok(slug) if slug == said => (outcome, None),
        Ok(slug) => (Outcome::Error, Some(left_open(status, &slug))),
        Err(problem) => (Outcome::Error, Some(problem)),
    }
}

/// Describes the problem of an answer that does not say whether something was sold.
fn left_open(status: StatusCode, r#type: &str) -> String {
    format!("a {} that leaves the outcome open: {}", status.as_u16(), shown(r#type))
}

/// Shortens the type of a problem for a report.
fn shown(r#type: &str) -> String {
    let slug = r#type.strip_prefix(PROBLEM_TYPE).unwrap_or(r#type);
    slug.chars().take(TYPE_SHOWN_CHARS).collect::<String>().escape_debug().to_string()
}

/// What an answer of the service means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The outcome.
    pub outcome: Outcome,
    /// The receipt, if a unit was sold.
    pub confirmation: Option<Confirmation>,
    /// What is wrong with the answer.
    pub problem: Option<String>,
}

/// Returns what an answer of the service means.
pub fn classify(status: StatusCode, body: &str) -> Classified {
    let (outcome, problem) = match status {
        StatusCode::OK => match serde_json::from_str(body) {
            Ok(receipt) => return Classified::sold(receipt),
            Err(error) => (Outcome::Error, Some(format!("a 200 without a receipt: {error}"))),
        },
        StatusCode::CREATED => match placed(body) {
            Ok(receipt) => return Classified::sold(receipt),
            Err(error) => (Outcome::Error, Some(format!("a 201 without an order: {error}"))),
        },
        StatusCode::ACCEPTED => (Outcome::Timeout, Some("a ticket that was not decided in time".to_owned())),
        StatusCode::CONFLICT => classify_said(status, body, SOLD_OUT, Outcome::SoldOut),
        StatusCode::FORBIDDEN => classify_said(status, body, OVER_LIMIT, Outcome::OverLimit),
        StatusCode::SERVICE_UNAVAILABLE => {
            let (outcome, problem) = classify_unavailable(body);
            (outcome, Some(problem))
        }
        other => {
            let problem = match serde_json::from_str(body) {
                Ok(ProblemDocument { r#type }) => format!("answered {other}: {}", shown(&r#type)),
                Err(_) => format!("answered {other}"),
            };
            (Outcome::Error, Some(problem))
        }
    };
    Classified { outcome, confirmation: None, problem }
}

impl Classified {
    fn sold(receipt: Receipt) -> Classified {
        Classified {
            outcome: Outcome::Sold,
            confirmation: Some(Confirmation::Lab(OrderTold::once(receipt))),
            problem: None,
        }
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcome of an answer that sells nothing, and what is wrong with it.
    fn unsold(status: StatusCode, body: &str) -> (Outcome, Option<String>) {
        let Classified { outcome, confirmation, problem } = classify(status, body);
        assert_eq!(confirmation, None);
        (outcome, problem)
    }

    #[test]
    fn answers_are_classified_by_status_and_receipt() {
        let receipt = r#"{"goods_no":1,"sale":7,"order_id":12,"quantity":1,"remaining":99}"#;
        let expected = Receipt { order_id: 12, goods_no: 1, quantity: 1, remaining: Some(99) };
        assert_eq!(classify(StatusCode::OK, receipt), Classified::sold(expected));
        let order = r#"{"order_id":12,"lines":[{"goods_no":1,"quantity":1,"remaining":99}]}"#;
        assert_eq!(classify(StatusCode::CREATED, order), Classified::sold(expected));
        assert_eq!(unsold(StatusCode::CREATED, r#"{"order_id":12,"lines":[]}"#).0, Outcome::Error);
        let (outcome, problem) = unsold(StatusCode::NOT_FOUND, "{}");
        assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some("answered 404 Not Found")));
        let mismatch = r#"{"type":"urn:seckill-lab:problem:guard-mismatch","status":422}"#;
        let (outcome, problem) = unsold(StatusCode::UNPROCESSABLE_ENTITY, mismatch);
        let expected = "answered 422 Unprocessable Entity: guard-mismatch";
        assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some(expected)));
        let (outcome, problem) = unsold(StatusCode::OK, "sold!");
        assert!(outcome == Outcome::Error && problem.unwrap().starts_with("a 200 without a receipt"));
    }

    // C5
    #[test]
    fn a_409_is_sold_out_only_if_its_problem_says_so() {
        let conflict = |body: &str| unsold(StatusCode::CONFLICT, body);
        let of_type = |r#type: &str| conflict(&format!(r#"{{"type":"{type}","title":"t","status":409,"detail":"d"}}"#));
        assert_eq!(of_type("urn:seckill-lab:problem:sold-out"), (Outcome::SoldOut, None));
        for (answer, expected) in [
            (of_type("urn:seckill-lab:problem:new-one"), "a 409 that leaves the outcome open: new-one"),
            (of_type("about:blank"), "a 409 that leaves the outcome open: about:blank"),
            (of_type("sold-out"), "a 409 that leaves the outcome open: sold-out"),
            (conflict("{}"), "a 409 without a problem document"),
            (conflict("<html>"), "a 409 without a problem document"),
        ] {
            assert_eq!(answer, (Outcome::Error, Some(expected.to_owned())));
        }
    }

    #[test]
    fn a_403_is_over_the_limit_only_if_its_problem_says_so() {
        let forbidden = |body: &str| unsold(StatusCode::FORBIDDEN, body);
        assert_eq!(forbidden(r#"{"type":"urn:seckill-lab:problem:over-limit"}"#), (Outcome::OverLimit, None));
        let of_a_proxy = forbidden("<html>");
        assert_eq!(of_a_proxy, (Outcome::Error, Some("a 403 without a problem document".to_owned())));
    }

    #[test]
    fn a_503_is_a_refusal_only_if_it_says_nothing_was_written() {
        let unavailable = |r#type: &str| {
            let body = format!(r#"{{"type":"{type}","title":"t","status":503,"detail":"d"}}"#);
            unsold(StatusCode::SERVICE_UNAVAILABLE, &body)
        };
        for slug in NOTHING_WRITTEN {
            let (outcome, problem) = unavailable(&format!("urn:seckill-lab:problem:{slug}"));
            assert_eq!((outcome, problem), (Outcome::Refused, Some(format!("refused: {slug}"))));
        }
        for slug in ["outcome-unknown", "request-timeout", "new-one"] {
            let (outcome, problem) = unavailable(&format!("urn:seckill-lab:problem:{slug}"));
            assert!(outcome == Outcome::Error && problem.unwrap().ends_with(slug), "{slug}");
        }
        assert_eq!(unavailable("about:blank").0, Outcome::Error);
        assert_eq!(unavailable("lock-timeout").0, Outcome::Error);
        for body in ["", "<html>", "{}"] {
            let (outcome, problem) = unsold(StatusCode::SERVICE_UNAVAILABLE, body);
            assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some("a 503 without a problem document")));
        }
    }
}
