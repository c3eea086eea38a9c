//! The books of a shop are read, as far as its file says how.

use buyers::script::Observer;
use reqwest::Client;

use super::described::{Shop, ShopBooks};
use super::errands::number_on;
use crate::audit::shop::ShopBook;
use crate::error::Error;

/// Reads the books once.
///
/// # Errors
///
/// A page does not answer or has no number, or the database does not answer or refuses a query.
pub(crate) async fn book(shop: &Shop, client: &Client, mut observer: Observer<'_>) -> Result<ShopBook, Error> {
    let ShopBooks { stock, orders, queries, .. } = &shop.books;
    let mut book = ShopBook::default();
    if let Some(page) = stock {
        book.left_on_page = Some(number_on(page, shop, client, again(&mut observer)).await?);
    }
    if let Some(page) = orders {
        book.orders_on_page = Some(number_on(page, shop, client, again(&mut observer)).await?);
    }
    let Some(queries) = queries else { return Ok(book) };
    if let Some(query) = &queries.stock {
        book.left_in_database = Some(queries.url.stock(query).await?);
    }
    if let Some(query) = &queries.orders {
        book.orders_in_database = Some(queries.url.orders(query).await?);
    }
    Ok(book)
}

/// Lends an observer to one of several requests.
fn again<'a>(observer: &'a mut Observer<'_>) -> Observer<'a> {
    match observer {
        Some(observer) => Some(&mut **observer),
        None => None,
    }
}
