//! Every strategy of the service against a real Postgres, ZooKeeper and Redis, without HTTP: one buyer, and several for
//! one SKU at once. `loadgen compare`, and not this bench, checks what was sold.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use bench::{ClosedLoop, Error};
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use demo_service::app::App;
use demo_service::config::Config;
use demo_service::sale::{GoodsNo, NewStock, Purchase, Quantity, Stock};
use demo_service::strategy::entry::Entry;
use demo_service::strategy::registry::STRATEGIES;
use testbed::{Postgres, PostgresConfig, Redis, RedisConfig, ZooKeeper, ZooKeeperConfig};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Buyers of one SKU at the same time.
const BUYERS: [usize; 2] = [1, 8];

/// More than could be sold in a year of benches.
const STOCK: i64 = 1 << 40;

/// The stock of a sale that has a row for each unit: more than are sold in one bench.
const UNIT_ROWS: i64 = 100_000;

/// Times one purchase, from the lock to the committed order.
fn deductions(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let shop = runtime.block_on(Shop::open()).expect("Postgres, ZooKeeper, Redis and the service");
    let mut group = c.benchmark_group("deduction");
    group.sampling_mode(SamplingMode::Flat);
    for entry in STRATEGIES {
        for buyers in BUYERS {
            // Criterion calls the function once for each sample. The buyers stay for all of them.
            let mut buying = None;
            group.bench_function(BenchmarkId::new(entry.name, buyers), |b| {
                let buying = buying
                    .get_or_insert_with(|| runtime.block_on(shop.sell_to(buyers, entry)).expect("everybody buys"));
                b.to_async(&runtime).iter_custom(async |rounds| buying.time(rounds).await.expect("the SKU is sold"));
            });
            if let Some(buying) = buying {
                runtime.block_on(buying.stop());
            }
        }
    }
    group.finish();
    runtime.block_on(shop.close());
}

/// One instance of the service, on throwaway servers.
struct Shop {
    app: Arc<App>,
    /// Decides tickets, and writes the orders that a gate has promised.
    upkeep: JoinHandle<()>,
    // Kept for as long as the service runs.
    _servers: (Postgres, ZooKeeper, Redis),
}

impl Shop {
    async fn open() -> Result<Self, Error> {
        let servers = tokio::try_join!(
            Postgres::start(PostgresConfig::default()),
            ZooKeeper::start(ZooKeeperConfig::default()),
            Redis::start(RedisConfig::default()),
        )?;
        let database_url = servers.0.url("postgres");
        let zookeeper = servers.1.connect_string();
        let redis = servers.2.url();
        let words = ["demo-service", "--database-url", &database_url, "--zookeeper", &zookeeper, "--redis-url", &redis];
        // The herd of zk-naive is unfair, so a buyer may wait for a long time.
        let limits = ["--zk-sessions", "3", "--lock-wait", "10m", "--db-timeout", "11m", "--http-timeout", "12m"];
        let config = Config::parse_from_env(words.into_iter().chain(limits).map(OsString::from));
        let app = App::open(config.map_err(Error::refused("read the settings"))?).await;
        let app = Arc::new(app.map_err(Error::refused("open the service"))?);
        let upkept = Arc::clone(&app);
        let upkeep = tokio::spawn(async move { upkept.upkeep().await });
        Ok(Self { app, upkeep, _servers: servers })
    }

    /// Starts a sale under the strategy. Then `buyers` buyers buy one unit each, one after the other.
    async fn sell_to(&self, buyers: usize, entry: &'static Entry) -> Result<ClosedLoop, Error> {
        let goods_no: GoodsNo = "1".parse().expect("BUG: 1 is a SKU");
        let units = if entry.name == "pg-units" { UNIT_ROWS } else { STOCK };
        let stock = Stock::new(units).expect("BUG: the stock is positive");
        let started = self.app.start_sale(goods_no, NewStock::Units(stock), Some(entry), None).await;
        started.map_err(Error::refused("start a sale"))?;
        let purchase = Purchase::of_one(goods_no, Quantity::ONE, None);
        let buyer = || {
            let app = Arc::clone(&self.app);
            let purchase = purchase.clone();
            move || buy(Arc::clone(&app), entry, purchase.clone())
        };
        ClosedLoop::start((0..buyers).map(|_| buyer())).await
    }

    async fn close(self) {
        self.app.drained().await;
        self.upkeep.abort();
        self.app.shared.sessions.close().await;
        self.app.shared.store.close();
    }
}

async fn buy(app: Arc<App>, entry: &'static Entry, purchase: Purchase) -> Result<(), Error> {
    let slot = app.try_slot(tokio::time::Instant::now());
    let slot = slot.ok_or_else(|| Error::Failed("the service is at its limit".to_owned()))?;
    let sold = app.purchase(purchase, Some(entry), slot).await;
    sold.map(drop).map_err(|failure| Error::Failed(format!("{}: nothing was sold: {failure}", entry.name)))
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    targets = deductions
}
criterion_main!(benches);
