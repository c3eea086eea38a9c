//! The checks of values, each for flags, plan files and presets alike. A number is checked by its type, and a text by one
//! function: `parse_…` for a flag, and the function after it for a plan.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::error::Error;
use crate::judge::thresholds::Threshold;
use crate::lab::service_program::DB_GRACE;
use crate::lab::source::Program;

pub(crate) type Users = Within<u32, 1, 20_000>;
pub(crate) type Stock = Within<u32, 1, 100_000_000>;
/// Units that one buyer may have, and requests that one buyer sends.
pub(crate) type PerBuyer = Within<u32, 1, 1000>;
pub(crate) type GoodsCount = Within<u32, 1, 1000>;
/// Leaves room for `GoodsCount` SKUs after the first one.
pub(crate) type GoodsNo = Within<i64, 1, { i64::MAX - 1000 }>;
/// The exact intervals of more trials take too long to compute.
pub(crate) type Trials = Within<u32, 1, 200>;
pub(crate) type Instances = Within<u16, 1, 64>;
pub(crate) type Sessions = Within<u32, 1, 20_000>;
pub(crate) type Port = Within<u16, 1, 65_535>;

const DAY: Duration = Duration::from_hours(24);

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Within<T, const MIN: i64, const MAX: i64>(T);

impl<T: Copy + TryFrom<i64>, const MIN: i64, const MAX: i64> Within<T, MIN, MAX> {
    /// Checks a number. `None` stands for a value that is no whole number.
    pub(super) fn new(number: Option<i64>) -> Result<Self, String> {
        let number = number.filter(|number| (MIN..=MAX).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.map(Within).ok_or_else(|| format!("write a whole number from {MIN} to {MAX}"))
    }

    pub(crate) fn get(self) -> T {
        self.0
    }
}

impl<T: Copy + TryFrom<i64>, const MIN: i64, const MAX: i64> FromStr for Within<T, MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text.parse().ok())
    }
}

impl<'de, T: Copy + TryFrom<i64>, const MIN: i64, const MAX: i64> Deserialize<'de> for Within<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(i64::deserialize(deserializer).ok()).map_err(D::Error::custom)
    }
}

/// Checks a time: at least one millisecond, the unit of every report, and at most one day.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_millis(1)..=DAY).contains(&time) {
        Ok(time)
    } else {
        Err("the time must be from 1ms to 1day".to_owned())
    }
}

pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, parse_time, "write a time in quotation marks, such as \"2s\"")
}

/// Checks a business time or a range of business times, and leaves it as the service reads it. The longest time fits
/// between the service's wait for the lock and its wait for the database.
pub(super) fn parse_business_time(text: &str) -> Result<String, String> {
    let (shortest, longest) = text.split_once("..").unwrap_or((text, text));
    let shortest = duration(shortest)?;
    let longest = duration(longest)?;
    if shortest > longest {
        Err("the range ends before it begins".to_owned())
    } else if longest >= DB_GRACE {
        Err(format!("the time must be shorter than {}", humantime::format_duration(DB_GRACE)))
    } else {
        Ok(text.to_owned())
    }
}

pub(super) fn business_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    from_text(deserializer, parse_business_time, "write a time or a range in quotation marks, such as \"1ms..5ms\"")
}

/// Checks requests per second. `None` stands for a value that is no number.
fn checked_rate(rate: Option<f64>) -> Result<f64, String> {
    let rate = rate.filter(|rate| *rate > 0.0 && *rate <= 1e6);
    rate.ok_or_else(|| "write requests per second: above 0 and at most 1000000".to_owned())
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    checked_rate(text.parse().ok())
}

pub(super) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    checked_rate(f64::deserialize(deserializer).ok()).map_err(D::Error::custom)
}

/// Checks a share in percent.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|percent| percent.trim_end().parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0% to 100%".to_owned())
}

pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    from_text(deserializer, parse_share, "write a share in quotation marks, such as \"1%\"")
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Threshold, D::Error> {
        from_text(deserializer, Threshold::parse, "write a rule in quotation marks, such as \"zk-mutex p99<250ms\"")
    }
}

/// Reads a value that a plan has as text. `no_text` is the error for a value of another type.
pub(super) fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
    no_text: &str,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer).map_err(|_| D::Error::custom(no_text))?;
    parse(&text).map_err(D::Error::custom)
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 2ms or 1m30s"))
}

/// Parses programs of the service: `FILE`, or `NAME=FILE` of a build. A text with a slash before the first `=` is a file.
pub(crate) fn program_parser() -> impl TypedValueParser<Value = Program> {
    PathBufValueParser::new().try_map(parse_program)
}

fn parse_program(path: PathBuf) -> Result<Program, String> {
    let parts = path.to_str().and_then(|text| text.split_once('=')).filter(|(name, _)| !name.contains('/'));
    let Some((name, file)) = parts else { return Ok(Program { name: None, path: Some(path) }) };
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || !name.chars().all(is_allowed) {
        return Err("write NAME=FILE, and the name with letters, digits, -, _ and .".to_owned());
    }
    if file.is_empty() {
        return Err(format!("the build {name} has no file; write {name}=FILE"));
    }
    Ok(Program { name: Some(name.to_owned()), path: Some(PathBuf::from(file)) })
}

/// Returns the program of a command that measures one build.
pub(crate) fn one_program(programs: Vec<Program>, command: &str) -> Result<Vec<Program>, Error> {
    match programs.as_slice() {
        [] => Ok(vec![Program::default()]),
        [Program { name: None, .. }] => Ok(programs),
        _ => Err(Error::Usage(format!(
            "`loadgen {command}` takes one build, and only `loadgen compare` takes two; write --demo-service FILE"
        ))),
    }
}

/// Returns the programs of a comparison: one, or two builds with different names.
pub(crate) fn one_or_two_programs(programs: Vec<Program>) -> Result<Vec<Program>, Error> {
    match programs.as_slice() {
        [Program { name: Some(first), .. }, Program { name: Some(second), .. }] if first == second => {
            Err(Error::Usage(format!("both builds have the name {first}; write two names")))
        }
        [] => Ok(vec![Program::default()]),
        [Program { name: None, .. }] | [Program { name: Some(_), .. }, Program { name: Some(_), .. }] => Ok(programs),
        _ => Err(Error::Usage(
            "two builds are compared, each with a name; write --demo-service base=FILE --demo-service head=FILE"
                .to_owned(),
        )),
    }
}

/// Returns the file of a report. A folder stands for the report.json in it.
#[expect(clippy::unnecessary_wraps, reason = "it is a value parser")]
pub(crate) fn parse_report(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    Ok(if path.is_dir() { path.join(crate::report::files::JSON) } else { path })
}

/// Checks a base URL, and removes the slash at its end. Paths are put behind it.
pub(crate) fn parse_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; write http://HOST:PORT"))?;
    if url.scheme() != "http" || url.host().is_none() || url.query().is_some() || url.fragment().is_some() {
        return Err("not a base URL; write http://HOST:PORT".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn business_times_are_a_time_or_a_range() {
        for time in ["0ms", "2ms", "1ms..5ms", "3ms..3ms", "4s"] {
            assert_eq!(parse_business_time(time).unwrap(), time);
        }
    }

    #[test]
    fn a_program_has_a_name_if_no_slash_is_before_it() {
        let parsed =
            |text: &str| parse_program(PathBuf::from(text)).map(|program| (program.name, program.path.unwrap()));
        for (text, name, path) in [
            ("target/release/demo-service", None, "target/release/demo-service"),
            ("base=old/demo-service", Some("base"), "old/demo-service"),
            ("v1.2=a=b", Some("v1.2"), "a=b"),
            ("./base=old", None, "./base=old"),
        ] {
            assert_eq!(parsed(text), Ok((name.map(str::to_owned), PathBuf::from(path))));
        }
        for wrong in ["=old", "the base=old", "base="] {
            assert!(parsed(wrong).unwrap_err().contains("=FILE"), "{wrong}");
        }
    }

    #[test]
    fn one_build_or_two_with_different_names_are_compared() {
        let programs = |texts: &[&str]| {
            let programs = texts.iter().map(|text| parse_program(PathBuf::from(text)).unwrap()).collect();
            one_or_two_programs(programs).map(|programs| programs.len()).map_err(|error| error.to_string())
        };
        assert_eq!((programs(&[]), programs(&["a"]), programs(&["A=a", "B=a"])), (Ok(1), Ok(1), Ok(2)));
        assert_eq!(programs(&["A=a", "A=b"]).unwrap_err(), "both builds have the name A; write two names");
        for wrong in [&["A=a"][..], &["a", "b"], &["A=a", "b"], &["A=a", "B=b", "C=c"]] {
            assert!(programs(wrong).unwrap_err().starts_with("two builds are compared, each with a name"), "{wrong:?}");
        }
    }

    #[test]
    fn a_flag_and_a_plan_are_told_the_same_of_a_wrong_value() {
        #[derive(Debug, Deserialize)]
        struct OneValue {
            #[expect(dead_code, reason = "only its error is of interest")]
            value: Instances,
        }
        for (flag, plan) in [("0", "0"), ("65", "65"), ("1.5", "1.5"), ("three", "\"three\"")] {
            let remedy = flag.parse::<Instances>().unwrap_err();
            assert_eq!(remedy, "write a whole number from 1 to 64");
            let refused = toml::from_str::<OneValue>(&format!("value = {plan}")).unwrap_err();
            assert_eq!(refused.message(), remedy);
        }
    }
}
