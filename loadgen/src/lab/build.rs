//! The code that an instance of the service runs, by its metric `seckill_build_info`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lab::service::Service;

/// The metric of the build.
const METRIC: &str = "seckill_build_info{";

/// The code of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Build {
    /// Name of the build, if two are compared.
    pub(crate) name: Option<String>,
    /// Version of the service.
    pub(crate) version: String,
    /// Commit that it was built from; absent if the build does not know it, like a debug build.
    pub(crate) revision: Option<String>,
    /// Whether its sources differed from that commit; absent if the build does not know.
    pub(crate) changed: Option<bool>,
    /// Profile of the build: `release` or `debug`.
    pub(crate) profile: String,
}

/// Returns the different builds of the instances, under this name if two are compared.
pub(crate) async fn builds(service: &Service, name: Option<&str>) -> Result<Vec<Build>, Error> {
    let mut builds = Vec::new();
    for instance in service.urls() {
        let build = Build::from_prometheus(&service.metrics_text(instance).await?);
        let build = build.map(|build| Build { name: name.map(str::to_owned), ..build });
        builds.extend(build.filter(|build| !builds.contains(build)));
    }
    Ok(builds)
}

impl Build {
    /// Reads the build from the metrics of an instance. `None` if they do not tell.
    fn from_prometheus(text: &str) -> Option<Build> {
        let labels = text.lines().find_map(|line| line.strip_prefix(METRIC))?;
        let label = |name: &str| {
            let (_, value) = labels.split_once(&format!("{name}=\""))?;
            value.split_once('"').map(|(value, _)| value.to_owned()).filter(|value| !value.is_empty())
        };
        Some(Build {
            name: None,
            version: label("version")?,
            revision: label("revision"),
            changed: label("changed").and_then(|changed| changed.parse().ok()),
            profile: label("profile")?,
        })
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.revision.as_deref().unwrap_or("unknown");
        let changed = if self.changed == Some(true) { ", changed" } else { "" };
        write!(f, "demo-service {}, revision {revision}{changed}, {} build", self.version, self.profile)
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_read_from_the_metrics() {
        let text = "# TYPE seckill_build_info gauge\n\
            seckill_build_info{version=\"0.1.0\",revision=\"0f3c\",changed=\"true\",profile=\"release\"} 1\n";
        let build = Build::from_prometheus(text).unwrap();
        assert_eq!(build.to_string(), "demo-service 0.1.0, revision 0f3c, changed, release build");
        let debug = "seckill_build_info{version=\"0.1.0\",revision=\"\",changed=\"\",profile=\"debug\"} 1";
        let build = Build::from_prometheus(debug).unwrap();
        assert_eq!((build.revision, build.changed), (None, None));
        assert_eq!(Build::from_prometheus("process_threads 3"), None);
    }
}
