//! A trial whose load another engine made. The logs have what the buyers were told, and the books are read now.
//!
//! | file | has |
//! |---|---|
//! | `gathered` | the purchases of all logs, by shop and trial |
//! | `replay` | the purchases of one trial as a load, as if this program had made it |

pub(crate) mod gathered;
mod replay;

use buyers::health::{Dropped, Processors};
use buyers::load::LoadResult;
use reqwest::Client;
use stats::figures::things;

use self::gathered::LoggedTrial;
use self::replay::replay;
use crate::audit::shop::{Evidence, ShopBook};
use crate::error::Error;
use crate::shop::{self, Shop};
use crate::trial::any::before::BooksBefore;
use crate::trial::any::judged::judged;
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
    /// Those of the shop, as they are now.
    Now,
    /// Those of the shop, as they are now. These are the books from before the sale.
    Since(ShopBook),
    /// None.
    Unread,
}

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
            // A buyer that was still busy makes its next purchase late.
            is_open: !logged.is_burst,
            dropped: Dropped::default(),
            released_at: logged.released_at,
            cpu_time: None,
            processors: Processors::default(),
        };
        let before = match &self.books {
            JudgedBooks::Unread => BooksBefore::Useless("--no-books was given"),
            _ if number + 1 < self.trials.len() => BooksBefore::Useless("they are of the last trial alone"),
            JudgedBooks::Now => BooksBefore::Unknown,
            JudgedBooks::Since(before) => BooksBefore::Known(before),
        };
        let mut finished = judged(&self.shop, &self.client, (conditions, scheduled), bought, &before).await?;
        if matches!(before, BooksBefore::Unknown) {
            self.ensure_of_this_sale(&finished)?;
        }
        if !logged.answers_seen {
            let trial = &mut finished.trial;
            trial.evidence = trial.evidence.map(|by| if by == Evidence::Answers { Evidence::Statuses } else { by });
            let line = "the answers: the log has only statuses, so each outcome is read by its status";
            trial.unseen.insert(0, line.to_owned());
        }
        Ok(Some(finished))
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
