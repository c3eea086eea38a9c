//! Texts with values: `{{name}}` stands for the value of that name.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The values of a buyer by their names.
pub type Values = BTreeMap<String, String>;

const OPENING: &str = "{{";
const CLOSING: &str = "}}";

/// What is encoded in a URL: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text in which `{{name}}` stands for a value. A name has letters, digits, `_`, `-` and `.` only.
///
/// `Display` writes the text as it was parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// The name of a value.
    Value(String),
}

/// Why a text is no template. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The end of a name is missing.
    #[error("`{{{{` at character {position} is never closed; write {{{{name}}}}")]
    Unclosed {
        /// Where the braces open.
        position: usize,
    },
    /// The text between the braces is no name.
    #[error(
        "`{name}` in the braces at character {position} is no name of a value; a name has letters, digits, `_`, `-` and `.` only"
    )]
    Name {
        /// The text between the braces.
        name: String,
        /// Where the braces open.
        position: usize,
    },
}

/// A value that a template needs and that nothing gave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing gives the value `{name}`: it is no column of the CSV, and no answer had it")]
pub struct MissingValue {
    /// The name of the value.
    pub name: String,
}

impl Template {
    /// Reads a text. Single braces and `}}` without `{{` are text, as JSON has both.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] when `{{` is never closed, or when no name stands between the braces.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPENING) {
            let opening = text.len() - after.len() - OPENING.len();
            let position = text[..opening].chars().count() + 1;
            let (name, behind) = after.split_once(CLOSING).ok_or(TemplateError::Unclosed { position })?;
            if name.is_empty() || !name.chars().all(is_of_a_name) {
                return Err(TemplateError::Name { name: name.to_owned(), position });
            }
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            parts.push(TemplatePart::Value(name.to_owned()));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Template { parts })
    }

    /// Returns the names of the values in the order of the text. A name that stands there twice comes twice.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Value(name) => Some(name.as_str()),
        })
    }

    /// Returns the text with its values, each as it is. Nothing is escaped, in JSON neither: a value with a quote in it ends
    /// the string around it.
    ///
    /// # Errors
    ///
    /// [`MissingValue`] when one of the values is absent.
    pub fn fill(&self, values: &Values) -> Result<String, MissingValue> {
        self.fill_by(values, |filled, value| filled.push_str(value))
    }

    /// Returns the URL with its values. A value in the path, the query or the fragment is percent-encoded, so that it stays one
    /// value whatever it contains. A value before the path is taken as it is: `{{url}}` begins a URL.
    ///
    /// # Errors
    ///
    /// [`MissingValue`] when one of the values is absent.
    pub fn fill_url(&self, values: &Values) -> Result<String, MissingValue> {
        self.fill_by(values, |filled, value| {
            if has_path(filled) {
                filled.extend(utf8_percent_encode(value, RESERVED));
            } else {
                filled.push_str(value);
            }
        })
    }

    fn fill_by(&self, values: &Values, put: impl Fn(&mut String, &str)) -> Result<String, MissingValue> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => filled.push_str(text),
                TemplatePart::Value(name) => {
                    let value = values.get(name).ok_or_else(|| MissingValue { name: name.clone() })?;
                    put(&mut filled, value);
                }
            }
        }
        Ok(filled)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Text(text) => formatter.write_str(text),
            TemplatePart::Value(name) => write!(formatter, "{OPENING}{name}{CLOSING}"),
        })
    }
}

/// Returns a value as it stands in the path or the query of a URL.
pub fn encoded(value: &str) -> String {
    utf8_percent_encode(value, RESERVED).to_string()
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_alphanumeric() || "_-.".contains(letter)
}

/// Returns whether the beginning of a URL reaches beyond its host.
fn has_path(beginning: &str) -> bool {
    let behind_scheme = beginning.split_once("://").map_or(beginning, |(_, rest)| rest);
    behind_scheme.contains(['/', '?', '#'])
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_stand_where_their_names_were() {
        let template = Template::parse("{\"a\":{\"b\":{{number}}},\"c\":\"{{env.TOKEN}}\"}").unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["number", "env.TOKEN"]);
        let filled = template.fill(&values(&[("number", "7"), ("env.TOKEN", "t{{x}}")])).unwrap();
        assert_eq!(filled, "{\"a\":{\"b\":7},\"c\":\"t{{x}}\"}");
        let missing = template.fill(&values(&[("number", "7")])).unwrap_err();
        assert_eq!(missing, MissingValue { name: "env.TOKEN".to_owned() });
    }

    #[test]
    fn a_value_in_a_url_stays_one_value() {
        let template = Template::parse("{{url}}/buy/{{sku}}?phone={{phone}}&next={{url}}").unwrap();
        let values = values(&[("url", "http://a:1/shop"), ("sku", "a/b c"), ("phone", "+49&x=ü~")]);
        let expected = "http://a:1/shop/buy/a%2Fb%20c?phone=%2B49%26x%3D%C3%BC~&next=http%3A%2F%2Fa%3A1%2Fshop";
        assert_eq!(template.fill_url(&values).unwrap(), expected);
    }

    #[test]
    fn a_host_in_a_url_is_taken_as_it_is() {
        let template = Template::parse("http://{{host}}:{{port}}/{{host}}").unwrap();
        let values = values(&[("host", "[::1]"), ("port", "80")]);
        assert_eq!(template.fill_url(&values).unwrap(), "http://[::1]:80/%5B%3A%3A1%5D");
    }

    #[test]
    fn a_wrong_name_is_refused_with_its_position() {
        for (text, name) in [("é {{a b}}", "a b"), ("é {{}}", ""), ("é {{{a}}}", "{a"), ("é {{\"a\":1}}", "\"a\":1")]
        {
            let refused = TemplateError::Name { name: name.to_owned(), position: 3 };
            assert_eq!(Template::parse(text), Err(refused), "{text}");
        }
    }

    #[test]
    fn an_error_shows_the_braces_to_write() {
        let unclosed = Template::parse("a{{b}").unwrap_err();
        assert_eq!(unclosed.to_string(), "`{{` at character 2 is never closed; write {{name}}");
    }

    proptest! {
        #[test]
        fn text_without_values_is_kept(text in "\\PC*") {
            prop_assume!(!text.contains(OPENING));
            let template = Template::parse(&text).unwrap();
            prop_assert_eq!(template.names().count(), 0);
            prop_assert_eq!(template.to_string(), text.clone());
            prop_assert_eq!(template.fill(&Values::new()).unwrap(), text);
        }

        #[test]
        fn a_template_writes_and_fills_what_it_read(
            parts in prop::collection::vec(("[^{}]{0,9}", "[a-zé0-9_.-]{1,9}", "\\PC{0,9}"), 0..9),
        ) {
            let text: String = parts.iter().map(|(text, name, _)| format!("{text}{{{{{name}}}}}")).collect();
            let template = Template::parse(&text).unwrap();
            prop_assert_eq!(template.to_string(), text);
            prop_assert!(template.names().eq(parts.iter().map(|(_, name, _)| name)));
            let values: Values = parts.iter().map(|(_, name, value)| (name.clone(), value.clone())).collect();
            let expected: String = parts.iter().map(|(text, name, _)| format!("{text}{}", values[name])).collect();
            prop_assert_eq!(template.fill(&values).unwrap(), expected);
        }

        #[test]
        fn braces_that_never_close_are_refused(before in "[^{}]{0,9}", after in "[^{}]{0,9}") {
            let position = before.chars().count() + 1;
            let refused = Template::parse(&format!("{before}{{{{{after}}}"));
            prop_assert_eq!(refused, Err(TemplateError::Unclosed { position }));
        }
    }
}
