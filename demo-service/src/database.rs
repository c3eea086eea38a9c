//! Getting the database ready: reached, and migrated to exactly the schema that this build knows.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use crate::error::SetupError;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Parses a database URL.
///
/// # Errors
/// [`SetupError::DatabaseUrl`] when it is not one.
pub fn options(url: &str) -> Result<PgConnectOptions, SetupError> {
    // The driver parses any scheme, and would then look for Postgres at a server of another kind.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(SetupError::DatabaseUrl("it does not begin with postgres://".to_owned()));
    }
    url.parse().map_err(|error: sqlx::Error| SetupError::DatabaseUrl(error.to_string()))
}

/// Connects once and migrates, within that time. Instances that start together take turns.
///
/// # Errors
/// A [`SetupError`] that names the database, without its password, or the migration that does not fit.
///
/// # Cancel safety
/// Dropped, a migration that had begun is rolled back.
pub async fn migrate(options: &PgConnectOptions, within: Duration) -> Result<(), SetupError> {
    let place = || place(options);
    // The migrator makes its own table if there is none, and the server has a notice for every time that there is one.
    let options = options.clone().options([("client_min_messages", "warning")]);
    let migrated = tokio::time::timeout(within, async {
        let mut connection: PgConnection =
            options.connect().await.map_err(|source| SetupError::Database { place: place(), source })?;
        MIGRATIONS.run(&mut connection).await.map_err(|error| refusal(error, place()))?;
        connection.close().await.map_err(|source| SetupError::Database { place: place(), source })
    });
    migrated.await.unwrap_or_else(|_| Err(SetupError::DatabaseTimeout { place: place(), within }))
}

fn refusal(error: MigrateError, place: String) -> SetupError {
    match error {
        MigrateError::VersionMissing(version) => SetupError::SchemaNewer { version },
        MigrateError::VersionMismatch(version) => SetupError::SchemaDiffers { version },
        source => SetupError::Migrate { place, source },
    }
}

fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}
