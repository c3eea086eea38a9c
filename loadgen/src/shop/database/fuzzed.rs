//! URLs of databases, as a user may write them, and the numbers that databases have.

use super::*;

// C57
#[test]
fn a_database_url_leads_to_one_server_and_hides_passwords() {
    fuzz::any_text("database-urls", |text| {
        let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
        if let Ok(url) = DatabaseUrl::read(text, Path::new("/shops")) {
            assert_eq!(url.text(), text);
            let address = url.address();
            assert!(!address.contains('\0') && !address.is_empty(), "{address:?}");
            assert_eq!(format!("{url:?}"), address);
            let is_server = scheme != "sqlite";
            assert!(!is_server || !address.contains(','), "{text:?} leads to several: {address}");
            assert!(is_server || address.starts_with("sqlite:/"), "{text:?} is {address}");
        }
        // The same place, with a password. Behind a `?` it would be no password, but a part of a parameter.
        let is_place = |(scheme, place): &(&str, &str)| !scheme.contains('?') && !place.contains('@');
        let Some((scheme, place)) = text.split_once("://").filter(is_place) else { return };
        let with_password = format!("{scheme}://shop:open-sesame@{place}");
        let told = match DatabaseUrl::read(&with_password, Path::new("/shops")) {
            Ok(url) if url.address().starts_with("sqlite:") => return,
            Ok(url) => url.address(),
            Err(refusal) => refusal,
        };
        assert!(place.contains("open-sesame") || !told.contains("open-sesame"), "{with_password:?}: {told}");
    });
}

// C57
#[test]
fn a_number_of_a_database_is_whole_and_exact() {
    fuzz::any_text("database-numbers", |text| {
        let Some(number) = whole_number(text) else { return };
        assert_eq!(whole_number(&number.to_string()), Some(number));
        assert_eq!(whole_number(&format!(" {number}.000 ")), Some(number));
        let plain = text.trim().split('.').next().unwrap_or_default();
        let digits = plain.trim_start_matches(['-', '+']).trim_start_matches('0');
        assert!(digits == number.unsigned_abs().to_string() || digits.is_empty() && number == 0, "{text:?}");
    });
}
