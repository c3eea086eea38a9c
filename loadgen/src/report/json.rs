//! The report as JSON, written and read.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use simulation::Simulation;

use crate::error::Error;
use crate::judge::diff::Diff;
use crate::judge::metrics::{FigureSource, Metric};
use crate::judge::thresholds::Threshold;
use crate::judge::verdict::EndedEarly;
use crate::lab::environment::Environment;
use crate::lab::hazard::Hazard;
use crate::lab::strategy::{Answers, Mechanism, Promise, Strategy, Wakes};
use crate::report::{Findings, Report, SCHEMA};
use crate::trial::record::Reproduction;
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// Writes a value as indented JSON.
pub(crate) fn render(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Error::Generator(format!("could not write JSON: {error}")))
}

/// Reads a report that an earlier comparison wrote. Every figure, finding and sentence is derived anew from its trials.
///
/// # Errors
///
/// The file cannot be read, or it is no report of this version.
pub fn read(path: &Path) -> Result<Report, Error> {
    let refused = |what| Error::NoReport { path: path.to_owned(), what };
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    parse(&text).map_err(refused)
}

fn parse(text: &str) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: Option<String>,
    }
    let Versioned { schema } = serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))?;
    match schema.as_deref() {
        Some(SCHEMA) => {
            let recorded: Recorded = serde_json::from_str(text).map_err(|error| error.to_string())?;
            recorded.drawn_anew()
        }
        Some(other) => {
            Err(format!("its schema is {other:?}, and this program reads {SCHEMA:?}; run the comparison again"))
        }
        None => Err("it names no schema".to_owned()),
    }
}

/// Returns the JSON Schema of `diff --json`.
pub(crate) fn diff_schema() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    format!("{:#}\n", settings.into_generator().into_root_schema_for::<Diff>().to_value())
}

/// The evidence in a report. Its conclusions are not read.
#[derive(Deserialize)]
struct Recorded {
    generated_at: String,
    ended_early: Option<EndedEarly>,
    environment: Environment,
    #[serde(rename = "plan")]
    schedule: Schedule,
    thresholds: Vec<RecordedRule>,
    results: Vec<Described>,
    trials: Vec<Trial>,
    #[serde(default)]
    reproductions: Vec<Reproduction>,
    #[serde(default)]
    unreproduced: Vec<String>,
    simulation: Option<Simulation>,
}

/// The rule of a threshold, without its result.
#[derive(Deserialize)]
struct RecordedRule {
    rule: String,
}

/// The strategy of a result, without its figures.
#[derive(Deserialize)]
struct Described {
    strategy: String,
    build: Option<String>,
    #[serde(default)]
    hazard: Option<Hazard>,
    summary: String,
    promise: Promise,
    mechanism: Mechanism,
    permits: Option<u32>,
    wakes: Wakes,
}

impl Recorded {
    /// Draws the conclusions anew from the trials.
    fn drawn_anew(self) -> Result<Report, String> {
        let mut rules: Vec<&str> = Vec::new();
        for RecordedRule { rule } in &self.thresholds {
            if !rules.contains(&rule.as_str()) {
                rules.push(rule);
            }
        }
        let thresholds = rules.into_iter().map(Threshold::parse).collect::<Result<_, _>>()?;
        let mut strategies: Vec<Strategy> = Vec::new();
        for Described { strategy: name, build, hazard, summary, promise, mechanism, permits, wakes } in self.results {
            let is_same = |known: &Strategy| known.name == name && known.build == build && known.hazard == hazard;
            if !strategies.iter().any(is_same) {
                strategies.push(Strategy {
                    answers: Answers::default(),
                    name,
                    promise,
                    mechanism,
                    family: String::new(),
                    wakes,
                    summary,
                    permits,
                    headline: false,
                    two_steps: false,
                    build,
                    hazard,
                });
            }
        }
        let Recorded {
            generated_at,
            ended_early,
            environment,
            schedule,
            trials,
            reproductions,
            unreproduced,
            simulation,
            ..
        } = self;
        if ended_early.is_none() && trials.len() != schedule.len() {
            let run = trials.len();
            let planned = schedule.len();
            return Err(format!("it has {run} of the {planned} trials of its plan, and was not ended early"));
        }
        let findings = Findings { generated_at, ended_early, environment, schedule, strategies, thresholds, trials };
        Ok(Report { reproductions, unreproduced, simulation, ..Report::of(findings) })
    }
}

/// Returns the JSON Schema of `report.json`, which names the figures of this table.
pub(crate) fn schema(metrics: &[&Metric]) -> String {
    // The schema describes what the program writes, and it always writes every field.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>().to_value();
    let figures = &mut schema["$defs"]["Figures"];
    let figure = figures["additionalProperties"].take();
    let of_trials: Vec<_> = metrics.iter().filter(|metric| !matches!(metric.source, FigureSource::Result(_))).collect();
    let property = |metric: &&&Metric| {
        let mut property = figure.clone();
        property["description"] = metric.described().into();
        (metric.key.to_owned(), property)
    };
    figures["properties"] = of_trials.iter().map(property).collect::<serde_json::Map<_, _>>().into();
    // A report of shops that files describe has no others.
    let of_all = of_trials.iter().filter(|metric| metric.is_of_any_shop());
    figures["required"] = of_all.map(|metric| metric.key).collect();
    figures["additionalProperties"] = figure;
    format!("{schema:#}\n")
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::judge::metrics::METRICS;
    use crate::report::{fixture, shop_fixture};

    const PUBLISHED: &str = include_str!("../../report.schema.json");
    const PUBLISHED_DIFF: &str = include_str!("../../diff.schema.json");

    #[test]
    fn the_published_schema_agrees_with_the_types() {
        // No `assert_eq`, which would print both files.
        assert!(PUBLISHED == schema(METRICS), "write it anew: loadgen report --schema >loadgen/report.schema.json");
    }

    // C30
    #[test]
    fn a_report_is_valid_by_its_schema() {
        let validator = jsonschema::validator_for(&serde_json::from_str(PUBLISHED).unwrap()).unwrap();
        for report in [
            fixture::report(),
            fixture::interrupted(),
            fixture::builds("zk-mutex"),
            shop_fixture::wrong_shop_beside_right(),
        ] {
            let json: Value = serde_json::from_str(&render(&report).unwrap()).unwrap();
            let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new());
            let mut wrong = json;
            wrong["results"][0]["figures"]["oversold"] = "many".into();
            assert!(!validator.is_valid(&wrong));
        }
    }

    #[test]
    fn the_published_schema_of_a_diff_agrees_with_the_types() {
        assert!(PUBLISHED_DIFF == diff_schema(), "write it anew: loadgen diff --schema >loadgen/diff.schema.json");
    }

    #[test]
    fn a_diff_is_valid_by_its_schema() {
        let validator = jsonschema::validator_for(&serde_json::from_str(PUBLISHED_DIFF).unwrap()).unwrap();
        let runs = [fixture::report()];
        let diff = Diff::of(&runs, &runs, false, METRICS).unwrap();
        let json: Value = serde_json::from_str(&render(&diff).unwrap()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!((&json["schema"], &json["exit_code"]), (&Value::from(crate::judge::diff::SCHEMA), &Value::from(0)));
    }

    // C30
    #[test]
    fn every_field_of_the_schema_says_what_it_means() {
        fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                // The tag of an enum needs no description of its own: its variants have them.
                if property["description"].is_null() && property["const"].is_null() {
                    found.push(format!("{at}.{name}"));
                }
            }
            for part in ["oneOf", "anyOf"] {
                schema[part].as_array().into_iter().flatten().for_each(|schema| undescribed(schema, at, found));
            }
        }
        let mut found = Vec::new();
        for (name, published) in [("report", PUBLISHED), ("diff", PUBLISHED_DIFF)] {
            let schema: Value = serde_json::from_str(published).unwrap();
            undescribed(&schema, name, &mut found);
            for (name, definition) in schema["$defs"].as_object().unwrap() {
                undescribed(definition, name, &mut found);
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = render(&fixture::report()).unwrap();
        assert!(written.starts_with("{\n  \"schema\": \"seckill-report/6\","));
        assert_eq!(render(&parse(&written).unwrap()).unwrap(), written);
        let of_builds = render(&fixture::builds("zk-mutex")).unwrap();
        assert_eq!(render(&parse(&of_builds).unwrap()).unwrap(), of_builds);
        let of_shops = render(&shop_fixture::wrong_shop_beside_right()).unwrap();
        assert_eq!(render(&parse(&of_shops).unwrap()).unwrap(), of_shops);
    }

    // C29
    #[test]
    fn edited_conclusions_are_drawn_anew_from_the_trials() {
        let written = render(&fixture::report()).unwrap();
        let mut edited: Value = serde_json::from_str(&written).unwrap();
        edited["verdict"]["exit_code"] = 2.into();
        edited["verdict"]["sentence"] = "All is lost.".into();
        edited["caveats"] = serde_json::json!(["none"]);
        let unguarded = &mut edited["results"][0];
        assert_eq!(unguarded["strategy"], "unguarded");
        unguarded["figures"]["oversold"]["value"] = 0.into();
        unguarded["figures"]["p50"]["value"] = 0.5.into();
        unguarded["rank"] = 1.into();
        unguarded["is_comparable"] = true.into();
        assert_eq!(render(&parse(&edited.to_string()).unwrap()).unwrap(), written);
    }

    #[test]
    fn a_file_that_is_no_report_is_refused_with_the_reason() {
        let refused = |text: &str| parse(text).map(|_| ()).unwrap_err();
        assert!(refused("<html>").starts_with("it is no JSON object"));
        assert_eq!(refused("{}"), "it names no schema");
        assert!(refused(r#"{"schema":"seckill-report/5"}"#).ends_with("run the comparison again"));
        assert!(refused(r#"{"schema":"seckill-report/6"}"#).contains("missing field"));
        let mut shortened: Value = serde_json::from_str(&render(&fixture::report()).unwrap()).unwrap();
        let planned = shortened["trials"].as_array().unwrap().len();
        shortened["trials"].as_array_mut().unwrap().pop();
        let expected = format!("it has {} of the {planned} trials of its plan, and was not ended early", planned - 1);
        assert_eq!(refused(&shortened.to_string()), expected);
    }
}
