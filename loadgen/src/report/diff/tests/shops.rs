//! Checks of shops that files describe, one against the other.

use super::{diff, refused};
use crate::audit::shop::Evidence;
use crate::judge::metrics::METRICS;
use crate::judge::nouns::SubjectKind;
use crate::report::{Findings, Report, fixture, markdown, shop_fixture, terminal};
use crate::trial::record::Trial;

/// Returns the check of the shop Flask, made at this minute, with these trials changed.
fn check(minute: u8, change: impl Fn(&mut Trial)) -> [Report; 1] {
    let mut findings = shop_fixture::of_shops(&["Flask"]);
    findings.trials.iter_mut().for_each(change);
    [Report::of(Findings { generated_at: format!("2026-01-02T03:{minute:02}:05Z"), ..findings })]
}

#[test]
fn a_shop_that_sells_wrongly_now_is_worse() {
    let diff = diff(&check(1, |_| ()), &check(2, |trial| trial.audit.oversold = 3));
    assert_eq!((diff.exit_code, diff.subject), (1, SubjectKind::Shop));
    assert_eq!(diff.reasons[0], "Flask with 300 users breaks its promise, which it did not before");
    let caveat = "Flask with 300 users sold wrongly, was not decided, or was limited by the load generator on one of the sides: its \
                  times are not compared";
    assert_eq!(diff.caveats, [caveat]);
}

#[test]
fn the_sides_are_told_as_shops_with_their_addresses() {
    let diff = diff(&check(1, |_| ()), &check(2, |_| ()));
    let [terminal, markdown] = [terminal::diff(&diff, METRICS), markdown::diff(&diff, METRICS)];
    for text in [&terminal, &markdown] {
        assert!(text.contains("old: 1 run with 8 blocks, of Flask at http://127.0.0.1:8000\n"), "{text}");
        assert!(!text.contains("strateg") && !text.contains("seckill lab"), "{text}");
    }
    assert!(markdown.starts_with("### check, new against old: "), "{markdown}");
    assert!(markdown.contains("| shop | users | "), "{markdown}");
}

#[test]
fn other_evidence_than_before_is_told() {
    let weaker = check(2, |trial| trial.evidence = Some(Evidence::Answers));
    let diff = diff(&check(1, |_| ()), &weaker);
    let expected = "Flask with 300 users was judged by the shop's own pages, and is judged by answers alone";
    assert_eq!(diff.caveats, [expected]);
}

#[test]
fn a_limit_per_buyer_is_a_setting() {
    let mut limited = check(2, |_| ());
    limited[0].schedule.shops[0].per_buyer = Some(2);
    assert!(refused(&check(1, |_| ()), &limited).contains("limits per buyer was \"\" and is \"2 of Flask\""));
}

#[test]
fn a_shop_is_not_compared_with_the_lab() {
    let refused = refused(&[fixture::report()], &check(1, |_| ()));
    assert!(refused.contains("what was measured was \"strategies\" and is \"shops\""), "{refused}");
}
