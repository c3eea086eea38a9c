//! The formats of the numbers in the reports. Each kind of number has one.
//!
//! | kind | format | example |
//! |---|---|---|
//! | a measured figure | three significant digits, which is all that a histogram has | 40.3 |
//! | a count | exact | 20 000 |
//! | a share | whole percents; one decimal below 1 % | 28 % |
//! | a size | a figure with a binary unit | 1.21 KiB |
//! | a time | a figure in milliseconds | 0.964 ms |
//! | a value beside its limit | up to six decimals, as rounding could hide on which side it lies | 250.3 |
//! | a p-value | three decimals | 0.041 |
//!
//! A narrow no-break space (U+202F) separates the thousands of numbers with five digits or more, and a number from its unit.

use std::fmt::Display;

use crate::{Difference, Estimate, Ratio};

/// Stands for a figure that is absent, or that the sample cannot carry.
pub const ABSENT: &str = "–";

/// Stands for an infinite figure: a quantile that lies among requests that were never served.
pub const NOT_REACHED: &str = "not reached";

const THIN_SPACE: char = '\u{202f}';

/// Writes a figure with three significant digits.
pub fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value == f64::INFINITY {
        return NOT_REACHED.to_owned();
    }
    // The exponent after rounding: 9.996 has three digits as 10.0.
    let scientific = format!("{value:.2e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let (Some(exponent), Ok(rounded)) = (exponent, scientific.parse::<f64>()) else { return ABSENT.to_owned() };
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    grouped(&format!("{rounded:.decimals$}"))
}

/// Rounds a figure to the three significant digits that [`figure`] writes.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Writes a figure that may be absent.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), figure)
}

/// Writes a count.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// Writes a number of things, in the plural unless it is one.
pub fn things(count: impl Display, thing: &str) -> String {
    let count = count.to_string();
    format!("{count} {thing}{}", if count == "1" { "" } else { "s" })
}

/// Writes a count that may be absent.
pub fn maybe_count(value: Option<u64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), count)
}

/// Writes a count that may be negative.
pub fn signed(count: i64) -> String {
    grouped(&count.to_string())
}

/// Writes a whole number that may be negative.
pub fn whole(number: f64) -> String {
    grouped(&format!("{number:.0}"))
}

/// Writes a share of one.
pub fn percent(share: f64) -> String {
    let percents = share * 100.0;
    if percents > 0.0 && percents < 0.95 {
        with_unit(&format!("{percents:.1}"), "%")
    } else {
        with_unit(&format!("{percents:.0}"), "%")
    }
}

/// Writes a number of bytes in the largest unit of which there is at least one.
pub fn bytes(bytes: f64) -> String {
    let mut size = bytes;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    with_unit(&figure(size), unit)
}

/// Writes a time that is given in milliseconds.
pub fn ms(ms: f64) -> String {
    if ms.is_finite() { with_unit(&figure(ms), "ms") } else { figure(ms) }
}

/// Writes a value that stands beside its limit.
pub fn exact(value: f64) -> String {
    if value == f64::INFINITY {
        return NOT_REACHED.to_owned();
    }
    let text = format!("{value:.6}");
    grouped(text.trim_end_matches('0').trim_end_matches('.'))
}

/// Writes a p-value.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Writes an interval in brackets. `None` if an end is absent.
pub fn interval(low: Option<f64>, high: Option<f64>) -> Option<String> {
    Some(format!("[{}, {}]", figure(low?), figure(high?)))
}

/// Writes a figure with its interval.
pub fn estimate(estimate: &Estimate) -> String {
    match interval(estimate.low, estimate.high) {
        Some(interval) => format!("{} {interval}", figure(estimate.value)),
        None => figure(estimate.value),
    }
}

/// Returns the sign of a ratio without a significant difference from one (`~`), or with too few blocks (`?`).
pub fn sign(ratio: &Ratio) -> &'static str {
    match ratio.difference {
        Difference::Smaller | Difference::Larger => "",
        Difference::Indistinguishable => "~",
        Difference::TooFewBlocks => "?",
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    format!("{number}{THIN_SPACE}{unit}")
}

/// Separates the thousands of a decimal number, and writes a minus that is as wide as a plus.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("−", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut text = sign.to_owned();
    for (position, digit) in whole.chars().enumerate() {
        // Four digits are read at a glance.
        if position > 0 && (whole.len() - position).is_multiple_of(3) && whole.len() > 4 {
            text.push(THIN_SPACE);
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beside_its_limit_shows_on_which_side_it_lies() {
        assert_eq!([250.3, 250.0, 0.000_001, 12_345.5].map(exact), ["250.3", "250", "0.000001", "12\u{202f}345.5"]);
    }

    #[test]
    fn a_p_value_is_never_zero() {
        assert_eq!([0.0, 0.000_4, 0.041_2, 1.0].map(p_value), ["< 0.001", "< 0.001", "0.041", "1.000"]);
    }

    #[test]
    fn figures_have_three_significant_digits() {
        for (value, written) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.25, "0.250"),
            (4.0, "4.00"),
            (9.996, "10.0"),
            (40.26, "40.3"),
            (403.4, "403"),
            (-403.4, "−403"),
            (4036.0, "4040"),
            (12_345.0, "12\u{202f}300"),
            (1_124_250.0, "1\u{202f}120\u{202f}000"),
            (f64::NAN, "–"),
            (f64::INFINITY, "not reached"),
        ] {
            assert_eq!(figure(value), written);
        }
    }

    #[test]
    fn counts_are_exact() {
        assert_eq!(count(1_124_250), "1\u{202f}124\u{202f}250");
        assert_eq!((signed(-12), maybe_count(None)), ("−12".to_owned(), "–".to_owned()));
    }

    #[test]
    fn shares_and_sizes_have_their_units() {
        assert_eq!(
            [0.0, 0.004, 0.283, 1.0].map(percent),
            ["0\u{202f}%", "0.4\u{202f}%", "28\u{202f}%", "100\u{202f}%"]
        );
        assert_eq!([900.0, 8_589_934_592.0].map(bytes), ["900\u{202f}B", "8.00\u{202f}GiB"]);
        assert_eq!([0.004, 4755.455, f64::INFINITY].map(ms), ["0.00400\u{202f}ms", "4760\u{202f}ms", "not reached"]);
        assert_eq!(exact(f64::INFINITY), "not reached");
    }

    #[test]
    fn a_rounded_figure_is_the_one_that_is_written() {
        assert_eq!([99.96, 2.496, 0.0, -1234.0].map(rounded), [100.0, 2.5, 0.0, -1230.0]);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn a_figure_of_few_blocks_has_no_interval() {
        let of = |low, high| estimate(&Estimate { value: 4.03, low, high });
        assert_eq!(of(Some(3.9), Some(4.4)), "4.03 [3.90, 4.40]");
        assert_eq!(of(None, None), "4.03");
    }
}
