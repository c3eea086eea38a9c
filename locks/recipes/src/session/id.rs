//! The ids of sessions.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The most digits of an id.
const DIGITS_MAX: usize = 16;

/// The id of a session. Displayed and parsed in ZooKeeper's form: `0x` and hexadecimal digits.
///
/// ```
/// use zk_recipes::SessionId;
///
/// let id: SessionId = "0x1000a4f8c2b0001".parse()?;
/// assert_eq!(id.to_string(), "0x1000a4f8c2b0001");
/// assert_eq!(id, SessionId::new(0x0100_0a4f_8c2b_0001));
/// # Ok::<_, zk_recipes::ParseSessionIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(i64);

impl SessionId {
    /// Returns the id with this number, as in the `ephemeralOwner` of a node.
    #[must_use]
    pub const fn new(id: i64) -> Self {
        Self(id)
    }

    /// Returns the number, as in the `ephemeralOwner` of a node.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:#x}", self.0))
    }
}

impl fmt::LowerHex for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl FromStr for SessionId {
    type Err = ParseSessionIdError;

    /// Parses `0x` and 1 to 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let are_digits =
            |digits: &&str| digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let digits = text.strip_prefix("0x").filter(are_digits);
        let id = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        id.map(|id| Self(id.cast_signed())).ok_or(ParseSessionIdError(()))
    }
}

/// The error for a text that is no [`SessionId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSessionIdError(());

impl fmt::Display for ParseSessionIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session id is 0x and then 1 to 16 hexadecimal digits")
    }
}

impl Error for ParseSessionIdError {}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown() {
        for (id, shown) in [(0, "0x0"), (0x0100_0000_0000_002a, "0x10000000000002a"), (-1, "0xffffffffffffffff")] {
            let id = SessionId::new(id);
            assert_eq!((id.to_string().as_str(), format!("{id:#x}").as_str()), (shown, shown));
            assert_eq!(shown.parse(), Ok(id));
        }
        assert_eq!(format!("{:x}", SessionId::new(255)), "ff");
        assert_eq!(format!("{:>6}", SessionId::new(255)), "  0xff");
        assert_eq!(format!("{:?}", SessionId::new(255)), "SessionId(0xff)");
        assert_eq!("0xFf".parse(), Ok(SessionId::new(255)));
    }

    #[test]
    fn a_text_that_is_no_id_is_refused() {
        for text in
            ["", "0x", "ff", "0X1", "0x+1", "0x-1", " 0x1", "0x1 ", "0xg", "0x10000000000000000", "0x00000000000000001"]
        {
            assert!(text.parse::<SessionId>().is_err(), "{text:?}");
        }
    }
}
