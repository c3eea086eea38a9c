//! Paths to one value of a JSON document, as RFC 9535 writes them.
//!
//! `rsonpath-syntax` parses them. It gives the parts of a path, so that a path is found to be singular, and walked without
//! any query engine. `serde_json_path` hides the parts, and `jsonpath-rust` leaves names quoted and escaped.

use std::fmt;

use rsonpath_syntax::{Index, Segment, Selector};
use serde_json::Value;

/// A singular query: it names one value, by names of members and indices of elements only. `Display` writes it as it was
/// parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    steps: Vec<JsonStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum JsonStep {
    Member(String),
    /// An element, counted from 0.
    Element(usize),
    /// An element from the end: the last one is 1.
    ElementFromEnd(usize),
}

/// Why a text is no path to one value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The text does not follow the grammar of RFC 9535.
    #[error("`{text}` is no JSONPath; write it like $.data.items[0]['a b']")]
    Syntax {
        /// The text.
        text: String,
    },
    /// The query may find several values.
    #[error("`{text}` may find several values; write a path of names and indices only, like $.data.items[0]['a b']")]
    Several {
        /// The text.
        text: String,
    },
}

impl JsonPath {
    /// Reads a path such as `$.data[0]['a b']`.
    ///
    /// # Errors
    ///
    /// [`JsonPathError::Syntax`] when the text is no JSONPath, [`JsonPathError::Several`] when the query is not singular.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        let text = text.to_owned();
        match rsonpath_syntax::parse(&text) {
            Ok(query) => match query.segments().iter().map(JsonStep::of).collect() {
                Some(steps) => Ok(JsonPath { text, steps }),
                None => Err(JsonPathError::Several { text }),
            },
            // The parser's own message is left out: to write it panics for some texts.
            Err(_) => Err(JsonPathError::Syntax { text }),
        }
    }

    /// Returns the steps of the path as JSON: a text for the name of a member, a number for the index of an element. A negative
    /// number counts from the end: the last element is -1.
    pub fn steps(&self) -> Vec<Value> {
        let step = |step: &JsonStep| match step {
            JsonStep::Member(name) => Value::from(name.as_str()),
            JsonStep::Element(index) => Value::from(*index),
            JsonStep::ElementFromEnd(back) => Value::from(i64::try_from(*back).map_or(i64::MIN, i64::wrapping_neg)),
        };
        self.steps.iter().map(step).collect()
    }

    /// Returns the value at this path, if the document has it.
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.steps.iter().try_fold(document, |value, step| match step {
            JsonStep::Member(name) => value.as_object()?.get(name),
            JsonStep::Element(index) => value.as_array()?.get(*index),
            JsonStep::ElementFromEnd(back) => {
                let elements = value.as_array()?;
                elements.get(elements.len().checked_sub(*back)?)
            }
        })
    }
}

impl JsonStep {
    /// Returns the only selector of a segment, if that selects one value.
    fn of(segment: &Segment) -> Option<JsonStep> {
        let Segment::Child(selectors) = segment else { return None };
        let [selector] = selectors.as_slice() else { return None };
        match selector {
            Selector::Name(name) => Some(JsonStep::Member(name.unquoted().to_owned())),
            Selector::Index(Index::FromStart(index)) => usize::try_from(index.as_u64()).ok().map(JsonStep::Element),
            Selector::Index(Index::FromEnd(back)) => usize::try_from(back.as_u64()).ok().map(JsonStep::ElementFromEnd),
            _ => None,
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_finds_its_value() {
        let document = json!({"data": {"a b": [1, {"é'": null}, 3]}, "": 4});
        for (path, found) in [
            ("$", Some(&document)),
            ("$.data['a b'][0]", Some(&json!(1))),
            ("$[\"data\"][\"a b\"][-1]", Some(&json!(3))),
            ("$.data['a b'][1]['\\u00e9\\'']", Some(&json!(null))),
            ("$['']", Some(&json!(4))),
            ("$.data['a b'][3]", None),
            ("$.data['a b'][-4]", None),
            ("$.data[0]", None),
            ("$.data['a b'].x", None),
            ("$.none.data", None),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().find(&document), found, "{path}");
            assert_eq!(JsonPath::parse(path).unwrap().to_string(), path);
        }
    }

    #[test]
    fn the_steps_of_a_path_are_names_and_indices() {
        let path = JsonPath::parse("$.data['a b'][0][-2]").unwrap();
        assert_eq!(path.steps(), [json!("data"), json!("a b"), json!(0), json!(-2)]);
        assert_eq!(JsonPath::parse("$").unwrap().steps(), [json!(null); 0]);
    }

    #[test]
    fn a_query_for_several_values_is_refused() {
        for query in ["$..a", "$.a[*]", "$.*", "$.a[0:1]", "$['a','b']", "$[0,1]", "$[?@.a]", "$[?@.a == 1]"] {
            assert_eq!(JsonPath::parse(query), Err(JsonPathError::Several { text: query.to_owned() }));
        }
    }

    #[test]
    fn a_wrong_path_is_refused_on_one_line() {
        for wrong in ["", "data", ".data", "$.", "$.a b", "$[01]", "$['a'", " $.a", "$.a ", "$.a-b", "$.a[$[-9a"] {
            let refused = JsonPath::parse(wrong).unwrap_err();
            assert!(matches!(&refused, JsonPathError::Syntax { text } if text == wrong));
            assert!(!refused.to_string().contains('\n'), "{refused}");
        }
    }
}
