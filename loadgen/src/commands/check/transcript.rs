//! What a dry run prints: each request, its answer, what was taken from it, and how it was read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use buyers::script::{Exchange, Meaning, ShownAnswer};
use reqwest::StatusCode;
use reqwest::header::{HeaderName, SET_COOKIE};

use crate::error::Error;
use crate::output::Output;
use crate::shop::{HIDDEN, Secrets, is_secret_header};

/// How much of a body is printed.
const BODY_SHOWN_CHARS: usize = 2000;

/// Prints a dry run without its secrets.
pub(super) struct Transcript<'a> {
    output: &'a mut Output,
    secrets: &'a Secrets,
    /// The last answer to a buyer, and where its request stands.
    last: Option<(String, ShownAnswer)>,
    /// How the answers were read.
    readings: BTreeSet<String>,
    /// Why something could not be printed.
    failed: Option<Error>,
}

impl<'a> Transcript<'a> {
    pub(super) fn new(output: &'a mut Output, secrets: &'a Secrets) -> Transcript<'a> {
        Transcript { output, secrets, last: None, readings: BTreeSet::new(), failed: None }
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: &str) {
        let shown = self.output.show(&format!("{}\n", visible(&self.secrets.hide(text))));
        self.failed = self.failed.take().or(shown.err());
    }

    /// Prints a heading.
    pub(super) fn heading(&mut self, text: &str) {
        self.line("");
        self.line(text);
    }

    /// Prints a request and its answer.
    pub(super) fn exchange(&mut self, exchange: &Exchange) {
        self.line(&rendered(exchange));
        self.readings.insert(exchange.reading.clone());
        self.last = exchange.answer.clone().map(|answer| (exchange.origin.clone(), answer));
    }

    /// Returns the last answer, and where its request stands.
    pub(super) fn last(&self) -> Option<&(String, ShownAnswer)> {
        self.last.as_ref()
    }

    /// Tells whether an answer had this meaning.
    pub(super) fn has_seen(&self, meaning: Meaning) -> bool {
        self.readings.contains(&meaning.to_string())
    }

    /// Tells whether everything was printed.
    ///
    /// # Errors
    ///
    /// The error of standard output.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// Writes an exchange as curl shows it with `--verbose`, and below it how the answer was read.
fn rendered(exchange: &Exchange) -> String {
    let Exchange { origin, request, answer, taken, reading } = exchange;
    let mut text = format!("{origin}\n> {} {}\n", request.method, request.url);
    add_headers(&mut text, '>', &request.headers);
    add_body(&mut text, '>', &request.body);
    // Writing into a String cannot fail.
    if let Some(answer) = answer {
        let status = StatusCode::from_u16(answer.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
        let _ = writeln!(text, "{}", format!("< {} {reason}", answer.status).trim_end());
        add_headers(&mut text, '<', &answer.headers);
        add_body(&mut text, '<', &answer.body);
    }
    for (name, value) in taken {
        let _ = writeln!(text, "= {name}: {value}");
    }
    let _ = write!(text, "= read as: {reading}");
    text
}

fn add_headers(text: &mut String, mark: char, headers: &[(String, String)]) {
    for (name, value) in headers {
        let _ = writeln!(text, "{mark} {name}: {}", shown_value(name, value));
    }
}

/// Returns the value of a header without its secret. Of a cookie, the name is shown.
fn shown_value(name: &str, value: &str) -> String {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) if name == SET_COOKIE => {
            let (pair, attributes) = value.split_once(';').unwrap_or((value, ""));
            let cookie = pair.split('=').next().unwrap_or_default();
            let joint = if attributes.is_empty() { "" } else { ";" };
            format!("{cookie}={HIDDEN}{joint}{attributes}")
        }
        Ok(name) if is_secret_header(&name) => HIDDEN.to_owned(),
        _ => value.to_owned(),
    }
}

fn add_body(text: &mut String, mark: char, body: &str) {
    if body.is_empty() {
        return;
    }
    let _ = writeln!(text, "{mark}");
    let shown: String = body.chars().take(BODY_SHOWN_CHARS).collect();
    for line in shown.lines() {
        let _ = writeln!(text, "{mark} {line}");
    }
    if shown.len() < body.len() {
        let _ = writeln!(text, "{mark} … (the rest is not shown)");
    }
}

/// Replaces control characters, which a shop could send to change the terminal.
fn visible(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() && letter != '\n' && letter != '\t' { '\u{fffd}' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use buyers::script::ShownRequest;
    use reqwest::Method;

    use super::*;

    #[test]
    fn an_exchange_is_shown_without_the_secrets_of_its_headers() {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let exchange = Exchange {
            origin: "shop.toml:12".to_owned(),
            request: ShownRequest {
                method: Method::POST,
                url: "http://127.0.0.1:8000/buy".to_owned(),
                headers: pairs(&[("authorization", "Bearer abc"), ("x-csrf-token", "def"), ("accept", "*/*")]),
                body: "{\n}".to_owned(),
            },
            answer: Some(ShownAnswer {
                status: 201,
                headers: pairs(&[("set-cookie", "sid=ghi; Path=/"), ("server", "x\u{1b}[2J")]),
                body: String::new(),
            }),
            taken: [("order".to_owned(), "17".to_owned())].into(),
            reading: "sold".to_owned(),
        };
        let expected = "shop.toml:12\n> POST http://127.0.0.1:8000/buy\n> authorization: …\n> x-csrf-token: …\n> accept: */*\n>\n\
                        > {\n> }\n< 201 Created\n< set-cookie: sid=…; Path=/\n< server: x\u{fffd}[2J\n= order: 17\n= read as: sold";
        assert_eq!(visible(&rendered(&exchange)), expected);
    }
}
