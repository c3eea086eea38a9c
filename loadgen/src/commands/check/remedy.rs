//! What to write into the shop file for an answer that nothing names.

use buyers::script::{Doubt, Meanings, Pattern, ShownAnswer};
use serde_json::Value;

use crate::shop::HIDDEN;

/// What tells an answer from others, beside its status.
enum Hint {
    /// The value at a path of its JSON.
    Json(String, Value),
    /// A part of its location.
    Location(String),
    /// A text, which only a reader finds. Other answers have the same status.
    Text,
    /// Nothing that is known to be needed. Another page may have the same status.
    Page,
    /// Nothing.
    Status,
}

/// Returns the pattern to add, if the answer lacks one. `origin` says whether the shop is a file or flags.
pub(super) fn remedy(doubt: &Doubt, origin: &str, answer: &ShownAnswer, meanings: &Meanings) -> Option<String> {
    if !matches!(doubt, Doubt::Unnamed { .. }) {
        return None;
    }
    let Meanings { sold, sold_out, over_limit, refused, queued } = meanings;
    let all = [sold, sold_out, over_limit, refused, queued].into_iter().flatten();
    let alike: Vec<&Pattern> = all.filter(|pattern| pattern.takes_status(answer.status)).collect();
    let status = answer.status;
    let hint = hint(answer, &alike);
    let others = "or else --sold-out, --over-limit, --refused or --queued";
    Some(match (origin.starts_with("--"), &hint) {
        (true, Hint::Json(path, value)) => {
            let pattern = in_quotes(&format!("{status} {path}={value}"));
            format!("; if it means sold, add --sold {pattern}, {others}")
        }
        (true, Hint::Status) => format!("; if it means sold, add --sold '{status}', {others}"),
        (true, Hint::Page) => {
            format!(
                "; if it means sold, add --sold '{status}', {others}; if other pages have {status}, too, a shop file tells them apart by \
                 text = \"…\" in [buy]: write one by --init"
            )
        }
        (true, Hint::Location(_) | Hint::Text) => {
            format!("; only a shop file can tell it apart, by {} in [buy]: write one by --init", of_file(status, &hint))
        }
        (false, _) => {
            let note = match hint {
                Hint::Text => {
                    format!("; other answers have {status}, too, so write a text into it that only this one has")
                }
                Hint::Page => {
                    format!("; if other pages have {status}, too, text = \"…\" in the pattern tells them apart")
                }
                _ => String::new(),
            };
            let pattern = of_file(status, &hint);
            format!(
                "; if it means sold, write {pattern} into [buy], or else sold-out, over-limit, refused or queued{note}"
            )
        }
    })
}

fn of_file(status: u16, hint: &Hint) -> String {
    let more = match hint {
        // A text of JSON is one of TOML, too.
        Hint::Json(path, value) => format!(", json = {{ {path:?} = {value} }}"),
        Hint::Location(part) => format!(", header = {{ location = {part:?} }}"),
        Hint::Text => ", text = \"…\"".to_owned(),
        Hint::Page | Hint::Status => String::new(),
    };
    format!("sold = [{{ status = {status}{more} }}]")
}

/// Returns a text in single quotes for the shell.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns what tells an answer from those that the patterns of its status name.
fn hint(answer: &ShownAnswer, alike: &[&Pattern]) -> Hint {
    if let Some(part) = telling_location(answer) {
        return Hint::Location(part);
    }
    let document: Option<Value> = serde_json::from_str(&answer.body).ok();
    let value = document.as_ref().and_then(|document| other_value(document, alike).or_else(|| first_flag(document)));
    match value {
        Some((path, value)) => Hint::Json(path, value),
        None if !alike.is_empty() => Hint::Text,
        None if document.is_none() && !answer.body.trim().is_empty() => Hint::Page,
        None => Hint::Status,
    }
}

/// Returns the value at a path that a pattern of the same status names, if it is another one.
fn other_value(document: &Value, alike: &[&Pattern]) -> Option<(String, Value)> {
    let mut named = alike.iter().flat_map(|pattern| &pattern.values);
    named.find_map(|(path, wanted)| {
        let found = path.find(document).filter(|found| *found != wanted && is_usable(found))?;
        Some((path.to_string(), found.clone()))
    })
}

/// Tells whether a value can stand in a shop file and is no secret.
fn is_usable(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Number(number) => number.is_i64() || number.is_f64(),
        Value::String(text) => !text.contains(HIDDEN),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns the first `true` or `false` of a JSON object. A number or a text may be an order's own, and then no other answer has it.
fn first_flag(document: &Value) -> Option<(String, Value)> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
    let mut usable = document.as_object()?.iter().filter(|(name, value)| is_name(name) && value.is_boolean());
    usable.next().map(|(name, value)| (format!("$.{name}"), value.clone()))
}

/// Returns the part of a redirect's path that other orders have, too: what follows the last name with a digit, or what is before it.
fn telling_location(answer: &ShownAnswer) -> Option<String> {
    if !(300..400).contains(&answer.status) {
        return None;
    }
    let (_, location) = answer.headers.iter().find(|(name, _)| name == "location")?;
    let behind_scheme = location.split_once("://").map_or(location.as_str(), |(_, rest)| rest);
    let path = &behind_scheme[behind_scheme.find('/')?..];
    let path = path.split(['?', '#']).next()?;
    let has_number = |name: &str| name.contains(|letter: char| letter.is_ascii_digit());
    let names: Vec<&str> = path.split('/').skip(1).filter(|name| !name.is_empty()).collect();
    let behind = names.rsplit(|name| has_number(name)).next().unwrap_or_default();
    let before = names.split(|name| has_number(name)).next().unwrap_or_default();
    let part = match (behind, before) {
        ([], []) => return None,
        ([], before) => format!("/{}/", before.join("/")),
        (behind, _) => format!("/{}", behind.join("/")),
    };
    part.bytes().all(|byte| byte.is_ascii_graphic()).then_some(part)
}

#[cfg(test)]
mod tests;
