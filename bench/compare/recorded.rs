//! What the benches have written: criterion's estimates, and gungraun's summaries.
//!
//! Criterion declares its files private. So `Cargo.lock` pins its version, and only a name, a median and its interval are
//! read here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::gate::Time;

/// One of the two revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Base,
    Head,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Base, Self::Head];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Head => "head",
        }
    }

    /// Under which name criterion keeps the times of each half. It keeps files of its own under `base`, `change`, `new`
    /// and `report`.
    pub(crate) fn baselines(self) -> [&'static str; 2] {
        match self {
            Self::Base => ["base-1", "base-2"],
            Self::Head => ["head-1", "head-2"],
        }
    }
}

/// A figure of each revision that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sides<T> {
    pub(crate) base: Option<T>,
    pub(crate) head: Option<T>,
}

impl<T> Default for Sides<T> {
    fn default() -> Self {
        Self { base: None, head: None }
    }
}

impl<T> Sides<T> {
    pub(crate) fn of(&mut self, side: Side) -> &mut Option<T> {
        match side {
            Side::Base => &mut self.base,
            Side::Head => &mut self.head,
        }
    }
}

/// A folder of results.
#[derive(Clone, Debug)]
pub(crate) struct Results(PathBuf);

impl Results {
    pub(crate) fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Where criterion writes, for both revisions.
    pub(crate) fn criterion(&self) -> PathBuf {
        self.0.join("criterion")
    }

    /// Where gungraun writes.
    pub(crate) fn gungraun(&self, side: Side) -> PathBuf {
        self.0.join(format!("instructions-{}", side.name()))
    }

    /// The programs of a revision.
    pub(crate) fn programs(&self, side: Side) -> PathBuf {
        self.0.join("programs").join(side.name())
    }

    /// What the benches have said.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The times of each bench, both halves of each revision.
    ///
    /// # Errors
    /// When a file cannot be read, or has something else in it than criterion 0.8 writes.
    pub(crate) fn times(&self) -> Result<BTreeMap<String, Sides<[Time; 2]>>, Error> {
        let mut halves: BTreeMap<String, Sides<[Option<Time>; 2]>> = BTreeMap::new();
        for file in files_named("estimates.json", &self.criterion())? {
            let Some((side, half)) = side_and_half(&file) else { continue };
            let name = parse_file(&file.with_file_name("benchmark.json"), parse_name)?;
            let time = parse_file(&file, parse_time)?;
            halves.entry(name).or_default().of(side).get_or_insert([None; 2])[half] = Some(time);
        }
        let whole = |name: &str, halves: Option<[Option<Time>; 2]>| match halves {
            Some([Some(first), Some(second)]) => Ok(Some([first, second])),
            Some(_) => Err(Error::unreadable(format!("the times of {name}"), "one of the halves was not measured")),
            None => Ok(None),
        };
        let both = halves.into_iter().map(|(name, Sides { base, head })| {
            let sides = Sides { base: whole(&name, base)?, head: whole(&name, head)? };
            Ok((name, sides))
        });
        both.collect()
    }

    /// The instructions of each bench in each revision.
    ///
    /// # Errors
    /// When a file cannot be read, or has something else in it than gungraun 0.20 writes.
    pub(crate) fn instructions(&self) -> Result<BTreeMap<String, Sides<u64>>, Error> {
        let mut counts: BTreeMap<String, Sides<u64>> = BTreeMap::new();
        for side in Side::BOTH {
            for file in files_named("summary.json", &self.gungraun(side))? {
                let (name, count) = parse_file(&file, parse_summary)?;
                *counts.entry(name).or_default().of(side) = Some(count);
            }
        }
        Ok(counts)
    }
}

/// All files of that name in and below a folder, which need not be there.
fn files_named(name: &str, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        if !folder.exists() {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
            let path = entry.map_err(Error::file("read", &folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// By the name of the folder that criterion has put a file in.
fn side_and_half(file: &Path) -> Option<(Side, usize)> {
    let folder = file.parent()?.file_name()?;
    Side::BOTH.into_iter().find_map(|side| {
        let half = side.baselines().iter().position(|baseline| folder == *baseline)?;
        Some((side, half))
    })
}

fn parse_file<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    parse(&text).map_err(|reason| Error::unreadable(path.display(), reason))
}

fn parse_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The name of a bench, of criterion's `benchmark.json`.
fn parse_name(text: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Benchmark {
        full_id: String,
    }
    Ok(parse_json::<Benchmark>(text)?.full_id)
}

/// The median and its interval, of criterion's `estimates.json`: one sample during which the machine did something else
/// moves a mean, and not a median.
fn parse_time(text: &str) -> Result<Time, String> {
    #[derive(Deserialize)]
    struct Estimates {
        median: Estimate,
    }
    #[derive(Deserialize)]
    struct Estimate {
        point_estimate: f64,
        confidence_interval: Interval,
    }
    #[derive(Deserialize)]
    struct Interval {
        lower_bound: f64,
        upper_bound: f64,
    }
    let Estimate { point_estimate: point_ns, confidence_interval: interval } = parse_json::<Estimates>(text)?.median;
    let time = Time { point_ns, lower_ns: interval.lower_bound, upper_ns: interval.upper_bound };
    let is_sound = 0.0 < time.lower_ns && time.lower_ns <= point_ns && point_ns <= time.upper_ns;
    if is_sound && time.upper_ns.is_finite() {
        Ok(time)
    } else {
        Err(format!("{point_ns} ns is no time within [{}, {}]", time.lower_ns, time.upper_ns))
    }
}

/// The name of a bench and its instructions, of gungraun's `summary.json`.
fn parse_summary(text: &str) -> Result<(String, u64), String> {
    #[derive(Deserialize)]
    struct Summary {
        group: String,
        function_name: String,
        id: Option<String>,
        profiles: Vec<Profile>,
    }
    #[derive(Deserialize)]
    struct Profile {
        tool: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        total: Total,
    }
    #[derive(Deserialize)]
    struct Total {
        metrics: BTreeMap<String, Metric>,
    }
    #[derive(Deserialize)]
    struct Metric {
        values: Values,
    }
    #[derive(Deserialize)]
    struct Values {
        new: Option<serde_json::Number>,
    }
    let Summary { group, function_name, id, profiles } = parse_json(text)?;
    let name = [group, function_name].into_iter().chain(id).collect::<Vec<_>>().join("/");
    let callgrind = profiles.iter().find(|profile| profile.tool == "Callgrind").ok_or("callgrind was not run")?;
    let count = callgrind.data.total.metrics.get("Ir").and_then(|metric| metric.values.new.as_ref()?.as_u64());
    Ok((name, count.ok_or("it has no count of instructions (Ir)")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_median_and_its_interval() {
        let text = r#"{
            "mean": {"confidence_interval": {"confidence_level": 0.95, "lower_bound": 1.0, "upper_bound": 9.0},
                     "point_estimate": 5.0, "standard_error": 1.0},
            "median": {"confidence_interval": {"confidence_level": 0.95, "lower_bound": 3.5, "upper_bound": 4.5},
                       "point_estimate": 4.0, "standard_error": 0.1},
            "slope": null
        }"#;
        assert_eq!(parse_time(text), Ok(Time { point_ns: 4.0, lower_ns: 3.5, upper_ns: 4.5 }));
    }

    #[test]
    fn times_that_cannot_be_are_refused() {
        for (lower, point, upper) in [(0.0, 1.0, 2.0), (-1.0, 1.0, 2.0), (2.0, 1.0, 3.0), (1.0, 3.0, 2.0)] {
            let text = format!(
                r#"{{"median": {{"confidence_interval": {{"lower_bound": {lower}, "upper_bound": {upper}}},
                                 "point_estimate": {point}}}}}"#
            );
            assert!(parse_time(&text).unwrap_err().contains("is no time within"), "{text}");
        }
        assert!(parse_time("{}").unwrap_err().contains("missing field `median`"));
    }

    #[test]
    fn a_summary_names_the_bench_and_counts_its_instructions() {
        let text = r#"{
            "group": "queues", "function_name": "verdict", "id": "mutex_10", "version": "7",
            "profiles": [{"tool": "Callgrind", "data": {"parts": [], "total": {
                "metrics": {"Ir": {"values": {"new": 4242}}}, "regressions": []}}}]
        }"#;
        assert_eq!(parse_summary(text), Ok(("queues/verdict/mutex_10".to_owned(), 4242)));
        let without_id = text.replace(r#""id": "mutex_10", "#, "");
        assert_eq!(parse_summary(&without_id).map(|(name, _)| name), Ok("queues/verdict".to_owned()));
    }

    #[test]
    fn a_summary_without_a_count_is_refused() {
        let profile = |tool: &str, metric: &str| {
            format!(
                r#"{{"group": "g", "function_name": "f", "profiles": [{{"tool": "{tool}",
                     "data": {{"total": {{"metrics": {{"{metric}": {{"values": {{"new": 1}}}}}}}}}}}}]}}"#
            )
        };
        assert!(parse_summary(&profile("Callgrind", "Ir")).is_ok());
        assert_eq!(parse_summary(&profile("Dhat", "Ir")), Err("callgrind was not run".to_owned()));
        assert!(parse_summary(&profile("Callgrind", "Dr")).unwrap_err().contains("no count of instructions"));
    }

    #[test]
    fn no_baseline_has_a_name_that_criterion_uses_itself() {
        for baseline in Side::BOTH.into_iter().flat_map(Side::baselines) {
            assert!(!["base", "change", "new", "report"].contains(&baseline), "{baseline}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_revision_and_the_half_of_its_folder() {
        let place =
            |folder: &str| side_and_half(&Path::new("criterion/handover/mutex/2").join(folder).join("estimates.json"));
        assert_eq!(place("base-1"), Some((Side::Base, 0)));
        assert_eq!(place("head-2"), Some((Side::Head, 1)));
        assert_eq!(place("new"), None);
    }
}
