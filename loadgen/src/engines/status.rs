//! What a status means, in a log that has no answers.

use buyers::script::{Meanings, Pattern};

use super::logged::LoggedOutcome;

/// The meanings of statuses, as the patterns of a shop have them.
pub(super) struct StatusMeanings {
    /// Each meaning with its patterns. `None` stands for queued, which is no outcome.
    meanings: [(Option<LoggedOutcome>, Vec<Statuses>); 4],
}

/// The statuses of a pattern. If there are none, it takes every status.
struct Statuses(Vec<u16>);

impl StatusMeanings {
    pub(super) fn of(meanings: &Meanings) -> StatusMeanings {
        let statuses = |patterns: &[Pattern]| {
            patterns.iter().map(|pattern| Statuses(pattern.statuses.clone())).collect::<Vec<_>>()
        };
        StatusMeanings {
            meanings: [
                (Some(LoggedOutcome::Sold), statuses(&meanings.sold)),
                (None, statuses(&meanings.queued)),
                (Some(LoggedOutcome::SoldOut), statuses(&meanings.sold_out)),
                (Some(LoggedOutcome::Refused), statuses(&meanings.refused)),
            ],
        }
    }

    /// Returns the outcome that a status tells. `None`: several meanings have it, or the buyer is queued.
    pub(super) fn outcome(&self, status: u16) -> Option<LoggedOutcome> {
        let has = |statuses: &Statuses| statuses.0.is_empty() || statuses.0.contains(&status);
        let mut possible = self.meanings.iter().filter(|(_, patterns)| patterns.iter().any(has));
        match (possible.next(), possible.next()) {
            (None, _) => Some(LoggedOutcome::Error),
            (Some((outcome, _)), None) => *outcome,
            (Some(_), Some(_)) => None,
        }
    }
}
