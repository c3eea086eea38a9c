//! Heads of requests to the port of the instances, as any stranger may send them.

use super::shows;

const SECRET: &str = "sesame";

// S125
#[test]
fn only_a_head_with_the_secret_shows_it() {
    fuzz::any_bytes("request-heads", |head| {
        let shown = shows(head, SECRET);
        let text = String::from_utf8_lossy(head);
        if shown == Some(true) {
            assert!(text.contains(SECRET), "{text:?}");
            assert!(text.to_ascii_lowercase().contains("authorization"), "{text:?}");
        }
        // Nothing that comes later changes what a head shows.
        for end in 0..head.len() {
            let early = shows(&head[..end], SECRET);
            assert!(early.is_none() || early == shown, "{text:?} up to {end}");
        }
        // Lines behind the end of a head are its body. The first header of the name counts.
        if shown.is_none() && !text.contains('\n') && !text.to_ascii_lowercase().starts_with("authorization:") {
            let whole = [head, b"\r\nauthorization: Bearer sesame\r\n"].concat();
            assert_eq!(shows(&whole, SECRET), Some(!head.is_empty()), "{text:?}");
        }
    });
}
