//! How figures are written on the page: three significant digits, which is all that a histogram has, and thousands apart.

use stats::{Difference, Estimate, Ratio, as_f64};

/// What stands for a figure that there is none of, or that the sample cannot carry.
pub(super) const ABSENT: &str = "–";

/// Narrow and without a line break.
const THIN_SPACE: char = '\u{202f}';

/// A figure to three significant digits.
pub(super) fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The exponent after rounding: 9.996 has three digits as 10.0.
    let scientific = format!("{value:.2e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let (Some(exponent), Ok(rounded)) = (exponent, scientific.parse::<f64>()) else { return ABSENT.to_owned() };
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    grouped(&format!("{rounded:.decimals$}"))
}

/// A figure that may be absent.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), figure)
}

/// A count, exactly.
pub(super) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A count that may be absent.
pub(super) fn maybe_count(value: Option<u64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), count)
}

/// A count that may be negative, exactly.
pub(super) fn signed(count: i64) -> String {
    grouped(&count.to_string())
}

/// A share of one as whole percents, or to a tenth below one percent.
pub(super) fn percent(share: f64) -> String {
    let percents = share * 100.0;
    if percents > 0.0 && percents < 0.95 {
        format!("{percents:.1}{THIN_SPACE}%")
    } else {
        format!("{percents:.0}{THIN_SPACE}%")
    }
}

/// A size in the binary unit that suits it.
pub(super) fn bytes(size: u64) -> String {
    let (mut size, mut unit) = (as_f64(size), "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    format!("{}{THIN_SPACE}{unit}", figure(size))
}

/// The interval in brackets; nothing when there is none.
pub(super) fn interval(low: Option<f64>, high: Option<f64>) -> Option<String> {
    Some(format!("[{}, {}]", figure(low?), figure(high?)))
}

/// A figure with its interval in one text.
pub(super) fn estimate(estimate: &Estimate) -> String {
    match interval(estimate.low, estimate.high) {
        Some(interval) => format!("{} {interval}", figure(estimate.value)),
        None => figure(estimate.value),
    }
}

/// What says that a ratio is not to be told from one, or that nobody can tell.
pub(super) fn sign(ratio: &Ratio) -> &'static str {
    match ratio.difference {
        Difference::Smaller | Difference::Larger => "",
        Difference::Indistinguishable => "~",
        Difference::TooFewBlocks => "?",
    }
}

/// Thousands apart, and a minus that is as wide as a plus.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("−", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        // Four digits are read at a glance.
        if place > 0 && (whole.len() - place).is_multiple_of(3) && whole.len() > 4 {
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
        assert_eq!([900, 8 << 30].map(bytes), ["900\u{202f}B", "8.00\u{202f}GiB"]);
    }

    #[test]
    fn a_figure_of_few_blocks_has_no_interval() {
        let of = |low, high| estimate(&Estimate { value: 4.03, low, high });
        assert_eq!(of(Some(3.9), Some(4.4)), "4.03 [3.90, 4.40]");
        assert_eq!(of(None, None), "4.03");
    }
}
