//! The statements that start a sale, end the previous sale, and give a sale its guard.
//!
//! A reset deletes nothing. The ledger (the table `sales`) keeps what each sale began with, and what was left when the next one
//! started. Both are written under the lock of the SKU's row, which every deduction has from its write to its commit, or shares
//! by the lock of [`layouts`](super::layouts). So by then all orders of the sale that ends exist. The rows of its units stay, so
//! it can be audited.

use sqlx::postgres::PgConnection;
use tokio::time::{Instant, timeout, timeout_at};

use super::layouts::{Layout, UNIT_ROWS_MAX, end_purchases};
use super::reservations::end_reservations;
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
    /// As [`Failure::of_database`], and [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if the commit was not answered;
    /// [`INVALID_INPUT`](failure::INVALID_INPUT) if the family sells fewer units in a sale.
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
        let strategy = guard.strategy.clone();
        let start = async {
            let mut transaction = self.begin(Isolation::ReadCommitted, None).await?;
            let started = start(transaction.connection(), goods_no, stock, guard, per_buyer).await;
            let refused = match transaction.heard(started) {
                Ok(Started::Sale(goods)) => return Ok(Some((transaction, goods))),
                Ok(Started::UnknownGoods) => Ok(None),
                Ok(Started::TooManyUnits(units)) => Err(too_many_units(goods_no, units, &strategy)),
                Err(failure) => Err(failure),
            };
            transaction.roll_back().await;
            refused
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
    /// guard now. [`GUARD_MISMATCH`](failure::GUARD_MISMATCH) if one of them has more units than the family can sell.
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
            let wait = LockWait { goods, until, shares_sales: false };
            let mut transaction = self.begin(Isolation::ReadCommitted, Some(wait)).await?;
            for (goods_no, sale) in sales {
                let claimed = claim(transaction.connection(), goods_no, sale, family, strategy).await;
                let not_claimed = match transaction.heard(claimed) {
                    Ok(Some(units)) if units > Layout::of(family).units_max() => {
                        Err(too_many_to_claim(goods_no, units, strategy))
                    }
                    Ok(Some(_)) => continue,
                    not_claimed => not_claimed.map(|_| None),
                };
                transaction.roll_back().await;
                return not_claimed;
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

/// Returns the failure of a sale that has more units than one of its strategy can have.
fn too_many_units(goods_no: GoodsNo, units: i64, strategy: &str) -> Failure {
    Failure::invalid_input(format!(
        "{strategy} sells at most {UNIT_ROWS_MAX} units in a sale, and this sale of SKU {goods_no} would have {units}: start it \
         with fewer units, or with another strategy; nothing was written"
    ))
}

/// Returns the failure of a purchase that cannot claim a sale, because it has more units than one of that strategy can have.
fn too_many_to_claim(goods_no: GoodsNo, units: i64, strategy: &str) -> Failure {
    let detail = format!(
        "{strategy} sells at most {UNIT_ROWS_MAX} units in a sale, and SKU {goods_no} has {units} and no guard: buy by another \
         strategy, or PUT /admin/goods/{goods_no} with one first; nothing was written"
    );
    Failure::new(&failure::GUARD_MISMATCH, detail)
}

/// Gives a sale its guard, and writes the rows of its units. Returns the units of the sale, or `None` if it has a guard or is over.
/// More units than the family can sell are not written.
async fn claim(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    sale: i64,
    family: &str,
    strategy: &str,
) -> Result<Option<i64>, sqlx::Error> {
    let claimed = sqlx::query_scalar!(
        "update goods set guard = $3, strategy = $4 where goods_no = $1 and sale = $2 and guard is null returning on_hand",
        goods_no.get(),
        sale,
        family,
        strategy,
    );
    let Some(units) = claimed.fetch_optional(&mut *connection).await? else { return Ok(None) };
    let layout = Layout::of(family);
    if units <= layout.units_max() {
        layout.fill(connection, goods_no, sale, units).await?;
    }
    Ok(Some(units))
}

/// What the start of a sale came to. Only a sale is to be committed.
enum Started {
    Sale(Goods),
    /// The remaining units of a SKU that there is not.
    UnknownGoods,
    /// This many units, which are more than the family sells in a sale.
    TooManyUnits(i64),
}

async fn start(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    stock: NewStock,
    guard: Guard,
    per_buyer: Option<Quantity>,
) -> Result<Started, sqlx::Error> {
    let before = lock(&mut *connection, goods_no).await?;
    let is_first = before.sale == NO_SALE;
    let named = match stock {
        NewStock::Units(stock) => Some(stock.get()),
        NewStock::Remaining if is_first => return Ok(Started::UnknownGoods),
        NewStock::Remaining => None,
    };
    let sale = before.sale.saturating_add(1);
    let layout = Layout::of(&guard.family);
    // The rows of many units take seconds. If their number is known, they are written before the sale before ends, which still sells
    // unless its purchases need the row of the SKU.
    if let Some(units) = named {
        if units > layout.units_max() {
            return Ok(Started::TooManyUnits(units));
        }
        layout.fill(&mut *connection, goods_no, sale, units).await?;
    }
    let left = if is_first { 0 } else { end(&mut *connection, before).await? };
    let units = named.unwrap_or(left);
    if named.is_none() {
        if units > layout.units_max() {
            return Ok(Started::TooManyUnits(units));
        }
        layout.fill(&mut *connection, goods_no, sale, units).await?;
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
    let goods = Goods { goods_no, sale: row.sale, stock_initial: units, on_hand: units, guard, per_buyer };
    Ok(Started::Sale(goods))
}

/// Ends the purchases of a sale, and writes the units that it left into the ledger. Returns them. They are read by a statement of
/// its own: it sees all that the purchases have committed.
async fn end(connection: &mut PgConnection, ended: Goods) -> Result<i64, sqlx::Error> {
    end_purchases(&mut *connection, ended.goods_no).await?;
    end_reservations(&mut *connection, ended.goods_no, ended.sale).await?;
    let left = sqlx::query_scalar!(
        r#"select units_left(goods) as "left!" from goods where goods_no = $1"#,
        ended.goods_no.get()
    );
    let on_hand = left.fetch_one(&mut *connection).await?;
    note_end(connection, &Goods { on_hand, ..ended }).await?;
    Ok(on_hand)
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
