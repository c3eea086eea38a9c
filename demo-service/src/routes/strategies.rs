//! `/strategies`: the registry, for those who compare.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::strategy::registry::{Entry, STRATEGIES};

/// The table and the default.
#[derive(Serialize)]
pub struct Strategies {
    default: &'static str,
    strategies: &'static [Entry],
}

/// `GET`: every strategy, and which one is used by requests that name none.
pub async fn list(State(app): State<Arc<App>>) -> Json<Strategies> {
    Json(Strategies { default: app.config.strategy.name, strategies: &STRATEGIES })
}
