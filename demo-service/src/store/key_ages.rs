//! Which idempotency keys have expired.
//!
//! The wall clock of the database may jump, and an instance may be restarted often. So the keys have a clock of their own in the
//! table `key_clock`. An instance adds the time that has passed since it saw the clock last, by its own monotonic clock. It adds
//! nothing if the clock has moved meanwhile. So no time counts twice, and while no instance runs, the clock stands still.
//!
//! Keys are numbered as they are written. The numbers of their orders would not do, because a gate numbers its orders otherwise.
//!
//! A mark says that all keys up to a number existed when the clock had a value. It is written with the step to that value. Every
//! later step begins at that value or after it, so it counts no time from before the mark.

use std::time::Duration;

use super::Store;
use crate::failure::Failure;

/// The most keys that one statement deletes.
const FORGET_MAX: i64 = 1000;

/// What an instance saw of the keys and of their clock.
#[derive(Debug, Clone, Copy)]
pub struct KeyLook {
    /// The clock.
    ms: i64,
    /// The number of the last key that has expired. All keys before it have expired, too.
    pub expired: Option<i64>,
    /// The greatest number of a key, at this look or at an earlier one whose transactions were not over yet.
    last_key: Option<i64>,
    /// Greater than every transaction that was writing at that look. A purchase has a transaction number as soon as it has
    /// an order, and its key is numbered after that. So when all earlier transactions are over, no more keys up to `last_key` come.
    transaction: i64,
}

impl Store {
    /// Looks which keys have expired. `last` is the last look of this instance, and the time that has passed since its answer.
    /// Moves the clock on by that time, and marks the keys of that look. Marks are a sixteenth of a lifetime apart.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, the clock may have moved on or not. Both are right, and so is another call with the same `last`.
    pub async fn look_at_keys(
        &self,
        last: Option<(KeyLook, Duration)>,
        lifetime: Duration,
    ) -> Result<KeyLook, Failure> {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let look = async {
            let mut connection = self.connections.get().await?;
            // The snapshot of the statement is older than its own transaction number. If numbers have gone back, the database was
            // restored, and the last look says nothing of it.
            let row = sqlx::query_as!(
                KeyLook,
                r#"with survey as (
                       select max(number) as last_key, pg_current_xact_id()::text::bigint as transaction,
                           coalesce($3::bigint <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint, true) as is_settled,
                           coalesce($3 > pg_current_xact_id()::text::bigint or $4::bigint > coalesce(max(number), 0), false)
                               as is_restored
                       from idempotency_keys
                   ), moved as (
                       update key_clock set ms = ms + $2::bigint where ms = $1::bigint and $2::bigint > 0 returning ms
                   ), marked as (
                       insert into key_marks (ms, last_key)
                       select moved.ms, $4 from moved, survey
                       where is_settled and not is_restored and $4 is not null
                           and not exists (select from key_marks as mark where mark.ms > moved.ms - $5::bigint / 16)
                   ), shown as (
                       select ms from moved union all select ms from key_clock where not exists (select from moved)
                   )
                   select shown.ms as "ms!",
                       (select max(mark.last_key) from key_marks as mark where mark.ms <= shown.ms - $5) as expired,
                       case when is_settled or is_restored then survey.last_key else $4 end as last_key,
                       case when is_settled or is_restored then survey.transaction else $3 end as "transaction!"
                   from shown, survey"#,
                last.map(|(last, _)| last.ms),
                last.map(|(_, passed)| ms(passed)),
                last.map(|(last, _)| last.transaction),
                last.and_then(|(last, _)| last.last_key),
                ms(lifetime),
            );
            let row = row.fetch_one(connection.ask()).await;
            connection.heard(row)
        };
        self.in_time(look).await
    }

    /// Deletes some of the keys up to this number, and at the end their marks. Returns whether anything may be left.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, some keys may have been deleted. Their marks stay until all of them are.
    pub async fn forget_keys(&self, last_key: i64) -> Result<bool, Failure> {
        let forget = async {
            let mut connection = self.connections.get().await?;
            let deleted = sqlx::query!(
                "delete from idempotency_keys where key in (
                 select key from idempotency_keys where number <= $1 order by number limit $2)",
                last_key,
                FORGET_MAX,
            );
            let deleted = deleted.execute(connection.ask()).await;
            if connection.heard(deleted)?.rows_affected() > 0 {
                return Ok(true);
            }
            // Another instance may be about to delete the next keys.
            let marks = sqlx::query!(
                "delete from key_marks where last_key <= $1
                 and not exists (select from idempotency_keys where number <= $1)",
                last_key,
            );
            let marks = marks.execute(connection.ask()).await;
            connection.heard(marks).map(|_| false)
        };
        self.in_time(forget).await
    }
}
