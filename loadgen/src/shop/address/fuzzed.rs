//! Addresses of shops and of requests, as a user may write them.

use buyers::script::{Template, Values};

use super::*;

// C57
#[test]
fn a_request_goes_to_an_address_of_its_shop_alone() {
    let shop = ["http://127.0.0.1:8000", "https://shop.example/api"].map(|url| base_url(url).unwrap());
    fuzz::any_text("shop-addresses", |text| {
        if let Ok(base) = base_url(text) {
            let value = value(&base);
            assert!(base_url(&value).is_ok_and(|again| again.origin() == base.origin()), "{text:?}");
            assert!(!value.contains(['?', '#']) && !has_user(&base), "{value:?}");
        }
        let Ok(url) = allowed(text, &shop) else { return };
        let Ok(template) = Template::parse(&url) else { return };
        for shop in &shop {
            // A value of an answer may have anything in it.
            for given in ["@evil.example/", ":80@evil.example", "\\evil.example", ".evil.example", "\t//evil.example"] {
                let of = |name: &str| if name == "url" { value(shop) } else { given.to_owned() };
                let values: Values = template.names().map(|name| (name.to_owned(), of(name))).collect();
                let filled = template.fill_url(&values).unwrap();
                let Ok(found) = Url::parse(&filled) else { continue };
                let known = ["http://127.0.0.1:8000", "https://shop.example"];
                assert!(known.contains(&address(&found).as_str()) && !has_user(&found), "{text:?} goes to {filled:?}");
            }
        }
    });
}
