//! How values of the command line are read.

use std::path::PathBuf;
use std::time::Duration;

use crate::lab::stack::DB_GRACE;

const DAY: Duration = Duration::from_hours(24);

pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 2ms or 1m30s"))
}

pub(crate) fn parse_positive_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    // Whole milliseconds are what all that is told of it knows, and nobody waits for longer than a day.
    if (Duration::from_millis(1)..=DAY).contains(&time) {
        Ok(time)
    } else {
        Err("the time must be from 1ms to 1day".to_owned())
    }
}

/// Checks a time or a range of times, and leaves it as the service reads it. The longest time has to fit between the
/// service's wait for the lock and its wait for the database.
pub(crate) fn parse_hold(text: &str) -> Result<String, String> {
    let longest = match text.split_once("..") {
        None => parse_time(text)?,
        Some((shortest, longest)) => {
            let (shortest, longest) = (parse_time(shortest)?, parse_time(longest)?);
            if shortest > longest {
                return Err("the range ends before it begins".to_owned());
            }
            longest
        }
    };
    if longest >= DB_GRACE {
        return Err(format!("the time must be shorter than {}", humantime::format_duration(DB_GRACE)));
    }
    Ok(text.to_owned())
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "write a number of requests a second".to_owned())?;
    if rate > 0.0 && rate <= 1e6 { Ok(rate) } else { Err("the rate must be above 0 and at most 1000000".to_owned()) }
}

/// The file of a report; a folder stands for the one in it.
#[expect(clippy::unnecessary_wraps, reason = "it is a value parser")]
pub(crate) fn parse_report(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    Ok(if path.is_dir() { path.join(crate::report::files::JSON) } else { path })
}

/// Checks a base URL, and takes the slash off its end.
pub(crate) fn parse_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; write http://HOST:PORT"))?;
    if url.scheme() != "http" || url.host().is_none() || url.query().is_some() {
        return Err("not a base URL; write http://HOST:PORT".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}
