//! Words and conditions of the shell.

use buyers::script::{JsonPath, Pattern, Source};
use serde_json::Value;

/// A word of the shell that is being written.
#[derive(Default)]
pub(super) struct Word {
    /// The beginning, in quotes where it needs them.
    written: String,
    /// Text that follows, without quotes.
    text: String,
}

impl Word {
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.text.is_empty()
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text += text;
    }

    /// Adds what the shell is to replace.
    pub(super) fn shell(&mut self, expansion: &str) {
        self.written += &plain(&std::mem::take(&mut self.text));
        self.written += &format!("\"{expansion}\"");
    }

    pub(super) fn written(mut self) -> String {
        self.written += &plain(&self.text);
        if self.written.is_empty() { "''".to_owned() } else { self.written }
    }
}

/// Puts a text into single quotes for the shell.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes a text as a word of the shell, without quotes where none are needed.
pub(super) fn plain(text: &str) -> String {
    let needs_none = |letter: char| letter.is_ascii_alphanumeric() || "/:._-@%+,=".contains(letter);
    if text.chars().all(needs_none) { text.to_owned() } else { literal(text) }
}

/// Names the shell variable of a buyer's value. Two values never share one.
pub(super) fn variable(name: &str, number: usize) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            letter.to_string()
        } else {
            format!("_{:x}_", u32::from(letter))
        }
    };
    let name: String = name.chars().map(letter).collect();
    let start = if name.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
    format!("{start}{name}_{number}")
}

/// Writes the expansion of a variable of the environment. A program may have set one whose name the shell cannot write.
pub(super) fn of_environment(name: &str) -> String {
    if is_name(name) { format!("${name}") } else { format!("$(printenv {})", literal(name)) }
}

/// Tells whether a text can name a variable of the shell.
pub(super) fn is_name(text: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    text.starts_with(is_first) && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Writes the command that takes a value from the last answer of this name.
pub(super) fn take(source: &Source, name: impl std::fmt::Display) -> String {
    match source {
        Source::Json(path) => format!("$(json {name} {})", literal(&jq(path))),
        Source::Header(header) => format!("$(header {name} {header})"),
        Source::Cookie(cookie) => format!("$(cookie {name} {})", literal(cookie)),
    }
}

/// Writes a path for jq.
fn jq(path: &JsonPath) -> String {
    let steps: String = path.steps().iter().map(|step| format!("[{step}]")).collect();
    format!(".{steps}")
}

/// Writes what an answer must have as a condition of the shell.
pub(super) fn condition(pattern: &Pattern) -> String {
    let statuses: Vec<String> = pattern.statuses.iter().map(|status| format!("[ \"$status\" = {status} ]")).collect();
    let value =
        |(path, value): &(JsonPath, Value)| format!("json_has \"$1\" {}", literal(&format!("{} == {value}", jq(path))));
    let mut parts: Vec<String> = pattern.values.iter().map(value).collect();
    parts.extend(pattern.headers.iter().map(|(name, part)| format!("header \"$1\" {name} | {}", search(part))));
    parts.extend(pattern.text.iter().map(|text| format!("{} \"$folder/$1.body\"", search(text))));
    match statuses.as_slice() {
        [] => {}
        [one] => parts.insert(0, one.clone()),
        many => parts.insert(0, format!("{{ {}; }}", many.join(" || "))),
    }
    if parts.is_empty() { "true".to_owned() } else { parts.join(" && ") }
}

/// Writes the command that searches a text, by its bytes.
fn search(text: &str) -> String {
    format!("LC_ALL=C grep -qF -e {}", literal(text))
}

#[cfg(test)]
mod fuzzed;
