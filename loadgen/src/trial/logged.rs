//! A trial whose load another engine made. The logs have what the buyers were told, and the books are read now.
//!
//! | file | has |
//! |---|---|
//! | `gathered` | the purchases of all logs, by shop and trial |
//! | `replay` | the purchases of one trial as a load, as if this program had made it |

pub(crate) mod gathered;
mod replay;

use std::time::{Duration, SystemTime};

use buyers::health::{Dropped, Processors};
use buyers::load::LoadResult;
use reqwest::Client;
use serde::{Deserialize, Serialize};
use stats::figures::things;

use self::gathered::LoggedTrial;
use self::replay::replay;
use crate::audit::shop::{Evidence, ShopBook};
use crate::error::Error;
use crate::shop::{self, Shop};
use crate::trial::any::before::BooksBefore;
use crate::trial::any::judged::judged;
use crate::trial::record::Trial;
use crate::trial::run::{Conditions, FinishedTrial};
use crate::trial::schedule::ScheduledTrial;

/// A shop whose trials are over.
pub(crate) struct LoggedShop {
    shop: Shop,
    client: Client,
    /// Its trials, in the order of time.
    trials: Vec<LoggedTrial>,
    books: JudgedBooks,
}

/// Which books a judgement uses.
pub(crate) enum JudgedBooks {
    /// The books of the shop as they are now. Nobody has noted them before the sale.
    Now,
    /// The books of the shop as they are now, beside these from before the sale.
    Since(BookedBefore),
    /// None.
    Unread,
}

/// The books of a shop from before a sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BookedBefore {
    /// When the stock was put on sale.
    pub(crate) at: SystemTime,
    pub(crate) book: ShopBook,
}

/// How far the clocks of two machines may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10);

/// What a trial lacks whose orders or units are not all explained, if nobody said how many users there were.
const UNKNOWN_USERS: &str = "whether every log is here: purchases that are in no log would explain the books; --users says how many \
                             users there were";

impl LoggedShop {
    /// Makes the trials of a shop ready to be judged.
    ///
    /// # Errors
    ///
    /// The certificate of the shop file cannot be read.
    pub(crate) fn of(shop: Shop, trials: Vec<LoggedTrial>, books: JudgedBooks) -> Result<LoggedShop, Error> {
        let client = shop::client(&shop)?;
        Ok(LoggedShop { shop, client, trials, books })
    }

    /// Returns the name of the shop.
    pub(crate) fn name(&self) -> &str {
        &self.shop.name
    }

    /// Judges a trial: replays its purchases, waits until the books are at rest, and audits them. `None` if the logs do not have it.
    ///
    /// # Errors
    ///
    /// [`Error::Reset`] if the books are not of this sale, and errors of the shop when they are read.
    pub(crate) async fn trial(
        &self,
        conditions: &Conditions,
        scheduled: ScheduledTrial<'_>,
    ) -> Result<Option<FinishedTrial>, Error> {
        let is_scheduled =
            |trial: &LoggedTrial| trial.block == scheduled.block && trial.users == scheduled.subject.users;
        let Some(number) = self.trials.iter().position(is_scheduled) else { return Ok(None) };
        let logged = &self.trials[number];
        let bought = LoadResult {
            tally: replay(logged),
            // Buyers that buy again and again may share a rate. A buyer that was still busy makes its next purchase late.
            is_open: !logged.is_once,
            dropped: Dropped::default(),
            released_at: logged.released_at,
            cpu_time: None,
            processors: Processors::default(),
        };
        let is_last = number + 1 == self.trials.len();
        let before = match &self.books {
            JudgedBooks::Unread => BooksBefore::Useless("--no-books was given"),
            _ if !is_last => BooksBefore::Useless("they are of the last trial alone"),
            JudgedBooks::Now => BooksBefore::Unknown,
            JudgedBooks::Since(before) => {
                self.ensure_between(before.at, number)?;
                BooksBefore::Known(&before.book)
            }
        };
        let unlogged = if logged.is_complete { 0 } else { u64::MAX };
        let known = (&before, unlogged, logged.answers_seen);
        let judged = judged(&self.shop, &self.client, (conditions, scheduled), bought, known);
        let mut finished = judged.await?;
        if matches!(before, BooksBefore::Unknown) {
            self.ensure_of_this_sale(&finished)?;
        }
        self.note_gaps(logged, &mut finished.trial);
        Ok(Some(finished))
    }

    /// Adds what the logs of a trial do not show.
    fn note_gaps(&self, logged: &LoggedTrial, trial: &mut Trial) {
        if !logged.answers_seen {
            trial.evidence = trial.evidence.map(|by| if by == Evidence::Answers { Evidence::Statuses } else { by });
            let line = "answers not seen: the log has only statuses, so each outcome is read by its status";
            trial.unseen.insert(0, line.to_owned());
        }
        if self.shop.per_buyer.is_some() && logged.requests.iter().any(|request| request.buyer.is_none()) {
            trial.unseen.push("the limit per buyer, by the answers: the log does not name the buyers".to_owned());
        }
        let is_unexplained = trial.audit.indeterminate > trial.answers.failed() || trial.audit.unsold_undecided > 0;
        if !logged.is_complete && is_unexplained {
            trial.unchecked.push(UNKNOWN_USERS.to_owned());
        }
    }

    /// Refuses books from before if the load was before them, or if an earlier trial was after them.
    fn ensure_between(&self, at: SystemTime, number: usize) -> Result<(), Error> {
        let is_before = |trial: &LoggedTrial| trial.released_at + CLOCKS_DIFFER < at;
        let of_earlier = number.checked_sub(1).is_some_and(|earlier| !is_before(&self.trials[earlier]));
        let (is_wrong, what) = if is_before(&self.trials[number]) {
            (true, "were noted after the load")
        } else {
            (of_earlier, "were noted before two trials, and are not of the last one")
        };
        if !is_wrong {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "the books of {} in --before {what}; put the stock on sale by --put-on-sale before each run, or judge with --no-books",
            self.name()
        )))
    }

    /// Refuses books that have all units, although buyers were told of some. They are probably of the next sale.
    fn ensure_of_this_sale(&self, FinishedTrial { trial, .. }: &FinishedTrial) -> Result<(), Error> {
        // Then all that was sold has left no mark in the stock.
        if trial.audit.sold == 0 || trial.audit.lost_updates != -trial.audit.sold {
            return Ok(());
        }
        Err(Error::Reset(format!(
            "the books of {} have all {}, and buyers were told of {}: the stock was put on sale again after the load, or \
             nothing was sold. Judge before the next sale and name the books from before by --before, or judge with --no-books",
            self.name(),
            things(self.shop.stock, "unit"),
            trial.audit.sold
        )))
    }
}
