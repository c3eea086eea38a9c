//! The sales in the database: the stock, the ledger and the orders. What belongs together is read in one snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::TryStreamExt;
use sqlx::{PgConnection, PgExecutor};

use crate::audit::layout::StockRows;
use crate::audit::ledger::{SaleAudit, SaleRow};
use crate::audit::orders::OrderRow;
use crate::audit::reservations::ReservationRow;
use crate::error::Error;
use crate::lab::layouts::{read_reservations, read_stock_rows};
use crate::lab::postgres::Database;
use crate::lab::service::Goods;

/// Begins a transaction whose statements share one snapshot.
const BEGIN_SNAPSHOT: &str = "begin isolation level repeatable read, read only";

/// A gate numbers its orders by the time, far above the numbers that the database gives.
const FIRST_GATE_ORDER: i64 = 1 << 50;

/// The books of the sales of one trial.
#[derive(Debug)]
pub(crate) struct Books {
    /// The stock of each SKU, in the order in which they were asked for.
    pub(crate) goods: Vec<Goods>,
    /// The initial stock of each sale in the ledger, by SKU. A sale without a row in the ledger has none.
    pub(crate) ledger: HashMap<i64, i64>,
    /// The orders of each sale in the order of their numbers, by SKU.
    pub(crate) orders: HashMap<i64, Vec<OrderRow>>,
    /// The rows of each sale whose stock does not lie in the row of the SKU, by SKU.
    pub(crate) rows: HashMap<i64, StockRows>,
    /// The reservations of each sale by their numbers, by SKU.
    pub(crate) reservations: HashMap<i64, HashMap<i64, ReservationRow>>,
    /// Orders without lines of the strategy, since the first of the sales started.
    pub(crate) orders_without_lines: u64,
}

/// The findings of many sales.
#[derive(Debug)]
pub(crate) struct SaleAudits {
    /// Every sale, by SKU and number.
    pub(crate) sales: Vec<SaleAudit>,
    /// The numbers of orders without lines, in any sale.
    pub(crate) orders_without_lines: Vec<i64>,
}

impl Database {
    /// Reads the stock of these SKUs, in this order.
    pub(crate) async fn goods(&self, goods_nos: &[i64]) -> Result<Vec<Goods>, Error> {
        read_goods(&self.0, goods_nos).await
    }

    /// Reads the books of the sales that a strategy has sold.
    pub(crate) async fn books(&self, opened: &[Goods], strategy: &str) -> Result<Books, Error> {
        let (goods_nos, sales) = numbers(opened);
        let mut snapshot = self.0.begin_with(BEGIN_SNAPSHOT).await.map_err(Error::postgres("begin to read"))?;
        let goods = read_goods(&mut *snapshot, &goods_nos).await?;
        let ledger = sqlx::query!(
            r#"select goods_no as "goods_no!", stock_initial as "stock_initial!" from sales
               join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)"#,
            &goods_nos[..],
            &sales[..]
        );
        let ledger = ledger.fetch_all(&mut *snapshot).await.map_err(Error::postgres("read the ledger"))?;
        let without_lines = sqlx::query_scalar!(
            r#"select count(*) as "count!" from orders
               where strategy = $3 and not exists (select from order_lines where order_lines.order_id = orders.order_id)
                   and created_at >= (
                       select min(started_at) from sales
                       join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale))"#,
            &goods_nos[..],
            &sales[..],
            strategy
        );
        let without_lines =
            without_lines.fetch_one(&mut *snapshot).await.map_err(Error::postgres("count orders without lines"))?;
        let orders = read_orders(&mut *snapshot, &goods_nos, &sales).await?;
        let mut rows = HashMap::new();
        let mut reservations = HashMap::new();
        for (goods_no, sale) in goods_nos.into_iter().zip(sales) {
            let own = read_stock_rows(&mut snapshot, goods_no, sale).await?;
            if let Some(StockRows::Reservations { .. }) = own {
                reservations.insert(goods_no, read_reservations(&mut snapshot, goods_no, sale).await?);
            }
            rows.extend(own.map(|rows| (goods_no, rows)));
        }
        snapshot.commit().await.map_err(Error::postgres("end the reading"))?;
        Ok(Books {
            goods,
            ledger: ledger.into_iter().map(|row| (row.goods_no, row.stock_initial)).collect(),
            orders,
            rows,
            reservations,
            orders_without_lines: u64::try_from(without_lines).unwrap_or_default(),
        })
    }

    /// Counts the orders of these sales.
    pub(crate) async fn order_count(&self, opened: &[Goods]) -> Result<u64, Error> {
        let (goods_nos, sales) = numbers(opened);
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from order_lines
               join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)"#,
            &goods_nos[..],
            &sales[..]
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("count the orders"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Counts the units of these sales that reservations hold.
    pub(crate) async fn held_units(&self, opened: &[Goods]) -> Result<u64, Error> {
        let (goods_nos, sales) = numbers(opened);
        let held = sqlx::query_scalar!(
            r#"select coalesce(sum(quantity), 0)::bigint as "held!" from reservations
               join unnest($1::bigint[], $2::bigint[]) as opened (goods_no, sale) using (goods_no, sale)
               where state = 'held'"#,
            &goods_nos[..],
            &sales[..]
        );
        let held = held.fetch_one(&self.0).await.map_err(Error::postgres("count the units that are held"))?;
        Ok(u64::try_from(held).unwrap_or_default())
    }

    /// Audits all sales, the sales of one SKU, or one sale, in one snapshot, ordered by SKU and sale.
    pub(crate) async fn sale_audits(
        &self,
        goods_no: Option<i64>,
        sale: Option<i64>,
        audit: impl Fn(&SaleRow, Vec<OrderRow>, Option<StockRows>) -> SaleAudit,
    ) -> Result<SaleAudits, Error> {
        let mut snapshot = self.0.begin_with(BEGIN_SNAPSHOT).await.map_err(Error::postgres("begin to read"))?;
        let rows = sales(&mut snapshot, goods_no, sale).await?;
        let mut sales = Vec::with_capacity(rows.len());
        for row in rows {
            let mut orders = read_orders(&mut *snapshot, &[row.goods_no], &[row.sale]).await?;
            let stock_rows = read_stock_rows(&mut snapshot, row.goods_no, row.sale).await?;
            sales.push(audit(&row, orders.remove(&row.goods_no).unwrap_or_default(), stock_rows));
        }
        let without_lines = sqlx::query_scalar!(
            "select order_id from orders
             where not exists (select from order_lines where order_lines.order_id = orders.order_id) order by order_id"
        );
        let without_lines = without_lines.fetch_all(&mut *snapshot).await;
        let orders_without_lines = without_lines.map_err(Error::postgres("look for orders without lines"))?;
        snapshot.commit().await.map_err(Error::postgres("end the reading"))?;
        Ok(SaleAudits { sales, orders_without_lines })
    }
}

/// Returns the SKUs and the sales.
pub(super) fn numbers(opened: &[Goods]) -> (Vec<i64>, Vec<i64>) {
    opened.iter().map(|goods| (goods.goods_no, goods.sale)).unzip()
}

/// Reads every sale that the ledger, an order or the stock knows. A sale without a row in the ledger was started by hand, or
/// its row is lost.
async fn sales(connection: &mut PgConnection, goods_no: Option<i64>, sale: Option<i64>) -> Result<Vec<SaleRow>, Error> {
    sqlx::query_as!(
        SaleRow,
        r#"select known.goods_no as "goods_no!", known.sale as "sale!",
                  to_char(started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
                  sales.stock_initial as "stock_initial?",
                  case when goods.sale = known.sale then units_left(goods) else on_hand_final end as stock_final,
                  sales.per_buyer as "per_buyer?", goods.sale = known.sale as "is_on!"
           from (select goods_no, sale from sales union select goods_no, sale from order_lines
                 union select goods_no, sale from goods) as known
                join goods on goods.goods_no = known.goods_no
                left join sales on sales.goods_no = known.goods_no and sales.sale = known.sale
           where (known.goods_no = $1 or $1::bigint is null) and (known.sale = $2 or $2::bigint is null)
           order by known.goods_no, known.sale"#,
        goods_no,
        sale
    )
    .fetch_all(connection)
    .await
    .map_err(Error::postgres("read the ledger"))
}

async fn read_goods(executor: impl PgExecutor<'_>, goods_nos: &[i64]) -> Result<Vec<Goods>, Error> {
    let goods = sqlx::query_as!(
        Goods,
        r#"select goods_no, sale, stock_initial, units_left(goods) as "on_hand!", guard, strategy, per_buyer
           from goods where goods_no = any($1)"#,
        goods_nos
    );
    let goods = goods.fetch_all(executor).await.map_err(Error::postgres("read the stock"))?;
    let mut by_number: HashMap<i64, Goods> = goods.into_iter().map(|goods| (goods.goods_no, goods)).collect();
    let advice = "is this the database of the service?";
    let missing = |goods_no: &i64| Error::Reset(format!("the database has no SKU {goods_no}; {advice}"));
    goods_nos.iter().map(|goods_no| by_number.remove(goods_no).ok_or_else(|| missing(goods_no))).collect()
}

/// Reads all orders of some sales in the order of their numbers, by SKU. It reads row by row, because there may be millions.
///
/// An order and its lines are written by one transaction, and the row of the ledger by another one. A restore writes whole
/// tables by a transaction each, or everything by a single one. So the transaction of an order counts only if its rows have
/// this pattern. A gate sells its orders one by one, before transactions write them in any sequence. So there, the number of the order
/// stands for a transaction of its own.
async fn read_orders(
    executor: impl PgExecutor<'_>,
    goods_nos: &[i64],
    sales: &[i64],
) -> Result<HashMap<i64, Vec<OrderRow>>, Error> {
    let mut rows = sqlx::query!(
        r#"select order_lines.order_id as "order_id!", order_lines.goods_no as "goods_no!",
                  case when order_lines.order_id >= $3 then order_lines.order_id
                       when order_lines.xmin = orders.xmin and order_lines.xmin is distinct from ledger.xmin
                       then order_lines.xmin::text::bigint end as transaction,
                  order_lines.quantity, strategy, instance, orders.buyer, remaining, token, token_handover, ticket as "ticket?"
           from order_lines join orders using (order_id)
               join unnest($1::bigint[], $2::bigint[]) as wanted (goods_no, sale) using (goods_no, sale)
               left join sales as ledger using (goods_no, sale)
               left join tickets on tickets.order_id = orders.order_id and tickets.outcome = 'sold'
           order by order_lines.order_id"#,
        goods_nos,
        sales,
        FIRST_GATE_ORDER
    )
    .fetch(executor);
    let mut orders: HashMap<i64, Vec<OrderRow>> = HashMap::new();
    let mut names = HashSet::new();
    while let Some(row) = rows.try_next().await.map_err(Error::postgres("read the orders"))? {
        orders.entry(row.goods_no).or_default().push(OrderRow {
            order_id: row.order_id,
            goods_no: row.goods_no,
            transaction: row.transaction,
            quantity: row.quantity,
            strategy: shared(&mut names, &row.strategy),
            instance: shared(&mut names, &row.instance),
            buyer: row.buyer.map(Into::into),
            remaining: row.remaining,
            token: row.token.map(|token| (token, row.token_handover.unwrap_or(0))),
            arrival: row.ticket.map(i64::unsigned_abs),
        });
    }
    Ok(orders)
}

/// Returns the one copy of a name.
fn shared(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    let known = names.get(name).cloned();
    known.unwrap_or_else(|| {
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name));
        name
    })
}

#[cfg(test)]
mod tests {
    use testbed::TestDatabase;

    use super::*;

    /// Makes a database with the tables of the service, and one SKU in its seventh sale.
    async fn shop() -> (TestDatabase, Database) {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        sqlx::migrate!("../migrations").run(&database.0).await.unwrap();
        execute(
            &database,
            "insert into goods (goods_no, sale, stock_initial, on_hand, guard, strategy)
             values (1, 7, 9, 8, 'zk-queue', 'zk-mutex');
             insert into sales (goods_no, sale, stock_initial, started_at) values (1, 7, 9, clock_timestamp());",
        )
        .await;
        (server, database)
    }

    async fn execute(database: &Database, statements: &'static str) {
        sqlx::raw_sql(statements).execute(&database.0).await.unwrap();
    }

    fn opened() -> Goods {
        let [guard, strategy] = ["zk-queue", "zk-mutex"].map(|name| Some(name.to_owned()));
        Goods { goods_no: 1, sale: 7, stock_initial: 9, on_hand: 8, guard, strategy, per_buyer: None }
    }

    #[tokio::test]
    async fn the_books_of_a_sale_are_read_as_of_one_moment() {
        let (_server, database) = shop().await;
        execute(
            &database,
            "insert into orders (strategy, instance) values ('a', 'x');
             insert into order_lines (order_id, goods_no, sale, quantity, remaining) values (1, 1, 7, 1, 7);",
        )
        .await;
        execute(
            &database,
            "insert into orders (strategy, instance) select s, 'x' from unnest(array['b', 'a', 'a', 'a']) as s;
             insert into order_lines (order_id, goods_no, sale, quantity) values (2, 1, 6, 1);
             insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
             values (4, 1, 7, 1, 6, 5, 2), (3, 1, 7, 2, 4, 5, 2);",
        )
        .await;

        let books = database.books(&[opened()], "a").await.unwrap();
        assert_eq!((books.goods, &books.ledger[&1], books.orders_without_lines), (vec![opened()], &9, 1));
        assert_eq!(database.books(&[opened()], "b").await.unwrap().orders_without_lines, 0);
        assert_eq!(database.order_count(&[opened()]).await.unwrap(), 3);
        let orders = &books.orders[&1];
        let row = |order_id, transaction, quantity, remaining, token| {
            let [strategy, instance] = ["a", "x"].map(Arc::from);
            let remaining = Some(remaining);
            let goods_no = 1;
            let arrival = None;
            let buyer = None;
            OrderRow { order_id, goods_no, transaction, quantity, strategy, instance, buyer, remaining, token, arrival }
        };
        let [alone, batch] = [&orders[0], &orders[1]].map(|order| order.transaction);
        let of_batch = |order_id, quantity, left| row(order_id, batch, quantity, left, Some((5, 2)));
        assert_eq!(*orders, [row(1, alone, 1, 7, None), of_batch(3, 2, 4), of_batch(4, 1, 6)]);
        assert!(alone.is_some() && batch.is_some() && alone != batch, "they are of different transactions");

        let mut snapshot = database.0.begin_with(BEGIN_SNAPSHOT).await.unwrap();
        assert_eq!(read_goods(&mut *snapshot, &[1]).await.unwrap()[0].on_hand, 8);
        execute(&database, "update goods set on_hand = 3").await;
        assert_eq!(read_goods(&mut *snapshot, &[1]).await.unwrap()[0].on_hand, 8, "the moment has passed");
    }

    // C2
    #[tokio::test]
    async fn a_restored_order_does_not_say_which_transaction_sold_it() {
        let (_server, database) = shop().await;
        let transactions = async |statements| {
            execute(&database, statements).await;
            let books = database.books(&[opened()], "a").await.unwrap();
            books.orders[&1].iter().map(|order| order.transaction.is_some()).collect::<Vec<_>>()
        };
        let sold = "insert into orders (strategy, instance) values ('a', 'x');
            insert into order_lines (order_id, goods_no, sale, quantity) select max(order_id), 1, 7, 1 from orders;";
        assert_eq!(transactions(sold).await, [true]);
        // Like a restore: table by table, and then all tables at once.
        assert_eq!(transactions("update order_lines set quantity = quantity;").await, [false]);
        let all = "update orders set instance = instance; update order_lines set quantity = quantity;
            update sales set stock_initial = stock_initial;";
        assert_eq!(transactions(all).await, [false]);
        assert_eq!(transactions(sold).await, [false, true]);
    }

    // C2
    #[tokio::test]
    async fn the_orders_of_a_gate_were_sold_one_by_one() {
        let (_server, database) = shop().await;
        execute(
            &database,
            "insert into orders (order_id, strategy, instance) overriding system value
             values (1125899906842624, 'a', 'x'), (1125899906842625, 'a', 'x');
             insert into order_lines (order_id, goods_no, sale, quantity)
             values (1125899906842624, 1, 7, 1), (1125899906842625, 1, 7, 1);",
        )
        .await;
        let orders = &database.books(&[opened()], "a").await.unwrap().orders[&1];
        assert_eq!(
            orders.iter().map(|order| order.transaction).collect::<Vec<_>>(),
            [1 << 50, (1 << 50) + 1].map(Some)
        );
    }

    #[tokio::test]
    async fn an_order_for_nothing_and_a_sale_without_a_ledger_are_seen() {
        let (_server, database) = shop().await;
        execute(&database, "insert into orders (strategy, instance) values ('a', 'x'); update goods set sale = 8;")
            .await;
        let audit = |row: &SaleRow, orders: Vec<OrderRow>, rows: Option<StockRows>| {
            SaleAudit::of(
                row,
                crate::audit::balance::Holders::One,
                &orders,
                rows.as_ref(),
                crate::audit::unchecked::Unchecked::default(),
            )
        };
        let found = database.sale_audits(None, None, audit).await.unwrap();
        assert_eq!(found.orders_without_lines, [1]);
        let unchecked: Vec<_> = found.sales.iter().map(|sale| (sale.sale, sale.unchecked.as_slice())).collect();
        let [end, beginning] =
            ["final", "initial"].map(|stock| [format!("sales whose {stock} stock is missing in the ledger: 1")]);
        assert_eq!(unchecked, [(7, &end[..]), (8, &beginning[..])]);
    }
}
