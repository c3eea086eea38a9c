//! Reports, as an earlier comparison or a user's edit has left them.

use std::sync::LazyLock;

use serde_json::Value;

use super::*;
use crate::report::fixture;

/// A report of two trials of each strategy.
static REPORT: LazyLock<Value> = LazyLock::new(|| {
    let mut trials = fixture::report().trials;
    trials.retain(|trial| trial.block < 2);
    let report = Report::of(fixture::findings(None, trials));
    serde_json::from_str(&render(&report).unwrap()).unwrap()
});

/// Sets values of the report: each line has a pointer (RFC 6901), a space and JSON. Without JSON, the value is removed.
fn edited(lines: &[&str]) -> Value {
    let mut report = REPORT.clone();
    for line in lines {
        let (pointer, value) = line.split_once(' ').unwrap_or((line, ""));
        let (above, name) = pointer.rsplit_once('/').unwrap_or_default();
        match (serde_json::from_str(value), report.pointer_mut(above)) {
            (Ok(value), Some(Value::Object(members))) => drop(members.insert(name.to_owned(), value)),
            (Err(_), Some(Value::Object(members))) => drop(members.remove(name)),
            (value, Some(Value::Array(elements))) => {
                let Some(index) = name.parse().ok().filter(|index| *index < elements.len()) else { continue };
                match value {
                    Ok(value) => elements[index] = value,
                    Err(_) => drop(elements.remove(index)),
                }
            }
            _ => {}
        }
    }
    report
}

// C57
#[test]
fn an_edited_report_is_refused_or_drawn_anew() {
    fuzz::any_lines("reports", |lines| {
        let text = edited(lines).to_string();
        let report = match parse(&text) {
            Ok(report) => report,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        let written = render(&report).unwrap();
        let again = parse(&written).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(render(&again).unwrap(), written);
    });
}
