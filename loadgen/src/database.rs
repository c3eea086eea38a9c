//! What the database knows of a sale. The generator asks it directly, as the service is what is being judged.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::audit::OrderRow;
use crate::error::Error;
use crate::service::Goods;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// The service's database, read only.
#[derive(Debug, Clone)]
pub(crate) struct Database(PgPool);

impl Database {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling leaves nothing behind.
    pub(crate) async fn connect(url: &str) -> Result<Database, Error> {
        let options = PgPoolOptions::new().max_connections(2).acquire_timeout(CONNECT_WITHIN);
        options.connect(url).await.map(Database).map_err(Error::postgres("connect to the database"))
    }

    /// The stock of a SKU.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the SKU is not there or the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn goods(&self, goods_no: i64) -> Result<Goods, Error> {
        sqlx::query_as!(Goods, "select sale, stock_initial, on_hand from goods where goods_no = $1", goods_no)
            .fetch_one(&self.0)
            .await
            .map_err(Error::postgres("read the stock"))
    }

    /// All orders of a sale.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn orders(&self, goods_no: i64, sale: i64) -> Result<Vec<OrderRow>, Error> {
        sqlx::query_as!(
            OrderRow,
            "select order_id, quantity from orders where goods_no = $1 and sale = $2",
            goods_no,
            sale
        )
        .fetch_all(&self.0)
        .await
        .map_err(Error::postgres("read the orders"))
    }

    /// How many orders a sale has.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn order_count(&self, goods_no: i64, sale: i64) -> Result<u64, Error> {
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from orders where goods_no = $1 and sale = $2"#,
            goods_no,
            sale
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("count the orders"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// The version of the server, such as `15.18`.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = sqlx::query_scalar!(r#"select current_setting('server_version') as "version!""#)
            .fetch_one(&self.0)
            .await
            .map_err(Error::postgres("read the version"))?;
        // Distributions add their own to it: `15.18 (Debian 15.18-0+deb12u1)`.
        Ok(version.split_whitespace().next().unwrap_or_default().to_owned())
    }
}
