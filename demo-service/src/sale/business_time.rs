//! The simulated business time of a deduction: what a real service would do between reading and writing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A fixed time (`2ms`) or a uniformly distributed one (`1ms..5ms`, both ends included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusinessTime {
    min: Duration,
    max: Duration,
}

impl BusinessTime {
    /// No business time at all.
    pub const NONE: Self = Self { min: Duration::ZERO, max: Duration::ZERO };

    /// Returns whether there is no business time.
    pub fn is_none(self) -> bool {
        self.max.is_zero()
    }

    /// Returns the longest business time of a deduction.
    pub fn max(self) -> Duration {
        self.max
    }

    /// Lets the business time of one deduction pass. The runtime's timer rounds up to whole milliseconds.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn pass(self) {
        if !self.is_none() {
            tokio::time::sleep(rand::random_range(self.min..=self.max)).await;
        }
    }
}

impl FromStr for BusinessTime {
    type Err = InvalidBusinessTime;

    fn from_str(text: &str) -> Result<Self, InvalidBusinessTime> {
        let duration = |part: &str| humantime::parse_duration(part).map_err(|_| InvalidBusinessTime::Syntax);
        match text.split_once("..") {
            None => duration(text).map(|fixed| Self { min: fixed, max: fixed }),
            Some((min, max)) => {
                let min = duration(min)?;
                let max = duration(max)?;
                if min > max { Err(InvalidBusinessTime::Reversed { min, max }) } else { Ok(Self { min, max }) }
            }
        }
    }
}

impl fmt::Display for BusinessTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{:?}", self.min) } else { write!(f, "{:?}..{:?}", self.min, self.max) }
    }
}

/// The text is not a business time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBusinessTime {
    /// Not a duration with its unit, nor a range of two.
    #[error("give a duration with its unit (2ms), or a range of two (1ms..5ms)")]
    Syntax,
    /// A range that ends before it begins.
    #[error("give the shorter time first: {max:?}..{min:?}")]
    Reversed {
        /// What was given first.
        min: Duration,
        /// What was given last.
        max: Duration,
    },
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(from: u64, to: u64) -> BusinessTime {
        BusinessTime { min: Duration::from_millis(from), max: Duration::from_millis(to) }
    }

    #[test]
    fn a_business_time_is_a_duration_or_a_range() {
        for (text, time) in
            [("0ms", BusinessTime::NONE), ("2ms", ms(2, 2)), ("1ms..5ms", ms(1, 5)), ("1s", ms(1000, 1000))]
        {
            assert_eq!(text.parse(), Ok(time), "{text}");
            assert_eq!(time.to_string().parse(), Ok(time), "what is shown can be given again");
        }
    }

    #[test]
    fn a_malformed_business_time_names_the_remedy() {
        for text in ["", "5", "fast", "1ms..", "..5ms", "1ms..2ms..3ms", "-1ms"] {
            assert_eq!(text.parse::<BusinessTime>(), Err(InvalidBusinessTime::Syntax), "{text:?}");
        }
        let reversed = "5ms..1ms".parse::<BusinessTime>().unwrap_err();
        assert_eq!(reversed.to_string(), "give the shorter time first: 1ms..5ms");
    }
}
