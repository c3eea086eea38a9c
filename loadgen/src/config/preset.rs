//! The presets: plan files that the program brings along.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Deserialize, Deserializer};

use super::values::from_text;

/// A plan file of `loadgen/presets/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preset {
    pub(super) name: &'static str,
    /// The content of the file. Its first line is a comment that describes the preset.
    pub(super) text: &'static str,
}

static PRESETS: [Preset; 7] = [
    Preset::QUICK,
    Preset { name: "jmeter", text: include_str!("../../presets/jmeter.toml") },
    Preset { name: "herd", text: include_str!("../../presets/herd.toml") },
    Preset { name: "scale", text: include_str!("../../presets/scale.toml") },
    Preset { name: "hot", text: include_str!("../../presets/hot.toml") },
    Preset { name: "field", text: include_str!("../../presets/field.toml") },
    Preset { name: "field-faults", text: include_str!("../../presets/field-faults.toml") },
];

impl Preset {
    /// The preset of a command line and a plan that name none.
    pub(super) const QUICK: Preset = Preset { name: "quick", text: include_str!("../../presets/quick.toml") };

    fn description(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }
}

impl ValueEnum for Preset {
    fn value_variants<'a>() -> &'a [Preset] {
        &PRESETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.description()))
    }
}

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
        let names = PRESETS.map(|preset| preset.name).join(", ");
        let remedy = format!("the presets are {names}");
        let named = |name: &str| PRESETS.into_iter().find(|preset| preset.name == name);
        from_text(deserializer, |name| named(name).ok_or_else(|| format!("no preset {name:?}; {remedy}")), &remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_described_in_its_first_line() {
        for preset in &PRESETS {
            assert!(preset.text.starts_with("# ") && preset.description().len() > 10, "{preset:?}");
        }
    }
}
