//! `/strategies`: the registry, for clients that compare strategies.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::answers::Alive;
use crate::app::App;
use crate::config::Config;
use crate::strategy::entry::Entry;

/// The table and the default.
#[derive(Serialize, ToSchema)]
pub struct Strategies {
    /// The strategy of sales for which nobody names one.
    default: &'static str,
    /// The strategies that sales and requests may name.
    strategies: Vec<Offered>,
}

/// A row of the table, as this instance is configured.
#[derive(Serialize, ToSchema)]
#[schema(as = OfferedStrategy)]
pub struct Offered {
    #[serde(flatten)]
    entry: &'static Entry,
    /// Most critical sections of one SKU at once, over all instances, unless a holder outlives its lock: 1 for
    /// `exclusive` sections, `--permits` for `permits`, null for `overlapping` ones. All instances should have the same
    /// `--permits`.
    #[schema(required, minimum = 1)]
    permits: Option<u32>,
}

/// Returns every strategy that is offered, and the default (`GET`).
#[utoipa::path(
    get,
    path = "/strategies",
    operation_id = "listStrategies",
    tag = "goods",
    summary = "List the strategies and what they promise",
    description = "For each, its `permits` on this instance. Strategies of one \
                   `family` exclude each other: any of them may buy in a sale that the family guards.",
    responses((status = 200, description = "Every strategy, and the default.", body = Strategies), Alive)
)]
pub async fn list(State(app): State<Arc<App>>) -> Json<Strategies> {
    Json(Strategies::of(&app.config))
}

impl Strategies {
    /// Returns what an instance of this configuration offers.
    pub fn of(config: &Config) -> Self {
        let offered = |entry: &'static Entry| Offered { entry, permits: entry.sections.permits(config.permits) };
        Self { default: config.strategy.name, strategies: config.offered().map(offered).collect() }
    }
}
