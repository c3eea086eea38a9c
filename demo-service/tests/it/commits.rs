//! Commits that take long, and statements. When a commit takes long, the statements of its transaction are done.
//!
//! Triggers do it; those of commits are deferred. No time limit of the server applies to a trigger that waits, and the
//! server does not end it if its client is gone.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::lab::Lab;

/// Makes the commit of every order take so long.
pub(crate) async fn slow_down_commits(lab: &Lab, seconds: f64) {
    before_commits(lab, "linger", "orders", "insert", &format!("pg_sleep({seconds})")).await;
}

async fn before_commits(lab: &Lab, name: &str, table: &str, event: &str, call: &str) {
    trigger(lab, name, table, event, call, "deferred").await;
}

async fn trigger(lab: &Lab, name: &str, table: &str, event: &str, call: &str, when: &str) {
    let sql = format!(
        "create function {name}() returns trigger language plpgsql as
         $$ begin
             perform set_config('client_connection_check_interval', '0', true), set_config('lock_timeout', '0', true);
             perform {call};
             return null;
         end $$;
         create constraint trigger {name} after {event} on {table} deferrable initially {when}
         for each row execute function {name}()"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut lab.connect().await).await.unwrap();
}

/// The number of the lock of the database that commits wait for.
const GATE: i64 = 4711;

/// A gate that commits wait at while it is closed. Dropped, it is open.
pub(crate) struct Gate(PgConnection);

impl Gate {
    /// Builds an open gate before every commit that has written to a table.
    pub(crate) async fn before_commits(lab: &Lab, table: &str, event: &str) {
        let wait = format!("pg_advisory_xact_lock_shared({GATE})");
        before_commits(lab, "pass", table, event, &wait).await;
    }

    /// Builds an open gate at the end of every statement that writes to a table.
    pub(crate) async fn behind_statements(lab: &Lab, table: &str, event: &str) {
        let wait = format!("pg_advisory_xact_lock_shared({GATE})");
        trigger(lab, "pass", table, event, &wait, "immediate").await;
    }

    pub(crate) async fn close(lab: &Lab) -> Self {
        let mut connection = lab.connect().await;
        sqlx::query("select pg_advisory_lock($1)").bind(GATE).execute(&mut connection).await.unwrap();
        Self(connection)
    }

    pub(crate) async fn open(self) {
        self.0.close().await.unwrap();
    }
}
