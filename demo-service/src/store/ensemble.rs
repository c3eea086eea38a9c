//! The ZooKeeper ensemble whose locks protect the sales of a database.
//!
//! The locks of two ensembles do not exclude each other. So a database belongs to one ensemble, whose identity is in the table
//! `lock_service`. An open connection of an instance has a shared advisory lock, and is closed at once if the database belongs
//! to another ensemble. [`Ensemble::adopt`] takes that lock alone. So no instance that uses the earlier ensemble is connected
//! while the database changes hands, and none can connect after that.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Executor};

use super::schema::connected;
use super::unusable::unusable;

use crate::failure::{DATABASE_UNAVAILABLE, Failure};
use crate::setup_error::SetupError;

/// An ensemble, with the chroot of the service in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// The identity that the ensemble keeps.
    pub id: String,
    /// The connect string of an instance that uses it.
    pub servers: String,
}

/// The database belongs to another ensemble than the instance uses.
#[derive(Debug, thiserror::Error)]
#[error(
    "the sales of this database are protected by the ZooKeeper ensemble {} ({}), and this instance uses {} ({}), whose locks do not \
     exclude the others", .theirs.id, .theirs.servers, .ours.id, .ours.servers
)]
pub struct OtherEnsemble {
    /// The ensemble of the database.
    pub theirs: Ensemble,
    /// The ensemble of the instance.
    pub ours: Ensemble,
}

impl Ensemble {
    /// Joins the instances of this ensemble, for as long as the connection is open. The first instance notes its ensemble.
    pub(super) async fn join(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // Locked before the row is read: a statement sees only what was committed before it began.
        connection.execute("select pg_advisory_lock_shared(hashtext('seckill/ensemble'), 0)").await?;
        let theirs = match noted(connection).await? {
            Some(theirs) => theirs,
            None => {
                let note = sqlx::query!(
                    "insert into lock_service (ensemble, servers) values ($1, $2) on conflict do nothing",
                    self.id,
                    self.servers
                );
                note.execute(&mut *connection).await?;
                // Another instance may have noted its ensemble first, so the row decides.
                noted(connection).await?.ok_or(sqlx::Error::RowNotFound)?
            }
        };
        if theirs.id == self.id {
            return Ok(());
        }
        // The pool knows the errors of sqlx only, so the mismatch travels inside one of them.
        Err(sqlx::Error::Configuration(Box::new(OtherEnsemble { theirs, ours: self.clone() })))
    }

    /// Makes this the ensemble of a database. The fences of all sales start again, because its tokens may be lower. Returns the
    /// ensemble before, or `None` if it was this one or none. `within` limits all of this.
    ///
    /// # Errors
    /// [`SetupError::InstancesConnected`] while an instance is connected, and those of the database.
    ///
    /// # Cancel safety
    /// Dropped, the database may have changed hands or not.
    pub async fn adopt(&self, options: &PgConnectOptions, within: Duration) -> Result<Option<Self>, SetupError> {
        connected(options, within, async |connection| {
            let mut transaction = connection.begin().await.map_err(SetupError::Adoption)?;
            if let Some(pids) = connected_instances(&mut transaction).await.map_err(SetupError::Adoption)? {
                return Err(SetupError::InstancesConnected { pids });
            }
            let before = self.take_over(&mut transaction).await.map_err(SetupError::Adoption)?;
            transaction.commit().await.map_err(SetupError::Adoption)?;
            Ok(before)
        })
        .await
    }

    async fn take_over(&self, connection: &mut PgConnection) -> Result<Option<Self>, sqlx::Error> {
        let before = noted(connection).await?.filter(|before| before.id != self.id);
        let adopt = sqlx::query!(
            "insert into lock_service (ensemble, servers) values ($1, $2) on conflict (is_only) do update
             set ensemble = excluded.ensemble, servers = excluded.servers, since = clock_timestamp()",
            self.id,
            self.servers
        );
        adopt.execute(&mut *connection).await?;
        if before.is_some() {
            let reset_fences =
                sqlx::query!("update goods set fence = 0, fence_handover = 0, fence_hold = null where fence <> 0");
            reset_fences.execute(connection).await?;
        }
        Ok(before)
    }
}

/// Checks at the start that the database belongs to this ensemble, or makes it belong to it if it belongs to none. Returns the
/// identity of the database. `within` limits all of this.
///
/// # Errors
/// [`SetupError::OtherEnsemble`], and those of the database.
///
/// # Cancel safety
/// Dropped, the ensemble may have been noted or not.
pub async fn check(options: &PgConnectOptions, ensemble: &Ensemble, within: Duration) -> Result<String, SetupError> {
    connected(options, within, async |connection| {
        ensemble.join(connection).await.map_err(|error| match error {
            sqlx::Error::Configuration(other) if other.is::<OtherEnsemble>() => SetupError::OtherEnsemble(other),
            error => unusable(options, error),
        })?;
        let identity = sqlx::query_scalar!("select database from lock_service").fetch_one(connection);
        identity.await.map_err(|error| unusable(options, error))
    })
    .await
}

/// Returns the failure if a connection could not be opened.
pub(super) fn refusal(error: sqlx::Error) -> Failure {
    match &error {
        sqlx::Error::Configuration(other) if other.is::<OtherEnsemble>() => {
            let detail = "the database has another ZooKeeper ensemble than this instance by now, so this instance sells nothing; \
                          nothing was written";
            Failure::new(&DATABASE_UNAVAILABLE, detail).caused_by(error)
        }
        _ => Failure::of_database(error),
    }
}

async fn noted(connection: &mut PgConnection) -> Result<Option<Ensemble>, sqlx::Error> {
    let noted = sqlx::query_as!(Ensemble, "select ensemble as id, servers from lock_service");
    noted.fetch_optional(connection).await
}

/// Returns the server processes of the connections of instances, or `None` if there is none. Then none connects before the end
/// of the transaction.
async fn connected_instances(connection: &mut PgConnection) -> Result<Option<Vec<i32>>, sqlx::Error> {
    let alone =
        sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock(hashtext('seckill/ensemble'), 0) as "is_alone!""#);
    if alone.fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    // `pg_locks` shows the two numbers of an advisory lock unsigned, with `objsubid` 2. `hashtext` is signed.
    let pids = sqlx::query_scalar!(
        r#"select pid as "pid!" from pg_locks
           where locktype = 'advisory' and objid = 0 and objsubid = 2 and granted
               and classid::bigint = hashtext('seckill/ensemble')::bigint & 4294967295
               and database = (select oid from pg_database where datname = current_database())
           order by pid"#
    );
    pids.fetch_all(connection).await.map(Some)
}
