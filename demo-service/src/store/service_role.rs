//! The database role of the service. It may do what the service's statements need and no more.
//!
//! The rights are no migration: roles belong to the whole server and outlive its databases, and the owner of a database may not
//! be allowed to make roles.

use std::time::Duration;

use postgres_protocol::password::scram_sha_256;
use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tracing::warn;

use crate::secrets::Secret;
use crate::setup_error::SetupError;

/// The name of the role. The role belongs to the whole server. Its rights are granted in each database.
pub const SERVICE_ROLE: &str = "seckill_service";

const GRANTS: &str = include_str!("service_role.sql");

/// The pause before a change of the role is repeated, after it collided with a change from another database of the
/// server.
const COLLISION_PAUSE: Duration = Duration::from_millis(20);

/// After this many attempts the error is something else. They take some ten seconds.
const COLLISIONS_MAX: u32 = 500;

/// Creates the role, and grants its rights in this database. With a password, lets the role log in with it.
///
/// Without a password, a missing role only causes a warning: the operator of the server may create another role.
pub(super) async fn grant(connection: &mut PgConnection, password: Option<&Secret>) -> Result<(), SetupError> {
    // Under the lock of the migrations, because concurrent grants of the same rights collide.
    connection.lock().await.map_err(of_lock)?;
    connection.execute(GRANTS).await.map_err(SetupError::ServiceRole)?;
    connection.unlock().await.map_err(of_lock)?;
    match password {
        Some(password) => let_log_in(connection, password).await.map_err(SetupError::ServiceRole),
        None => warn_if_missing(connection).await.map_err(SetupError::ServiceRole),
    }
}

async fn let_log_in(connection: &mut PgConnection, password: &Secret) -> Result<(), sqlx::Error> {
    // The server gets a verifier, with which it can check the password. It never gets the password, which its log
    // could show.
    let verifier = scram_sha_256(password.expose().as_bytes());
    let statement = format!("alter role {SERVICE_ROLE} login password '{verifier}'");
    let mut collisions = 0..COLLISIONS_MAX;
    loop {
        match connection.execute(AssertSqlSafe(statement.clone())).await {
            Err(error) if is_collision(&error) && collisions.next().is_some() => {
                tokio::time::sleep(COLLISION_PAUSE).await;
            }
            done => return done.map(drop),
        }
    }
}

/// Returns whether another database of the server may have changed the role at the same time. Postgres reports that as an internal
/// error, with a message in the server's language.
fn is_collision(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| refusal.code().as_deref() == Some("XX000"))
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
