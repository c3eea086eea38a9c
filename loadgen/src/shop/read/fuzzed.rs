//! Shop files, as a user may write them.

use super::*;

fn lookup(name: &str) -> Option<String> {
    (name == "KEY").then(|| "k3y-of-admin".to_owned())
}

// C57
#[test]
fn a_shop_file_is_read_or_refused_with_its_line() {
    fuzz::any_text("shop-files", |text| {
        let shop = match parse(ShopText { name: "shop.toml", text }, &lookup) {
            Ok(shop) => shop,
            Err(refusal) => return assert!(refusal.starts_with("shop.toml") || !refusal.is_empty(), "{refusal}"),
        };
        assert!(!shop.name.chars().any(char::is_control), "{:?}", shop.name);
        assert!((1..=100_000_000).contains(&shop.stock));
        assert!(shop.per_buyer.is_none_or(|units| units > 0));
        assert!(!shop.urls.is_empty() && !shop.script.buy.requests.is_empty());
        assert!(!shop.script.meanings.sold.is_empty(), "nothing says what a sale is");
        // Every value of a request exists: the test of a whole file fills all of them.
        let env: Vec<_> = shop.environment.keys().collect();
        assert!(env.iter().all(|name| name.as_str() == "env.KEY"), "{env:?}");
    });
}
