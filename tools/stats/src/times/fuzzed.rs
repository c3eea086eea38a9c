//! Times, as a report has them.

use super::*;

// T15
#[test]
fn times_are_read_as_they_were_written_or_refused() {
    fuzz::any_bytes("times", |bytes| {
        let times = match serde_json::from_slice::<Times>(bytes) {
            Ok(times) => times,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        let longest = times.served.max();
        assert!(longest <= TIME_MAX_US + TIME_MAX_US / 1000, "{longest}");
        let quantiles: Vec<_> =
            [1, 500, 900, 999, 1000].into_iter().filter_map(|permille| times.quantile_ms(permille)).collect();
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        let written = serde_json::to_string(&times).unwrap();
        let again: Times = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    });
}
