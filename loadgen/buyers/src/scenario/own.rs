//! What a load by a scenario is given.

use std::fmt;

use goose::goose::Scenario;
use reqwest::{Client, Url};

/// What the buyers do at a shop by the scenario of a goose user.
pub struct ScenarioPurchase {
    /// Each user runs through it once. Its pauses between two transactions are left out.
    pub scenario: Scenario,
    /// The addresses of the shop. The users take them in turns, as goose's base URL.
    pub urls: Vec<Url>,
    /// A client for each user, so that none has the cookies of another.
    pub clients: Vec<Client>,
}

impl fmt::Debug for ScenarioPurchase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ScenarioPurchase");
        shown.field("scenario", &self.scenario.name).field("urls", &self.urls).finish_non_exhaustive()
    }
}
