//! Figures that may be infinite, as reports in JSON have them: JSON has no infinite number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number, or "not reached" instead of an infinite one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reached {
    /// A finite figure.
    Yes(f64),
    /// The figure lies among requests that were never served.
    No(NotReached),
}

/// The text of an infinite figure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub enum NotReached {
    /// The one text.
    #[serde(rename = "not reached")]
    NotReached,
}

impl From<f64> for Reached {
    fn from(figure: f64) -> Reached {
        if figure == f64::INFINITY { Reached::No(NotReached::NotReached) } else { Reached::Yes(figure) }
    }
}

impl From<Reached> for f64 {
    fn from(reached: Reached) -> f64 {
        match reached {
            Reached::Yes(figure) => figure,
            Reached::No(NotReached::NotReached) => f64::INFINITY,
        }
    }
}

/// For `#[serde(with)]` of a figure that is always there.
pub mod always {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Reached;

    /// Writes the figure.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(figure: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Reached::from(*figure).serialize(serializer)
    }

    /// Reads the figure.
    ///
    /// # Errors
    ///
    /// The value is neither a number nor the text of an infinite one.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Reached::deserialize(deserializer).map(f64::from)
    }
}

/// For `#[serde(with)]` of a figure that may be absent.
pub mod maybe {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Reached;

    /// Writes the figure.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(figure: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        figure.map(Reached::from).serialize(serializer)
    }

    /// Reads the figure.
    ///
    /// # Errors
    ///
    /// The value is neither a number nor the text of an infinite one.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Reached>::deserialize(deserializer)?.map(f64::from))
    }
}
