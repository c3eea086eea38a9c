//! The comparison as JSON, for programs.

use crate::error::Error;
use crate::report::Report;

/// The whole file.
///
/// # Errors
///
/// [`Error::Generator`] when a figure cannot be written as JSON.
pub(crate) fn render(report: &Report) -> Result<String, Error> {
    serde_json::to_string_pretty(report)
        .map(|text| text + "\n")
        .map_err(|error| Error::Generator(format!("the report cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::report::fixture;

    const DOCUMENTATION: &str = include_str!("../../REPORT.md");

    fn json() -> Value {
        serde_json::from_str(&render(&fixture::report()).unwrap()).unwrap()
    }

    /// Every field with its path; the items of a list share one path.
    fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                    found.insert(path.clone());
                    paths(field, &path, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{at}[]"), found)),
            _ => {}
        }
    }

    /// The first column of the tables of the documentation.
    fn documented() -> BTreeSet<String> {
        let rows = DOCUMENTATION.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split_once('`')).map(|(field, _)| field.to_owned()).collect()
    }

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report()).unwrap());
    }

    #[test]
    fn every_field_is_documented_and_every_documented_field_exists() {
        let mut found = BTreeSet::new();
        paths(&json(), "", &mut found);
        // The fields of a summary of times are documented once.
        let is_summary =
            |path: &str| ["p50", "p90", "p99", "max", "n"].contains(&path.rsplit('.').next().unwrap_or(""));
        let is_outcome = |path: &str| {
            ["sold", "sold_out", "refused", "error", "timeout"].contains(&path.rsplit('.').next().unwrap_or(""))
                && !path.contains("audit")
        };
        found.retain(|path| !is_summary(path) && !is_outcome(path));
        assert_eq!(found, documented());
    }

    #[test]
    fn the_schema_is_named_first() {
        assert!(render(&fixture::report()).unwrap().starts_with("{\n  \"schema\": \"seckill-report/1\","));
    }
}
