//! Plan files, as a user may write them.

use super::*;

// C56
#[test]
fn a_plan_is_read_within_the_bounds_of_its_settings() {
    fuzz::any_text("load-plans", |text| match read("the plan", text) {
        Ok(layer) => {
            let PlanLayer { users, stock, trials, rate, dropped_max, errors_max, lock_wait, thresholds, .. } = &layer;
            assert!(users.iter().flatten().all(|users| (1..=20_000).contains(&users.get())));
            assert!(stock.is_none_or(|stock| (1..=100_000_000).contains(&stock.get())));
            assert!(trials.is_none_or(|trials| (1..=200).contains(&trials.get())));
            assert!(rate.is_none_or(|rate| rate > 0.0 && rate <= 1e6));
            let shares = [dropped_max, errors_max].into_iter().flatten();
            assert!(shares.into_iter().all(|share| (0.0..=1.0).contains(share)));
            assert!(lock_wait.is_none_or(|wait| wait >= Duration::from_millis(1)));
            assert!(thresholds.iter().flatten().all(|rule| Threshold::parse(rule.rule()).is_ok()));
        }
        Err(Error::Usage(told)) => assert!(told.starts_with("the plan is wrong: "), "{told}"),
        Err(other) => panic!("{other}"),
    });
}
