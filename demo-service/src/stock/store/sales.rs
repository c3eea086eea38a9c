//! The statements that start a sale, and end the one before it.

use sqlx::PgConnection;

use super::{Isolation, Store};
use crate::stock::{Goods, GoodsNo, Stock};

impl Store {
    /// Starts the next sale of a SKU with `stock` units, and creates the SKU if it is new. The ledger gets a row for it, and
    /// in the row of the sale before what was left of that. Orders are never deleted.
    ///
    /// The fence begins anew: who read the sale before cannot write to this one anyway, and the tokens of a lock service
    /// that was set up anew are lower than those of the one before.
    ///
    /// # Errors
    /// Whatever the driver says. After a lost connection the sale may have started or not; starting one more is
    /// harmless.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(&self, goods_no: GoodsNo, stock: Stock) -> Result<Goods, sqlx::Error> {
        let mut transaction = self.begin(Isolation::ReadCommitted, None).await?;
        let connection = transaction.connection();
        let before = lock(connection, goods_no).await?;
        if before.sale > NO_SALE {
            note_end(connection, &before).await?;
        }
        let started = start(connection, goods_no, stock).await?;
        transaction.commit().await?;
        Ok(started)
    }
}

/// What a new SKU is in until its first sale.
const NO_SALE: i64 = 0;

/// Locks a SKU, created if it is new, until the end of the transaction, and returns it as it then stands. Whoever starts
/// another sale of it waits here. Deductions that had written to it are over, and those that come now will find that their
/// sale is, so what is left and what was ordered do not change any more.
async fn lock(connection: &mut PgConnection, goods_no: GoodsNo) -> Result<Goods, sqlx::Error> {
    // Of two who create it the second one waits for the first, and then has its row. The update changes nothing.
    let row = sqlx::query!(
        "insert into goods (goods_no, sale, stock_initial, on_hand) values ($1, $2, 0, 0)
         on conflict (goods_no) do update set sale = goods.sale
         returning sale, stock_initial, on_hand",
        goods_no.get(),
        NO_SALE,
    )
    .fetch_one(connection)
    .await?;
    Ok(Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand })
}

/// Notes what was left of a sale. One that started past the ledger gets its row now: by an instance of an earlier version
/// that was still running when the ledger was made, or by hand.
async fn note_end(connection: &mut PgConnection, ended: &Goods) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into sales (goods_no, sale, stock_initial, on_hand_final) values ($1, $2, $3, $4)
         on conflict (goods_no, sale) do update set on_hand_final = excluded.on_hand_final",
        ended.goods_no.get(),
        ended.sale,
        ended.stock_initial,
        ended.on_hand,
    )
    .execute(connection)
    .await
    .map(drop)
}

async fn start(connection: &mut PgConnection, goods_no: GoodsNo, stock: Stock) -> Result<Goods, sqlx::Error> {
    // The time is taken here, under the lock, so that the sales of a SKU have the order of their times.
    let row = sqlx::query!(
        "with started as (
             update goods set sale = sale + 1, stock_initial = $2, on_hand = $2,
                 version = version + 1, fence = 0, fence_handover = 0
             where goods_no = $1
             returning goods_no, sale, stock_initial
         )
         insert into sales (goods_no, sale, stock_initial, started_at)
         select goods_no, sale, stock_initial, clock_timestamp() from started
         returning sale",
        goods_no.get(),
        stock.get(),
    )
    .fetch_one(connection)
    .await?;
    Ok(Goods { goods_no, sale: row.sale, stock_initial: stock.get(), on_hand: stock.get() })
}
