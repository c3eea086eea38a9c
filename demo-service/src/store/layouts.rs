//! Sales whose stock lies in several rows: a row a unit, or a row a bucket. Their purchases do not write the row of the SKU, so
//! they do not wait for each other there.
//!
//! The start of the next sale must not miss such a purchase, so both take an advisory lock: purchases share it from their
//! beginning to their end, and the start has it alone. A lock of the row would do no better. Postgres lets new sharers of a row
//! pass a transaction that waits to lock it alone, so the start waited for seconds in a busy sale. Advisory locks are granted in
//! the order of arrival.

use sqlx::postgres::PgConnection;

use super::transaction::Transaction;
use crate::failure::Failure;
use crate::sale::{GoodsNo, OrderLine};

/// The family whose sales have a row a unit, as the database function `units_left` has it.
const UNITS: &str = "pg-units";
/// The family whose sales have several rows, its buckets, as `units_left` has it.
const BUCKETS: &str = "pg-buckets";

/// The most units of a sale that has a row for each of them. They are written in the transaction that starts the sale, within
/// its deadline.
pub(super) const UNIT_ROWS_MAX: i64 = 1_000_000;

/// The number of buckets of a sale, if it has as many units. With fewer buckets than purchases at a time, buyers meet: 40
/// connections met in 37 % of their purchases with 16 buckets, in 6 % with 32 and never with 64.
pub const BUCKETS_MAX: u32 = 64;

/// Where the stock of a sale lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In the row of the SKU.
    OneRow,
    /// In a row for each unit.
    UnitRows,
    /// In a few rows with some units each.
    Buckets,
}

impl Layout {
    /// Returns the layout of the sales that a family guards.
    pub(super) fn of(family: &str) -> Self {
        match family {
            UNITS => Self::UnitRows,
            BUCKETS => Self::Buckets,
            _ => Self::OneRow,
        }
    }

    /// Returns the most units of a sale.
    pub(super) fn units_max(self) -> i64 {
        if self == Self::UnitRows { UNIT_ROWS_MAX } else { i64::MAX }
    }

    /// Writes the rows of a sale of that many units.
    pub(super) async fn fill(
        self,
        connection: &mut PgConnection,
        goods_no: GoodsNo,
        sale: i64,
        units: i64,
    ) -> Result<(), sqlx::Error> {
        match self {
            _ if units == 0 => Ok(()),
            Self::OneRow => Ok(()),
            Self::UnitRows => fill_units(connection, goods_no, sale, units).await,
            Self::Buckets => fill_buckets(connection, goods_no, sale, units).await,
        }
    }
}

async fn fill_units(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    sale: i64,
    units: i64,
) -> Result<(), sqlx::Error> {
    let fill = sqlx::query!(
        "insert into units (goods_no, sale, unit) select $1, $2, unit from generate_series(1, $3::bigint) as unit",
        goods_no.get(),
        sale,
        units,
    );
    fill.execute(connection).await.map(drop)
}

async fn fill_buckets(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    sale: i64,
    units: i64,
) -> Result<(), sqlx::Error> {
    // As equal as whole units can be: the first buckets have one more.
    let count = units.min(BUCKETS_MAX.into());
    let fill = sqlx::query!(
        "insert into buckets (goods_no, sale, bucket, stock_initial, on_hand)
         select $1, $2, bucket, units, units
         from generate_series(1, $3::bigint) as bucket,
             lateral (select $4 / $3 + case when bucket <= $4 % $3 then 1 else 0 end) as share (units)",
        goods_no.get(),
        sale,
        count,
        units,
    );
    fill.execute(connection).await.map(drop)
}

/// Waits until no purchase is under way that shares the sale of a SKU, and keeps later ones out until the end of the transaction.
pub(super) async fn end_purchases(connection: &mut PgConnection, goods_no: GoodsNo) -> Result<(), sqlx::Error> {
    let lock = sqlx::query!("select pg_advisory_xact_lock(hashtext('seckill/sale'), hashint8($1))", goods_no.get());
    lock.execute(connection).await.map(drop)
}

/// Returns the statements that a purchase of these SKUs begins with. It then shares their sales until its end, and its reads use
/// indexes: the statistics of a table that was filled a moment ago are wrong.
pub(super) fn share_sales(goods: &[GoodsNo]) -> String {
    let mut statements = "; set local enable_seqscan = off".to_owned();
    for goods_no in goods {
        let lock = format!("; select pg_advisory_xact_lock_shared(hashtext('seckill/sale'), hashint8({goods_no}))");
        statements.push_str(&lock);
    }
    statements
}

/// What a purchase has got out of the rows of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All of its units. The last one lay in the row with this number.
    All {
        /// The number of the unit or of the bucket.
        last: i32,
    },
    /// None: too few are left for good.
    TooFew,
    /// None that it could keep: enough may be left, but other purchases have locked some of them, or the sale is over.
    Held,
    /// None: enough may be left, but not in one bucket.
    Scattered,
}

impl Taken {
    fn of(last: Option<i32>, are_too_few: Option<bool>) -> Self {
        match last {
            Some(last) => Self::All { last },
            None if are_too_few == Some(true) => Self::TooFew,
            None => Self::Held,
        }
    }
}

impl Transaction {
    /// Gives an order its units of a sale: those that nobody has locked, from the number `start` on and then from the first one
    /// on. Waits for nobody. If it finds [`Held`](Taken::Held), the caller must roll back, because some of them may be locked.
    ///
    /// A unit that was taken for good never comes back. So if the free ones that this statement sees are too few, they are too
    /// few for good: a unit whose purchase is under way counts as free.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_units(
        &mut self,
        line: &OrderLine,
        guard: &str,
        order_id: i64,
        start: i64,
    ) -> Result<Taken, Failure> {
        // Many units are counted before they are locked. Otherwise a buyer who wants one more than there are would lock them all.
        let taken = sqlx::query!(
            r#"with ahead as materialized (
                   select ctid, unit from units
                   where goods_no = $1 and sale = $2 and order_id is null and unit >= $6::bigint
                       and ($4::bigint <= 1000 or $4 <= (
                           select count(*) from (
                               select from units where goods_no = $1 and sale = $2 and order_id is null limit $4
                           ) as free))
                   order by unit limit $4 for update skip locked
               ), behind as materialized (
                   select ctid, unit from units
                   where goods_no = $1 and sale = $2 and order_id is null and unit < $6::bigint
                   order by unit limit least($4, 1000000) - (select count(*) from ahead) for update skip locked
               ), taken as (
                   update units set order_id = $5
                   where ctid = any (array(select ctid from ahead union all select ctid from behind))
                       and $4 = (select count(*) from ahead) + (select count(*) from behind)
                       and exists (select from goods where goods_no = $1 and sale = $2 and guard = $3)
                   returning unit
               ), counted as (
                   select count(*) as units from taken
               )
               select case when units = $4 then coalesce(
                       (select max(unit) from behind), (select max(unit) from ahead)) end as last,
                   case when units < $4 then $4 > (
                       select count(*) from (
                           select from units where goods_no = $1 and sale = $2 and order_id is null limit $4
                       ) as free) end as are_too_few
               from counted"#,
            line.goods_no,
            line.sale,
            guard,
            line.quantity,
            order_id,
            start,
        );
        let taken = taken.fetch_one(self.connection()).await;
        self.heard(taken).map(|row| Taken::of(row.last, row.are_too_few))
    }

    /// Gives an order its units of a sale, and waits for the purchases that have locked some of them. Their numbers are the order
    /// of the waits, so no two purchases wait for each other. The transaction must hold none of the units.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_units_in_order(
        &mut self,
        line: &OrderLine,
        guard: &str,
        order_id: i64,
    ) -> Result<Taken, Failure> {
        // A unit that was taken meanwhile is passed over, and the next one is waited for.
        let taken = sqlx::query!(
            r#"with locked as materialized (
                   select ctid, unit from units
                   where goods_no = $1 and sale = $2 and order_id is null
                   order by unit limit $4 for update
               ), counted as (
                   select count(*) as units, max(unit) as last from locked
               ), taken as (
                   update units set order_id = $5
                   where ctid = any (array(select ctid from locked)) and $4 = (select units from counted)
                       and exists (select from goods where goods_no = $1 and sale = $2 and guard = $3)
                   returning unit
               )
               select case when exists (select from taken) then last end as last, units < $4 as are_too_few from counted"#,
            line.goods_no,
            line.sale,
            guard,
            line.quantity,
            order_id,
        );
        let taken = taken.fetch_one(self.connection()).await;
        self.heard(taken).map(|row| Taken::of(row.last, row.are_too_few))
    }

    /// Takes the units of a purchase out of one bucket that nobody has locked and that has enough: the bucket `start`, or the next
    /// one. Waits for nobody. If it takes nothing, the caller must roll back, because buckets may be locked.
    ///
    /// No bucket gets units back. So if the sum that this statement sees is too small, it is too small for good: the units of a
    /// purchase that is under way count as left.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_from_free_bucket(&mut self, line: &OrderLine, guard: &str, start: u32) -> Result<Taken, Failure> {
        // The locked row is joined, and not compared with a subquery. Where another purchase has just written it, Postgres checks
        // the new version again, and would run a subquery again: it would lock another bucket and find that nothing matches.
        let taken = sqlx::query!(
            r#"with locked as materialized (
                   select bucket from buckets where goods_no = $1 and sale = $2 and on_hand >= $4
                   order by bucket < $5::bigint, bucket limit 1 for update skip locked
               ), taken as (
                   update buckets set on_hand = on_hand - $4 from locked
                   where buckets.goods_no = $1 and buckets.sale = $2 and buckets.bucket = locked.bucket
                       and exists (select from goods where goods_no = $1 and sale = $2 and guard = $3)
                   returning buckets.bucket
               )
               select (select bucket from taken) as last,
                   case when not exists (select from taken) then $4 > (
                       select coalesce(sum(on_hand), 0) from buckets where goods_no = $1 and sale = $2) end as are_too_few,
                   case when not exists (select from taken) then $4 > (
                       select coalesce(max(on_hand), 0) from buckets where goods_no = $1 and sale = $2) end as are_scattered"#,
            line.goods_no,
            line.sale,
            guard,
            line.quantity,
            i64::from(start),
        );
        let taken = taken.fetch_one(self.connection()).await;
        self.heard(taken).map(|row| match Taken::of(row.last, row.are_too_few) {
            Taken::Held if row.are_scattered == Some(true) => Taken::Scattered,
            taken => taken,
        })
    }

    /// Takes the units of a purchase out of the first bucket that has enough. Waits for the purchases that have locked one, in the
    /// order of the buckets, so no two purchases wait for each other. If it takes nothing, the caller must roll back.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_from_first_bucket(&mut self, line: &OrderLine, guard: &str) -> Result<Taken, Failure> {
        let taken = sqlx::query!(
            r#"with locked as materialized (
                   select bucket from buckets where goods_no = $1 and sale = $2 and on_hand >= $4
                   order by bucket limit 1 for update
               ), taken as (
                   update buckets set on_hand = on_hand - $4 from locked
                   where buckets.goods_no = $1 and buckets.sale = $2 and buckets.bucket = locked.bucket
                       and exists (select from goods where goods_no = $1 and sale = $2 and guard = $3)
                   returning buckets.bucket
               )
               select (select bucket from taken) as last"#,
            line.goods_no,
            line.sale,
            guard,
            line.quantity,
        );
        let taken = taken.fetch_one(self.connection()).await;
        self.heard(taken).map(|row| row.last.map_or(Taken::Scattered, |last| Taken::All { last }))
    }

    /// Takes the units of a purchase out of as many buckets as it needs. Locks all of them, in their order, so no two purchases wait
    /// for each other. The transaction must have locked none before.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_from_buckets(&mut self, line: &OrderLine, guard: &str) -> Result<Taken, Failure> {
        let taken = sqlx::query!(
            r#"with locked as materialized (
                   select bucket, on_hand from buckets where goods_no = $1 and sale = $2 and on_hand > 0
                   order by bucket for update
               ), counted as (
                   select coalesce(sum(on_hand), 0)::bigint as units from locked
               ), running as (
                   select bucket, on_hand, (sum(on_hand) over (order by bucket))::bigint - on_hand as before from locked
               ), taken as (
                   update buckets set on_hand = buckets.on_hand - least(running.on_hand, $4::bigint - running.before)
                   from running
                   where buckets.goods_no = $1 and buckets.sale = $2 and buckets.bucket = running.bucket
                       and running.before < $4 and $4 <= (select units from counted)
                       and exists (select from goods where goods_no = $1 and sale = $2 and guard = $3)
                   returning buckets.bucket
               )
               select (select max(bucket) from taken) as last, units < $4 as are_too_few from counted"#,
            line.goods_no,
            line.sale,
            guard,
            line.quantity,
        );
        let taken = taken.fetch_one(self.connection()).await;
        self.heard(taken).map(|row| Taken::of(row.last, row.are_too_few))
    }
}
