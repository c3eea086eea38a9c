//! Settings under their former names.

use std::convert::Infallible;

/// Returns the parser of a flag or variable that has another name now. It refuses every value, and names the new one.
pub fn renamed(new: &'static str) -> impl Fn(&str) -> Result<Infallible, String> + Clone + Send + Sync + 'static {
    move |_| Err(format!("use {new}"))
}
