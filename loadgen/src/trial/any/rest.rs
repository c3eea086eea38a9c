//! The books of a shop come to rest: a shop may answer before it writes the order.

use std::time::Duration;

use reqwest::Client;
use tokio::time::Instant;

use super::before::BooksBefore;
use crate::audit::shop::ShopBook;
use crate::error::Error;
use crate::shop::{self, Shop};

/// How much longer than they have to be still the books may change.
const GRACE: Duration = Duration::from_secs(10);

/// The pause between two looks at the books.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The books after a sale.
pub(super) struct Rest {
    /// What they have of this sale.
    pub(super) books: ShopBook,
    /// Whether they came to rest.
    pub(super) settled: bool,
}

/// Reads the books until they agree with the answers, or until they have not changed for the time that the file names.
pub(super) async fn rest(
    shop: &Shop,
    client: &Client,
    before: &BooksBefore<'_>,
    agrees: impl Fn(&ShopBook) -> bool,
) -> Result<Rest, Error> {
    if !before.are_of_use() {
        return Ok(Rest { books: ShopBook::default(), settled: true });
    }
    let quiet = shop.books.quiet;
    let begun = Instant::now();
    let mut books = before.leave(shop::book(shop, client, None).await?);
    let mut still_since = Instant::now();
    loop {
        if agrees(&books) || !shop.books.are_any() || still_since.elapsed() >= quiet {
            return Ok(Rest { books, settled: true });
        }
        if begun.elapsed() >= quiet + GRACE {
            return Ok(Rest { books, settled: false });
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let next = before.leave(shop::book(shop, client, None).await?);
        if next != books {
            still_since = Instant::now();
            books = next;
        }
    }
}
