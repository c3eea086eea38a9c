//! The stock service of a flash sale. Many buyers want the same few units at the same instant. A sale names the
//! [strategy](strategy::registry::STRATEGIES) that deducts its units, and a request may name another one of the same
//! family. So the strategies can be compared on one schema, one server and one load.
//!
//! A purchase passes these parts one after the other: [`http::router`] (limits, problem documents), a handler in
//! [`http::routes`], [`app::App::purchase`] (a task of its own, the choice of the strategy), a [`strategy`], and the
//! statements of [`store`]. [`sale`] is the domain: what is sold, and what may be sold. [`failure`] lists everything
//! that can go wrong.

// Each purchase allocates and copies its future.
#![warn(clippy::large_futures)]

// In reading order.
pub mod config;

pub mod http;

pub mod app;
pub mod strategy;

pub mod failure;
pub mod sale;

pub mod instances;
pub mod redis_store;
pub mod sessions;
pub mod store;
pub mod telemetry;

pub mod secrets;
pub mod setup_error;

mod process;
mod shared_reads;

use std::io::{self, Write};
use std::pin::pin;

use sqlx::postgres::PgConnectOptions;

pub use crate::process::main;

use crate::config::Config;
use crate::http::routes::strategies::Strategies;
use crate::http::server::Server;
use crate::setup_error::SetupError;
use crate::store::ensemble::Ensemble;
use crate::store::{SERVICE_ROLE, schema};

/// Runs the service until `shutdown` resolves. Writes its address to standard output, in one line, once it is ready.
/// With `--migrate-only` or `--adopt-zookeeper`, only prepares the database. With `--list-strategies`, only prints them.
async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), SetupError> {
    if config.list_strategies {
        let listed = serde_json::to_string(&Strategies::of(&config)).map_err(io::Error::from);
        return listed.and_then(|listed| writeln!(io::stdout(), "{listed}")).map_err(SetupError::Stdout);
    }
    let mut shutdown = pin!(shutdown);
    if config.migrate_only || config.adopt_zookeeper {
        return tokio::select! {
            done = prepare(&config) => done,
            () = &mut shutdown => Ok(()),
        };
    }
    let server = tokio::select! {
        started = Server::start(config) => started?,
        () = &mut shutdown => return Ok(()),
    };
    writeln!(io::stdout(), "listening on http://{}", server.address()).map_err(SetupError::Stdout)?;
    server.serve(shutdown).await;
    Ok(())
}

/// Prepares the database for instances.
async fn prepare(config: &Config) -> Result<(), SetupError> {
    let options = schema::options(&config.database_url)?;
    if config.adopt_zookeeper {
        return adopt(config, &options).await;
    }
    schema::migrate_only(&options, config.service_password.as_ref(), app::MIGRATE_WITHIN).await?;
    tracing::info!(may_log_in = config.service_password.is_some(), role = SERVICE_ROLE, "migrated");
    Ok(())
}

async fn adopt(config: &Config, options: &PgConnectOptions) -> Result<(), SetupError> {
    schema::prepare(options, app::MIGRATE_WITHIN).await?;
    let (sessions, ensemble) = app::open_sessions(config, 1).await?;
    let before = ensemble.adopt(options, app::MIGRATE_WITHIN).await?;
    sessions.close().await;
    let Ensemble { id, servers } = ensemble;
    match before {
        Some(before) => {
            tracing::info!(id, servers, before = before.id, "adopted the ZooKeeper ensemble; the fences begin anew");
        }
        None => tracing::info!(id, servers, "the database belonged to no other ZooKeeper ensemble"),
    }
    Ok(())
}
