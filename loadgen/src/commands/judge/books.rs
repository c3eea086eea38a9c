//! The books from before a sale, which a load of another engine needs a file for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use program::{FromSystem as _, Progress};
use serde::{Deserialize, Serialize};
use stats::figures::things;

use crate::commands::shops::{announce, ensure_comparable};
use crate::error::Error;
use crate::report::files::Files;
use crate::shop::{self, Shop};
use crate::trial::any;
use crate::trial::logged::BookedBefore;

/// The version of the file.
const SCHEMA: &str = "seckill-books/1";

/// A file with the books of shops.
#[derive(Debug, Serialize, Deserialize)]
struct BooksFile {
    schema: String,
    books: BTreeMap<String, BookedBefore>,
}

/// Books from before a sale, as a file has them.
pub(super) struct BooksOfFile {
    file: PathBuf,
    books: BTreeMap<String, BookedBefore>,
}

impl BooksOfFile {
    /// Takes the books of a shop.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the file does not have them.
    pub(super) fn take(&mut self, shop: &str) -> Result<BookedBefore, Error> {
        self.books.remove(shop).ok_or_else(|| {
            Error::Usage(format!(
                "{} has no books of {shop}; write it by --put-on-sale with the same --shop",
                self.file.display()
            ))
        })
    }
}

/// Puts the stock of each shop on sale, and writes the books from then into a file. Returns what is to be told.
///
/// # Errors
///
/// Errors of the shops, and of the file.
pub(super) async fn put_on_sale(shops: &[Shop], file: &Path, progress: &Progress) -> Result<String, Error> {
    Files::ensure_writable(file)?;
    ensure_comparable(shops)?;
    announce(shops, progress);
    let mut books = BTreeMap::new();
    let mut told = String::new();
    for shop in shops {
        let client = shop::client(shop)?;
        let at = SystemTime::now();
        let book = any::put_on_sale(shop, &client).await?;
        books.insert(shop.name.clone(), BookedBefore { at, book });
        told += &format!("on sale: {} at {}\n", things(shop.stock, "unit"), shop.name);
    }
    let text = serde_json::to_vec(&BooksFile { schema: SCHEMA.to_owned(), books });
    let text = text.map_err(|error| Error::Generator(format!("could not write the books as JSON: {error}")))?;
    fs::write(file, text).map_err(Error::system(format!("write {}", file.display())))?;
    told += &format!("books from before: {}; judge with --before {0}\n", file.display());
    Ok(told)
}

/// Reads the books from before a sale.
///
/// # Errors
///
/// [`Error::Usage`] if the file has no such books, or cannot be read.
pub(super) fn read_before(file: &Path) -> Result<BooksOfFile, Error> {
    let text = fs::read(file).map_err(Error::system(format!("read {}", file.display())))?;
    let read = serde_json::from_slice::<BooksFile>(&text).ok().filter(|read| read.schema == SCHEMA);
    let BooksFile { books, .. } = read.ok_or_else(|| {
        Error::Usage(format!("{} has no books from before a sale; write them by --put-on-sale", file.display()))
    })?;
    Ok(BooksOfFile { file: file.to_owned(), books })
}
