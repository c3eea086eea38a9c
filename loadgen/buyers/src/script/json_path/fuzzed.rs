//! Paths that a user writes, and the documents that a shop answers.

use serde_json::Value;

use super::{JsonPath, JsonPathError};

/// Writes a path in its normalized form, with each name in quotes.
fn written(steps: &[Value]) -> String {
    let steps: String = steps.iter().map(|step| format!("[{step}]")).collect();
    format!("${steps}")
}

/// Returns the value that steps lead to.
fn at<'a>(document: &'a Value, steps: &[Value]) -> Option<&'a Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Value::String(name) => value.as_object()?.get(name),
        _ => {
            let elements = value.as_array()?;
            let index = step.as_i64()?;
            let length = i64::try_from(elements.len()).ok()?;
            elements.get(usize::try_from(if index < 0 { length.checked_add(index)? } else { index }).ok()?)
        }
    })
}

// C56
#[test]
fn a_path_leads_where_its_steps_lead() {
    fuzz::any_lines("json-paths", |lines| {
        let [text, document @ ..] = lines else { return };
        match JsonPath::parse(text) {
            Ok(path) => {
                assert_eq!(path.to_string(), *text);
                let again = JsonPath::parse(&written(&path.steps())).unwrap();
                assert_eq!(again.steps(), path.steps(), "{text:?}");
                let document: Value = serde_json::from_str(&document.join("\n")).unwrap_or_default();
                assert_eq!(path.find(&document), at(&document, &path.steps()), "{text:?} in {document}");
            }
            Err(error @ (JsonPathError::Syntax { .. } | JsonPathError::Several { .. })) => {
                let told = error.to_string();
                assert!(told.contains(text) && !told.contains('\n'), "{told:?}");
            }
        }
    });
}
