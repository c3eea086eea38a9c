//! Measures what a crowd buys of one SKU, side by side.

use bench::Error;
use program::tell;
use stats::as_f64;
use stats::figures::figure;

use super::DB_CONNECTIONS;
use crate::deployment::{Deployment, GOODS_NO, GUARDED_GOODS, SOLD_OUT_GOODS_NO};
use crate::generators::pgbench::{Script, pgbench};
use crate::generators::{Counted, ExpectedAnswers, wrk};
use crate::results::Ledger;
use crate::results::hot_stock::{HotStockRow, MERGE, Round, Seller, Sold};

/// Lets the crowd buy on each side, one after the other, and counts what was ordered.
pub(super) async fn round(
    name: &str,
    deployment: &mut Deployment,
    crowd: &mut HotStockRow,
    seconds: u16,
    is_merge_first: bool,
    ledgers: &mut Vec<Ledger>,
) -> Result<Round, Error> {
    let mut sides = Seller::ALL;
    if !is_merge_first {
        sides.reverse();
    }
    let mut round = Round::new();
    for side in sides {
        let newest = deployment.newest_order().await?;
        let counted = measure(deployment, side, crowd, seconds).await?;
        let (ordered, commits) = deployment.written_after(newest).await?;
        if side == MERGE && commits > 0 {
            let size = (ordered + commits / 2) / commits;
            crowd.batch = u16::try_from(size).unwrap_or(u16::MAX);
        }
        // pgbench waits for every answer. wrk does not count the answers to its last requests.
        let (counted_sales, left) = match side {
            Seller::Path => (0, 0),
            Seller::Batches => (counted.total, 0),
            Seller::Strategy(_) => (counted.total, crowd.connections.into()),
        };
        ledgers.push(Ledger { counted: counted_sales, ordered, left });
        tell(format_args!("{name}, {} at {}: {}/s", side.name(), crowd.connections, figure(counted.per_s)));
        let per_commit = (commits > 0).then(|| as_f64(ordered) / as_f64(commits));
        round.insert(side, Sold { counted, per_commit });
    }
    Ok(round)
}

async fn measure(
    deployment: &mut Deployment,
    side: Seller,
    crowd: &HotStockRow,
    seconds: u16,
) -> Result<Counted, Error> {
    let (strategy, goods_no, answers, flags) = match side {
        Seller::Strategy(strategy) => (strategy, goods_of(strategy), ExpectedAnswers::Successes, &[][..]),
        Seller::Path => ("pg-merge", SOLD_OUT_GOODS_NO, ExpectedAnswers::Refusals, &["--remember-sold-out"][..]),
        Seller::Batches => {
            let script = Script::batch((GOODS_NO, deployment.sale_of(GOODS_NO).await?), crowd.batch);
            // One client, because one worker of an instance sends the batches of a SKU.
            return pgbench(&deployment.database_url, &script, 1, seconds).await;
        }
    };
    let served = deployment.service_with(DB_CONNECTIONS, flags).await?;
    let url = format!("{}/goods-stock/{goods_no}?strategy={strategy}", served.url);
    let counted = wrk(&url, crowd.connections, seconds, answers).await?;
    // When the service has ended, the requests that wrk did not wait for are done as well.
    served.stop().await?;
    Ok(counted)
}

/// Returns the SKU that a strategy sells: one that its family guards.
fn goods_of(strategy: &str) -> i64 {
    let family = match strategy {
        "zk-merge" => "zk-queue-fenced",
        "zk-cohort" => "zk-queue",
        other => other,
    };
    GUARDED_GOODS.iter().find(|(_, guard)| *guard == family).map_or(GOODS_NO, |(goods_no, _)| *goods_no)
}
