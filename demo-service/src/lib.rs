//! The stock service of a flash sale. Many buyers want the same few units at the same instant; the service deducts
//! them by whichever [strategy](strategy::registry::STRATEGIES) a request names, so that the strategies can be
//! compared on one schema, one server and one load.
//!
//! A request passes [`router`] (limits, problem details), a handler in [`routes`], [`app::App::deduct`] (a task of its
//! own), a [`strategy`] (the lock), its critical section ([`strategy::section`]) and [`stock::store`] (the statements).
//! What is asked for is in [`purchase`], what may be sold is decided in [`stock`], both without input or output.

// In reading order.
pub mod config;
pub mod hold;
pub mod secrets;

pub mod server;

pub mod app;
pub mod router;
pub mod routes;

pub mod strategy;

pub mod clock;
pub mod history;
pub mod purchase;
pub mod stock;

pub mod database;
pub mod sessions;

pub mod error;
pub mod openapi;
pub mod problem;
pub mod request_id;
pub mod telemetry;

use std::io::Write;
use std::pin::pin;

use crate::config::Config;
use crate::error::SetupError;
use crate::server::Server;

/// Runs the service until `shutdown` resolves, or only migrates where that is asked for. Says on standard output, in one line, when and where it is ready.
///
/// # Errors
/// A [`SetupError`] when it could not start.
///
/// # Cancel safety
/// Dropped, connections are cut; deductions that have begun go on to their end.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), SetupError> {
    let mut shutdown = pin!(shutdown);
    if config.migrate_only {
        return tokio::select! {
            migrated = migrate(&config) => migrated,
            () = &mut shutdown => Ok(()),
        };
    }
    let server = tokio::select! {
        started = Server::start(config) => started?,
        () = &mut shutdown => return Ok(()),
    };
    writeln!(std::io::stdout(), "listening on http://{}", server.address()).map_err(SetupError::Stdout)?;
    server.serve(shutdown).await;
    Ok(())
}

async fn migrate(config: &Config) -> Result<(), SetupError> {
    let options = database::options(&config.database_url)?;
    database::migrate_only(&options, config.service_password.as_ref(), app::MIGRATE_WITHIN).await?;
    tracing::info!(may_log_in = config.service_password.is_some(), role = database::SERVICE_ROLE, "migrated");
    Ok(())
}
