//! The purchases as a k6 script, and the manifest for k6's operator.

use std::time::Duration;

use askama::Template;

use super::{ANSWER_WITHIN_MS, Head, ShopLoad, portable};
use crate::error::Error;
use crate::shop::Shop;

/// Time for the start and the end of k6, added to the longest purchase, in milliseconds.
const GRACE_MS: u64 = 30_000;

/// The values in the template of the script.
#[derive(Template)]
#[template(path = "shop/script.js", whitespace = "preserve")]
struct ShopScript<'a> {
    head: Head,
    /// The name of the file.
    file: &'a str,
    /// What a buyer does, as JSON.
    description: String,
    /// Upper bound of the time from the last start of a purchase to its end.
    longest_ms: u64,
}

/// The values in the template of the manifest.
#[derive(Template)]
#[template(path = "shop/testrun.yaml", whitespace = "preserve", escape = "none")]
struct TestRun<'a> {
    head: Head,
    file: &'a str,
    /// The name of the run, of its volume and of its other parts.
    name: String,
}

/// Writes the script.
pub(super) fn render(load: &ShopLoad, file: &str) -> Result<String, Error> {
    let script = ShopScript {
        head: Head::of(load),
        file,
        description: format!("{:#}", portable::described(&load.shop)),
        longest_ms: longest_ms(&load.shop).saturating_add(GRACE_MS),
    };
    let text = script.render().map_err(|error| Error::Generator(format!("the script cannot be written: {error}")))?;
    Ok(text + "\n")
}

/// Returns the longest time of a purchase, in milliseconds.
fn longest_ms(shop: &Shop) -> u64 {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let script = &shop.script;
    let asking = script.outcome.iter().flat_map(|poll| &poll.steps.requests);
    let requests = script.buy.requests.iter().chain(asking);
    let requests = requests.map(|request| request.within.map_or(ANSWER_WITHIN_MS, ms));
    let queued = script.outcome.iter().map(|poll| ms(poll.within));
    requests.chain(queued).fold(0, u64::saturating_add)
}

/// Writes the manifest of a run on two machines.
pub(super) fn manifest(load: &ShopLoad, file: &str) -> Result<String, Error> {
    let run = TestRun { head: Head::of(load), file, name: name(file) };
    let text = run.render().map_err(|error| Error::Generator(format!("the manifest cannot be written: {error}")))?;
    Ok(text + "\n")
}

/// Returns the name of a run in a cluster, which may have small letters, digits and `-`.
fn name(file: &str) -> String {
    let stem = file.strip_suffix(".js").unwrap_or(file).to_ascii_lowercase();
    let name: String = stem.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    match name.trim_matches('-') {
        "" => "sale".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_name_of_a_run_is_one_that_a_cluster_takes() {
        for (file, expected) in [("sale.js", "sale"), ("My_Sale.2.js", "my-sale-2"), ("_.js", "sale"), ("a", "a")] {
            assert_eq!(name(file), expected);
        }
    }
}
