//! Values of flags and plans, as a user may write them.

use std::path::PathBuf;
use std::time::Duration;

use super::*;

// C56
#[test]
fn a_value_lies_within_its_documented_bounds() {
    fuzz::any_text("plan-figures", |text| {
        if let Ok(time) = parse_time(text) {
            assert!((Duration::from_millis(1)..=DAY).contains(&time), "{text:?}");
            assert_eq!(parse_time(&humantime::format_duration(time).to_string()), Ok(time));
        }
        if let Ok(rate) = parse_rate(text) {
            assert!(rate > 0.0 && rate <= 1e6, "{text:?}");
            assert_eq!(parse_rate(&rate.to_string()), Ok(rate));
        }
        if let Ok(share) = parse_share(text) {
            assert!((0.0..=1.0).contains(&share), "{text:?}");
            let again = parse_share(&format!("{}%", share * 100.0)).unwrap();
            assert!((again - share).abs() <= 1e-12, "{text:?}");
        }
        if let Ok(users) = text.parse::<Users>() {
            assert!((1..=20_000).contains(&users.get()), "{text:?}");
            assert_eq!(users.get().to_string().parse(), Ok(users));
        }
        if let Ok(goods_no) = text.parse::<GoodsNo>() {
            assert!(goods_no.get() > 0 && goods_no.get().checked_add(1000).is_some(), "{text:?}");
        }
        if let Ok(time) = parse_business_time(text) {
            let ends: Vec<_> = time.split("..").map(|end| duration(end).unwrap()).collect();
            assert!(ends.len() <= 2 && ends.is_sorted() && ends.iter().all(|end| *end < DB_GRACE), "{text:?}");
        }
    });
}

// C56
#[test]
fn a_base_url_begins_the_address_of_every_request() {
    fuzz::any_text("base-urls", |text| {
        let Ok(base) = parse_url(text) else { return };
        let url = reqwest::Url::parse(&format!("{base}/goods/1/orders?strategy=zk-mutex"));
        let url = url.unwrap_or_else(|error| panic!("{text:?} is {base:?}: {error}"));
        assert!(url.path().ends_with("/goods/1/orders") && url.query() == Some("strategy=zk-mutex"), "{text:?}: {url}");
        assert_eq!(url.origin(), reqwest::Url::parse(text).unwrap().origin());
        assert_eq!(parse_url(&base), Ok(base));
    });
}

// C56
#[test]
fn a_program_is_named_as_it_was_written() {
    fuzz::any_text("programs", |text| {
        let Ok(Program { name, path }) = parse_program(PathBuf::from(text)) else { return };
        let path = path.unwrap().display().to_string();
        let written = name.as_ref().map_or(path.clone(), |name| format!("{name}={path}"));
        assert_eq!(written, text);
        assert!(name.is_none_or(|name| !name.is_empty() && !name.contains(['/', '=']) && !path.is_empty()), "{text:?}");
    });
}
