//! Rules, as a user may write them.

use super::*;
use crate::judge::capacity::HeldRule;
use crate::judge::metrics::Kind;

// C56
#[test]
fn a_rule_says_what_its_parts_say() {
    fuzz::any_text("thresholds", |text| {
        let rule = match Threshold::parse(text) {
            Ok(rule) => rule,
            Err(refusal) => {
                let (what, mark) = refusal.split_once('\n').expect("a refusal shows the rule");
                assert!(
                    !what.is_empty() && mark.starts_with(&format!("  {text}\n")) && mark.ends_with('^'),
                    "{refusal}"
                );
                return;
            }
        };
        assert!(!rule.rule().contains(['\n', '\t']), "{text:?}");
        let Parts { strategies, users, metric, sign, value } = rule.parts();
        assert!(value.is_finite() && value >= 0.0, "{text:?}");
        let unit = if metric.kind == Kind::Time { "ms" } else { "" };
        let users = users.map_or_else(String::new, |users| format!("@{users}"));
        // A share above one is written in percent.
        let (value, unit) = if metric.kind == Kind::Share { (value * 100.0, "%") } else { (value, unit) };
        let written = format!("{strategies}{users} {}{sign}{value}{unit}", metric.key);
        let again = Threshold::parse(&written).unwrap_or_else(|refusal| panic!("{text:?} is {written:?}: {refusal}"));
        let parts = again.parts();
        let names = |parts: &Parts| (parts.strategies.clone(), parts.users, parts.metric.key, parts.sign);
        assert_eq!(names(&parts), names(&rule.parts()));
        assert!((parts.value - rule.value).abs() <= rule.value * 1e-12, "{text:?} is {written:?}");
        assert_eq!(Threshold::parse(rule.rule()).map(|rule| rule.value).ok(), Some(rule.value));
    });
}

// C56
#[test]
fn a_rule_that_a_rate_must_hold_loses_a_part_of_the_requests() {
    fuzz::any_text("capacity-rules", |text| {
        let Ok(rule) = HeldRule::parse(text) else { return };
        assert_eq!(rule.text, text);
        assert!((0.0..1.0).contains(&rule.loss_ratio) || rule.loss_ratio <= 1.0, "{text:?}");
        assert!(Threshold::parse(&format!("* {text}")).is_ok());
        if let Ok(goal) = rule.goal(0.1, None) {
            assert!(goal.length > std::time::Duration::ZERO && goal.first_length <= goal.length, "{text:?}");
        }
    });
}
