//! What a buyer does at a shop, as JSON that a script of any engine reads.
//!
//! Texts keep their values as `{{name}}`, and the script of an engine fills them. A path is a list of names and indices. A number
//! that an answer must have is a text that begins with the character U+0000. The scripts read numbers of answers in the same way,
//! because JavaScript would round an order's number of 19 digits.

use std::collections::BTreeSet;

use buyers::script::{Body, FormPart, Meanings, Pattern, ScriptRequest, Source, Steps, Template};
use serde_json::{Map, Value, json};

use super::ANSWER_WITHIN_MS;
use crate::error::Error;
use crate::shop::Shop;

/// The beginning of the names of variables of the environment.
const ENV: &str = "env.";

/// The mark at the beginning of a number.
const NUMBER: char = '\0';

/// Describes what a buyer does. Variables of the environment are named, and their values are not written.
pub(super) fn described(shop: &Shop) -> Value {
    let script = &shop.script;
    let outcome = script.outcome.as_ref().map(|poll| {
        let mut described = steps(&poll.steps);
        described.insert("everyMs".to_owned(), ms(poll.every));
        described.insert("withinMs".to_owned(), ms(poll.within));
        described
    });
    json!({
        "name": shop.name,
        "urls": shop.urls(),
        "columns": shop.people.as_ref().map(crate::shop::People::names),
        "variables": variables(shop),
        "signUp": steps(&script.sign_up),
        "buy": steps(&script.buy),
        "outcome": outcome,
        "meanings": meanings(&script.meanings),
        "order": script.order.as_ref().map(source),
    })
}

/// Lists the variables of the environment that the requests of a buyer use.
pub(super) fn variables(shop: &Shop) -> Vec<String> {
    let names = requests(shop).flat_map(texts).flat_map(|text| text.names().map(str::to_owned));
    let variables = names.filter_map(|name| name.strip_prefix(ENV).map(str::to_owned));
    variables.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns all requests of a buyer.
pub(super) fn requests(shop: &Shop) -> impl Iterator<Item = &ScriptRequest> {
    let script = &shop.script;
    let outcome = script.outcome.as_ref().map(|poll| &poll.steps);
    [Some(&script.sign_up), Some(&script.buy), outcome].into_iter().flatten().flat_map(|steps| &steps.requests)
}

/// Refuses a shop with a secret that would be written into the export.
///
/// # Errors
///
/// [`Error::Usage`] with the line of the request.
pub(super) fn ensure_open(shop: &Shop) -> Result<(), Error> {
    let hidden = |text: &&Template| {
        let text = text.to_string();
        shop.secrets.hide(&text) != text
    };
    match requests(shop).find(|request| texts(request).any(|text| hidden(&text))) {
        None => Ok(()),
        Some(request) => Err(Error::Usage(format!(
            "{}: the request has a secret in it, which must not be written into an export; write {{{{env.NAME}}}} instead, and \
             `-H 'Authorization: Basic {{{{env.NAME}}}}'` for --user",
            request.origin
        ))),
    }
}

/// Returns the texts of a request.
fn texts(request: &ScriptRequest) -> impl Iterator<Item = &Template> {
    let body: Vec<&Template> = match &request.body {
        Body::Empty => Vec::new(),
        Body::Text(text) => vec![text],
        Body::Form(parts) => parts.iter().map(|part| &part.value).collect(),
    };
    [&request.url].into_iter().chain(request.headers.iter().map(|(_, value)| value)).chain(body)
}

fn steps(steps: &Steps) -> Map<String, Value> {
    let take: Vec<Value> = steps.take.iter().map(|(name, from)| json!([name, source(from)])).collect();
    let requests: Vec<Value> = steps.requests.iter().map(request).collect();
    Map::from_iter([("requests".to_owned(), requests.into()), ("take".to_owned(), take.into())])
}

fn request(request: &ScriptRequest) -> Value {
    let headers: Vec<Value> =
        request.headers.iter().map(|(name, value)| json!([name.as_str(), value.to_string()])).collect();
    let (text, form) = match &request.body {
        Body::Empty => (Value::Null, Value::Null),
        Body::Text(text) => (text.to_string().into(), Value::Null),
        Body::Form(parts) => (Value::Null, parts.iter().map(part).collect()),
    };
    json!({
        "at": request.origin,
        "method": request.method.as_str(),
        "url": request.url.to_string(),
        "headers": headers,
        "text": text,
        "form": form,
        "follows": request.follows,
        "withinMs": request.within.map_or_else(|| ANSWER_WITHIN_MS.into(), ms),
    })
}

fn part(part: &FormPart) -> Value {
    let FormPart { name, value, file_name, mime } = part;
    json!({ "name": name, "value": value.to_string(), "fileName": file_name, "mime": mime })
}

fn source(source: &Source) -> Value {
    match source {
        Source::Json(path) => json!({ "path": path.steps() }),
        Source::Header(name) => json!({ "header": name.as_str() }),
        Source::Cookie(name) => json!({ "cookie": name }),
    }
}

/// Lists the meanings in the order in which they are tried.
fn meanings(meanings: &Meanings) -> Value {
    let patterns = |patterns: &[Pattern]| patterns.iter().map(pattern).collect::<Vec<_>>();
    json!([
        ["sold", patterns(&meanings.sold)],
        ["queued", patterns(&meanings.queued)],
        ["sold_out", patterns(&meanings.sold_out)],
        ["over_limit", patterns(&meanings.over_limit)],
        ["refused", patterns(&meanings.refused)],
    ])
}

fn pattern(pattern: &Pattern) -> Value {
    let values: Vec<Value> =
        pattern.values.iter().map(|(path, value)| json!([path.steps(), with_marked_numbers(value)])).collect();
    let headers: Vec<Value> = pattern.headers.iter().map(|(name, part)| json!([name.as_str(), part])).collect();
    json!({ "statuses": pattern.statuses, "values": values, "headers": headers, "text": pattern.text })
}

/// Returns a value with each number as a marked text.
fn with_marked_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => format!("{NUMBER}{number}").into(),
        Value::Array(values) => values.iter().map(with_marked_numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), with_marked_numbers(value))).collect()
        }
        other => other.clone(),
    }
}

fn ms(time: std::time::Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}
