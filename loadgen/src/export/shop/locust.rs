//! The purchases as a file for Locust.

use askama::Template;

use super::{Head, ShopLoad, portable};
use crate::error::Error;

/// The values in the template of the file.
#[derive(Template)]
#[template(path = "shop/locustfile.py", whitespace = "preserve")]
struct LocustFile<'a> {
    head: Head,
    /// The name of the file.
    file: &'a str,
    /// What a buyer does, as JSON that no quotation mark of Python ends.
    description: String,
}

/// Writes the file.
pub(super) fn render(load: &ShopLoad, file: &str) -> Result<String, Error> {
    let description = format!("{:#}", portable::described(&load.shop)).replace('\'', "\\u0027");
    let file = LocustFile { head: Head::of(load), file, description };
    let text = file.render().map_err(|error| Error::Generator(format!("the file cannot be written: {error}")))?;
    Ok(text + "\n")
}
