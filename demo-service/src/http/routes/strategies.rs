//! `/strategies`: the registry, for clients that compare strategies.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::openapi::answers::Unstored;
use crate::app::App;
use crate::config::Config;
use crate::strategy::entry::Entry;

/// The table and the default.
#[derive(Serialize, ToSchema)]
pub struct Strategies {
    /// The strategy of sales that are put on sale without one.
    default: &'static str,
    /// All that requests may name.
    strategies: Vec<Offered>,
}

/// A row of the table, as this instance is configured.
#[derive(Serialize, ToSchema)]
#[schema(as = OfferedStrategy)]
pub struct Offered {
    #[serde(flatten)]
    entry: &'static Entry,
    /// How many sections of one SKU may be inside at once, over all instances, as long as the promise holds and no holder
    /// outlives its ZooKeeper session: 1 where they are `exclusive`, `--permits` of this instance, which should be that of
    /// all, where there are `permits`, null where they are `overlapping`.
    #[schema(required, minimum = 1)]
    permits: Option<u32>,
}

/// `GET`: every strategy that is offered, and the default.
#[utoipa::path(
    get,
    path = "/strategies",
    operation_id = "listStrategies",
    tag = "goods",
    summary = "List the strategies and what they promise",
    description = "With how many of its sections may be inside at once as this instance is configured. Strategies of one \
                   `family` exclude each other, so any of them may buy in a sale that the family guards.",
    responses((status = 200, description = "Every strategy, and the default.", body = Strategies), Unstored)
)]
pub async fn list(State(app): State<Arc<App>>) -> Json<Strategies> {
    let Config { strategy, permits, .. } = &app.config;
    let offered = |entry: &'static Entry| Offered { entry, permits: entry.sections.permits(*permits) };
    Json(Strategies { default: strategy.name, strategies: app.config.offered().map(offered).collect() })
}
