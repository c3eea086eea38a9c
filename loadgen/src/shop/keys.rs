//! The keys of a shop file, each read with its line.
//!
//! Every refusal names the line, what was seen there, and what to write.

use std::ops::RangeInclusive;
use std::time::Duration;

use program::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::noted::Noted;

const DAY: Duration = Duration::from_hours(24);

/// A key of a user's own with its text.
pub(super) type NamedText = (Noted<String>, Noted<String>);

/// The text of a shop file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShopText<'a> {
    /// The path of the file, as the user gave it.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl ShopText<'_> {
    /// Names the line of a byte.
    pub(super) fn origin(&self, byte: usize) -> String {
        let before = self.text.bytes().take(byte);
        format!("{}:{}", self.name, before.filter(|byte| *byte == b'\n').count() + 1)
    }
}

/// The keys of a table of a shop file.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    text: ShopText<'a>,
    /// `[buy]`, or the key of a table within a line.
    name: String,
    /// Where the table begins.
    origin: String,
    table: &'a DeTable<'a>,
}

impl<'a> Keys<'a> {
    /// Takes the keys of the whole file.
    pub(super) fn of_file(text: ShopText<'a>, table: &'a DeTable<'a>, known: &[&str]) -> Result<Keys<'a>, String> {
        let keys = Keys { text, name: String::new(), origin: text.name.to_owned(), table };
        keys.refuse_unknown(known)?;
        Ok(keys)
    }

    fn refuse_unknown(&self, known: &[&str]) -> Result<(), String> {
        for (key, _) in self.table.iter() {
            let found: &str = key.get_ref();
            if !known.contains(&found) {
                let place = if self.name.is_empty() { "a shop file" } else { &self.name };
                let origin = self.text.origin(key.span().start);
                let meant = did_you_mean(found, known.iter().copied());
                return Err(format!(
                    "{origin}: {place} has no key {found:?}; the keys are {}{meant}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Refuses this table.
    pub(super) fn refuse(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.origin)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns a value with the line of its key.
    fn find(&self, key: &str) -> Option<Noted<&'a Spanned<DeValue<'a>>>> {
        let (found, value) = self.table.iter().find(|(found, _)| **found.get_ref() == *key)?;
        Some(Noted::new(value, self.text.origin(found.span().start)))
    }

    /// Returns the value that a read of `key` has brought, or says what to write.
    pub(super) fn required<T>(&self, key: &str, found: Option<T>, example: &str) -> Result<T, String> {
        found.ok_or_else(|| self.refuse(format!("{} has no {key}; write {key} = {example}", self.name)))
    }

    /// Reads a text.
    pub(super) fn text(&self, key: &str) -> Result<Option<Noted<String>>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        self.as_text(key, found.value).map(Some)
    }

    fn as_text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Noted<String>, String> {
        let origin = self.text.origin(value.span().start);
        match value.get_ref() {
            DeValue::String(text) if text.trim().is_empty() => {
                Err(format!("{origin}: {key} has an empty text; write it"))
            }
            DeValue::String(text) => Ok(Noted::new(text.clone().into_owned(), origin)),
            other => Err(format!("{origin}: {key} has {}; write a text in quotation marks", a(other))),
        }
    }

    /// Reads a list of texts, which has at least one.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<Noted<String>>>, String> {
        let Some(values) = self.list(key, "texts in quotation marks")? else { return Ok(None) };
        values.iter().map(|value| self.as_text(key, value)).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Returns the values of a list, which has at least one.
    fn list(&self, key: &str, of: &str) -> Result<Option<&'a [Spanned<DeValue<'a>>]>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        match found.value.get_ref() {
            DeValue::Array(values) if values.is_empty() => {
                Err(found.refuse(format!("the list of {key} is empty; write {of} into it, or remove {key}")))
            }
            DeValue::Array(values) => Ok(Some(values)),
            other => Err(found.refuse(format!("{key} has {}; write a list of {of}, as in {key} = […]", a(other)))),
        }
    }

    /// Reads a whole number of a range.
    pub(super) fn whole(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        match whole(found.value.get_ref()).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(found.refuse(format!(
                "{key} has {}; write a whole number from {} to {}",
                a(found.value.get_ref()),
                range.start(),
                range.end()
            ))),
        }
    }

    /// Reads a time of at most a day.
    pub(super) fn time(&self, key: &str) -> Result<Option<Duration>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let time =
            text.read(|text| humantime::parse_duration(text).map_err(|error| no_time(key, text, &error.to_string())))?;
        if (Duration::from_millis(1)..=DAY).contains(&time) {
            return Ok(Some(time));
        }
        Err(text.refuse(no_time(key, &text.value, "it is not from 1ms to 1day")))
    }

    /// Opens a table within this one.
    pub(super) fn table(&self, key: &str, known: &[&str]) -> Result<Option<Keys<'a>>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        let name = if self.name.is_empty() { format!("[{key}]") } else { key.to_owned() };
        self.open(name, &found, known).map(Some)
    }

    fn open(&self, name: String, found: &Noted<&'a Spanned<DeValue<'a>>>, known: &[&str]) -> Result<Keys<'a>, String> {
        let DeValue::Table(table) = found.value.get_ref() else {
            let what = a(found.value.get_ref());
            return Err(found.refuse(format!("{name} has {what}; write the keys {}", known.join(", "))));
        };
        let keys = Keys { text: self.text, name, origin: found.origin.clone(), table };
        keys.refuse_unknown(known)?;
        Ok(keys)
    }

    /// Opens the tables of a list within this one. Empty if the key is not there.
    pub(super) fn tables(&self, key: &str, known: &[&str]) -> Result<Vec<Keys<'a>>, String> {
        let values = self.list(key, "tables, each in { }")?.unwrap_or_default();
        let open = |value: &'a Spanned<DeValue<'a>>| {
            self.open(key.to_owned(), &Noted::new(value, self.text.origin(value.span().start)), known)
        };
        values.iter().map(open).collect()
    }

    /// Returns every key of this table with its value.
    pub(super) fn each(&self) -> impl Iterator<Item = (Noted<String>, &'a Spanned<DeValue<'a>>)> {
        self.table.iter().map(|(key, value)| {
            (Noted::new(key.get_ref().clone().into_owned(), self.text.origin(key.span().start)), value)
        })
    }

    /// Opens a table whose keys are names of the user's own. A refusal shows the example of such a key.
    pub(super) fn free_table(&self, key: &str, example: &str) -> Result<Option<Keys<'a>>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        match found.value.get_ref() {
            DeValue::Table(table) if !table.is_empty() => {
                Ok(Some(Keys { text: self.text, name: key.to_owned(), origin: found.origin, table }))
            }
            other => Err(found.refuse(format!("{key} has {}; write a table, as in {key} = {{ {example} }}", a(other)))),
        }
    }

    /// Reads every text of a table with free keys.
    pub(super) fn named_texts(&self, key: &str, example: &str) -> Result<Vec<NamedText>, String> {
        let Some(table) = self.free_table(key, example)? else { return Ok(Vec::new()) };
        table.each().map(|(name, value)| Ok((name.clone(), table.as_text(&name.value, value)?))).collect()
    }

    /// Returns the values of a key that has one value or a list.
    pub(super) fn one_or_many(&self, key: &str) -> Result<Option<Vec<Noted<&'a DeValue<'a>>>>, String> {
        let Some(found) = self.find(key) else { return Ok(None) };
        match found.value.get_ref() {
            DeValue::Array(_) => {
                let values = self.list(key, "values")?.unwrap_or_default();
                let noted =
                    |value: &'a Spanned<DeValue<'a>>| Noted::new(value.get_ref(), self.text.origin(value.span().start));
                Ok(Some(values.iter().map(noted).collect()))
            }
            value => Ok(Some(vec![Noted::new(value, found.origin)])),
        }
    }
}

/// Returns a whole number, unless it is another value or too large.
pub(super) fn whole(value: &DeValue<'_>) -> Option<u32> {
    let number = value.as_integer()?;
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Names what was found: `the number 7`.
fn a(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(value) => format!("the value {value}"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(table) if table.is_empty() => "an empty table".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn no_time(key: &str, text: &str, what: &str) -> String {
    format!("{key} has {text:?}, and {what}; write a time such as 200ms or 30s")
}
