//! Merges the layers of settings: flags over a plan file over a preset over defaults.

use std::fs;
use std::path::Path;
use std::time::Duration;

use buyers::model::{Arrivals, LoadModel};
use confique::{Config as _, Layer as _};
use stats::figures::{count, things};

use super::plan::{PlanLayer, PlanSettings, read};
use super::preset::Preset;
use super::values::PerBuyer;
use crate::error::Error;

/// Default duration of a load with a rate.
const RATE_DURATION: Duration = Duration::from_secs(10);

/// The most requests at the same instant.
const AT_ONCE_MAX: usize = 20_000;

/// The layers with their names, from the strongest to the weakest.
pub(super) struct Layers(Vec<(String, PlanLayer)>);

impl Layers {
    /// Adds the plan file, if there is one, and the preset to the flags.
    pub(super) fn of(flags: PlanLayer, plan: Option<&Path>) -> Result<Layers, Error> {
        let mut layers = vec![("the command line".to_owned(), flags)];
        if let Some(path) = plan {
            let origin = format!("the plan {}", path.display());
            let unreadable = |error| Error::Usage(format!("{origin} cannot be read: {error}"));
            let layer = read(&origin, &fs::read_to_string(path).map_err(unreadable)?)?;
            layers.push((origin, layer));
        }
        let preset = layers.iter().find_map(|(_, layer)| layer.preset).unwrap_or(Preset::QUICK);
        let origin = format!("the preset {}", preset.name);
        let layer = read(&origin, preset.text)?;
        layers.push((origin, layer));
        Ok(Layers(layers))
    }

    /// Merges the layers and the defaults, and makes the load model of them.
    pub(super) fn merge(&self) -> Result<(PlanSettings, LoadModel), Error> {
        for (origin, layer) in &self.0 {
            if layer.rate.is_some() && layer.ramp_up.is_some() {
                return Err(Error::Usage(format!(
                    "{origin} sets both rate and ramp-up, and each says when requests start; remove one of them"
                )));
            }
        }
        let layers = self.0.iter().map(|(_, layer)| layer.clone()).chain([PlanLayer::default_values()]);
        let merged = layers.reduce(over).unwrap_or_else(PlanLayer::empty);
        let settings = PlanSettings::from_layer(merged).map_err(|error| Error::Usage(error.to_string()))?;
        let model = self.model(&settings)?;
        let most = settings.users.iter().map(|users| users.get()).max().unwrap_or(1);
        let most = usize::try_from(most).map_or(usize::MAX, |users| model.users_of(users));
        if most > AT_ONCE_MAX {
            return Err(Error::Usage(format!(
                "these users would send {} at once, and the most are {}; give fewer users, or fewer requests-per-buyer",
                things(count(most as u64), "request"),
                count(AT_ONCE_MAX as u64)
            )));
        }
        Ok((settings, model))
    }

    fn model(&self, settings: &PlanSettings) -> Result<LoadModel, Error> {
        let PlanSettings { ramp_up, duration, rate, arrivals, requests_per_buyer, .. } = *settings;
        let requests_per_buyer = requests_per_buyer.map_or(1, PerBuyer::get);
        if requests_per_buyer > 1 && (rate.is_some() || duration.is_some()) {
            return Err(Error::Usage(format!(
                "{} sets requests-per-buyer, and under a rate or a duration buyers come again and again; remove one of them",
                self.origin(|layer| layer.requests_per_buyer.is_some())
            )));
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match (rate, ramp_up, duration) {
            (Some(rate), _, duration) => Ok(LoadModel::Open {
                rate_per_s: rate,
                arrivals: arrivals.unwrap_or(Arrivals::Poisson),
                duration_ms: ms(duration.unwrap_or(RATE_DURATION)),
            }),
            (None, ..) if arrivals.is_some() => Err(Error::Usage(format!(
                "{} sets arrivals, which are the gaps between the requests of a rate; set a rate, or remove arrivals",
                self.origin(|layer| layer.arrivals.is_some())
            ))),
            (None, Some(ramp_up), Some(duration)) if ramp_up >= duration => Err(Error::Usage(format!(
                "the ramp-up is part of the duration and must be shorter: {} sets ramp-up to {}, {} sets duration to {}",
                self.origin(|layer| layer.ramp_up.is_some()),
                humantime::format_duration(ramp_up),
                self.origin(|layer| layer.duration.is_some()),
                humantime::format_duration(duration)
            ))),
            (None, ramp_up, Some(duration)) => {
                Ok(LoadModel::Loop { duration_ms: ms(duration), ramp_up_ms: ramp_up.map_or(0, ms) })
            }
            (None, Some(ramp_up), None) => Ok(LoadModel::Ramp { ramp_up_ms: ms(ramp_up), requests_per_buyer }),
            (None, None, None) => Ok(LoadModel::Burst { requests_per_buyer }),
        }
    }

    /// Names the strongest layer for which `has` holds.
    fn origin(&self, has: impl Fn(&PlanLayer) -> bool) -> &str {
        self.0.iter().find(|(_, layer)| has(layer)).map_or("a default", |(origin, _)| origin)
    }
}

/// Puts one layer over a weaker one.
fn over(mut stronger: PlanLayer, mut weaker: PlanLayer) -> PlanLayer {
    // A rate and a ramp-up both say when requests start, so each replaces the other.
    if stronger.rate.is_some() {
        weaker.ramp_up = None;
    }
    if stronger.ramp_up.is_some() {
        weaker.rate = None;
        weaker.arrivals = None;
    }
    // Thresholds add up.
    let rules = stronger.thresholds.get_or_insert_default();
    rules.extend(weaker.thresholds.take().into_iter().flatten());
    stronger.with_fallback(weaker)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn layers(texts: &[&str]) -> Layers {
        let layer = |(number, text): (usize, &&str)| (format!("layer {number}"), read("a layer", text).unwrap());
        Layers(texts.iter().enumerate().map(layer).chain([("quick".to_owned(), quick())]).collect())
    }

    fn quick() -> PlanLayer {
        read("quick", Preset::QUICK.text).unwrap()
    }

    #[test]
    fn every_preset_is_a_plan_that_sets_what_has_no_default() {
        for preset in Preset::value_variants() {
            let layer = read(preset.name, preset.text).unwrap();
            assert!(layer.preset.is_none(), "{}: nothing would read a preset of a preset", preset.name);
            PlanSettings::from_layer(layer.with_fallback(PlanLayer::default_values())).unwrap();
        }
    }

    #[test]
    fn the_strongest_layer_that_sets_a_setting_wins() {
        let (settings, _) = layers(&["stock = 9", "stock = 7\ngoods = 3"]).merge().unwrap();
        assert_eq!((settings.stock.get(), settings.goods.get(), settings.goods_no.get()), (9, 3, 1));
        let (settings, _) =
            layers(&["[service]\nbusiness-time = \"1ms\"", "[service]\ninstances = 7"]).merge().unwrap();
        assert_eq!((settings.service.instances.get(), settings.service.business_time.clone()), (7, "1ms".to_owned()));
    }

    #[test]
    fn a_rate_and_a_ramp_up_replace_each_other_across_layers() {
        let ramp = "ramp-up = \"1s\"";
        let rate = "rate = 50\narrivals = \"constant\"\n";
        let open = LoadModel::Open { rate_per_s: 50.0, arrivals: Arrivals::Constant, duration_ms: 10_000 };
        assert_eq!(layers(&[rate, ramp]).merge().unwrap().1, open);
        assert_eq!(
            layers(&[ramp, rate]).merge().unwrap().1,
            LoadModel::Ramp { ramp_up_ms: 1000, requests_per_buyer: 1 }
        );
    }

    #[test]
    fn thresholds_of_all_layers_add_up() {
        let merged = layers(&["thresholds = [\"* p99<1s\"]", "thresholds = [\"* oversold==0\"]"]).merge().unwrap();
        let rules: Vec<_> = merged.0.thresholds.iter().map(|threshold| threshold.rule()).collect();
        assert_eq!(rules, ["* p99<1s", "* oversold==0"]);
    }

    #[test]
    fn an_empty_table_lifts_the_limits_of_a_preset() {
        let scale = ("scale".to_owned(), read("scale", "users-max = { zk-naive = 300 }").unwrap());
        let mut layers = layers(&["users-max = {}"]);
        layers.0.insert(1, scale);
        assert_eq!(layers.merge().unwrap().0.users_max.map(|limits| limits.len()), Some(0));
    }

    #[test]
    fn a_contradiction_is_told_with_the_layers_that_it_comes_from() {
        for (texts, expected) in [
            (&["rate = 1.0\nramp-up = \"1s\""][..], "layer 0 sets both rate and ramp-up"),
            (&["", "arrivals = \"constant\""], "layer 1 sets arrivals, which are the gaps"),
            (&["users = 10_001\nrequests-per-buyer = 2"], "would send 20\u{202f}002 requests at once"),
            (&["rate = 1.0", "requests-per-buyer = 3"], "layer 1 sets requests-per-buyer, and under a rate"),
            (
                &["duration = \"1s\"", "ramp-up = \"2s\""],
                "must be shorter: layer 1 sets ramp-up to 2s, layer 0 sets duration to 1s",
            ),
        ] {
            let refused = layers(texts).merge().unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
