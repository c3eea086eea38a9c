//! The throwaway servers, the service and the bare handler, each in a process of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::Error;
use program::{FromSystem as _, raise_file_limit};
use sqlx::{Connection, PgConnection};
use testbed::{Postgres, PostgresConfig, Process, ProcessConfig, Stdout, ZooKeeper, ZooKeeperConfig};
use tokio::time::{Instant, sleep};

/// Deadlines that no buyer of a crowd exceeds, because each refusal would end the measurement.
const PATIENCE: [&str; 6] = ["--lock-wait", "20s", "--db-timeout", "25s", "--http-timeout", "29s"];

/// The SKU that is sold and looked at.
pub(crate) const GOODS_NO: i64 = 1;

/// A SKU of which nothing is left.
pub(crate) const SOLD_OUT_GOODS_NO: i64 = 2;

/// SKUs like [`GOODS_NO`], each guarded by another family.
pub(crate) const GUARDED_GOODS: [(i64, &str); 3] = [(4, "zk-queue"), (5, "zk-queue-fenced"), (6, "zk-owner")];

/// The administrator's token for the service, which listens on this machine alone, and not for long.
pub(crate) const ADMIN_TOKEN: &str = "bench-service";

/// More than is sold in any run.
const STOCK: i64 = 1_000_000_000;

/// Time limit for our load generator to begin to sell.
const SELLING_WITHIN: Duration = Duration::from_secs(30);

/// Pause between two checks whether it sells.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Time limit for a process to listen.
const LISTENING_WITHIN: Duration = Duration::from_secs(30);

/// The servers, and the queries that they answer.
pub(crate) struct Deployment {
    pub(crate) database_url: String,
    pub(crate) zookeeper: String,
    /// Our load generator.
    pub(crate) loadgen: PathBuf,
    service: PathBuf,
    database: PgConnection,
    // Kept for as long as they are used.
    _servers: (Postgres, ZooKeeper),
}

/// A process that serves HTTP until it is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    process: Process,
}

impl Served {
    /// Stops the process, and waits until it has finished its work.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.process.stop().await?;
        Ok(())
    }
}

impl Deployment {
    /// Starts the servers, and a sale.
    pub(crate) async fn start(service: Option<&Path>) -> Result<Self, Error> {
        // wrk inherits the limit, and needs an open file for each connection.
        raise_file_limit();
        let service = match service {
            Some(service) => service.to_owned(),
            None => env::current_exe().map_err(Error::system("find this program"))?.with_file_name("demo-service"),
        };
        let loadgen = service.with_file_name("loadgen");
        if let Some(missing) = [&service, &loadgen].into_iter().find(|program| !program.is_file()) {
            let remedy = "build it with `cargo build --release`, or name another service with --demo-service";
            return Err(Error::Failed(format!("{} not found; {remedy}", missing.display())));
        }
        let servers = tokio::try_join!(
            Postgres::start(PostgresConfig::default()),
            ZooKeeper::start(ZooKeeperConfig::default()),
        )?;
        let database_url = servers.0.url("postgres");
        let zookeeper = servers.1.connect_string();
        let database = PgConnection::connect(&database_url).await.map_err(Error::refused("log in to postgres"))?;
        let mut deployment = Self { database_url, zookeeper, loadgen, service, database, _servers: servers };
        // The service makes the tables at its first start.
        deployment.service(1).await?.stop().await?;
        let guarded = [(GOODS_NO, STOCK, "pg-row"), (SOLD_OUT_GOODS_NO, 0, "pg-row")].into_iter();
        for (goods_no, stock, guard) in guarded.chain(GUARDED_GOODS.map(|(goods_no, guard)| (goods_no, STOCK, guard))) {
            let put = "insert into goods (goods_no, sale, stock_initial, on_hand, guard, strategy)
                       values ($1, 1, $2, $2, $3, 'pg-conditional')";
            let put = sqlx::query(put).bind(goods_no).bind(stock).bind(guard);
            put.execute(&mut deployment.database).await.map_err(Error::refused("put goods on sale in postgres"))?;
        }
        Ok(deployment)
    }

    /// Starts an instance of the service with this number of connections to Postgres.
    pub(crate) async fn service(&self, db_connections: u16) -> Result<Served, Error> {
        self.service_with(db_connections, &[]).await
    }

    /// Starts an instance like [`service`](Self::service), with further flags.
    pub(crate) async fn service_with(&self, db_connections: u16, flags: &[&str]) -> Result<Served, Error> {
        let config = ProcessConfig::new(&self.service)
            .args(["--listen", "127.0.0.1:0", "--strategy", "pg-conditional", "--instance", "bench-service"])
            .args(["--db-connections".to_owned(), db_connections.to_string()])
            .args(PATIENCE)
            .args(flags)
            .env("ADMIN_TOKEN", ADMIN_TOKEN)
            .env("DATABASE_URL", &self.database_url)
            .env("ZOOKEEPER_CONNECT", &self.zookeeper);
        serve("the service", config).await
    }

    /// Starts the handler that looks at nothing.
    pub(crate) async fn bare(&self) -> Result<Served, Error> {
        let program = env::current_exe().map_err(Error::system("find this program"))?;
        serve("the bare handler", ProcessConfig::new(program).args(["bare"])).await
    }

    /// Counts the orders.
    pub(crate) async fn orders(&mut self) -> Result<i64, Error> {
        let orders = sqlx::query_scalar("select count(*) from orders").fetch_one(&mut self.database);
        orders.await.map_err(Error::refused("count the orders in postgres"))
    }

    /// Returns the number of the newest order, or 0 if there is none.
    pub(crate) async fn newest_order(&mut self) -> Result<i64, Error> {
        let newest = sqlx::query_scalar("select coalesce(max(order_id), 0) from orders").fetch_one(&mut self.database);
        newest.await.map_err(Error::refused("look for the newest order in postgres"))
    }

    /// Counts the orders after this one, and the transactions that wrote them.
    pub(crate) async fn written_after(&mut self, order: i64) -> Result<(i64, i64), Error> {
        let written = "select count(*), count(distinct xmin::text::bigint) from orders where order_id > $1";
        let written = sqlx::query_as(written).bind(order).fetch_one(&mut self.database);
        written.await.map_err(Error::refused("count orders and their transactions in postgres"))
    }

    /// Returns the number of the current sale of a SKU.
    pub(crate) async fn sale_of(&mut self, goods_no: i64) -> Result<i64, Error> {
        let sale = sqlx::query_scalar("select sale from goods where goods_no = $1").bind(goods_no);
        sale.fetch_one(&mut self.database).await.map_err(Error::refused("look up a sale in postgres"))
    }

    /// Returns the number of the current sale of a SKU if something was sold in it, and 0 otherwise.
    pub(crate) async fn sales_begun(&mut self, goods_no: i64) -> Result<i64, Error> {
        let begun = "select coalesce(max(sale), 0) from goods where goods_no = $1
                     and exists (select from order_lines as line where line.goods_no = $1 and line.sale = goods.sale)";
        let begun = sqlx::query_scalar(begun).bind(goods_no).fetch_one(&mut self.database);
        begun.await.map_err(Error::refused("look whether a sale has begun in postgres"))
    }

    /// Waits until something is sold in a later sale of a SKU than this one.
    pub(crate) async fn wait_for_sale(&mut self, goods_no: i64, after: i64) -> Result<(), Error> {
        let deadline = Instant::now() + SELLING_WITHIN;
        while self.sales_begun(goods_no).await? <= after {
            if Instant::now() > deadline {
                return Err(Error::Failed(format!("loadgen sold nothing within {SELLING_WITHIN:?}")));
            }
            sleep(LOOK_PAUSE).await;
        }
        Ok(())
    }

    /// Returns the version of Postgres.
    pub(crate) async fn version(&mut self) -> Result<String, Error> {
        let version = sqlx::query_scalar("select current_setting('server_version')").fetch_one(&mut self.database);
        version.await.map_err(Error::refused("ask for the version in postgres"))
    }
}

async fn serve(name: &'static str, config: ProcessConfig) -> Result<Served, Error> {
    let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Lines, ..config })?;
    let line = process.line(LISTENING_WITHIN).await?;
    match line.as_deref().and_then(|line| line.strip_prefix("listening on ")) {
        Some(url) => Ok(Served { url: url.to_owned(), process }),
        None => Err(Error::Failed(format!(
            "{name} did not come up within {LISTENING_WITHIN:?}; its log ends with:\n{}",
            process.log_tail()
        ))),
    }
}
