//! Metrics, as any service may answer them.

use super::Build;

// C57
#[test]
fn a_build_is_read_from_its_labels_alone() {
    fuzz::any_text("builds", |text| {
        let Some(build) = Build::from_prometheus(text) else { return };
        for value in [Some(&build.version), build.revision.as_ref(), Some(&build.profile)].into_iter().flatten() {
            assert!(!value.is_empty() && !value.contains(['"', '\n']) && text.contains(value.as_str()), "{build:?}");
        }
    });
}
