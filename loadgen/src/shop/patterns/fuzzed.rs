//! Patterns, as the command line and a shop file may write them.

use super::*;

/// Writes a pattern for the command line.
fn written(pattern: &Pattern) -> String {
    let statuses = pattern.statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let values = pattern.values.iter().map(|(path, value)| format!(" {path}={value}"));
    format!("{statuses}{}", values.collect::<String>())
}

// C57
#[test]
fn a_pattern_is_read_as_it_was_written() {
    fuzz::any_text("patterns", |text| {
        let pattern = match parse(text) {
            Ok(pattern) => pattern,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        assert!(pattern.statuses.iter().all(|status| is_status(*status)), "{text:?}");
        assert!(!pattern.statuses.is_empty() || pattern.needs_more_than_status(), "it matches every answer");
        assert!(pattern.headers.is_empty() && pattern.text.is_none());
        // A word within a value would begin another one.
        let written = written(&pattern);
        if written.matches(" $").count() == pattern.values.len()
            && pattern.values.iter().all(|(path, _)| !path.to_string().contains('='))
        {
            assert_eq!(parse(&written).as_ref(), Ok(&pattern), "{text:?} is {written:?}");
        }
    });
}
