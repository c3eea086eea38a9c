//! Settings: flags over a plan file over a preset.

pub(crate) mod load;
mod plan_file;
mod preset;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod values;
