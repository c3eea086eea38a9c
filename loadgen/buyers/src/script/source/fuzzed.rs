//! Sources that a user writes, and the headers that a shop answers.

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};

use super::*;

// C56
#[test]
fn a_source_is_written_as_it_was_read_and_finds_one_line() {
    fuzz::any_lines("sources", |lines| {
        let [text, answered @ ..] = lines else { return };
        let source = match Source::parse(text) {
            Ok(source) => source,
            Err(error) => return assert!(error.to_string().contains(text), "{text:?}: {error}"),
        };
        let shown = source.to_string();
        assert!(shown == *text || matches!(source, Source::Header(_)) && shown.eq_ignore_ascii_case(text), "{shown}");
        assert_eq!(Source::parse(&shown), Ok(source.clone()));
        let mut headers = HeaderMap::new();
        for line in answered {
            let Ok(value) = HeaderValue::from_str(line) else { continue };
            headers.append(SET_COOKIE, value.clone());
            if let Source::Header(name) = &source {
                headers.append(name, value);
            }
        }
        let body = answered.join("\n").into_bytes();
        let answer = ShopAnswer::new(StatusCode::OK, headers, body, false);
        let value = source.value_in(&answer);
        match &source {
            Source::Json(_) => {}
            Source::Header(name) => assert_eq!(value.is_some(), answer.headers.contains_key(name)),
            Source::Cookie(name) => {
                let is_set = |value: &String| answered.iter().any(|line| line.contains(name) && line.contains(value));
                assert!(value.is_none_or(|value| !value.is_empty() && !value.contains(';') && is_set(&value)));
            }
        }
    });
}
