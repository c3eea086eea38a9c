//! Ranges of waiters, as a user may write them.

use super::{WAITERS_MAX, parse_range};

// C57
#[test]
fn a_range_of_waiters_lies_within_its_bounds() {
    fuzz::any_text("waiter-ranges", |text| match parse_range(text) {
        Ok((first, last)) => {
            assert!(1 <= first && first <= last && last <= WAITERS_MAX, "{text:?}");
            assert_eq!(parse_range(&format!("{first}..{last}")), Ok((first, last)));
        }
        Err(refusal) => assert!(refusal.contains("; write "), "{text:?}: {refusal}"),
    });
}
