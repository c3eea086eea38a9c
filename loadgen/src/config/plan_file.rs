//! A plan as a TOML file: the load, the trials and the service, for keeping, and what no flag can set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::preset::Preset;
use super::values::{parse_hold, parse_positive_time};
use crate::error::Error;
use crate::load::model::Arrivals;

/// The file. Whatever is not in it comes from the preset, and flags win over it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PlanFile {
    pub(super) preset: Option<Preset>,
    pub(super) strategies: Option<Vec<String>>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(super) users: Option<Vec<u32>>,
    /// Strategies, by their names with `*` and `?`, and with how many users they are tried at most.
    #[serde(default)]
    pub(super) users_max: BTreeMap<String, u32>,
    pub(super) stock: Option<u32>,
    pub(super) goods: Option<u32>,
    pub(super) goods_no: Option<i64>,
    pub(super) trials: Option<u32>,
    pub(super) warm_up: Option<bool>,
    pub(super) seed: Option<u32>,
    #[serde(default, deserialize_with = "time")]
    pub(super) ramp_up: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    pub(super) duration: Option<Duration>,
    pub(super) rate: Option<f64>,
    pub(super) arrivals: Option<Arrivals>,
    #[serde(default, deserialize_with = "time")]
    pub(super) lock_wait: Option<Duration>,
    #[serde(default)]
    pub(super) thresholds: Vec<String>,
    #[serde(default)]
    pub(super) service: ServiceTable,
}

/// How the service is started.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServiceTable {
    pub(super) instances: Option<u16>,
    pub(super) zk_sessions: Option<u32>,
    #[serde(default, deserialize_with = "hold")]
    pub(super) hold: Option<String>,
    /// Further arguments of `demo-service`.
    #[serde(default)]
    pub(super) args: Vec<String>,
}

impl PlanFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when there is no such file, or something in it is wrong; it says what and where.
    pub(super) fn read(path: &Path) -> Result<PlanFile, Error> {
        let wrong = |what: String| Error::Usage(format!("the plan {} {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error| wrong(format!("is wrong:\n{}", error.to_string().trim_end())))
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u32>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of users, or a list of them")]
    enum OneOrMany {
        One(u32),
        Many(Vec<u32>),
    }
    Ok(Some(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(users) => vec![users],
        OneOrMany::Many(users) => users,
    }))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_positive_time(&text).map(Some).map_err(serde::de::Error::custom)
}

fn hold<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_hold(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        PlanFile::read(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_has_all_that_flags_say_and_more() {
        let plan: PlanFile = toml::from_str(
            r#"
            preset = "scale"
            users = [10, 100]
            users-max = { zk-naive = 100 }
            ramp-up = "2s"
            thresholds = ["zk-* oversold==0"]
            [service]
            hold = "1ms..5ms"
            args = ["--permits", "8"]
            "#,
        )
        .unwrap();
        assert_eq!((plan.preset, plan.users), (Some(Preset::Scale), Some(vec![10, 100])));
        assert_eq!(plan.users_max["zk-naive"], 100);
        assert_eq!((plan.ramp_up, plan.duration), (Some(Duration::from_secs(2)), None));
        assert_eq!(plan.service.args, ["--permits", "8"]);
        assert_eq!(toml::from_str::<PlanFile>("users = 7").unwrap().users, Some(vec![7]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        assert!(refusal("user = 3").contains("unknown field `user`"), "{}", refusal("user = 3"));
        assert!(refusal("users = \"many\"").contains("a number of users, or a list of them"));
        assert!(refusal("stock = 1\nramp-up = \"soon\"").contains("line 2"), "{}", refusal("ramp-up = \"soon\""));
        assert!(refusal("[service]\nhold = \"5ms..1ms\"").contains("the range ends before it begins"));
        let missing = PlanFile::read(Path::new("/nowhere.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("the plan /nowhere.toml cannot be read: "), "{missing}");
    }
}
