//! When the buyers of a trial had their orders. Where the answer comes after the commit, the answer tells. Otherwise the database does.

use std::time::{Duration, SystemTime};

use buyers::load::LoadResult;
use buyers::tally::Told;

use super::observe::LeftOut;
use crate::error::Error;
use crate::lab::commits::Commits;
use crate::lab::deployment::Deployment;
use crate::lab::service::Goods;
use crate::lab::strategy::{Answers, Strategy};

/// What stands for the commits of a server that does not note them.
const WRITTEN: &str = "track_commit_timestamp of Postgres is off, so the times count until the orders were written, which is a \
                       little earlier";

/// Returns when the orders of the buyers that were told "sold" were committed, from the release on. Adds to the tally how long
/// each of them waited for that.
pub(super) async fn confirm(
    deployment: &Deployment,
    strategy: &Strategy,
    opened: &[Goods],
    bought: &mut LoadResult,
    left_out: &mut LeftOut,
) -> Result<Vec<Duration>, Error> {
    if strategy.answers == Answers::AtCommit {
        return Ok(bought.tally.sold_at.clone());
    }
    let commits = deployment.database.commits(opened).await?;
    if !commits.are_noted {
        left_out.note("the commits of the orders", WRITTEN);
    }
    let confirmed_at = confirmed_at(&commits, &bought.tally.told, bought.released_at);
    let times = &mut bought.tally.latency.confirmed_sold;
    let mut known = Vec::with_capacity(confirmed_at.len());
    for (intended, confirmed) in confirmed_at {
        match confirmed {
            Some(confirmed) => {
                times.record(confirmed.saturating_sub(intended));
                known.push(confirmed);
            }
            None => times.record_unserved(1),
        }
    }
    Ok(known)
}

/// Returns the wish of each promised order, and when the order was committed, if it was. Both count from the release.
fn confirmed_at(commits: &Commits, told: &[Told], released_at: SystemTime) -> Vec<(Duration, Option<Duration>)> {
    let promised = told.iter().flat_map(|told| &told.promised);
    let confirmed = |order_id: &i64| {
        let at = commits.at.get(order_id)?;
        // A clock that was set back shows a commit before the release.
        Some(at.duration_since(released_at).unwrap_or_default())
    };
    promised.map(|(order_id, intended)| (*intended, confirmed(order_id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_an_order_is_never_confirmed() {
        let released_at = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let ms = Duration::from_millis;
        let at = [(1, released_at + ms(30)), (2, released_at - ms(5))].into_iter().collect();
        let commits = Commits { at, are_noted: true };
        let told = [Told { promised: vec![(1, ms(10)), (3, ms(0)), (2, ms(0))], ..Told::default() }];
        let expected = [(ms(10), Some(ms(30))), (ms(0), None), (ms(0), Some(ms(0)))];
        assert_eq!(confirmed_at(&commits, &told, released_at), expected);
    }
}
