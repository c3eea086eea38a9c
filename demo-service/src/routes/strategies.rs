//! `/strategies`: the registry, for those who compare.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::openapi::answers::Always;
use crate::strategy::registry::Entry;

/// The table and the default.
#[derive(Serialize, ToSchema)]
pub struct Strategies {
    /// The strategy of requests that name none.
    default: &'static str,
    /// All that requests may name.
    strategies: Vec<&'static Entry>,
}

/// `GET`: every strategy that is offered, and which one is used by requests that name none.
#[utoipa::path(
    get,
    path = "/strategies",
    operation_id = "listStrategies",
    tag = "goods",
    summary = "List the strategies and what they promise",
    description = "And which one is used by requests that name none; carts may have another default.",
    responses((status = 200, description = "Every strategy, and the default.", body = Strategies), Always)
)]
pub async fn list(State(app): State<Arc<App>>) -> Json<Strategies> {
    Json(Strategies { default: app.config.strategy.name, strategies: app.config.offered().collect() })
}
