//! Settings: flags over a plan file over a preset over defaults.
//!
//! | file | has |
//! |---|---|
//! | `values` | the types of settings, which check their values |
//! | `plan`, `payers`, `service` | each setting once: its name in a plan, its flag, its help, its default |
//! | `preset` | the plan files that the program brings along |
//! | `layers` | the merge of the layers |
//! | `load`, `trials`, `comparison`, `check`, `capacity` | the flags that commands share |
//! | `settings` | what each command gets: settings without open choices |

pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod comparison;
mod layers;
pub(crate) mod load;
mod payers;
mod plan;
mod preset;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod trials;
pub(crate) mod values;
