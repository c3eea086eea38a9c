//! Instants and durations in logs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads milliseconds with an optional fraction, to the nanosecond.
pub(super) fn milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = Duration::from_millis(digits(whole)?);
    if fraction.is_empty() {
        return (!text.ends_with('.')).then_some(whole);
    }
    digits(fraction)?;
    let nanos: String = fraction.chars().chain(std::iter::repeat('0')).take(6).collect();
    whole.checked_add(Duration::from_nanos(digits(&nanos)?))
}

/// Reads a whole number without a sign.
pub(super) fn digits(text: &str) -> Option<u64> {
    // `parse` would accept a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Returns the instant after this time since 1970.
pub(super) fn since_1970(time: Duration) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(time)
}

/// Reads an instant since 1970 as RFC 3339 writes it, with any offset from UTC.
pub(super) fn rfc3339(text: &str) -> Option<SystemTime> {
    if text.ends_with('Z') {
        return humantime::parse_rfc3339(text).ok();
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let below = |text: &str, end: u64| digits(text).filter(|number| text.len() == 2 && *number < end);
    let ahead = Duration::from_secs(below(hours, 24)? * 3600 + below(minutes, 60)? * 60);
    let at = match offset.as_bytes().first()? {
        b'+' => local.checked_sub(ahead),
        b'-' => local.checked_add(ahead),
        _ => None,
    };
    at.filter(|at| *at >= UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_may_have_a_fraction() {
        for (text, nanos) in [("7", 7_000_000), ("7.25", 7_250_000), ("0.000001", 1), ("1.23456789", 1_234_567)] {
            assert_eq!(milliseconds(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for wrong in ["", "-1", "1.", ".5", "1e3", "+1", "1.2.3", "1 "] {
            assert_eq!(milliseconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_instant_may_have_an_offset() {
        let noon = UNIX_EPOCH + Duration::new(1_795_780_800, 500_000_001);
        for text in [
            "2026-11-27T12:00:00.500000001Z",
            "2026-11-27T14:00:00.500000001+02:00",
            "2026-11-27T06:30:00.500000001-05:30",
        ] {
            assert_eq!(rfc3339(text), Some(noon), "{text}");
        }
        for wrong in [
            "",
            "2026-11-27T12:00:00",
            "2026-11-27",
            "now",
            "2026-11-27T12:00:00é0:00",
            "2026-11-27T12:00:00+24:00",
            "1970-01-01T00:00:00+00:01",
        ] {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
    }
}
