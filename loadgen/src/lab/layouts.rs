//! The rows of sales whose stock does not lie in the row of the SKU.

use std::collections::HashMap;

use sqlx::PgConnection;

use crate::audit::layout::StockRows;
use crate::audit::reservations::ReservationRow;
use crate::error::Error;

/// Reads the rows of a sale, if its stock lies in rows of its own. The guard of the sale that is on tells it. For a sale before,
/// its rows tell it, or else its first order.
pub(crate) async fn read_stock_rows(
    connection: &mut PgConnection,
    goods_no: i64,
    sale: i64,
) -> Result<Option<StockRows>, Error> {
    let guard = sqlx::query_scalar!(
        r#"select coalesce(
               (select guard from goods where goods_no = $1 and sale = $2),
               (select 'pg-units' where exists (
                   select from units where goods_no = $1 and sale = $2 and order_id is null
                   union all select from units where goods_no = $1 and sale = $2 and order_id is not null)),
               (select 'pg-buckets' where exists (select from buckets where goods_no = $1 and sale = $2)),
               (select strategy from orders where order_id = (
                   select min(order_id) from order_lines where goods_no = $1 and sale = $2))
           )"#,
        goods_no,
        sale
    );
    let guard = guard.fetch_one(&mut *connection).await.map_err(Error::postgres("look for the guard of a sale"))?;
    match guard.as_deref() {
        Some("pg-units") => read_units(connection, goods_no, sale).await.map(Some),
        Some("pg-buckets") => read_buckets(connection, goods_no, sale).await.map(Some),
        Some("pg-reserve") => read_reserved(connection, goods_no, sale).await.map(Some),
        _ => Ok(None),
    }
}

async fn read_units(connection: &mut PgConnection, goods_no: i64, sale: i64) -> Result<StockRows, Error> {
    sqlx::query!(
        r#"with own as materialized (
               select unit, order_id from units where goods_no = $1 and sale = $2
           ), lines as materialized (
               select order_id, quantity from order_lines where goods_no = $1 and sale = $2
           ), taken as (
               select order_id, count(*) as rows from own where order_id is not null group by order_id
           ), wrong as (
               select abs(coalesce(rows, 0) - quantity) as rows from lines left join taken using (order_id)
               where coalesce(rows, 0) <> quantity
           )
           select (select count(*) from own) as "rows!",
               (select count(*) from own where order_id is null) as "free!",
               (select count(*) from (
                   select unit from own where order_id is null intersect select unit from own where order_id is not null
               ) as twice) as "twice!",
               (select coalesce(sum(rows), 0)::bigint from taken
                where not exists (select from lines where lines.order_id = taken.order_id)) as "strangers!",
               (select count(*) from wrong) as "wrong_orders!",
               (select coalesce(sum(rows), 0)::bigint from wrong) as "wrong_rows!""#,
        goods_no,
        sale
    )
    .fetch_one(connection)
    .await
    .map(|row| StockRows::Units {
        rows: row.rows,
        free: row.free,
        twice: row.twice,
        strangers: row.strangers,
        wrong_orders: row.wrong_orders,
        wrong_rows: row.wrong_rows,
    })
    .map_err(Error::postgres("read the units"))
}

async fn read_buckets(connection: &mut PgConnection, goods_no: i64, sale: i64) -> Result<StockRows, Error> {
    sqlx::query!(
        r#"select coalesce(sum(stock_initial), 0)::bigint as "stock_initial!", coalesce(sum(on_hand), 0)::bigint as "on_hand!",
               count(*) filter (where on_hand < 0 or on_hand > stock_initial) as "beyond!"
           from buckets where goods_no = $1 and sale = $2"#,
        goods_no,
        sale
    )
    .fetch_one(connection)
    .await
    .map(|row| StockRows::Buckets { stock_initial: row.stock_initial, on_hand: row.on_hand, beyond: row.beyond })
    .map_err(Error::postgres("read the buckets"))
}

/// Adds the reservations of a sale up. Each order of the sale must be the one of a reservation of as many units.
async fn read_reserved(connection: &mut PgConnection, goods_no: i64, sale: i64) -> Result<StockRows, Error> {
    sqlx::query!(
        r#"with own as materialized (
               select state, quantity, order_id from reservations where goods_no = $1 and sale = $2
           ), lines as materialized (
               select order_id, quantity from order_lines where goods_no = $1 and sale = $2
           )
           select coalesce(sum(quantity) filter (where state = 'held'), 0)::bigint as "held!",
               coalesce(sum(quantity) filter (where state in ('cancelled', 'expired')), 0)::bigint as "returned!",
               (select coalesce(sum(quantity), 0)::bigint from own as one where order_id is not null and not exists (
                    select from lines where lines.order_id = one.order_id and lines.quantity = one.quantity)) as "unsold!",
               (select coalesce(sum(quantity), 0)::bigint from lines where 1 <> (
                    select count(*) from own as one where one.order_id = lines.order_id)) as "unreserved!"
           from own"#,
        goods_no,
        sale
    )
    .fetch_one(connection)
    .await
    .map(|row| StockRows::Reservations {
        held: row.held,
        returned: row.returned,
        unsold: row.unsold,
        unreserved: row.unreserved,
    })
    .map_err(Error::postgres("read the reservations"))
}

/// Reads the reservations of a sale, by their numbers.
pub(crate) async fn read_reservations(
    connection: &mut PgConnection,
    goods_no: i64,
    sale: i64,
) -> Result<HashMap<i64, ReservationRow>, Error> {
    let rows = sqlx::query!(
        "select reservation_id, state, order_id from reservations where goods_no = $1 and sale = $2",
        goods_no,
        sale
    );
    let rows = rows.fetch_all(connection).await.map_err(Error::postgres("read the reservations"))?;
    let row = |state, order| ReservationRow { state, order };
    Ok(rows.into_iter().map(|one| (one.reservation_id, row(one.state, one.order_id))).collect())
}
