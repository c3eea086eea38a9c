//! What the service's answer to a purchase means.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::sample::Outcome;

#[derive(Deserialize)]
struct Receipt {
    order_id: i64,
    quantity: i64,
}

/// Beginning of the `type` of every problem of the service.
pub const PROBLEM_TYPE: &str = "urn:seckill-lab:problem:";

/// The problems of a 503 that promise that nothing was written. Of any other one, `outcome-unknown` and
/// `request-timeout` among them, the unit may have been sold.
pub const NOTHING_WRITTEN: [&str; 11] = [
    "lock-timeout",
    "hold-lost",
    "lock-service-unavailable",
    "database-unavailable",
    "sale-restarted",
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
struct Problem {
    r#type: String,
}

/// What a 503 means: its problem document tells whether something may have been sold.
fn classify_unavailable(body: &str) -> (Outcome, String) {
    let Ok(Problem { r#type }) = serde_json::from_str(body) else {
        return (Outcome::Error, "a 503 without a problem document".to_owned());
    };
    match r#type.strip_prefix(PROBLEM_TYPE) {
        Some(slug) if NOTHING_WRITTEN.contains(&slug) => (Outcome::Refused, format!("refused: {slug}")),
        _ => (Outcome::Error, format!("a 503 that leaves the outcome open: {}", shown(&r#type))),
    }
}

/// The type of a problem as it is shown in a report.
fn shown(r#type: &str) -> String {
    let slug = r#type.strip_prefix(PROBLEM_TYPE).unwrap_or(r#type);
    slug.chars().take(TYPE_SHOWN_CHARS).collect::<String>().escape_debug().to_string()
}

/// What an answer means, and what is wrong with it.
pub fn classify(status: StatusCode, body: &str) -> (Outcome, Option<String>) {
    match status {
        StatusCode::OK => match serde_json::from_str(body) {
            Ok(Receipt { order_id, quantity }) => (Outcome::Sold { order_id, quantity }, None),
            Err(error) => (Outcome::Error, Some(format!("a 200 without a receipt: {error}"))),
        },
        StatusCode::CONFLICT => (Outcome::SoldOut, None),
        StatusCode::SERVICE_UNAVAILABLE => {
            let (outcome, problem) = classify_unavailable(body);
            (outcome, Some(problem))
        }
        other => {
            let problem = match serde_json::from_str(body) {
                Ok(Problem { r#type }) => format!("answered {other}: {}", shown(&r#type)),
                Err(_) => format!("answered {other}"),
            };
            (Outcome::Error, Some(problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_classified_by_status_and_receipt() {
        let receipt = r#"{"goods_no":1,"sale":7,"order_id":12,"quantity":1,"remaining":99}"#;
        assert_eq!(classify(StatusCode::OK, receipt), (Outcome::Sold { order_id: 12, quantity: 1 }, None));
        assert_eq!(classify(StatusCode::CONFLICT, "{}"), (Outcome::SoldOut, None));
        let (outcome, problem) = classify(StatusCode::NOT_FOUND, "{}");
        assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some("answered 404 Not Found")));
        let mismatch = r#"{"type":"urn:seckill-lab:problem:guard-mismatch","status":422}"#;
        let (outcome, problem) = classify(StatusCode::UNPROCESSABLE_ENTITY, mismatch);
        let expected = "answered 422 Unprocessable Entity: guard-mismatch";
        assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some(expected)));
        let (outcome, problem) = classify(StatusCode::OK, "sold!");
        assert!(outcome == Outcome::Error && problem.unwrap().starts_with("a 200 without a receipt"));
    }

    #[test]
    fn a_503_is_a_refusal_only_if_it_promises_that_nothing_was_written() {
        let unavailable = |r#type: &str| {
            let body = format!(r#"{{"type":"{type}","title":"t","status":503,"detail":"d"}}"#);
            classify(StatusCode::SERVICE_UNAVAILABLE, &body)
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
            let (outcome, problem) = classify(StatusCode::SERVICE_UNAVAILABLE, body);
            assert_eq!((outcome, problem.as_deref()), (Outcome::Error, Some("a 503 without a problem document")));
        }
    }
}
