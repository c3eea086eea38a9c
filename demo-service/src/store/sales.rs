//! The statements that start a sale, end the previous sale, and give a sale its guard.
//!
//! A reset deletes nothing. The ledger (the table `sales`) keeps what each sale began with, and what was left when the next one
//! started. Both are written under the lock of the SKU's row, which every deduction has from its write to its commit. So by
//! then all orders of the sale that ends exist.

use sqlx::postgres::PgConnection;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Isolation, LockWait, Store};
use crate::failure::{self, Failure};
use crate::sale::{Goods, GoodsNo, Guard, NewStock, Quantity};

/// The sale number of a SKU before its first sale.
const NO_SALE: i64 = 0;

impl Store {
    /// Starts the next sale of a SKU, and creates the SKU if it is new. The ledger gets a row for the new sale. The
    /// row of the previous sale gets the units that were left. With `per_buyer`, no buyer gets more units of the new sale. Orders are
    /// never deleted. Returns `None` if `stock` is
    /// [`NewStock::Remaining`] and there is no such SKU.
    ///
    /// The fence starts again at zero. That is safe: a holder that read the previous sale cannot write to this one.
    /// It is also necessary: the tokens of a new ZooKeeper ensemble start again, too.
    ///
    /// # Errors
    /// As [`Failure::of_database`], and [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if the commit was not answered.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(
        &self,
        goods_no: GoodsNo,
        stock: NewStock,
        guard: Guard,
        per_buyer: Option<Quantity>,
    ) -> Result<Option<Goods>, Failure> {
        let start = async {
            let mut transaction = self.begin(Isolation::ReadCommitted, None).await?;
            let started = start(transaction.connection(), goods_no, stock, guard, per_buyer).await;
            match transaction.heard(started) {
                Ok(Some(goods)) => Ok(Some((transaction, goods))),
                other => {
                    transaction.roll_back().await;
                    other.map(|_| None)
                }
            }
        };
        let Some((transaction, goods)) = self.in_time(start).await? else { return Ok(None) };
        // A limit of its own: a start that is stopped before this line has written nothing. Stopped here, its outcome
        // is unknown.
        let committed = timeout(self.within, transaction.commit(None)).await;
        committed
            .unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))
            .map_err(|failure| name_the_sale(failure, goods_no))?;
        Ok(Some(goods))
    }

    /// Gives all of these sales their guard, or none of them. None gets it if one of them has a guard already or is
    /// over. Ends at `until` at the latest.
    ///
    /// # Errors
    /// As [`Failure::of_database`]. If the commit was not answered, the failure says that the sales may have their
    /// guard now.
    ///
    /// # Cancel safety
    /// Dropped, the sales may have been claimed or not.
    pub async fn claim(
        &self,
        sales: &[(GoodsNo, i64)],
        family: &str,
        strategy: &str,
        until: Instant,
    ) -> Result<(), Failure> {
        // Every transaction that locks several rows locks them in the order of the SKU numbers.
        let mut sales = sales.to_vec();
        sales.sort_unstable();
        let claim = async {
            let goods = sales.iter().map(|(goods_no, _)| *goods_no).collect();
            let wait = LockWait { goods, until };
            let mut transaction = self.begin(Isolation::ReadCommitted, Some(wait)).await?;
            for (goods_no, sale) in sales {
                let claimed = claim(transaction.connection(), goods_no, sale, family, strategy).await;
                match transaction.heard(claimed) {
                    Ok(true) => {}
                    not_claimed => {
                        transaction.roll_back().await;
                        return not_claimed.map(|_| None);
                    }
                }
            }
            Ok(Some(transaction))
        };
        let claimed = timeout_at(until, claim).await.unwrap_or_else(|_| Err(Failure::database_unavailable()))?;
        let Some(transaction) = claimed else { return Ok(()) };
        let committed = timeout_at(until, transaction.commit(None)).await;
        committed.unwrap_or_else(|_| Err(Failure::outcome_unknown(None))).map_err(name_the_claim)
    }
}

/// Renames the failure of a claim whose commit was not answered. A claim sells nothing, so the outcome of the
/// purchase is known. The next purchase reads the guard again.
fn name_the_claim(failure: Failure) -> Failure {
    if !failure.is(&failure::OUTCOME_UNKNOWN) {
        return failure;
    }
    let detail = "the database did not answer in time; no unit was sold, and the sale may have its guard now";
    Failure::new(&failure::DATABASE_UNAVAILABLE, detail).caused_by(failure)
}

fn name_the_sale(failure: Failure, goods_no: GoodsNo) -> Failure {
    if !failure.is(&failure::OUTCOME_UNKNOWN) {
        return failure;
    }
    let detail = format!(
        "the commit was sent and its answer was not seen: GET /goods/{goods_no} shows whether the sale has started; \
         starting another one is harmless"
    );
    Failure::new(&failure::OUTCOME_UNKNOWN, detail).caused_by(failure)
}

async fn claim(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    sale: i64,
    family: &str,
    strategy: &str,
) -> Result<bool, sqlx::Error> {
    let claimed = sqlx::query!(
        "update goods set guard = $3, strategy = $4 where goods_no = $1 and sale = $2 and guard is null",
        goods_no.get(),
        sale,
        family,
        strategy,
    );
    Ok(claimed.execute(connection).await?.rows_affected() == 1)
}

async fn start(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    stock: NewStock,
    guard: Guard,
    per_buyer: Option<Quantity>,
) -> Result<Option<Goods>, sqlx::Error> {
    let before = lock(&mut *connection, goods_no).await?;
    let is_first = before.sale == NO_SALE;
    let units = match stock {
        NewStock::Units(stock) => stock.get(),
        NewStock::Remaining if is_first => return Ok(None),
        NewStock::Remaining => before.on_hand,
    };
    if !is_first {
        note_end(&mut *connection, &before).await?;
    }
    // The time is taken under the lock, so a later sale of a SKU never has an earlier time.
    let row = sqlx::query!(
        "with started as (
             update goods set sale = sale + 1, stock_initial = $2, on_hand = $2, version = version + 1,
                 fence = 0, fence_handover = 0, fence_hold = null, guard = $3, strategy = $4, per_buyer = $5
             where goods_no = $1
             returning goods_no, sale, stock_initial, per_buyer
         )
         insert into sales (goods_no, sale, stock_initial, started_at, per_buyer)
         select goods_no, sale, stock_initial, clock_timestamp(), per_buyer from started
         returning sale",
        goods_no.get(),
        units,
        guard.family,
        guard.strategy,
        per_buyer.map(Quantity::get),
    );
    let row = row.fetch_one(connection).await?;
    let guard = Some(guard);
    Ok(Some(Goods { goods_no, sale: row.sale, stock_initial: units, on_hand: units, guard, per_buyer }))
}

/// Locks the row of a SKU until the end of the transaction. Creates the row if the SKU is new. Another start of a
/// sale of this SKU waits here. Purchases that have written to the row are over by then, and later purchases find
/// that their sale is over. So the orders of the ended sale and the units that it left are final.
async fn lock(connection: &mut PgConnection, goods_no: GoodsNo) -> Result<Goods, sqlx::Error> {
    // If two transactions create the SKU at once, the second one waits for the first. The update changes nothing.
    let row = sqlx::query!(
        "insert into goods (goods_no, sale, stock_initial, on_hand) values ($1, $2, 0, 0)
         on conflict (goods_no) do update set sale = goods.sale
         returning sale, stock_initial, on_hand, per_buyer",
        goods_no.get(),
        NO_SALE,
    );
    let row = row.fetch_one(connection).await?;
    let per_buyer = row.per_buyer.and_then(Quantity::new);
    let guard = None;
    Ok(Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand, guard, per_buyer })
}

/// Writes the units that a sale left into the ledger. If the ledger does not have the sale, adds its row: somebody
/// started the sale by hand.
async fn note_end(connection: &mut PgConnection, ended: &Goods) -> Result<(), sqlx::Error> {
    let noted = sqlx::query!(
        "insert into sales (goods_no, sale, stock_initial, on_hand_final, per_buyer) values ($1, $2, $3, $4, $5)
         on conflict (goods_no, sale) do update set on_hand_final = excluded.on_hand_final",
        ended.goods_no.get(),
        ended.sale,
        ended.stock_initial,
        ended.on_hand,
        ended.per_buyer.map(Quantity::get),
    );
    noted.execute(connection).await.map(drop)
}
