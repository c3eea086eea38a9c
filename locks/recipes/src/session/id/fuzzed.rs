//! Ids of sessions, as a user may write them.

use super::SessionId;

// L91
#[test]
fn an_id_has_at_most_sixteen_digits_and_is_read_back() {
    fuzz::any_text("session-ids", |text| {
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let is_id = (1..=16).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_hexdigit());
        let read = text.parse::<SessionId>();
        assert_eq!(read.is_ok(), is_id, "{text:?}");
        if let Ok(id) = read {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert!(digits.to_ascii_lowercase().ends_with(id.to_string().trim_start_matches("0x")), "{text:?}");
        }
    });
}
