//! What an answer of a shop means.

use std::fmt;

use reqwest::header::HeaderName;
use serde_json::Value;

use super::answer::ShopAnswer;
use super::json_path::JsonPath;

/// What an answer tells the buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The buyer has a unit.
    Sold,
    /// The buyer waits and has to ask for the outcome.
    Queued,
    /// Nothing is left.
    SoldOut,
    /// The buyer has as many units as one buyer may have.
    OverLimit,
    /// The shop did not serve the buyer, and promises that nothing was bought.
    Refused,
}

/// The answers that a file names, by meaning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meanings {
    /// Told that a unit was bought.
    pub sold: Vec<Pattern>,
    /// Told that nothing was left.
    pub sold_out: Vec<Pattern>,
    /// Told that the buyer has as many units as one buyer may have.
    pub over_limit: Vec<Pattern>,
    /// Refused, and nothing was bought.
    pub refused: Vec<Pattern>,
    /// Told to ask for the outcome later.
    pub queued: Vec<Pattern>,
}

/// What an answer must have: one of the statuses, every value at its path, every header, and the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pattern {
    /// The statuses, of which the answer has one. If there are none, every status will do.
    pub statuses: Vec<u16>,
    /// The values of the JSON body.
    pub values: Vec<(JsonPath, Value)>,
    /// The headers. Each is there with a value that contains the text.
    pub headers: Vec<(HeaderName, String)>,
    /// The text that the body contains. Of a long body, only the beginning that was kept is searched.
    pub text: Option<String>,
}

impl Meanings {
    /// Returns what an answer means, or `None` if no pattern matches it. Sold comes first, then queued, sold
    /// out, over the limit and refused.
    pub fn of(&self, answer: &ShopAnswer) -> Option<Meaning> {
        let of_the_last = [(&self.sold, Meaning::Sold), (&self.queued, Meaning::Queued)];
        first(&of_the_last, answer).or_else(|| self.of_an_early(answer))
    }

    /// Returns what the answer to an earlier request means if it ends the purchase: sold out, over the limit or
    /// refused.
    pub fn of_an_early(&self, answer: &ShopAnswer) -> Option<Meaning> {
        let ending = [
            (&self.sold_out, Meaning::SoldOut),
            (&self.over_limit, Meaning::OverLimit),
            (&self.refused, Meaning::Refused),
        ];
        first(&ending, answer)
    }
}

fn first(meanings: &[(&Vec<Pattern>, Meaning)], answer: &ShopAnswer) -> Option<Meaning> {
    let matching = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(answer));
    meanings.iter().find(|(patterns, _)| matching(patterns)).map(|(_, meaning)| *meaning)
}

impl Pattern {
    /// Returns whether the answer has all that the pattern names.
    pub fn matches(&self, answer: &ShopAnswer) -> bool {
        self.takes_status(answer.status.as_u16())
            && self.headers.iter().all(|(name, part)| answer.has_header(name, part))
            && self.text.as_ref().is_none_or(|text| answer.has_text(text))
            && (self.values.is_empty() || answer.json().is_some_and(|document| self.has_values(document)))
    }

    /// Returns whether an answer of this status can match.
    pub fn takes_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    /// Returns whether the pattern asks for more than a status. Then a status alone does not tell whether it matches.
    pub fn needs_more_than_status(&self) -> bool {
        !self.values.is_empty() || !self.headers.is_empty() || self.text.is_some()
    }

    fn has_values(&self, document: &Value) -> bool {
        self.values.iter().all(|(path, value)| path.find(document).is_some_and(|found| is_same(found, value)))
    }
}

/// Returns whether two values are equal. A number is the same with and without a fraction of zero: `1` and `1.0`.
fn is_same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) if found.is_f64() != wanted.is_f64() => {
            found.as_f64() == wanted.as_f64()
        }
        _ => found == wanted,
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Meaning::Sold => "sold",
            Meaning::Queued => "queued",
            Meaning::SoldOut => "sold out",
            Meaning::OverLimit => "over the limit",
            Meaning::Refused => "refused",
        })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: &str) -> ShopAnswer {
        let status = StatusCode::from_u16(status).unwrap();
        ShopAnswer::new(status, HeaderMap::new(), body.as_bytes().to_vec(), false)
    }

    fn pattern(statuses: &[u16], values: &[(&str, Value)]) -> Pattern {
        let values = values.iter().map(|(path, value)| (JsonPath::parse(path).unwrap(), value.clone()));
        Pattern { statuses: statuses.to_vec(), values: values.collect(), ..Pattern::default() }
    }

    /// Returns a redirect with these locations.
    fn redirect(locations: &[&'static str]) -> ShopAnswer {
        let locations = locations.iter().map(|location| (LOCATION, HeaderValue::from_static(location)));
        ShopAnswer::new(StatusCode::FOUND, locations.collect(), b"<p>Thank you</p>".to_vec(), false)
    }

    fn to(location: &str) -> Pattern {
        Pattern { headers: vec![(LOCATION, location.to_owned())], ..Pattern::default() }
    }

    #[test]
    fn all_parts_of_a_pattern_must_match() {
        let pattern = pattern(&[200, 201], &[("$.success", json!(true)), ("$.code", json!(0))]);
        assert!(pattern.matches(&answer(201, r#"{"success":true,"code":0}"#)));
        assert!(pattern.matches(&answer(200, r#"{"success":true,"code":0.0}"#)));
        assert!(!pattern.matches(&answer(202, r#"{"success":true,"code":0}"#)));
        assert!(!pattern.matches(&answer(200, r#"{"success":true,"code":"0"}"#)));
        assert!(!pattern.matches(&answer(200, r#"{"success":true}"#)));
        assert!(!pattern.matches(&answer(200, "sold")));
    }

    #[test]
    fn a_pattern_without_values_needs_no_json() {
        assert!(pattern(&[200], &[]).matches(&answer(200, "<html>")));
        assert!(pattern(&[], &[("$", json!("sold"))]).matches(&answer(500, "\"sold\"")));
    }

    #[test]
    fn a_header_contains_the_text_of_its_pattern() {
        for location in ["/thanks", "/order/123/thanks?x=1", "http://127.0.0.1:8000/thanks#top"] {
            assert!(to("/thanks").matches(&redirect(&[location])), "{location}");
        }
        assert!(!to("/thanks").matches(&redirect(&["/Thanks"])), "the case of a value counts");
        assert!(!to("/thanks").matches(&redirect(&["/sold-out"])));
        assert!(!to("/thanks").matches(&redirect(&[])));
        assert!(to("/thanks").matches(&redirect(&["/sold-out", "/thanks"])), "one of several values is enough");
    }

    #[test]
    fn a_header_and_a_text_must_match_both() {
        let pattern = Pattern { statuses: vec![302], text: Some("Thank you".to_owned()), ..to("/thanks") };
        assert!(pattern.matches(&redirect(&["/thanks"])));
        assert!(!pattern.matches(&redirect(&["/sold-out"])));
        assert!(!Pattern { statuses: vec![303], ..pattern.clone() }.matches(&redirect(&["/thanks"])));
        assert!(!Pattern { text: Some("thank you".to_owned()), ..pattern }.matches(&redirect(&["/thanks"])));
    }

    #[test]
    fn a_text_is_searched_in_the_kept_beginning() {
        let cut = ShopAnswer::new(StatusCode::OK, HeaderMap::new(), "<p>谢谢".as_bytes().to_vec(), true);
        let of = |text: &str| Pattern { text: Some(text.to_owned()), ..Pattern::default() };
        assert!(of("谢谢").matches(&cut));
        assert!(!of("谢谢您").matches(&cut), "nobody knows how a cut answer goes on");
    }

    #[test]
    fn a_pattern_tells_whether_a_status_is_enough() {
        assert!(!pattern(&[302], &[]).needs_more_than_status());
        let text = Pattern { text: Some("a".to_owned()), ..Pattern::default() };
        let more = [pattern(&[302], &[("$", json!(1))]), to("/thanks"), text];
        assert!(more.iter().all(Pattern::needs_more_than_status));
        assert!(more[1].takes_status(302) && !more[0].takes_status(200));
    }

    #[test]
    fn large_numbers_are_compared_exactly() {
        let pattern = pattern(&[], &[("$", json!(9_007_199_254_740_993_u64))]);
        assert!(pattern.matches(&answer(200, "9007199254740993")));
        assert!(!pattern.matches(&answer(200, "9007199254740992")));
    }

    #[test]
    fn the_beginning_of_a_long_answer_is_no_json() {
        let answer = ShopAnswer::new(StatusCode::OK, HeaderMap::new(), b"1".to_vec(), true);
        assert!(!pattern(&[], &[("$", json!(1))]).matches(&answer));
    }

    #[test]
    fn meanings_are_tried_in_their_order() {
        let all = vec![pattern(&[], &[])];
        let mut meanings = Meanings {
            sold: all.clone(),
            sold_out: all.clone(),
            over_limit: all.clone(),
            refused: all.clone(),
            queued: all,
        };
        let answer = answer(200, "");
        let mut found = Vec::new();
        while let Some(meaning) = meanings.of(&answer) {
            found.push(meaning);
            match meaning {
                Meaning::Sold => &mut meanings.sold,
                Meaning::Queued => &mut meanings.queued,
                Meaning::SoldOut => &mut meanings.sold_out,
                Meaning::OverLimit => &mut meanings.over_limit,
                Meaning::Refused => &mut meanings.refused,
            }
            .clear();
        }
        use Meaning::{OverLimit, Queued, Refused, Sold, SoldOut};
        assert_eq!(found, [Sold, Queued, SoldOut, OverLimit, Refused]);
    }
}
