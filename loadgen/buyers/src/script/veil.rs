//! Secret values, which no report and no screen shows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::template::{Values, encoded};

/// What stands where a secret was.
const HIDDEN: &str = "…";

/// The secret values of a buyer, in each spelling that a request or an answer may have.
pub(crate) struct Veil {
    /// The longest first: one secret may be a part of another.
    secrets: Vec<String>,
}

impl Veil {
    /// Returns the veil over the values that have these names.
    pub(crate) fn of(values: &Values, names: &BTreeSet<String>) -> Veil {
        let values = names.iter().filter_map(|name| values.get(name)).filter(|value| !value.is_empty());
        let spellings = values.flat_map(|value| [value.clone(), encoded(value), in_json(value)]);
        let mut secrets: Vec<String> = spellings.collect::<BTreeSet<_>>().into_iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Veil { secrets }
    }

    /// Returns the text without secrets.
    pub(crate) fn over(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

/// Returns a value as it stands in a string of JSON.
fn in_json(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_in_every_spelling() {
        let values = [("token", "a\"/b"), ("short", "a"), ("empty", ""), ("open", "b")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names = ["token", "short", "empty", "absent"].map(str::to_owned);
        let veil = Veil::of(&values.into(), &names.into());
        assert_eq!(veil.over(r#"x a"/b y a%22%2Fb z {"t":"a\"/b"} a b"#), r#"x … y … z {"t":"…"} … b"#);
    }
}
