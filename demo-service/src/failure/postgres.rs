//! What an error of the database means.

use std::borrow::Cow;

use sqlx::postgres::PgDatabaseError;

pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Cow::into_owned)
}

/// Returns whether the server has no connection left, for this role or database or at all.
pub fn is_full(error: &sqlx::Error) -> bool {
    sqlstate(error).as_deref() == Some("53300")
}

/// Returns whether a prepared statement cannot run, because a table has changed since. A new connection can run it. Postgres
/// has no SQLSTATE of its own for this, and the message may be in any language.
pub fn has_stale_plan(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error().and_then(|refusal| refusal.try_downcast_ref::<PgDatabaseError>());
    refusal.is_some_and(|refusal| refusal.code() == "0A000" && refusal.routine() == Some("RevalidateCachedQuery"))
}

/// Returns whether this SQLSTATE, in answer to a commit, proves that the commit did not happen. Class 23 (constraint)
/// and class 40 (rollback) prove it, except 40003 (statement completion unknown). Class 57 (server shutting down)
/// proves nothing.
///
/// 25P03 (idle in transaction for too long) proves it, too. The server ends such a session only while it waits for the next
/// statement, so no commit is under way. The message was sent before the commit, and is read as its answer.
pub(super) fn refuses_commit(sqlstate: &str) -> bool {
    sqlstate == "25P03" || sqlstate.starts_with("23") || (sqlstate.starts_with("40") && sqlstate != "40003")
}

/// Returns whether the reason of this SQLSTATE is temporary. Temporary are: connection lost (08), transaction timed out
/// (25P03, 25P04) or rolled back (40), resources used up (53), statement cancelled or server shutting down (57). A refused
/// login (28, 3D) counts as temporary, too: to a client of the service, the database is not available.
pub(super) fn passes(sqlstate: &str) -> bool {
    matches!(sqlstate, "25P03" | "25P04")
        || ["08", "28", "3D", "40", "53", "57"].iter().any(|class| sqlstate.starts_with(class))
}

/// Returns whether the connection failed, and not a statement.
pub(super) fn is_of_connection(error: &sqlx::Error) -> bool {
    use sqlx::Error::{Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
    matches!(error, Io(_) | Tls(_) | Protocol(_) | PoolTimedOut | PoolClosed | WorkerCrashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_in_words_proves_that_a_commit_did_not_happen() {
        for (sqlstate, refuses) in [
            ("23505", true),
            ("25P03", true),
            ("40001", true),
            ("40P01", true),
            ("25P04", false),
            ("40003", false),
            ("57P01", false),
            ("08006", false),
        ] {
            assert_eq!(refuses_commit(sqlstate), refuses, "{sqlstate}");
        }
    }
}
