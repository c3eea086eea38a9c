//! Answers of a service, or of a proxy in front of it.

use super::*;

// C56
#[test]
fn an_answer_that_does_not_say_so_sells_and_refuses_nothing() {
    fuzz::any_lines("answers", |lines| {
        let [status, body @ ..] = lines else { return };
        let body = body.join("\n");
        let Some(status) = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok()) else { return };
        let Classified { outcome, confirmation, problem } = classify(status, &body);
        let kind = serde_json::from_str::<ProblemDocument>(&body).map(|document| document.r#type).unwrap_or_default();
        let slug = kind.strip_prefix(PROBLEM_TYPE).unwrap_or_default();
        match outcome {
            Outcome::Sold => assert!(status == StatusCode::OK && confirmation.is_some() && problem.is_none()),
            Outcome::SoldOut => assert_eq!((status.as_u16(), slug), (409, SOLD_OUT)),
            Outcome::OverLimit => assert_eq!((status.as_u16(), slug), (403, OVER_LIMIT)),
            Outcome::Refused => assert!(status.as_u16() == 503 && NOTHING_WRITTEN.contains(&slug), "{body}"),
            _ => assert!(problem.is_some(), "an error says what is wrong"),
        }
        assert!(confirmation.is_none() || outcome == Outcome::Sold);
        assert!(problem.is_none_or(|problem| !problem.chars().any(char::is_control)), "{body:?}");
    });
}
