//! The role that the service runs as, which may do what its statements need and no more.

use std::time::Duration;

use postgres_protocol::password::scram_sha_256;
use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tracing::warn;

use crate::secrets::Secret;
use crate::setup_error::SetupError;

/// Its name. It is one for the whole server; its rights are those that it was given in each database.
pub const SERVICE_ROLE: &str = "seckill_service";

const GRANTS: &str = include_str!("service_role.sql");

/// The pause before a change that collided with that of another database is tried again.
const COLLISION_PAUSE: Duration = Duration::from_millis(20);

/// Makes the role, gives it its rights in this database and, if there is a password, lets it log in with that.
///
/// Without a password, a role that cannot be made is only warned about, as whoever runs the server may make another one.
///
/// # Errors
/// [`SetupError::ServiceRole`] with what the database refused.
///
/// # Cancel safety
/// Dropped, each of the three may have been done or not. It may be repeated.
pub(super) async fn grant(connection: &mut PgConnection, password: Option<&Secret>) -> Result<(), SetupError> {
    // As long as nobody migrates: rights that are given twice at a time collide.
    connection.lock().await.map_err(of_lock)?;
    connection.execute(GRANTS).await.map_err(SetupError::ServiceRole)?;
    connection.unlock().await.map_err(of_lock)?;
    match password {
        Some(password) => let_log_in(connection, password).await.map_err(SetupError::ServiceRole),
        None => warn_if_missing(connection).await.map_err(SetupError::ServiceRole),
    }
}

async fn let_log_in(connection: &mut PgConnection, password: &Secret) -> Result<(), sqlx::Error> {
    // The server is told what it needs to check the password, never the password itself, which its log could show.
    let verifier = scram_sha_256(password.expose().as_bytes());
    let statement = format!("alter role {SERVICE_ROLE} login password '{verifier}'");
    loop {
        match connection.execute(AssertSqlSafe(statement.clone())).await {
            Err(error) if is_collision(&error) => tokio::time::sleep(COLLISION_PAUSE).await,
            done => return done.map(drop),
        }
    }
}

/// Whether another database of the server changed the role at the same time. It has no code of its own. The caller
/// bounds how long this may go on.
fn is_collision(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| {
        refusal.code().as_deref() == Some("XX000") && refusal.message().starts_with("tuple concurrently updated")
    })
}

async fn warn_if_missing(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let exists =
        sqlx::query_scalar!(r#"select exists (select from pg_roles where rolname = $1) as "exists!""#, SERVICE_ROLE);
    if !exists.fetch_one(connection).await? {
        warn!(role = SERVICE_ROLE, "the role of the service does not exist, and this one may not create roles");
    }
    Ok(())
}

fn of_lock(error: MigrateError) -> SetupError {
    SetupError::ServiceRole(match error {
        MigrateError::Execute(error) => error,
        other => sqlx::Error::Migrate(Box::new(other)),
    })
}
