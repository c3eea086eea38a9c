//! A shop without a file: the flags of `loadgen check --buy`.

use std::path::{Path, PathBuf};

use buyers::script::Meanings;

use super::address::{address, base_url};
use super::curl;
use super::described::Shop;
use super::draft::{Draft, DraftPoll, DraftSteps, DraftTask};
use super::file::{EVERY, QUIET, WITHIN};
use super::noted::Noted;
use super::patterns::with_defaults;
use super::read::{Lookup, of, variable};
use crate::error::Error;

/// What the flags say. Each list of patterns has one for each time that its flag is given.
#[derive(Debug, Clone)]
pub(crate) struct QuickShop {
    pub(crate) buy: String,
    pub(crate) reset: String,
    pub(crate) outcome: Option<String>,
    pub(crate) stock: u32,
    pub(crate) meanings: Meanings,
    pub(crate) order: Option<String>,
}

/// Reads a shop from flags. Paths of files begin in the current folder.
///
/// # Errors
///
/// [`Error::Usage`] with the flag, what was seen, and the remedy.
pub(crate) fn read_quick(flags: QuickShop) -> Result<Shop, Error> {
    parse(flags, &variable).map_err(Error::Usage)
}

fn parse(flags: QuickShop, lookup: Lookup<'_>) -> Result<Shop, String> {
    let buy = Noted::new(flags.buy, "--buy");
    let url = buy.read(|line| address_of(line))?;
    let name = url.split_once("://").map_or(url.as_str(), |(_, host)| host).to_owned();
    let one = |line| DraftSteps { requests: vec![line], take: Vec::new() };
    let outcome =
        flags.outcome.map(|line| DraftPoll { steps: one(Noted::new(line, "--outcome")), every: EVERY, within: WITHIN });
    let draft = Draft {
        folder: PathBuf::new(),
        name,
        urls: vec![Noted::new(url, "--buy")],
        stock: flags.stock,
        per_buyer: None,
        certificate: None,
        sale: DraftTask::Requests(vec![Noted::new(flags.reset, "--reset")]),
        csv: None,
        sign_up: DraftSteps::default(),
        buy: one(buy),
        meanings: with_defaults(flags.meanings),
        order: flags.order.map(|order| Noted::new(order, "--order")),
        outcome,
        stock_left: None,
        order_count: None,
        queries: None,
        quiet: QUIET,
        clean: None,
    };
    of(draft, lookup)
}

/// Returns the address to which a request goes. It is the address of the shop.
fn address_of(line: &str) -> Result<String, String> {
    let url = curl::read(line, Path::new(""))?.url;
    if url.starts_with("{{") {
        return Err(format!(
            "only a shop file gives addresses for {url}; write the address, as in http://127.0.0.1:8000/buy"
        ));
    }
    let whole = if url.contains("://") { url } else { format!("http://{url}") };
    let (scheme, rest) = whole.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    base_url(&format!("{scheme}://{authority}")).map(|url| address(&url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop::parse_pattern;

    fn flags(buy: &str, reset: &str) -> QuickShop {
        QuickShop {
            buy: buy.to_owned(),
            reset: reset.to_owned(),
            outcome: None,
            stock: 100,
            meanings: Meanings { sold: vec![parse_pattern("201").unwrap()], ..Meanings::default() },
            order: None,
        }
    }

    fn refusal(flags: QuickShop) -> String {
        parse(flags, &|_| None).unwrap_err()
    }

    #[test]
    fn a_shop_without_a_file_has_the_address_of_its_purchase() {
        let buy = "curl -X POST localhost:8000/buy?buyer={{number}}";
        let shop = parse(flags(buy, "curl -X POST {{url}}/reset"), &|_| None).unwrap();
        assert_eq!((shop.name.as_str(), shop.urls()), ("localhost:8000", vec!["http://localhost:8000".to_owned()]));
        assert_eq!(shop.script.meanings.sold_out.len(), 1);
        assert!(shop.strangers().is_empty());
    }

    #[test]
    fn a_wrong_flag_is_named() {
        let reset = "curl -X POST http://127.0.0.1:8000/reset";
        for (flags, expected) in [
            (flags("curl {{url}}/buy", reset), "--buy: only a shop file gives addresses for {{url}}/buy; write the"),
            (
                flags("curl http://127.0.0.1:8001/buy", reset),
                "--reset: http://127.0.0.1:8000 is no address of this shop",
            ),
            (flags("wget http://127.0.0.1:8000/buy", reset), "--buy: a request is a line of curl"),
            (
                flags("curl http://127.0.0.1:8000/{{token}}", reset),
                "--buy: nothing gives {{token}}; the values here are",
            ),
            (
                QuickShop { order: Some("data".to_owned()), ..flags("curl http://127.0.0.1:8000/buy", reset) },
                "--order: `data` is no source",
            ),
        ] {
            let refused = refusal(flags);
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
