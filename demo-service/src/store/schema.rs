//! Prepares the database: connects, and makes sure that it has exactly the schema that this build knows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use super::service_role;
use super::settings::{ConnectionSettings, refuse_encoding, refuse_shared_process};
use super::unusable::{address, unusable};
use crate::secrets::Secret;
use crate::setup_error::SetupError;

/// The table in which the migrator notes what it has applied.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// The oldest Postgres that has every setting of our connections. `client_connection_check_interval` and
/// `idle_session_timeout` are new in this version.
const POSTGRES_MIN: u32 = 14;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Parses a database URL.
///
/// # Errors
/// [`SetupError::DatabaseUrl`] if `url` is not one.
pub fn options(url: &str) -> Result<PgConnectOptions, SetupError> {
    // The driver accepts any scheme, and would then look for Postgres at a server of another kind.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(SetupError::DatabaseUrl("it does not begin with postgres://".to_owned()));
    }
    program::one_postgres(url).map_err(SetupError::DatabaseUrl)?;
    let options: Result<PgConnectOptions, _> = url.parse();
    // This startup parameter changes nothing that the service reads, and poolers refuse it.
    let options = options.map(|options| options.extra_float_digits(None));
    options.map_err(|error| SetupError::DatabaseUrl(error.to_string()))
}

/// Connects once and makes sure that the schema is the one of this build. A role that may create tables migrates. Any
/// other role only compares. Instances that start together migrate one after the other. `within` limits all of this.
///
/// # Errors
/// A [`SetupError`] that names the database, without its password, or the migration that does not fit.
///
/// # Cancel safety
/// Dropped, a migration in progress is rolled back.
pub async fn prepare(options: &PgConnectOptions, within: Duration) -> Result<(), SetupError> {
    connected(options, within, async |connection| {
        if may_create_tables(connection).await.map_err(|source| unusable(options, source))? {
            migrate(connection, options).await
        } else {
            verify(connection, options).await
        }
    })
    .await
}

/// Connects once, migrates, and creates the role [`SERVICE_ROLE`](super::SERVICE_ROLE). With a `password`, the role
/// may log in with it. `within` limits all of this. The call may be repeated, with another password too.
///
/// # Errors
/// A [`SetupError`] that names the database, without its password, and what is refused.
///
/// # Cancel safety
/// Dropped, a migration in progress is rolled back, and the role may have its rights and password or not.
pub async fn migrate_only(
    options: &PgConnectOptions,
    password: Option<&Secret>,
    within: Duration,
) -> Result<(), SetupError> {
    connected(options, within, async |connection| {
        migrate(connection, options).await?;
        service_role::grant(connection, password).await
    })
    .await
}

/// Connects once for `work`. `within` limits all of this.
pub(super) async fn connected<T>(
    options: &PgConnectOptions,
    within: Duration,
    work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, SetupError>,
) -> Result<T, SetupError> {
    // The migrator creates its own table if it does not exist. If the table exists, the server sends a notice every
    // time, which the first setting suppresses. `within` limits the waits, and nothing else.
    let settings = ConnectionSettings::new()
        .with("client_min_messages", "warning")
        .with("lock_timeout", 0)
        .with("statement_timeout", 0);
    let quiet = options.clone().disable_statement_logging();
    let done = tokio::time::timeout(within, async {
        let mut connection: PgConnection = quiet.connect().await.map_err(|source| unusable(options, source))?;
        if let Some(version) = too_old(connection.server_version_num()) {
            return Err(SetupError::DatabaseTooOld { address: address(options), version });
        }
        refuse_shared_process(&quiet, &mut connection).await?;
        settings.apply(&mut connection).await.map_err(|source| unusable(options, source))?;
        refuse_encoding(options, &mut connection).await?;
        let done = work(&mut connection).await?;
        connection.close().await.map_err(|source| unusable(options, source))?;
        Ok(done)
    });
    done.await.unwrap_or_else(|_| Err(SetupError::DatabaseTimeout { address: address(options), within }))
}

/// Returns the major version of a server if it is too old. A server reports 13.14 as 130014.
fn too_old(server_version_num: Option<u32>) -> Option<u32> {
    server_version_num.map(|version| version / 10_000).filter(|major| *major < POSTGRES_MIN)
}

async fn may_create_tables(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // The current schema is null for a role that may not even use one.
    sqlx::query_scalar!(r#"select coalesce(has_schema_privilege(current_schema(), 'create'), false) as "may!""#)
        .fetch_one(connection)
        .await
}

async fn migrate(connection: &mut PgConnection, options: &PgConnectOptions) -> Result<(), SetupError> {
    MIGRATIONS.run(connection).await.map_err(|error| refusal(error, address(options)))
}

/// Compares the applied migrations with the embedded ones, while no other instance migrates.
async fn verify(connection: &mut PgConnection, options: &PgConnectOptions) -> Result<(), SetupError> {
    let applied = async {
        connection.lock().await?;
        let applied = connection.list_applied_migrations(MIGRATIONS_TABLE).await?;
        connection.unlock().await?;
        Ok(applied)
    };
    let applied = match applied.await {
        Err(MigrateError::Execute(error)) if is_no_table(&error) => Vec::new(),
        applied => applied.map_err(|error| refusal(error, address(options)))?,
    };
    let applied: BTreeMap<_, _> = applied.iter().map(|one| (one.version, &one.checksum)).collect();
    compare(&applied).map_err(|mismatch| mismatch.into_error(address(options), options.get_username()))
}

/// How the migrations of a database differ from those that are embedded in this build.
#[derive(Debug, PartialEq, Eq)]
enum Mismatch {
    Unknown(i64),
    Changed(i64),
    Missing(i64),
}

fn compare(applied: &BTreeMap<i64, &Cow<'static, [u8]>>) -> Result<(), Mismatch> {
    if let Some(version) = applied.keys().find(|version| !MIGRATIONS.version_exists(**version)) {
        return Err(Mismatch::Unknown(*version));
    }
    MIGRATIONS.iter().try_for_each(|embedded| match applied.get(&embedded.version) {
        None => Err(Mismatch::Missing(embedded.version)),
        Some(checksum) if **checksum != embedded.checksum => Err(Mismatch::Changed(embedded.version)),
        Some(_) => Ok(()),
    })
}

impl Mismatch {
    fn into_error(self, address: String, role: &str) -> SetupError {
        match self {
            Self::Unknown(version) => unknown(version, address),
            Self::Changed(version) => SetupError::SchemaDiffers { version },
            Self::Missing(version) => SetupError::SchemaOlder { address, role: role.to_owned(), version },
        }
    }
}

/// Returns the error for a migration that this build does not have. The first one of this build has the whole schema.
fn unknown(version: i64, address: String) -> SetupError {
    let is_earlier = MIGRATIONS.iter().next().is_some_and(|first| version < first.version);
    if is_earlier { SetupError::SchemaEarlier { address, version } } else { SetupError::SchemaNewer { version } }
}

/// Returns whether the table of the migrations does not exist, or the role may not read it. Then no migration counts
/// as applied.
fn is_no_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    matches!(code.as_deref(), Some("42P01" | "42501"))
}

fn refusal(error: MigrateError, address: String) -> SetupError {
    match error {
        MigrateError::VersionMissing(version) => unknown(version, address),
        MigrateError::VersionMismatch(version) => SetupError::SchemaDiffers { version },
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) if is_taken_name(&source) => {
            SetupError::NotEmpty { address, source }
        }
        source => SetupError::Migrate { address, source },
    }
}

/// Returns whether a table, function or type of another program has the name of one of ours.
fn is_taken_name(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    matches!(code.as_deref(), Some("42P07" | "42710" | "42723"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // S91
    #[test]
    fn a_postgres_older_than_14_is_too_old() {
        for (reported, refused) in [
            (Some(90_624), Some(9)),
            (Some(130_014), Some(13)),
            (Some(140_000), None),
            (Some(180_001), None),
            (None, None),
        ] {
            assert_eq!(too_old(reported), refused, "{reported:?}");
        }
    }

    #[test]
    fn a_schema_fits_if_it_has_exactly_the_embedded_migrations() {
        let all: BTreeMap<_, _> = MIGRATIONS.iter().map(|one| (one.version, &one.checksum)).collect();
        assert_eq!(compare(&all), Ok(()));
        assert_eq!(compare(&BTreeMap::new()), Err(Mismatch::Missing(10)));
        let other = Cow::Borrowed(&b"other"[..]);
        for (version, expected) in
            [(9, Mismatch::Unknown(9)), (10, Mismatch::Changed(10)), (9001, Mismatch::Unknown(9001))]
        {
            let mut applied = all.clone();
            applied.insert(version, &other);
            assert_eq!(compare(&applied), Err(expected));
        }
    }
}
