//! The values of the options: what each may be, and what the command line is told otherwise.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::uri::Authority;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::strategy::entry::Entry;
use crate::strategy::registry;

/// The bounds of every time option without bounds of its own. Deadlines are computed from these times and must not
/// overflow.
const DURATION_MIN: Duration = Duration::from_millis(1);
const DURATION_MAX: Duration = Duration::from_hours(24);

/// The bounds of the session timeout.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(1);
const SESSION_TIMEOUT_MAX: Duration = Duration::from_mins(10);

/// The bounds of the time to live of a lock in Redis.
const LOCK_TTL_MIN: Duration = Duration::from_secs(1);
const LOCK_TTL_MAX: Duration = Duration::from_mins(10);

/// The bounds of the lifetime of a key.
const KEY_LIFETIME_MIN: Duration = Duration::from_secs(1);
const KEY_LIFETIME_MAX: Duration = Duration::from_hours(365 * 24);

pub(super) fn strategy_parser() -> impl TypedValueParser<Value = &'static Entry> {
    PossibleValuesParser::new(registry::names()).map(|name| registry::find(&name).expect("BUG: clap let it through"))
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(duration) if (DURATION_MIN..=DURATION_MAX).contains(&duration) => Ok(duration),
        _ => Err("give a duration from 1ms to 1day with its unit, for instance 500ms, 10s or 1m"),
    }
}

pub(super) fn session_timeout(text: &str) -> Result<Duration, &'static str> {
    match positive_duration(text) {
        Ok(timeout) if (SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&timeout) => Ok(timeout),
        _ => Err(
            "give a duration from 1s to 10m with its unit: a shorter session ends in every pause, and a longer one keeps \
                  the locks of an instance that has died",
        ),
    }
}

pub(super) fn lock_ttl(text: &str) -> Result<Duration, &'static str> {
    match positive_duration(text) {
        Ok(ttl) if (LOCK_TTL_MIN..=LOCK_TTL_MAX).contains(&ttl) => Ok(ttl),
        _ => Err(
            "give a duration from 1s to 10m with its unit: a shorter lock ends in every pause, and a longer one stays when its \
                  instance has died",
        ),
    }
}

pub(super) fn rate(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse().map_err(|_| "give a number of purchases a second, from 1 to 4294967295")
}

pub(super) fn key_lifetime(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(lifetime) if (KEY_LIFETIME_MIN..=KEY_LIFETIME_MAX).contains(&lifetime) => Ok(lifetime),
        _ => Err("give a duration from 1s to 365days with its unit, for instance 24h"),
    }
}

pub(super) fn reachable_address(text: &str) -> Result<String, &'static str> {
    let is_address = |authority: &Authority| {
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_unspecified = host.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
        authority.port_u16().is_some_and(|port| port != 0) && !is_unspecified && !text.contains('@')
    };
    match text.parse::<Authority>() {
        Ok(authority) if is_address(&authority) => Ok(text.to_owned()),
        _ => Err("give a host and a port that the other instances reach, for instance demo-1:7070"),
    }
}

pub(super) fn instance_name(text: &str) -> Result<String, &'static str> {
    let printable = text.chars().all(|character| !character.is_control());
    if printable && (1..=100).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("give a name of 1 to 100 bytes without control characters")
    }
}

pub(super) fn default_instance() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}-{}", host.as_deref().unwrap_or("localhost"), std::process::id())
}
