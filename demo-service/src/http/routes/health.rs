//! `/healthz` and `/readyz`: probes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::answers::{Alive, Ready};
use crate::app::App;
use crate::failure::{self, Failure};
use crate::http::audience::Audience;
use crate::store::Health;

/// How long a probe waits for each of the servers. All are asked at the same time.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The answer of a probe that succeeded.
#[derive(Debug, Serialize, ToSchema)]
pub struct Healthy {
    /// `alive` or `ready`.
    status: &'static str,
}

/// Says that the process answers (`GET /healthz`).
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "checkAlive",
    tag = "operation",
    summary = "Ask whether the process answers",
    description = "Without asking the servers behind it.",
    responses((status = 200, description = "It does.", body = Healthy), Alive)
)]
pub async fn alive() -> Json<Healthy> {
    Json(Healthy { status: "alive" })
}

/// Says whether the servers answered just now, Postgres accepts writes, and ZooKeeper and Redis grant locks (`GET /readyz`).
///
/// # Errors
/// 503 with what is wrong with each of them, or if another client needs the connection.
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "checkReady",
    tag = "operation",
    summary = "Ask whether the instance can sell",
    description = "Postgres has to accept writes, and ZooKeeper to grant a lock, and Redis as well if the instance has one. Each is \
        given two seconds, or less if another client needs the connection.",
    responses((status = 200, description = "All did just now.", body = Healthy), Ready)
)]
pub async fn ready(
    State(app): State<Arc<App>>,
    Extension(audience): Extension<Audience>,
) -> Result<Json<Healthy>, Failure> {
    let (postgres, zookeeper, redis) =
        tokio::join!(postgres_complaint(&app), zookeeper_complaint(&app, audience), redis_complaint(&app, audience));
    let complaints: Vec<_> = [postgres, zookeeper, redis].into_iter().flatten().collect();
    if complaints.is_empty() {
        Ok(Json(Healthy { status: "ready" }))
    } else {
        Err(Failure::new(&failure::NOT_READY, complaints.join(", ")))
    }
}

async fn postgres_complaint(app: &App) -> Option<Cow<'static, str>> {
    match tokio::time::timeout(ANSWER_WITHIN, app.shared.store.check()).await {
        Ok(Ok(Health::Writable)) => None,
        Ok(Ok(Health::ReadOnly)) => Some("Postgres is read-only".into()),
        Ok(Err(_)) | Err(_) => Some("no answer from Postgres".into()),
    }
}

/// Takes a lock and gives it back, because a server that refuses to create nodes answers all the same. Returns what is wrong.
async fn zookeeper_complaint(app: &App, audience: Audience) -> Option<Cow<'static, str>> {
    if app.shared.sessions.pick().is_none() {
        return told("no ZooKeeper session is connected", app.shared.sessions.trouble(), audience);
    }
    match tokio::time::timeout(ANSWER_WITHIN, app.probe_locks()).await {
        Ok(None) => None,
        Ok(why @ Some(_)) => told("ZooKeeper grants no lock", why, audience),
        Err(_) => told("ZooKeeper granted no lock in time", None, audience),
    }
}

/// Takes a lock of Redis and gives it back, because a server that refuses to write answers all the same. Returns what is wrong.
async fn redis_complaint(app: &App, audience: Audience) -> Option<Cow<'static, str>> {
    match tokio::time::timeout(ANSWER_WITHIN, app.probe_redis()).await {
        Ok(None) => None,
        Ok(why @ Some(_)) => told("Redis grants no lock", why, audience),
        Err(_) => told("Redis granted no lock in time", None, audience),
    }
}

/// Makes a complaint. Buyers are not told why, as the reason names servers and nodes.
#[expect(clippy::unnecessary_wraps, reason = "each caller returns what it makes")]
fn told(what: &'static str, why: Option<String>, audience: Audience) -> Option<Cow<'static, str>> {
    let why = why.filter(|_| audience != Audience::Buyers);
    Some(why.map_or(what.into(), |why| format!("{what}: {why}").into()))
}
