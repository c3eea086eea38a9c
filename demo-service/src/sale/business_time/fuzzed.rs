//! Business times, as a user may write them.

use std::time::Duration;

use super::{BusinessTime, InvalidBusinessTime};

// S125
#[test]
fn a_business_time_that_is_shown_can_be_given_again() {
    fuzz::any_text("business-times", |text| match text.parse::<BusinessTime>() {
        Ok(time) => {
            assert!(time.min <= time.max && time.max() == time.max, "{text:?}");
            assert_eq!(time.is_none(), time.max == Duration::ZERO);
            assert_eq!(time.to_string().parse(), Ok(time), "{text:?} is shown as {time}");
        }
        Err(InvalidBusinessTime::Reversed { min, max }) => assert!(min > max, "{text:?}"),
        Err(InvalidBusinessTime::Syntax) => {}
    });
}
