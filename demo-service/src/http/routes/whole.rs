//! Whole numbers in JSON bodies.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Two to the power of 63: the smallest number that is too large.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Reads a whole number. JSON has only one type of numbers, so `2.0` is as whole as `2`. Some programs write `2.0`.
///
/// # Errors
/// For everything that is no number, or has a fraction, or does not fit.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    deserializer.deserialize_i64(Whole)
}

/// Reads such a number, or null.
///
/// # Errors
/// As [`deserialize`].
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "deserialize")] i64);

    Ok(Option::<Number>::deserialize(deserializer)?.map(|Number(number)| number))
}

/// The visitor of a whole number.
pub(super) struct Whole;

impl Visitor<'_> for Whole {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 64 bits")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i64, E> {
        if number.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&number) {
            #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
            return Ok(number as i64);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Body {
        #[serde(deserialize_with = "super::deserialize")]
        number: i64,
    }

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        let read =
            |text: &str| serde_json::from_str::<Body>(&format!(r#"{{"number":{text}}}"#)).map(|body| body.number);
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("2.0", 2),
            ("-0.0", 0),
            ("1e3", 1000),
            ("2229553294265049.0", 2_229_553_294_265_049),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808.0", i64::MIN),
        ] {
            assert_eq!(read(text).unwrap(), number, "{text}");
        }
        for text in ["1.5", "9223372036854775808", "9223372036854775808.0", "1e19", "\"1\"", "null", "true", "[1]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
