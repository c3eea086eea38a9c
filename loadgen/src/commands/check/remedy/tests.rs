use buyers::script::JsonPath;
use serde_json::json;

use super::*;

/// Returns the proposal for an answer of a shop with this pattern for "sold out".
fn proposal(origin: &str, (status, headers, body): (u16, &[(&str, &str)], &str), sold_out: Pattern) -> String {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let answer = ShownAnswer { status, headers, body: body.to_owned() };
    let meanings = Meanings { sold_out: vec![sold_out], ..Meanings::default() };
    remedy(&Doubt::Unnamed { status, location: None, is_cut: false }, origin, &answer, &meanings).unwrap()
}

fn of_status(status: u16) -> Pattern {
    Pattern { statuses: vec![status], ..Pattern::default() }
}

fn with_value(path: &str, value: Value) -> Pattern {
    Pattern { values: vec![(JsonPath::parse(path).unwrap(), value)], ..of_status(200) }
}

#[test]
fn a_pattern_is_proposed_in_the_form_of_the_shop() {
    let body = r#"{"errorMsg":"none left","success":false}"#;
    let of_file = proposal("shop.toml:12", (200, &[], body), of_status(409));
    assert!(
        of_file.contains(r#"write sold = [{ status = 200, json = { "$.success" = false } }] into [buy]"#),
        "{of_file}"
    );
    let of_flags = proposal("--buy", (200, &[], body), of_status(409));
    assert!(of_flags.contains("add --sold '200 $.success=false', or else --sold-out"), "{of_flags}");
    for body in ["<html>", "[1]", "{}", r#"{"data":null,"a b":1}"#, r#"{"token":"…"}"#, r#"{"order":"7"}"#] {
        let told = proposal("shop.toml:12", (200, &[], body), of_status(409));
        assert!(told.contains("sold = [{ status = 200 }]"), "{body}");
    }
}

#[test]
fn a_value_at_a_path_of_another_meaning_is_proposed() {
    for (body, wanted, expected) in [
        (r#"{"code":0,"ok":true}"#, json!(7), r#"sold = [{ status = 200, json = { "$.code" = 0 } }] into"#),
        (r#"{"code":"it's"}"#, json!("gone"), r#"sold = [{ status = 200, json = { "$.code" = "it's" } }] into"#),
        (r#"{"code":7,"ok":true}"#, json!(7), r#"sold = [{ status = 200, json = { "$.ok" = true } }] into"#),
        (r#"{"code":"…"}"#, json!(7), r#"sold = [{ status = 200, text = "…" }] into"#),
    ] {
        let told = proposal("shop.toml:12", (200, &[], body), with_value("$.code", wanted));
        assert!(told.contains(expected), "{told}");
    }
    let of_flags = proposal("--buy", (200, &[], r#"{"code":"it's"}"#), with_value("$.code", json!(7)));
    assert!(of_flags.contains(r#"add --sold '200 $.code="it'\''s"', or else"#), "{of_flags}");
    let of_name = proposal("--buy", (200, &[], r#"{"a b":1}"#), with_value("$['a b']", json!(7)));
    assert!(of_name.contains(r"add --sold '200 $['\''a b'\'']=1', or else"), "{of_name}");
}

#[test]
fn a_location_is_proposed_without_the_number_of_the_order() {
    for (location, expected) in [
        ("/thanks", "/thanks"),
        ("http://127.0.0.1:8000/order/123/thanks?x=1#top", "/thanks"),
        ("/orders/7f3a/", "/orders/"),
        ("/shop/thank/you", "/shop/thank/you"),
    ] {
        let told = proposal("shop.toml:12", (302, &[("location", location)], "<html>"), of_status(409));
        let expected = format!("sold = [{{ status = 302, header = {{ location = \"{expected}\" }} }}] into [buy]");
        assert!(told.contains(&expected), "{told}");
    }
    for location in ["/", "/17", "/…", "mailto:a@b"] {
        let told = proposal("shop.toml:12", (302, &[("location", location)], ""), of_status(409));
        assert!(told.contains("sold = [{ status = 302 }]"), "{told}");
    }
    let of_flags = proposal("--buy", (303, &[("location", "/thanks")], ""), of_status(409));
    let expected = "only a shop file can tell it apart, by sold = [{ status = 303, header = { location = \"/thanks\" } }] in [buy]";
    assert!(of_flags.contains(expected), "{of_flags}");
}

#[test]
fn a_page_is_told_apart_by_a_text() {
    let sold_out = Pattern { text: Some("Sold out".to_owned()), ..of_status(200) };
    let told = proposal("shop.toml:12", (200, &[], "<html>Thank you</html>"), sold_out);
    assert!(
        told.contains("write sold = [{ status = 200, text = \"…\" }] into [buy], or else sold-out, over-limit"),
        "{told}"
    );
    assert!(told.ends_with("other answers have 200, too, so write a text into it that only this one has"), "{told}");
    let alone = proposal("shop.toml:12", (200, &[], "<html>Thank you</html>"), of_status(409));
    assert!(alone.contains("if other pages have 200, too, text = \"…\" in the pattern tells them apart"), "{alone}");
}

#[test]
fn no_pattern_helps_where_no_answer_came() {
    let answer = ShownAnswer { status: 200, headers: Vec::new(), body: String::new() };
    assert_eq!(remedy(&Doubt::Timeout, "shop.toml:12", &answer, &Meanings::default()), None);
}
