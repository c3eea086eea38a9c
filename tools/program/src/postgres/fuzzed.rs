//! URLs of Postgres, as a user may write them.

use super::one_postgres;

// T15
#[test]
fn a_url_that_names_several_servers_is_refused_in_any_form() {
    fuzz::any_text("postgres-urls", |text| {
        if let Err(refusal) = one_postgres(text) {
            assert!(refusal.contains("several hosts") || refusal.contains(" is encoded; "), "{text:?}: {refusal}");
        }
        let (place, _) = text.split_once('?').unwrap_or((text, ""));
        for several in [format!("postgres://a,b/{place}"), format!("{place}?host=a,b"), format!("{place}?host=a%2Cb")] {
            assert!(several.matches('?').count() > 1 || one_postgres(&several).is_err(), "{several}");
        }
    });
}
