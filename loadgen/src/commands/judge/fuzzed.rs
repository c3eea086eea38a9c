//! Clocks of logs, as a user may write them.

use super::parse_clock;

// C57
#[test]
fn a_clock_is_ahead_by_at_most_a_day() {
    fuzz::any_text("log-clocks", |text| match parse_clock(text) {
        Ok((file, ahead)) => {
            assert!(ahead.is_finite() && ahead.abs() <= 86_400_000.0, "{text:?}");
            let file = file.display().to_string();
            assert!(text.starts_with(&format!("{file}=")), "{text:?}");
            let (_, again) = parse_clock(&format!("{file}={ahead}ms")).unwrap();
            assert!((again - ahead).abs() <= 1e-9, "{text:?}");
        }
        Err(refusal) => assert!(refusal.starts_with("write a log and a time"), "{text:?}: {refusal}"),
    });
}
