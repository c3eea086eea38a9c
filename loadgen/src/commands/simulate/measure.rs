//! The drains that are measured, their repetitions, and the medians of each kind.

use program::Progress;
use simulation::{Measured, Point, Recipe};
use stats::median;

use super::drain::DrainServer;
use crate::error::Error;

/// Drains per point. Each figure of a point is their median.
const REPEATS: usize = 3;

/// A drain that takes longer is not repeated: among thousands of hand-overs, a slow one does not matter.
const REPEATED_BELOW_MS: f64 = 5_000.0;

/// Drains of a server that are not counted: its first ones are slower.
const WARM_UPS: u32 = 2;
const WARM_UP_WAITERS: u32 = 50;

/// Measures a drain of every recipe with every number of waiters on a throwaway server.
pub(super) async fn measure(
    recipes: &[Recipe],
    numbers: &[u32],
    sessions: Option<u32>,
    progress: &Progress,
) -> Result<Vec<Measured>, Error> {
    progress.stage("starting ZooKeeper");
    let mut lab = DrainServer::start().await?;
    progress.stage("warming ZooKeeper up");
    for _ in 0..WARM_UPS {
        for recipe in recipes {
            lab.drain(*recipe, WARM_UP_WAITERS, recipe.sessions_default(WARM_UP_WAITERS)).await?;
        }
    }
    let mut measured = Vec::new();
    for recipe in recipes {
        let mut points = Vec::new();
        for waiters in numbers {
            progress.stage(&format!("measuring {} with {waiters} waiters", recipe.name()));
            let sessions = sessions.unwrap_or_else(|| recipe.sessions_default(*waiters)).min(*waiters);
            let mut drains = Vec::with_capacity(REPEATS);
            while drains.len() < REPEATS && drains.last().is_none_or(|last: &Point| last.drain_ms < REPEATED_BELOW_MS) {
                drains.push(lab.drain(*recipe, *waiters, sessions).await?);
            }
            points.extend(middle(&drains));
        }
        measured.push(Measured { recipe: *recipe, points });
    }
    Ok(measured)
}

/// Returns the medians of the figures of drains of one kind. Of an even number of counts, it takes the lower one of the middle
/// two.
fn middle(drains: &[Point]) -> Option<Point> {
    let count = |of: fn(&Point) -> u64| {
        let mut counts: Vec<u64> = drains.iter().map(of).collect();
        counts.sort_unstable();
        counts.get(counts.len().saturating_sub(1) / 2).copied()
    };
    let time = |of: fn(&Point) -> Option<f64>| median(&drains.iter().filter_map(of).collect::<Vec<_>>());
    let Point { waiters, sessions, .. } = *drains.first()?;
    Some(Point {
        waiters,
        sessions,
        notifications: count(|point| point.notifications)?,
        requests: count(|point| point.requests)?,
        bytes: count(|point| point.bytes)?,
        handover_ms: time(|point| point.handover_ms),
        drain_ms: time(|point| Some(point.drain_ms))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_median_of_each_figure() {
        let drain = |requests, drain_ms| Point { waiters: 7, sessions: 2, requests, drain_ms, ..Point::default() };
        let point = middle(&[drain(10, 3.0), drain(30, 1.0), drain(20, 2.0)]).unwrap();
        assert_eq!((point.waiters, point.sessions, point.requests), (7, 2, 20));
        assert!((point.drain_ms - 2.0).abs() < 1e-9);
        assert_eq!(point.handover_ms, None);
        assert_eq!(middle(&[]), None);
    }
}
