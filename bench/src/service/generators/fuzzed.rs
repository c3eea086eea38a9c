//! What wrk prints, of any version.

use super::*;

// T15
#[test]
fn the_figures_of_wrk_are_counts_and_times() {
    fuzz::any_text("wrk-output", |text| {
        let Some(Counted { per_s, total, quantiles_ms, .. }) = counted_by_wrk(text) else { return };
        assert!(per_s.is_finite() && per_s >= 0.0 && total >= 0, "{text:?}");
        assert!(quantiles_ms.into_iter().flatten().all(|ms| ms.is_finite() && ms >= 0.0), "{quantiles_ms:?}");
    });
}
