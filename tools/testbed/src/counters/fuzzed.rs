//! Counters, as any server or service may print them.

use super::{Counters, whole};

/// Returns the count that a text is, if it is one: digits, and perhaps zeros behind a point.
fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, zeros) = text.split_once('.').unwrap_or((text, "0"));
    let is_count = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    let are_zeros = !zeros.is_empty() && zeros.chars().all(|zero| zero == '0');
    (is_count && are_zeros).then(|| digits.parse().ok())?
}

// T15
#[test]
fn a_count_is_read_as_it_stands_there_and_nothing_else_is() {
    fuzz::any_text("counters", |text| {
        assert_eq!(whole(text), count(text), "{text:?}");
        let mntr = Counters::from_mntr(text);
        let is_line = |name: &str, count: u64| {
            text.lines().any(|line| {
                line.split_once('\t').is_some_and(|(found, value)| found == name && whole(value) == Some(count))
            })
        };
        assert!(mntr.0.iter().all(|(name, count)| is_line(name, *count)), "{mntr:?}");
        assert!(mntr.0.keys().all(|name| mntr.grown(&mntr, name) == Some(0)));
        let info = Counters::from_info(text);
        let prometheus = Counters::from_prometheus(text);
        assert!(prometheus.0.keys().all(|name| !name.starts_with('#') && !name.contains('{')), "{prometheus:?}");
        let sum = Counters::sum([mntr.clone(), info, prometheus]);
        assert!(mntr.0.iter().all(|(name, count)| sum.get(name).is_some_and(|sum| sum >= *count)), "{sum:?}");
        let _ = sum.watches_fired_total();
    });
}
