//! Reads the counters of Postgres.
//!
//! Transactions are counted by their numbers: each one that writes or locks a row takes the next number. The statistics of
//! Postgres are not used, because other connections see them up to ten seconds late, which may be in the next trial.

use crate::error::Error;
use crate::lab::postgres::Database;
use crate::lab::postgres_load::PostgresCounters;

/// If there are more transactions than this, they are not looked up one by one.
const TRANSACTIONS_MAX: i64 = 2_000_000;

impl Database {
    /// Reads the counters of the server.
    pub(crate) async fn counters(&self) -> Result<PostgresCounters, Error> {
        sqlx::query_as!(
            PostgresCounters,
            r#"select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as "next_xid!",
                      pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as "wal_bytes!""#
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("read the counters"))
    }

    /// Counts the transactions that began between two readings of the counters: committed ones, and rolled back ones. `None`
    /// if there were too many to look up.
    pub(crate) async fn transactions(
        &self,
        before: &PostgresCounters,
        after: &PostgresCounters,
    ) -> Result<Option<(u64, u64)>, Error> {
        if after.next_xid - before.next_xid > TRANSACTIONS_MAX {
            return Ok(None);
        }
        let counted = sqlx::query!(
            r#"select count(*) filter (where status = 'committed') as "commits!",
                      count(*) filter (where status = 'aborted') as "rollbacks!"
               from generate_series($1::bigint, $2::bigint - 1) as number,
                    lateral pg_xact_status(number::text::xid8) as status"#,
            before.next_xid,
            after.next_xid
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("count the transactions"))?;
        Ok(u64::try_from(counted.commits).ok().zip(u64::try_from(counted.rollbacks).ok()))
    }

    /// Counts the connections to this database that wait for a lock now.
    pub(crate) async fn waiting(&self) -> Result<u64, Error> {
        let waiting = sqlx::query_scalar!(
            r#"select count(*) as "count!" from pg_stat_activity
               where wait_event_type = 'Lock' and datname = current_database()"#
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("look who waits"))?;
        Ok(u64::try_from(waiting).unwrap_or_default())
    }

    /// Returns orders of a sale that one transaction wrote, on average and at most. `None` without an order.
    pub(crate) async fn batches(&self, goods_nos: &[i64], sales: &[i64]) -> Result<Option<(f64, u64)>, Error> {
        let batches = sqlx::query!(
            "select avg(orders)::float8 as mean, max(orders) as most from (
                 select count(distinct order_id) as orders from order_lines
                 join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)
                 group by order_lines.xmin::text) as batch",
            goods_nos,
            sales
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("count the orders of each transaction"))?;
        Ok(batches.mean.zip(batches.most.and_then(|most| u64::try_from(most).ok())))
    }

    /// Removes dead row versions of the stock, so that no trial pays for those of an earlier one. Does nothing if the user
    /// does not own the table.
    pub(crate) async fn vacuum(&self) -> Result<(), Error> {
        sqlx::query("vacuum goods").execute(&self.0).await.map_err(Error::postgres("vacuum the stock"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::ConnectOptions;
    use sqlx::postgres::PgConnectOptions;
    use testbed::TestDatabase;

    use super::*;

    #[tokio::test]
    async fn transactions_that_wrote_are_counted_by_what_became_of_them() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        let execute = async |statement: &'static str| sqlx::query(statement).execute(&database.0).await.unwrap();
        execute("create table t (n int)").await;
        let before = database.counters().await.unwrap();
        execute("insert into t values (1)").await;
        execute("insert into t values (2)").await;
        execute("select n from t").await;
        let mut given_up = database.0.begin().await.unwrap();
        sqlx::query("insert into t values (3)").execute(&mut *given_up).await.unwrap();
        given_up.rollback().await.unwrap();
        let after = database.counters().await.unwrap();
        // Other tests may write to other databases of the same server meanwhile.
        let (commits, rollbacks) = database.transactions(&before, &after).await.unwrap().unwrap();
        assert!(commits >= 2 && rollbacks >= 1, "{commits} {rollbacks}");
        assert!(after.wal_bytes > before.wal_bytes);
        let beyond = PostgresCounters { next_xid: before.next_xid + TRANSACTIONS_MAX + 1, ..after };
        assert_eq!(database.transactions(&before, &beyond).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_connection_that_waits_for_a_lock_is_seen() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        let mut holder = server.url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        let mut waiter = server.url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        assert_eq!(database.waiting().await.unwrap(), 0);
        sqlx::query("select pg_advisory_lock(1)").execute(&mut holder).await.unwrap();
        let waiting =
            tokio::spawn(
                async move { sqlx::query("select pg_advisory_lock(1)").execute(&mut waiter).await.map(|_| ()) },
            );
        let seen = async { while database.waiting().await.unwrap() == 0 {} };
        tokio::time::timeout(Duration::from_secs(30), seen).await.expect("who waits is seen");
        sqlx::query("select pg_advisory_unlock(1)").execute(&mut holder).await.unwrap();
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_transaction_is_a_batch_and_a_cart_is_one_order() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        sqlx::migrate!("../migrations").run(&database.0).await.unwrap();
        let execute = async |statement: &'static str| sqlx::query(statement).execute(&database.0).await.unwrap();
        execute("insert into goods (goods_no, sale, stock_initial, on_hand) values (1, 7, 9, 9), (2, 3, 9, 9)").await;
        execute("insert into orders (strategy, instance) values ('a', 'x'), ('a', 'x'), ('a', 'x'), ('a', 'x')").await;
        assert_eq!(database.batches(&[1, 2], &[7, 3]).await.unwrap(), None);
        execute("insert into order_lines (order_id, goods_no, sale, quantity) values (1, 1, 7, 1), (1, 2, 3, 5)").await;
        execute("insert into order_lines (order_id, goods_no, sale, quantity) values (2, 1, 7, 1), (3, 1, 7, 1)").await;
        execute("insert into order_lines (order_id, goods_no, sale, quantity) values (4, 1, 6, 1)").await;
        assert_eq!(database.batches(&[1, 2], &[7, 3]).await.unwrap(), Some((1.5, 2)));
        database.vacuum().await.unwrap();
    }
}
