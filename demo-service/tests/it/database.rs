//! What the sessions of the database do, and locks that a test has in it.

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::lab::{Lab, wait_until};

/// Ends the sessions of the service.
pub(crate) const END_SESSIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
                            where datname = current_database() and application_name like 'demo-service%'";

/// Locks of a transaction of the test's own.
pub(crate) struct DatabaseLock(PgConnection);

impl DatabaseLock {
    /// Rolls the transaction back, and returns its connection.
    pub(crate) async fn release(mut self) -> PgConnection {
        self.0.execute("rollback").await.unwrap();
        self.0
    }

    /// Commits the transaction.
    pub(crate) async fn commit(mut self) {
        self.0.execute("commit").await.unwrap();
    }
}

impl Lab {
    /// Takes the locks of a statement, until they are released.
    pub(crate) async fn lock(&self, statement: &str) -> DatabaseLock {
        let mut connection = self.connect().await;
        connection.execute(AssertSqlSafe(format!("begin; {statement}"))).await.unwrap();
        DatabaseLock(connection)
    }

    /// Locks the row of every SKU.
    pub(crate) async fn lock_rows(&self) -> DatabaseLock {
        self.lock("select from goods for update").await
    }

    /// Locks the row of one SKU.
    pub(crate) async fn lock_row(&self, goods_no: i64) -> DatabaseLock {
        self.lock(&format!("select from goods where goods_no = {goods_no} for update")).await
    }

    /// Keeps all others from writing orders.
    pub(crate) async fn lock_orders(&self) -> DatabaseLock {
        self.lock("lock table orders in share mode").await
    }

    /// Writes a purchase of SKU 9 under a key, and does not commit it.
    pub(crate) async fn lock_key(&self, key: &str) -> DatabaseLock {
        let write = format!(
            "with header as (insert into orders (strategy, instance) values ('x', 'x') returning order_id)
             insert into idempotency_keys (key, cart, goods_no, sale, order_id)
             select '{key}', '[]', 9, sale, order_id from header, goods where goods_no = 9"
        );
        self.lock(&write).await
    }

    /// Waits until a session of the database is in that state, with that as the beginning of its latest statement.
    pub(crate) async fn wait_for_statement(&self, state: &str, beginning: &str) {
        let mut connection = self.connect().await;
        wait_until(async || {
            let sql = "select count(*) from pg_stat_activity
                       where datname = current_database() and state = $1 and starts_with(lower(query), $2)";
            let query = sqlx::query_scalar::<_, i64>(sql).bind(state).bind(beginning);
            query.fetch_one(&mut connection).await.unwrap() > 0
        })
        .await;
    }

    /// Waits until a session of the database waits for a lock of it.
    pub(crate) async fn wait_for_lock(&self) {
        wait_until(async || self.lock_waits().await > 0).await;
    }

    /// Returns how many sessions of the database wait for a lock of it.
    pub(crate) async fn lock_waits(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Returns how many sessions of the database wait for their clients within a transaction.
    pub(crate) async fn idle_transactions(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and state = 'idle in transaction'";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Returns how many sessions of the database are of the service.
    pub(crate) async fn service_connections(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and application_name like 'demo-service%'";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }
}
