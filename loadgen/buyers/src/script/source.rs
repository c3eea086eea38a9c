//! Where in an answer a value is.

use std::fmt;

use reqwest::header::{HeaderName, SET_COOKIE};
use serde_json::Value;

use super::answer::ShopAnswer;
use super::json_path::{JsonPath, JsonPathError};

const HEADER: &str = "header:";
const COOKIE: &str = "cookie:";

/// Where in an answer a value is. `Display` writes it as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// At a path of the JSON body, as `$.data.token`.
    Json(JsonPath),
    /// In a header, as `header:X-Token`.
    Header(HeaderName),
    /// In a cookie that the answer sets, as `cookie:session`.
    Cookie(String),
}

/// Why a text is no source of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The path is wrong.
    #[error(transparent)]
    Path(#[from] JsonPathError),
    /// The name of the header or the cookie is wrong.
    #[error("`{text}` names no header or cookie: a name has letters, digits and a few signs like `-` only")]
    Name {
        /// The text.
        text: String,
    },
    /// The text begins like none of the sources.
    #[error("`{text}` is no source of a value; write $.path, header:NAME or cookie:NAME")]
    Unknown {
        /// The text.
        text: String,
    },
}

impl Source {
    /// Reads a source: `$.path`, `header:NAME` or `cookie:NAME`.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the text begins like none of them, or when the path or the name is wrong.
    pub fn parse(text: &str) -> Result<Source, SourceError> {
        // Cookies and headers are named by the same characters, but letters of cookies have a case.
        let header = |name: &str| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| SourceError::Name { text: text.to_owned() })
        };
        if text.starts_with('$') {
            Ok(Source::Json(JsonPath::parse(text)?))
        } else if let Some(name) = text.strip_prefix(HEADER) {
            header(name).map(Source::Header)
        } else if let Some(name) = text.strip_prefix(COOKIE) {
            header(name).map(|_| Source::Cookie(name.to_owned()))
        } else {
            Err(SourceError::Unknown { text: text.to_owned() })
        }
    }

    /// Returns the value in this answer, if the answer has it. In JSON a value is a string, a number, `true` or `false`. Lists,
    /// objects and `null` are none. An empty cookie is none, as a shop takes a cookie back so.
    pub fn value_in(&self, answer: &ShopAnswer) -> Option<String> {
        match self {
            Source::Json(path) => match path.find(answer.json()?)? {
                Value::String(text) => Some(text.clone()),
                value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            },
            Source::Header(name) => Some(String::from_utf8_lossy(answer.headers.get(name)?.as_bytes()).into_owned()),
            Source::Cookie(name) => cookie(answer, name),
        }
    }
}

/// Returns the value of a cookie that an answer sets. If the answer sets it twice, the latter counts.
fn cookie(answer: &ShopAnswer, name: &str) -> Option<String> {
    let pairs = answer.headers.get_all(SET_COOKIE).iter().filter_map(|set| {
        let pair = set.to_str().ok()?.split(';').next()?;
        pair.split_once('=')
    });
    let value = pairs.filter(|(found, _)| found.trim() == name).map(|(_, value)| value.trim()).next_back()?;
    (!value.is_empty()).then(|| value.to_owned())
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Json(path) => path.fmt(formatter),
            Source::Header(name) => write!(formatter, "{HEADER}{name}"),
            Source::Cookie(name) => write!(formatter, "{COOKIE}{name}"),
        }
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    fn answer(headers: &[(&'static str, &'static str)], body: &str) -> ShopAnswer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        ShopAnswer::new(StatusCode::OK, map, body.as_bytes().to_vec(), false)
    }

    fn value(source: &str, answer: &ShopAnswer) -> Option<String> {
        Source::parse(source).unwrap().value_in(answer)
    }

    #[test]
    fn a_value_of_json_is_taken_as_text() {
        let answer =
            answer(&[], r#"{"text":"a","number":12345678901234567890,"flag":false,"none":null,"list":[],"object":{}}"#);
        assert_eq!(value("$.text", &answer).as_deref(), Some("a"));
        assert_eq!(value("$.number", &answer).as_deref(), Some("12345678901234567890"));
        assert_eq!(value("$.flag", &answer).as_deref(), Some("false"));
        for absent in ["$.none", "$.list", "$.object", "$.absent"] {
            assert_eq!(value(absent, &answer), None, "{absent}");
        }
    }

    #[test]
    fn headers_and_cookies_are_found_by_name() {
        let cookies =
            [("set-cookie", "a=1; Path=/"), ("set-cookie", "A=2"), ("set-cookie", "a=3=4;"), ("set-cookie", "b=")];
        let answer = answer(&[&cookies[..], &[("x-token", "t")]].concat(), "no JSON");
        assert_eq!(value("header:X-Token", &answer).as_deref(), Some("t"));
        assert_eq!(value("header:x-other", &answer), None);
        assert_eq!(value("cookie:a", &answer).as_deref(), Some("3=4"));
        assert_eq!(value("cookie:A", &answer).as_deref(), Some("2"));
        assert_eq!(value("cookie:b", &answer), None);
        assert_eq!(value("$.a", &answer), None);
    }

    #[test]
    fn a_source_is_written_as_it_was_read() {
        for text in ["$.a[0]", "header:x-token", "cookie:Session"] {
            assert_eq!(Source::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_source_is_refused() {
        let unknown = |text: &str| SourceError::Unknown { text: text.to_owned() };
        let name = |text: &str| SourceError::Name { text: text.to_owned() };
        assert_eq!(Source::parse("data.token"), Err(unknown("data.token")));
        assert_eq!(Source::parse("header:"), Err(name("header:")));
        assert_eq!(Source::parse("cookie:a b"), Err(name("cookie:a b")));
        assert!(matches!(Source::parse("$..a"), Err(SourceError::Path(_))));
    }
}
