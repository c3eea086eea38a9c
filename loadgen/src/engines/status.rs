//! What a status means, in a log that has no answers.

use buyers::script::{Meanings, Pattern};

use super::logged::LoggedOutcome;

/// The meanings of statuses, as the patterns of a shop have them.
pub(super) struct StatusMeanings {
    /// Each meaning with its patterns. `None` stands for queued, which is no outcome.
    meanings: [(Option<LoggedOutcome>, Vec<Statuses>); 5],
}

/// A pattern without what is in the answer.
struct Statuses {
    /// If there are none, it takes every status.
    statuses: Vec<u16>,
    /// Whether an answer needs values, headers or a text, too. Then its status alone does not tell the outcome.
    needs_more: bool,
}

impl StatusMeanings {
    pub(super) fn of(meanings: &Meanings) -> StatusMeanings {
        let statuses = |patterns: &[Pattern]| {
            let of = |pattern: &Pattern| Statuses {
                statuses: pattern.statuses.clone(),
                needs_more: pattern.needs_more_than_status(),
            };
            patterns.iter().map(of).collect::<Vec<_>>()
        };
        StatusMeanings {
            meanings: [
                (Some(LoggedOutcome::Sold), statuses(&meanings.sold)),
                (None, statuses(&meanings.queued)),
                (Some(LoggedOutcome::SoldOut), statuses(&meanings.sold_out)),
                (Some(LoggedOutcome::OverLimit), statuses(&meanings.over_limit)),
                (Some(LoggedOutcome::Refused), statuses(&meanings.refused)),
            ],
        }
    }

    /// Returns the outcome that a status tells. `None`: it tells none, because several meanings have it, because the answer needs
    /// more, or because the buyer is queued.
    pub(super) fn outcome(&self, status: u16) -> Option<LoggedOutcome> {
        let has = |pattern: &&Statuses| pattern.statuses.is_empty() || pattern.statuses.contains(&status);
        let of_meaning = |(outcome, patterns): &(Option<LoggedOutcome>, Vec<Statuses>)| {
            let mut possible = patterns.iter().filter(has).peekable();
            possible.peek().is_some().then_some(())?;
            Some(outcome.filter(|_| !possible.any(|pattern| pattern.needs_more)))
        };
        let mut possible = self.meanings.iter().filter_map(of_meaning);
        match (possible.next(), possible.next()) {
            (None, _) => Some(LoggedOutcome::Error),
            (Some(outcome), None) => outcome,
            (Some(_), Some(_)) => None,
        }
    }
}
