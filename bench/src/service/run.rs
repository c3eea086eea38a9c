//! A whole run: set up, measure in pairs, write the report.

mod hot_stock;

use std::thread;

use bench::Error;
use program::{Exit, FromSystem as _, print, tell};
use stats::figures::{count, figure, ms};

use crate::cli::ServiceBenchSettings;
use crate::deployment::{ADMIN_TOKEN, Deployment, GOODS_NO, SOLD_OUT_GOODS_NO};
use crate::generators::pgbench::{Script, pgbench};
use crate::generators::{Counted, ExpectedAnswers, Target, counted_by_loadgen, failed, loadgen, wrk};
use crate::results::hot_stock::HotStockRow;
use crate::results::{Ledger, Pair, ServiceResults, ServiceRow};

/// Connections of the service to Postgres while its stock is looked at: its default.
const DB_CONNECTIONS: u16 = 20;

/// The SKU that our load generator sells. It starts a sale of it in every run.
const LOADGEN_GOODS_NO: i64 = 3;

/// More than our load generator sells in any measurement.
const LOADGEN_STOCK: u32 = 100_000_000;

/// Users of the burst whose starts are timed.
const BURST_USERS: u16 = 1500;

/// Measures and reports.
pub(crate) async fn run(settings: &ServiceBenchSettings) -> Result<Exit, Error> {
    tell("starting Postgres and ZooKeeper");
    let mut deployment = Deployment::start(settings.demo_service.as_deref()).await?;
    let mut results = nothing(settings, conditions(settings, &deployment.version().await?));
    for repetition in 0..=settings.reps {
        // Both sides take turns to be first, so what one leaves behind meets the other as often.
        let is_service_first = repetition.is_multiple_of(2);
        let name = if repetition == 0 { "warm-up".to_owned() } else { format!("repetition {repetition}") };
        for row in &mut results.purchases {
            let pair = purchases_at(
                &mut deployment,
                row.connections,
                settings.seconds,
                is_service_first,
                &mut results.ledgers,
            );
            keep(&name, "purchases", row, pair.await?, repetition);
        }
        for crowd in &mut results.crowds {
            let round = hot_stock::round(
                &name,
                &mut deployment,
                crowd,
                settings.seconds,
                is_service_first,
                &mut results.ledgers,
            );
            let round = round.await?;
            if repetition > 0 {
                crowd.rounds.push(round);
            }
        }
        let service = deployment.service(DB_CONNECTIONS).await?;
        let bare = deployment.bare().await?;
        let look = |url: &str| format!("{url}/goods/{GOODS_NO}");
        for row in &mut results.looks {
            let load =
                async |url: &str| wrk(&look(url), row.connections, settings.seconds, ExpectedAnswers::Successes).await;
            let pair = alternately(is_service_first, async || load(&service.url).await, async || load(&bare.url).await);
            let pair = pair.await?;
            keep(&name, "looks", row, pair, repetition);
        }
        for row in &mut results.timings {
            let pair = timed_at(&mut deployment, &service.url, row.connections, settings.seconds).await?;
            keep(&name, "purchases by loadgen and wrk", row, pair, repetition);
        }
        for row in &mut results.rates {
            let pair = rates_at(&deployment, &service.url, row.connections, settings.seconds, is_service_first).await?;
            keep(&name, "refusals to loadgen and wrk", row, pair, repetition);
        }
        let spread_ms = spread_of_burst(&deployment, &service.url).await?;
        tell(format_args!("{name}, {} users started within {}", count(BURST_USERS.into()), ms(spread_ms)));
        if repetition > 0 {
            results.spreads_ms.push(spread_ms);
        }
    }
    print(&results.render()).map_err(Error::system("write to standard output"))?;
    Ok(if results.is_right() { Exit::Passed } else { Exit::Failed })
}

fn keep(name: &str, what: &str, row: &mut ServiceRow, pair: Pair, repetition: u16) {
    let Pair { service, floor } = pair;
    let [service_per_s, floor_per_s] = [service, floor].map(|counted| figure(counted.per_s));
    tell(format_args!("{name}, {what} at {}: {service_per_s}/s beside {floor_per_s}/s", row.connections));
    if repetition > 0 {
        row.pairs.push(pair);
    }
}

/// Measures both sides, one after the other.
async fn alternately(
    is_service_first: bool,
    service: impl AsyncFnOnce() -> Result<Counted, Error>,
    floor: impl AsyncFnOnce() -> Result<Counted, Error>,
) -> Result<Pair, Error> {
    if is_service_first {
        let service = service().await?;
        Ok(Pair { service, floor: floor().await? })
    } else {
        let floor = floor().await?;
        Ok(Pair { service: service().await?, floor })
    }
}

/// Lets `buyers` buyers buy through the service, and clients of pgbench without it. Counts the orders.
async fn purchases_at(
    deployment: &mut Deployment,
    buyers: u16,
    seconds: u16,
    is_service_first: bool,
    ledgers: &mut Vec<Ledger>,
) -> Result<Pair, Error> {
    let served = deployment.service(buyers).await?;
    let url = format!("{}/goods-stock/{GOODS_NO}", served.url);
    let database_url = deployment.database_url.clone();
    let service = async || wrk(&url, buyers, seconds, ExpectedAnswers::Successes).await;
    let sale = deployment.sale_of(GOODS_NO).await?;
    let floor = async || pgbench(&database_url, &Script::purchase((GOODS_NO, sale)), buyers, seconds).await;
    let before = deployment.orders().await?;
    let pair = alternately(is_service_first, service, floor).await?;
    // When the service has ended, the requests that wrk did not wait for are done as well.
    served.stop().await?;
    let counted = pair.service.total + pair.floor.total;
    ledgers.push(Ledger { counted, ordered: deployment.orders().await? - before, left: buyers.into() });
    Ok(pair)
}

fn target(deployment: &Deployment, url: &str) -> Target {
    let [database_url, zookeeper] = [&deployment.database_url, &deployment.zookeeper].map(String::clone);
    let loadgen = deployment.loadgen.clone();
    Target {
        loadgen,
        url: url.to_owned(),
        database_url,
        zookeeper,
        admin_token: ADMIN_TOKEN,
        goods_no: LOADGEN_GOODS_NO,
    }
}

/// Lets our load generator and wrk buy at the same time, with `users` users each. So both meet the same stalls of the
/// disk and the same crowd.
async fn timed_at(deployment: &mut Deployment, url: &str, users: u16, seconds: u16) -> Result<Pair, Error> {
    let target = target(deployment, url);
    let ours = loop_of_loadgen(&target, users, seconds, LOADGEN_STOCK);
    let path = format!("{url}/goods-stock/{GOODS_NO}");
    let sales = deployment.sales_begun(LOADGEN_GOODS_NO).await?;
    let theirs = async {
        // wrk starts with the sale, because our load generator sets up first.
        deployment.wait_for_sale(LOADGEN_GOODS_NO, sales).await?;
        wrk(&path, users, seconds, ExpectedAnswers::Successes).await
    };
    let (service, floor) = tokio::try_join!(ours, theirs)?;
    Ok(Pair { service, floor })
}

/// Lets our load generator and wrk ask one after the other for a SKU that is sold out. There an answer costs the service
/// least, so the generator counts most.
async fn rates_at(
    deployment: &Deployment,
    url: &str,
    users: u16,
    seconds: u16,
    is_ours_first: bool,
) -> Result<Pair, Error> {
    let ours = async || loop_of_loadgen(&target(deployment, url), users, seconds, 1).await;
    let path = format!("{url}/goods-stock/{SOLD_OUT_GOODS_NO}");
    alternately(is_ours_first, ours, async || wrk(&path, users, seconds, ExpectedAnswers::Refusals).await).await
}

/// Lets `users` users of our load generator buy again and again.
async fn loop_of_loadgen(target: &Target, users: u16, seconds: u16, stock: u32) -> Result<Counted, Error> {
    let flags = [format!("--users={users}"), format!("--duration={seconds}s"), format!("--stock={stock}")];
    let report = loadgen(target, &flags).await?;
    let counted = report.trials.first().and_then(|trial| counted_by_loadgen(trial, users));
    counted.ok_or_else(|| failed("loadgen", "counted nothing", &report.caveats.join("\n")))
}

/// Returns the time in which the users of a burst start, in milliseconds.
async fn spread_of_burst(deployment: &Deployment, url: &str) -> Result<f64, Error> {
    let report = loadgen(&target(deployment, url), &[format!("--users={BURST_USERS}")]).await?;
    let trial = report.trials.first();
    let trial = trial.ok_or_else(|| failed("loadgen", "timed no starts", &report.caveats.join("\n")))?;
    Ok(trial.generator.start_spread_ms)
}

/// Makes results without measurements, with a row for each number of connections.
fn nothing(settings: &ServiceBenchSettings, conditions: Vec<String>) -> ServiceResults {
    let ascending = |connections: &[u16]| {
        let mut connections = connections.to_vec();
        connections.sort_unstable();
        connections.dedup();
        connections.into_iter()
    };
    let rows = |connections: &[u16]| -> Vec<ServiceRow> {
        ascending(connections).map(|connections| ServiceRow { connections, pairs: Vec::new() }).collect()
    };
    let crowds =
        ascending(&settings.crowds).map(|connections| HotStockRow { connections, batch: 1, rounds: Vec::new() });
    ServiceResults {
        conditions,
        purchases: rows(&settings.buyers),
        crowds: crowds.collect(),
        looks: rows(&settings.lookers),
        timings: rows(&settings.users),
        rates: rows(&settings.users),
        spreads_ms: Vec::new(),
        ledgers: Vec::new(),
    }
}

fn conditions(settings: &ServiceBenchSettings, postgres: &str) -> Vec<String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let ServiceBenchSettings { reps, seconds, .. } = settings;
    vec![
        format!(
            "{reps} × {seconds} s of each, after one that warms up; the sides of a pair in alternating order, and both at \
             once for the times of the load generator"
        ),
        "a closed loop: every connection asks again as soon as it is answered".to_owned(),
        format!(
            "hot stock: one instance with {DB_CONNECTIONS} connections to Postgres, the sides one after the other in \
             alternating order; one client of pgbench sends batches of the size that `pg-merge` reached last"
        ),
        "purchases: one unit of the same SKU each, by the same statements in one transaction over as many connections to \
         Postgres; commits are durable"
            .to_owned(),
        format!(
            "load generator, service and servers share one machine with {cores} cores ({}); Postgres {postgres}",
            std::env::consts::ARCH
        ),
    ]
}
