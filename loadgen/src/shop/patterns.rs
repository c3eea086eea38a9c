//! The patterns that tell what an answer means.

use buyers::script::{JsonPath, Meanings, Pattern};
use reqwest::header::HeaderName;
use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::keys::{Keys, NamedText, whole};

/// Statuses that mean "sold out" unless the file says what does.
const SOLD_OUT: [u16; 2] = [409, 410];
/// Statuses that mean "refused" unless the file says what does.
const REFUSED: [u16; 2] = [429, 503];

/// The keys of a pattern.
const KEYS: [&str; 4] = ["status", "json", "header", "text"];

/// Fills in the patterns that every shop has by default: those of "sold out" and "refused", if there are none.
pub(super) fn with_defaults(mut meanings: Meanings) -> Meanings {
    for (patterns, statuses) in [(&mut meanings.sold_out, SOLD_OUT), (&mut meanings.refused, REFUSED)] {
        if patterns.is_empty() {
            patterns.push(Pattern { statuses: statuses.to_vec(), ..Pattern::default() });
        }
    }
    meanings
}

/// Reads the patterns of a key of a shop file. `None` if the key is not there.
pub(super) fn of_key(keys: &Keys<'_>, key: &str) -> Result<Option<Vec<Pattern>>, String> {
    if !keys.has(key) {
        return Ok(None);
    }
    keys.tables(key, &KEYS)?.iter().map(of_table).collect::<Result<Vec<_>, _>>().map(Some)
}

fn of_table(keys: &Keys<'_>) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    for status in keys.one_or_many("status")?.unwrap_or_default() {
        let known =
            whole(status.value).and_then(|status| u16::try_from(status).ok()).filter(|status| is_status(*status));
        pattern.statuses.push(known.ok_or_else(|| {
            status.refuse("a status is a number from 100 to 599; write status = 200, or status = [200, 201]")
        })?);
    }
    if let Some(paths) = keys.free_table("json", "\"$.path\" = true")? {
        for (path, value) in paths.each() {
            let value =
                json(value.get_ref()).ok_or_else(|| path.refuse("JSON has no dates; write the date as a text"))?;
            pattern.values.push((path.read(|path| JsonPath::parse(path))?, value));
        }
    }
    let headers = keys.named_texts("header", "location = \"/thanks\"")?;
    pattern.headers = headers.iter().map(header).collect::<Result<_, _>>()?;
    pattern.text = keys.text("text")?.map(|text| text.read(|text| one_line(text))).transpose()?;
    if pattern.statuses.is_empty() && !pattern.needs_more_than_status() {
        return Err(keys.refuse(format!(
            "an empty pattern of {} matches every answer; write status, json, header or text into it",
            keys.name()
        )));
    }
    Ok(pattern)
}

/// Reads the name of a header, and the text that its value contains.
fn header((name, part): &NamedText) -> Result<(HeaderName, String), String> {
    let named = |name: &String| {
        HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no name of a header; write one like location"))
    };
    let as_sent = |part: &String| {
        if part.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Ok(part.clone());
        }
        Err("headers are compared in ASCII; write a part of the value that has no other letter".to_owned())
    };
    Ok((name.read(named)?, part.read(as_sent)?))
}

/// Reads a text of a page, which the scripts of exports and reproductions search line by line.
fn one_line(text: &str) -> Result<String, String> {
    if text.chars().any(|letter| letter.is_control() && letter != '\t') {
        return Err("a text to search is one line; write a part of the page without a line break".to_owned());
    }
    Ok(text.to_owned())
}

fn is_status(status: u16) -> bool {
    (100..600).contains(&status)
}

/// Returns a value of TOML as JSON. `None`: JSON has no such value.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => return None,
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|value| json(value.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let pairs = table.iter().map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            Value::Object(pairs.collect::<Option<Map<_, _>>>()?)
        }
    })
}

/// Reads a pattern of the command line: `STATUS [PATH=VALUE]…`, where each path begins with `$`. The value is JSON, or else
/// a text. Headers and texts of a page need a shop file.
pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    for part in parts(text) {
        if part.starts_with('$') {
            let (path, value) = part.split_once('=').ok_or_else(|| format!("{part} has no =; write {part}=VALUE"))?;
            let path = JsonPath::parse(path.trim_end()).map_err(|error| error.to_string())?;
            let value = value.trim();
            pattern
                .values
                .push((path, serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()))));
        } else {
            for status in part.split(',') {
                let known = status.parse().ok().filter(|status| is_status(*status));
                pattern.statuses.push(known.ok_or_else(|| {
                    format!(
                        "{status} is no status from 100 to 599; write STATUS [PATH=VALUE]…, as in '200 $.success=true'; headers and \
                         texts need a shop file, written by --init"
                    )
                })?);
            }
        }
    }
    if pattern.statuses.is_empty() && pattern.values.is_empty() {
        return Err("an empty pattern matches every answer; write a status, as in '201'".to_owned());
    }
    Ok(pattern)
}

/// Splits a text before each word that begins with `$`. The statuses before them are one part.
fn parts(text: &str) -> Vec<&str> {
    let mut begins = vec![0];
    begins.extend(text.match_indices(" $").map(|(at, _)| at + 1));
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    let parts = begins.iter().zip(ends).map(|(from, to)| text[*from..to].trim());
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(pattern: &Pattern) -> Vec<Value> {
        pattern.values.iter().map(|(_, value)| value.clone()).collect()
    }

    #[test]
    fn a_pattern_of_the_command_line_is_a_status_and_values() {
        for (text, statuses, expected) in [
            ("201", &[201][..], vec![]),
            ("200,201", &[200, 201], vec![]),
            ("200 $.success=true", &[200], vec![json!(true)]),
            ("200 $.code=0 $.data.state=sold it", &[200], vec![json!(0), json!("sold it")]),
            ("$.errorMsg=库存不足", &[], vec![json!("库存不足")]),
            ("200 $.code=\"0\"", &[200], vec![json!("0")]),
        ] {
            let pattern = parse(text).unwrap();
            assert_eq!((pattern.statuses.as_slice(), values(&pattern)), (statuses, expected), "{text}");
        }
    }

    #[test]
    fn a_wrong_pattern_is_refused_with_its_form() {
        for (text, expected) in [
            ("ok", "ok is no status from 100 to 599; write STATUS [PATH=VALUE]…"),
            ("99", "99 is no status"),
            ("200 $.success", "$.success has no =; write $.success=VALUE"),
            ("", "an empty pattern matches every answer"),
        ] {
            let refused = parse(text).err().unwrap();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }

    #[test]
    fn a_path_that_may_find_several_values_is_refused() {
        assert!(parse("200 $..success=true").is_err());
        assert!(parse("200 $.items[*]=true").is_err());
    }
}
