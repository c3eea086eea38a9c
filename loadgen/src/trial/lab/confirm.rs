//! When the buyers of a trial had their orders. Where the answer comes after the commit, the answer tells. Otherwise the database does.

use std::time::{Duration, SystemTime};

use buyers::load::LoadResult;
use buyers::tally::{Told, ToldOrder};
use stats::as_ms;

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
/// each of them waited for that. Returns also how many milliseconds after a strike the books agreed with the buyers: infinite if they
/// never did, and absent without a strike, or where the answer comes after the commit.
pub(super) async fn confirm(
    deployment: &Deployment,
    strategy: &Strategy,
    (opened, struck_at): (&[Goods], Option<SystemTime>),
    bought: &mut LoadResult,
    left_out: &mut LeftOut,
) -> Result<(Vec<Duration>, Option<f64>), Error> {
    if strategy.answers == Answers::AtCommit {
        return Ok((bought.tally.sold_at.clone(), None));
    }
    let commits = deployment.database.commits(opened).await?;
    if !commits.are_noted {
        left_out.note("the commits of the orders", WRITTEN);
    }
    let confirmed_at = confirmed_at(&commits, &bought.tally.told, bought.released_at);
    let times = &mut bought.tally.latency.confirmed_sold;
    let mut known = Vec::with_capacity(confirmed_at.len());
    let struck_at = struck_at.map(|at| at.duration_since(bought.released_at).unwrap_or_default());
    let books_agree = struck_at.map(|at| books_agree_after(at, &confirmed_at));
    for (promised, confirmed) in confirmed_at {
        match confirmed {
            Some(confirmed) => {
                times.record(confirmed.saturating_sub(promised.intended));
                known.push(confirmed);
            }
            None => times.record_unserved(1),
        }
    }
    Ok((known, books_agree))
}

/// Returns when each promised order was committed, if it was, from the release on.
fn confirmed_at(commits: &Commits, told: &[Told], released_at: SystemTime) -> Vec<(ToldOrder, Option<Duration>)> {
    let promised = told.iter().flat_map(|told| &told.promised);
    let confirmed = |promised: &ToldOrder| {
        let at = commits.at.get(&promised.order_id)?;
        // A clock that was set back shows a commit before the release.
        Some(at.duration_since(released_at).unwrap_or_default())
    };
    promised.map(|promised| (*promised, confirmed(promised))).collect()
}

/// Returns the milliseconds from a strike to the first moment at which the database had every order that a buyer had been told of.
/// Infinite if it never got one of them, before or after that moment.
fn books_agree_after(struck_at: Duration, confirmed_at: &[(ToldOrder, Option<Duration>)]) -> f64 {
    let written = confirmed_at.iter().map(|(promised, confirmed)| Some((promised.told, (*confirmed)?)));
    let Some(mut by_answer) = written.collect::<Option<Vec<_>>>() else { return f64::INFINITY };
    by_answer.sort_unstable();
    let mut agree_at = struck_at;
    for (told, confirmed) in by_answer {
        if told > agree_at {
            break;
        }
        agree_at = agree_at.max(confirmed);
    }
    as_ms(agree_at - struck_at)
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
        let promised = |order_id| ToldOrder { order_id, intended: ms(0), told: ms(10) };
        let told = [Told { promised: vec![promised(1), promised(3), promised(2)], ..Told::default() }];
        let confirmed = confirmed_at(&commits, &told, released_at).into_iter().map(|(_, confirmed)| confirmed);
        assert_eq!(confirmed.collect::<Vec<_>>(), [Some(ms(30)), None, Some(ms(0))]);
    }

    #[test]
    fn the_books_agree_once_no_told_order_is_missing() {
        let after = |orders: &[(u64, Option<u64>)]| {
            let ms = Duration::from_millis;
            let order = |(told, confirmed): &(u64, Option<u64>)| {
                (ToldOrder { told: ms(*told), ..ToldOrder::default() }, confirmed.map(ms))
            };
            books_agree_after(ms(100), &orders.iter().map(order).collect::<Vec<_>>())
        };
        assert_eq!(after(&[]), 0.0);
        assert_eq!(after(&[(20, Some(90)), (120, Some(500))]), 0.0, "nothing is missing when it strikes");
        assert_eq!(after(&[(140, Some(160)), (90, Some(150))]), 60.0, "an order that is told while another is missing");
        assert_eq!(after(&[(90, Some(150)), (151, Some(170))]), 50.0, "what is told later is as late as ever");
        assert_eq!(after(&[(90, Some(150)), (151, None)]), f64::INFINITY, "one order never comes");
    }
}
