//! When the orders of a sale were committed, and what waits for its decision. Only strategies that answer a buyer earlier need it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::lab::books::numbers;
use crate::lab::postgres::Database;
use crate::lab::service::Goods;

/// How often the clock of the database is read. The quickest answer tells most.
const CLOCK_READINGS: usize = 5;

/// When the orders of some sales were committed.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// The commit of each order, by its number, by the clock of this process.
    pub(crate) at: HashMap<i64, SystemTime>,
    /// Whether the server has noted the commits. Otherwise the orders tell only when they were written.
    pub(crate) are_noted: bool,
}

impl Database {
    /// Counts the tickets of these sales that wait for their decision.
    pub(crate) async fn tickets_waiting(&self, opened: &[Goods]) -> Result<u64, Error> {
        let (goods_nos, sales) = numbers(opened);
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from tickets
               join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)
               where outcome is null"#,
            &goods_nos[..],
            &sales[..]
        );
        let count = count.fetch_one(&self.0).await.map_err(Error::postgres("count the tickets that wait"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Reads when the orders of these sales were committed, by the clock of this process. A server that does not note commits
    /// (`track_commit_timestamp`) tells when the order was written, which is a little earlier.
    pub(crate) async fn commits(&self, opened: &[Goods]) -> Result<Commits, Error> {
        let (goods_nos, sales) = numbers(opened);
        let clock = self.clock().await?;
        let rows = sqlx::query!(
            r#"select order_id, (extract(epoch from coalesce(
                       case when current_setting('track_commit_timestamp')::boolean
                            then pg_xact_commit_timestamp(orders.xmin) end, created_at)) * 1e6)::bigint as "us!"
               from orders join order_lines using (order_id)
                   join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)"#,
            &goods_nos[..],
            &sales[..]
        );
        let rows = rows.fetch_all(&self.0).await.map_err(Error::postgres("read when the orders were committed"))?;
        Ok(Commits {
            at: rows.into_iter().map(|row| (row.order_id, clock.here(row.us))).collect(),
            are_noted: clock.notes_commits,
        })
    }

    /// Compares the clock of the server with the clock of this process.
    async fn clock(&self) -> Result<Clock, Error> {
        let mut best: Option<(Duration, Clock)> = None;
        for _ in 0..CLOCK_READINGS {
            let asked = SystemTime::now();
            let told = sqlx::query!(
                r#"select (extract(epoch from clock_timestamp()) * 1e6)::bigint as "us!",
                       current_setting('track_commit_timestamp')::boolean as "notes_commits!""#
            );
            let told = told.fetch_one(&self.0).await.map_err(Error::postgres("read its clock"))?;
            let took = asked.elapsed().unwrap_or_default();
            let clock = Clock { us: told.us, here: asked + took / 2, notes_commits: told.notes_commits };
            if best.as_ref().is_none_or(|(quickest, _)| took < *quickest) {
                best = Some((took, clock));
            }
        }
        let (_, clock) =
            best.unwrap_or((Duration::ZERO, Clock { us: 0, here: SystemTime::UNIX_EPOCH, notes_commits: false }));
        Ok(clock)
    }
}

/// One moment by two clocks.
struct Clock {
    /// By the clock of the server, in microseconds since the epoch.
    us: i64,
    /// By the clock of this process.
    here: SystemTime,
    /// Whether the server notes when transactions are committed.
    notes_commits: bool,
}

impl Clock {
    /// Translates a time of the server, in microseconds since the epoch, into a time of this process.
    fn here(&self, us: i64) -> SystemTime {
        let apart = Duration::from_micros(us.abs_diff(self.us));
        if us < self.us { self.here - apart } else { self.here + apart }
    }
}
