//! The purchases at a shop that a file describes, for other engines.
//!
//! | file | holds |
//! |---|---|
//! | `portable.rs` | what a buyer does, as JSON that each engine reads |
//! | `pace.rs` | when each buyer buys |
//! | `k6.rs`, `script.js`, `testrun.yaml` | the script for k6, and the manifest for its operator |
//! | `jmeter.rs`, `plan.jmx`, `buyer.bsh` | the plan for JMeter, and the script in it |
//! | `locust.rs`, `locustfile.py` | the file for Locust |
//!
//! All engines follow one rule: a buyer signs up, waits for the common start, and buys when its schedule says so. The start is an
//! instant of the wall clock, so that machines need no other connection. Each purchase is one line of the results.

mod jmeter;
mod k6;
mod locust;
mod pace;
mod portable;

use std::path::Path;

use buyers::model::LoadModel;

use self::pace::ShopPace;
use super::Engine;
use crate::error::Error;
use crate::shop::Shop;

/// The time that an engine waits for an answer, unless the shop file has another one. `loadgen` waits as long.
const ANSWER_WITHIN_MS: u64 = 30_000;

/// The purchases at a shop, and when they start.
pub(crate) struct ShopLoad {
    pub(crate) shop: Shop,
    pub(crate) users: u32,
    pub(crate) model: LoadModel,
    /// The common start, as RFC 3339 writes it. `None`: each run names it.
    pub(crate) start_at: Option<String>,
}

/// The files of a load.
#[derive(Debug)]
pub(crate) struct ShopFiles {
    /// The file that the engine runs.
    pub(crate) script: String,
    /// The manifest for k6's operator.
    pub(crate) manifest: Option<String>,
}

/// Writes the purchases at a shop for an engine. `out` is where the caller writes them.
///
/// # Errors
///
/// [`Error::Usage`] when the engine cannot send a request, when a secret is written out in the shop file, and when the shop has too
/// few buyers.
pub(crate) fn render(engine: Engine, load: &ShopLoad, out: Option<&Path>) -> Result<ShopFiles, Error> {
    let users = usize::try_from(load.users).unwrap_or(usize::MAX);
    if let Some(people) = &load.shop.people {
        people.ensure(users)?;
    }
    portable::ensure_open(&load.shop)?;
    let file = engine.file(out);
    match engine {
        Engine::Jmeter => Ok(ShopFiles { script: jmeter::render(load, file)?, manifest: None }),
        Engine::Locust => Ok(ShopFiles { script: locust::render(load, file)?, manifest: None }),
        Engine::K6 => Ok(ShopFiles { script: k6::render(load, file)?, manifest: Some(k6::manifest(load, file)?) }),
    }
}

/// What the head of every exported file says.
struct Head {
    /// The load in words.
    described: String,
    /// The name of the shop, in one line.
    shop: String,
    pace: ShopPace,
    /// The variables of the environment that the requests use.
    variables: Vec<String>,
    /// The name of the file of the buyers. Empty if a buyer is a number.
    csv: String,
    /// Whether the shop has a certificate of its own.
    has_certificate: bool,
    /// The start in the file. Empty if there is none.
    start_at: String,
    users: u32,
}

impl Head {
    fn of(load: &ShopLoad) -> Head {
        let people = load.shop.people.as_ref();
        let name = |people: &crate::shop::People| {
            let path = Path::new(people.file());
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        Head {
            described: load.model.describe(load.users),
            shop: load.shop.name.split(char::is_control).collect::<Vec<_>>().join(" "),
            pace: ShopPace::of(load.model),
            variables: portable::variables(&load.shop),
            csv: people.map(name).unwrap_or_default(),
            has_certificate: load.shop.certificate.is_some(),
            start_at: load.start_at.clone().unwrap_or_default(),
            users: load.users,
        }
    }

    /// Returns the users of the first of two machines.
    fn half(&self) -> u32 {
        self.users.div_ceil(2)
    }
}

#[cfg(test)]
mod tests;
