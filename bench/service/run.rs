//! A whole run: set up, measure in pairs, write the report.

use std::io::Write as _;
use std::thread;

use bench::{Exit, tell};

use crate::cli::Settings;
use crate::error::Error;
use crate::generators::{Counted, pgbench, wrk};
use crate::results::{Ledger, Pair, Results, Row};
use crate::stage::{GOODS_NO, Stage};

/// Connections of the service to Postgres while its stock is looked at: its default.
const DB_CONNECTIONS: u16 = 20;

/// Measures and reports.
///
/// # Errors
///
/// When there can be no report.
///
/// # Cancel safety
///
/// Everything that was started is stopped, which blocks for a moment.
pub(crate) async fn run(settings: &Settings) -> Result<Exit, Error> {
    tell("starting Postgres and ZooKeeper");
    let mut stage = Stage::set(settings.demo_service.as_deref()).await?;
    let rows = |connections: &[u16]| -> Vec<Row> {
        let mut connections = connections.to_vec();
        connections.sort_unstable();
        connections.dedup();
        connections.into_iter().map(|connections| Row { connections, pairs: Vec::new() }).collect()
    };
    let conditions = conditions(settings, &stage.version().await?);
    let (purchases, looks) = (rows(&settings.buyers), rows(&settings.lookers));
    let mut results = Results { conditions, purchases, looks, ledgers: Vec::new() };
    for repetition in 0..=settings.reps {
        // Turns about, so that whatever one leaves behind meets the other as often.
        let is_service_first = repetition.is_multiple_of(2);
        let name = if repetition == 0 { "warm-up".to_owned() } else { format!("repetition {repetition}") };
        for row in &mut results.purchases {
            let pair =
                purchases_at(&mut stage, row.connections, settings.seconds, is_service_first, &mut results.ledgers);
            keep(&name, "purchases", row, pair.await?, repetition);
        }
        let (service, bare) = (stage.service(DB_CONNECTIONS).await?, stage.bare().await?);
        let look = |url: &str| format!("{url}/goods/{GOODS_NO}");
        for row in &mut results.looks {
            let load = async |url: &str| wrk(&look(url), row.connections, settings.seconds).await;
            let pair = in_turns(is_service_first, async || load(&service.url).await, async || load(&bare.url).await);
            let pair = pair.await?;
            keep(&name, "looks", row, pair, repetition);
        }
    }
    // A reader that has gone, as `head` does, is no error.
    let _ = std::io::stdout().write_all(results.render().as_bytes());
    Ok(if results.is_right() { Exit::Passed } else { Exit::Failed })
}

fn keep(name: &str, what: &str, row: &mut Row, pair: Pair, repetition: u16) {
    let Pair { service, floor } = pair;
    tell(format_args!("{name}, {what} at {}: {:.0}/s beside {:.0}/s", row.connections, service.per_s, floor.per_s));
    if repetition > 0 {
        row.pairs.push(pair);
    }
}

/// Measures both, one after the other.
async fn in_turns(
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

/// Lets so many buyers buy by way of the service, and as many clients of pgbench beside it, and counts what was ordered.
async fn purchases_at(
    stage: &mut Stage,
    buyers: u16,
    seconds: u16,
    is_service_first: bool,
    ledgers: &mut Vec<Ledger>,
) -> Result<Pair, Error> {
    let served = stage.service(buyers).await?;
    let (url, database_url) = (format!("{}/goods-stock/{GOODS_NO}", served.url), stage.database_url.clone());
    let service = async || wrk(&url, buyers, seconds).await;
    let floor = async || pgbench(&database_url, GOODS_NO, buyers, seconds).await;
    let before = stage.orders().await?;
    let pair = in_turns(is_service_first, service, floor).await?;
    // What wrk did not wait for is done when the service has ended.
    served.stop().await?;
    let counted = pair.service.total + pair.floor.total;
    ledgers.push(Ledger { counted, ordered: stage.orders().await? - before, left: buyers.into() });
    Ok(pair)
}

fn conditions(settings: &Settings, postgres: &str) -> Vec<String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let Settings { reps, seconds, .. } = settings;
    vec![
        format!("{reps} × {seconds} s of each, after one that warms up; both sides of a pair one after the other, in turns"),
        "a closed loop: every connection asks again as soon as it is answered".to_owned(),
        "purchases: one unit of the same SKU each, by the same statements in one transaction over as many connections to \
         Postgres; commits are durable"
            .to_owned(),
        format!(
            "load generator, service and servers share one machine with {cores} cores ({}); Postgres {postgres}",
            std::env::consts::ARCH
        ),
    ]
}
