//! The comparison as JSON, for programs, and back.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde::Deserialize;

use crate::error::Error;
use crate::report::{Report, SCHEMA, SCHEMA_BEFORE};

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

/// Reads a report that an earlier comparison wrote.
///
/// # Errors
///
/// The file cannot be read, or it is no report of this version or the one before.
pub fn read(path: &Path) -> Result<Report, Error> {
    let text = fs::read_to_string(path).map_err(Error::system(format!("read {}", path.display())))?;
    parse(&text).map_err(|what| Error::NoReport { path: path.to_owned(), what })
}

fn parse(text: &str) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: Option<String>,
    }
    let Versioned { schema } = serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))?;
    match schema.as_deref() {
        Some(SCHEMA | SCHEMA_BEFORE) => {
            let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
            // It is written again by the names of today.
            Ok(Report { schema: SCHEMA.to_owned(), ..report })
        }
        Some(other) => Err(format!(
            "its schema is {other:?}, and this program reads {SCHEMA:?} and {SCHEMA_BEFORE:?}; run the comparison again"
        )),
        None => Err("it names no schema".to_owned()),
    }
}

/// The JSON Schema of `report.json`.
pub(crate) fn schema() -> String {
    // What is written always has every field; the schema is of what is written.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Report>();
    format!("{:#}\n", schema.to_value())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::fixture;

    const PUBLISHED: &str = include_str!("../../report.schema.json");

    #[test]
    fn the_published_schema_is_that_of_the_types() {
        assert_eq!(PUBLISHED, schema(), "write it anew: loadgen report --schema >loadgen/report.schema.json");
    }

    #[test]
    fn a_report_is_valid_by_its_schema() {
        let validator = jsonschema::validator_for(&serde_json::from_str(PUBLISHED).unwrap()).unwrap();
        for report in [fixture::report(), fixture::interrupted()] {
            let json: Value = serde_json::from_str(&render(&report).unwrap()).unwrap();
            let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new());
            let mut wrong = json;
            wrong["results"][0]["oversold_max"] = "many".into();
            assert!(!validator.is_valid(&wrong));
        }
    }

    #[test]
    fn every_field_of_the_schema_says_what_it_means() {
        fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                // The tag of an enum has its meaning from the variants.
                if property["description"].is_null() && property["const"].is_null() {
                    found.push(format!("{at}.{name}"));
                }
            }
            for part in ["oneOf", "anyOf"] {
                schema[part].as_array().into_iter().flatten().for_each(|schema| undescribed(schema, at, found));
            }
        }
        let schema: Value = serde_json::from_str(PUBLISHED).unwrap();
        let mut found = Vec::new();
        undescribed(&schema, "report", &mut found);
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            undescribed(definition, name, &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = render(&fixture::report()).unwrap();
        assert!(written.starts_with("{\n  \"schema\": \"seckill-report/3\","));
        assert_eq!(render(&parse(&written).unwrap()).unwrap(), written);
    }

    #[test]
    fn a_report_of_the_version_before_is_read_and_written_by_the_names_of_today() {
        let written = render(&fixture::report()).unwrap();
        let before = written.replace(SCHEMA, SCHEMA_BEFORE).replace("\"mechanism\":", "\"guard\":");
        assert!(before != written && !before.contains("\"mechanism\""));
        assert_eq!(render(&parse(&before).unwrap()).unwrap(), written);
    }

    #[test]
    fn what_is_no_report_is_refused_with_the_reason() {
        let refused = |text: &str| parse(text).map(|_| ()).unwrap_err();
        assert!(refused("<html>").starts_with("it is no JSON object"));
        assert_eq!(refused("{}"), "it names no schema");
        assert!(refused(r#"{"schema":"seckill-report/1"}"#).ends_with("run the comparison again"));
        assert!(refused(r#"{"schema":"seckill-report/3"}"#).contains("missing field"));
    }
}
