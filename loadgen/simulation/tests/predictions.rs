//! Tests of the predictions against closed forms, and of their properties for all numbers.

use proptest::prelude::*;
use simulation::{LatencyModel, Measured, Point, Recipe, Simulation, compare, predict, spaced, split};
use stats::as_f64;
use zk_recipes_protocol::cohort::Bounds;

const MODEL: LatencyModel = LatencyModel::START;

fn one_session_each(recipe: Recipe, waiters: u32) -> Point {
    predict(recipe, waiters, waiters, 1, &MODEL)
}

/// Returns an upper bound of the nodes in the queue that the waiters of cohorts need. A cohort that is quick leaves its
/// node only after the maximal number of hand-overs.
fn cohort_nodes_max(waiters: u32, sessions: u32) -> u64 {
    let per_node = u64::from(Bounds::DEFAULT.max_handovers) + 1;
    (0..sessions).map(|session| u64::from((waiters + sessions - 1 - session) / sessions).div_ceil(per_node)).sum()
}

#[test]
fn the_naive_lock_costs_what_its_closed_form_says() {
    for waiters in [1, 2, 3, 10, 100, 1_000, 100_000] {
        let point = one_session_each(Recipe::Naive, waiters);
        let n = u64::from(waiters);
        assert_eq!(point.notifications, n * (n - 1) / 2);
        assert_eq!(point.requests, n * (n + 1));
    }
}

#[test]
fn waiters_of_one_session_share_a_notification_per_release() {
    let point = predict(Recipe::Naive, 1_000, 1, 1, &MODEL);
    assert_eq!(point.notifications, 999);
    let one_each = one_session_each(Recipe::Naive, 1_000);
    assert_eq!((point.requests, point.bytes), (one_each.requests, one_each.bytes), "all that wait ask all the same");
}

#[test]
fn a_release_of_a_queue_wakes_one_waiter_at_a_constant_cost() {
    for waiters in [1, 2, 3, 10, 100, 1_000, 20_000] {
        let n = u64::from(waiters);
        let handoff = one_session_each(Recipe::Handoff, waiters);
        // The creation, the first look, the watch, the note and the own node, the release. The first waiter neither watches
        // nor looks again.
        assert_eq!((handoff.notifications, handoff.requests), (n - 1, 6 * n - 3), "{waiters}");
        let mutex = one_session_each(Recipe::Mutex, waiters);
        // The creation with a listing, the watch, another listing, the release. The first waiter neither watches nor looks again.
        assert_eq!((mutex.notifications, mutex.requests), (n - 1, 5 * n - 2), "{waiters}");
    }
}

#[test]
fn a_handoff_grows_linearly_and_a_mutex_with_the_square() {
    let bytes = |recipe, waiters| as_f64(one_session_each(recipe, waiters).bytes);
    let growth = |recipe| bytes(recipe, 20_000) / bytes(recipe, 2_000);
    assert!((9.9..10.1).contains(&growth(Recipe::Handoff)), "{}", growth(Recipe::Handoff));
    assert!((95.0..101.0).contains(&growth(Recipe::Mutex)), "{}", growth(Recipe::Mutex));
}

#[test]
fn a_cohort_asks_the_server_only_when_it_reaches_its_bound() {
    for (waiters, sessions) in [(10, 3), (1_000, 3), (3_003, 3), (3_004, 3), (20_000, 3), (5_000, 1), (100, 100)] {
        let point = predict(Recipe::Cohort, waiters, sessions, 1, &MODEL);
        let nodes = cohort_nodes_max(waiters, sessions);
        assert!(point.notifications < nodes, "{waiters} of {sessions}: {} of {nodes}", point.notifications);
        // The creation, two looks, two watches, the question whether others wait, the release.
        assert!(point.requests <= 8 * nodes, "{waiters} of {sessions}: {} of {nodes}", point.requests);
        assert!(point.requests >= 3 * u64::from(sessions) - 1, "{waiters} of {sessions}: {}", point.requests);
    }
}

#[test]
fn the_waiters_of_one_session_hand_the_lock_over_without_a_look() {
    for recipe in [Recipe::Mutex, Recipe::Handoff] {
        let point = predict(recipe, 500, 1, 1, &MODEL);
        // The creation, the watch, the release; and two looks.
        assert_eq!((point.notifications, point.requests), (499, 3 * 500 - 1 + 2), "{recipe:?}");
    }
}

#[test]
fn steps_of_1_2_5_lie_between_the_ends_of_a_range() {
    assert_eq!(spaced(100, 100_000), [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000]);
    assert_eq!(spaced(3, 30), [3, 5, 10, 20, 30]);
    assert_eq!(spaced(7, 7), [7]);
}

#[test]
fn the_largest_and_every_second_smaller_number_are_left_out() {
    assert_eq!(split(&[10, 30, 100, 300, 1_000]), (vec![10, 30, 300], vec![100, 1_000]));
    assert_eq!(split(&[10, 30, 100]), (vec![10, 30], vec![100]));
    assert_eq!(split(&[10, 30]), (vec![10], vec![30]));
    assert_eq!(split(&[]), (vec![], vec![]));
}

#[test]
fn a_simulation_tells_how_far_it_is_off_where_left_out() {
    let truth = LatencyModel { commit_ms: 2.0, ..MODEL };
    let measured = |waiters| Point { drain_ms: 1e4, ..predict(Recipe::Handoff, waiters, waiters, 1, &truth) };
    let measured = [Measured { recipe: Recipe::Handoff, points: vec![measured(10), measured(40)] }];
    let points = vec![one_session_each(Recipe::Handoff, 500)];
    let simulation = compare(vec![(Recipe::Handoff, points)], &measured, truth, 1);
    assert_eq!((&simulation.fitted_waiters[..], &simulation.left_out_waiters[..]), (&[10][..], &[40][..]));
    let counts = simulation.counts.unwrap();
    let times = simulation.times.unwrap();
    assert_eq!((counts.comparisons, times.comparisons), (3, 2));
    assert!((counts.factor_worst - 1.0).abs() < 1e-9 && times.factor_worst > 10.0, "{simulation:?}");
    assert!(simulation.caveats[0].starts_with("the model mispredicts the drain of handoff"), "{simulation:?}");
    assert!(
        simulation.caveats.iter().any(|caveat| caveat.starts_with("the largest measured drain has 40 waiters")),
        "{simulation:?}"
    );
}

#[test]
fn a_simulation_is_read_back_and_a_foreign_field_refused() {
    let measured = [Measured { recipe: Recipe::Naive, points: vec![one_session_each(Recipe::Naive, 5)] }];
    let points = vec![one_session_each(Recipe::Naive, 7)];
    let simulation = compare(vec![(Recipe::Naive, points)], &measured, MODEL, 1);
    let mut value = serde_json::to_value(&simulation).unwrap();
    assert_eq!(serde_json::from_value::<Simulation>(value.clone()).unwrap(), simulation);
    value["recipes"][0]["points"][0]["waitress"] = 1.into();
    assert!(serde_json::from_value::<Simulation>(value).unwrap_err().to_string().contains("waitress"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_waiter_holds_once_with_any_sessions_in_any_order(
        recipe in prop::sample::select(&Recipe::ALL[..]), waiters in 1_u32..120, sessions in 1_u32..120, seed in any::<u32>(),
    ) {
        // `drain` itself asserts that each waiter is granted once.
        let point = predict(recipe, waiters, sessions, seed, &MODEL);
        prop_assert_eq!((point.waiters, point.sessions), (waiters, sessions.min(waiters)));
        prop_assert_eq!(point.handover_ms.is_some(), waiters > 1);
        prop_assert_eq!(point, predict(recipe, waiters, sessions, seed, &MODEL));
    }

    #[test]
    fn more_waiters_never_cost_less(
        recipe in prop::sample::select(&Recipe::ALL[..]), waiters in 1_u32..200, more in 1_u32..200,
    ) {
        let sessions = |waiters: u32| recipe.sessions_default(waiters);
        let few = predict(recipe, waiters, sessions(waiters), 1, &MODEL);
        let many = predict(recipe, waiters + more, sessions(waiters + more), 1, &MODEL);
        prop_assert!(few.notifications <= many.notifications && few.requests <= many.requests && few.bytes <= many.bytes);
        prop_assert!(few.drain_ms <= many.drain_ms, "{} {}", few.drain_ms, many.drain_ms);
    }

    #[test]
    fn a_slower_machine_drains_no_faster_by_the_same_requests(
        recipe in prop::sample::select(&Recipe::ALL[..]), waiters in 1_u32..200, parameter in 0..LatencyModel::PARAMETERS,
    ) {
        let mut slower = MODEL.to_array();
        slower[parameter] *= 2.0;
        let slower = LatencyModel::from_array(slower);
        let sessions = recipe.sessions_default(waiters);
        let quick = predict(recipe, waiters, sessions, 1, &MODEL);
        let slow = predict(recipe, waiters, sessions, 1, &slower);
        prop_assert!(quick.drain_ms <= slow.drain_ms);
        prop_assert_eq!(quick.notifications, slow.notifications);
        prop_assert_eq!(quick.requests, slow.requests);
    }
}
