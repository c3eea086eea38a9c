//! `/metrics`: the figures, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::app::App;

/// The text format that Prometheus has read since 2014.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET`: all metrics of this instance.
pub async fn render(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT_FORMAT)], app.render_metrics())
}
