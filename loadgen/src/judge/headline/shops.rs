//! The beginning of a report of shops that files describe: what each sold, the evidence, and what nobody could
//! check.

use stats::figures::things;

use super::{listed, sold_right};
use crate::audit::shop::Evidence;
use crate::judge::finding::Finding;
use crate::judge::result::StrategyResult;
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// Names the shops that sold right and those that sold wrongly, with the evidence.
pub(super) fn sold(schedule: &Schedule, users: u32, level: &[&StrategyResult], trials: &[Trial]) -> String {
    let right: Vec<&StrategyResult> = level.iter().copied().filter(|result| result.is_comparable).collect();
    let broken: Vec<String> =
        level.iter().filter(|result| result.finding == Finding::Broken).map(|result| wrong(result)).collect();
    let names: Vec<String> = right.iter().map(|result| result.name()).collect();
    let mut parts = Vec::new();
    if let Some(fewest) = right.iter().map(|result| result.trials).min() {
        let what = sold_right(schedule, users, &names, trials, fewest);
        parts.push(format!("{} sold {what}{}", listed(&names, schedule), by(&right)));
    } else if broken.len() < level.len() {
        let subject = match level {
            [one] => format!("{} was not", one.name()),
            _ => "no shop was".to_owned(),
        };
        parts.push(format!("{subject} proved right"));
    }
    parts.extend(broken);
    format!("With {}, {}.", things(users, "user"), parts.join("; "))
}

/// Describes in how many trials a shop sold wrongly, and names the evidence.
fn wrong(result: &StrategyResult) -> String {
    let trials = match (result.bad_trials, result.trials) {
        (1, 1) => "the one trial".to_owned(),
        (bad, all) if bad == all => format!("each of {}", things(all, "trial")),
        (bad, all) => format!("{bad} of {}", things(all, "trial")),
    };
    format!("{} sold wrongly in {trials}{}", result.name(), by(&[result]))
}

/// Describes the weakest evidence of these results, to follow a clause. If it differs, each shop is named.
pub(crate) fn by(results: &[&StrategyResult]) -> String {
    let told = |result: &StrategyResult| result.evidence.map(Evidence::describe);
    let mut kinds: Vec<&str> = results.iter().filter_map(|result| told(result)).collect();
    kinds.dedup();
    match kinds.as_slice() {
        [] => String::new(),
        [one] => format!(", {one}"),
        _ => {
            let each = results.iter().filter_map(|result| Some(format!("{} {}", result.name(), told(result)?)));
            format!(": {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Describes each fault of each shop, one line each.
pub(super) fn broken(level: &[&StrategyResult]) -> Vec<String> {
    let of = |result: &&StrategyResult| {
        let name = result.name();
        result.faults.iter().map(move |fault| format!("{name}: {fault}")).collect::<Vec<_>>()
    };
    level.iter().flat_map(of).collect()
}

/// Names what nothing could show, one line for each shop.
pub(super) fn unseen(level: &[&StrategyResult]) -> Vec<String> {
    let blind = level.iter().filter(|result| !result.unseen.is_empty());
    blind.map(|result| format!("not checked of {}: {}", result.name(), result.unseen.join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use crate::audit::shop::Evidence;
    use crate::judge::verdict::Verdict;
    use crate::report::{Report, shop_fixture};
    use crate::trial::record::Trial;

    fn verdict(change: impl Fn(&mut Trial)) -> Verdict {
        let mut findings = shop_fixture::of_shops(&["Flask"]);
        findings.trials.iter_mut().for_each(change);
        Report::of(findings).verdict
    }

    #[test]
    fn a_right_shop_is_told_with_its_evidence() {
        for (evidence, words) in [
            (Evidence::Answers, "by answers alone"),
            (Evidence::Pages, "by the shop's own pages"),
            (Evidence::Database, "by the database"),
        ] {
            let verdict = verdict(|trial| trial.evidence = Some(evidence));
            let expected = format!("With 300 users, Flask sold exactly the 100 units in each of 9 trials, {words}.");
            assert_eq!(verdict.sentence, expected);
            assert_eq!(
                (verdict.exit_code, verdict.reasons),
                (0, vec![format!("every shop kept its promise, {words}")])
            );
        }
    }

    #[test]
    fn the_weakest_evidence_of_the_trials_counts() {
        let verdict = verdict(|trial| {
            let weak = trial.block == 4;
            trial.evidence = Some(if weak { Evidence::Answers } else { Evidence::Database });
        });
        assert!(verdict.sentence.ends_with(", by answers alone."), "{}", verdict.sentence);
    }

    #[test]
    fn a_wrong_shop_is_told_with_every_fault_and_the_evidence() {
        let verdict = verdict(|trial| {
            if trial.block % 3 == 1 {
                trial.audit.oversold = 37;
                trial.audit.lost_updates = -40;
            }
        });
        assert_eq!(verdict.exit_code, 2);
        assert_eq!(verdict.sentence, "With 300 users, Flask sold wrongly in 3 of 9 trials, by the shop's own pages.");
        let oversold = "oversold by up to 37 units (37\u{202f}%)";
        let lost = "the stock fell by up to 40 units less than were ordered (lost updates, unless the page of [books] is cached)";
        assert_eq!(verdict.details[..2], [format!("Flask: {oversold}"), format!("Flask: {lost}")]);
        assert_eq!(verdict.reasons, [format!("promise broken by Flask, by the shop's own pages: {oversold}; {lost}")]);
    }

    #[test]
    fn what_nothing_could_show_is_told_on_every_verdict() {
        for oversold in [0, 3] {
            let verdict = verdict(|trial| {
                trial.audit.oversold = oversold;
                trial.unseen = vec![format!("gap {}", trial.block % 2), "the limit".to_owned()];
            });
            let last = verdict.details.last().unwrap();
            assert_eq!(last, "not checked of Flask: gap 0; the limit; gap 1");
        }
    }

    #[test]
    fn shops_with_different_evidence_are_named_each() {
        let mut findings = shop_fixture::of_shops(&["Flask", "Node"]);
        for trial in findings.trials.iter_mut().filter(|trial| trial.strategy == "Node") {
            trial.evidence = Some(Evidence::Answers);
        }
        let verdict = Report::of(findings).verdict;
        let words = "Flask by the shop's own pages, Node by answers alone";
        assert!(
            verdict.sentence.contains(&format!("in each of 9 trials: {words}. Fastest was ")),
            "{}",
            verdict.sentence
        );
        assert_eq!(verdict.reasons, [format!("every shop kept its promise: {words}")]);
    }

    #[test]
    fn one_right_and_one_wrong_shop_are_both_told() {
        let verdict = shop_fixture::wrong_shop_beside_right().verdict;
        assert_eq!(
            verdict.sentence,
            "With 300 users, Flask sold exactly the 100 units in each of 9 trials, by the shop's own pages; Node sold wrongly in \
             each of 9 trials, by the shop's own pages."
        );
    }

    #[test]
    fn a_shop_of_which_nothing_is_proved_has_not_sold_right() {
        let verdict = verdict(|trial| {
            trial.audit.sold = 20;
            trial.audit.unsold_undecided = 80;
        });
        assert_eq!(verdict.sentence, "With 300 users, Flask was not proved right.");
        let expected = "nothing can be said of Flask; look at the shop's log, or give fewer --users";
        assert_eq!((verdict.exit_code, &verdict.reasons[..]), (3, &[expected.to_owned()][..]));
    }
}
