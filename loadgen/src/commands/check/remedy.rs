//! What to write into the shop file for an answer that nothing names.

use buyers::script::{Doubt, ShownAnswer};
use serde_json::Value;

/// Returns the pattern to add, if the answer lacks one. `origin` says whether the shop is a file or flags.
pub(super) fn remedy(doubt: &Doubt, origin: &str, answer: &ShownAnswer) -> Option<String> {
    if !matches!(doubt, Doubt::Unnamed { .. }) {
        return None;
    }
    let status = answer.status;
    let value = telling_value(&answer.body);
    Some(if origin.starts_with("--") {
        let value = value.map_or_else(String::new, |(path, value)| format!(" {path}={value}"));
        format!("; if it means sold, add --sold '{status}{value}', or else --sold-out, --refused or --queued")
    } else {
        let json = value.map_or_else(String::new, |(path, value)| format!(", json = {{ {path:?} = {value} }}"));
        format!(
            "; if it means sold, write sold = [{{ status = {status}{json} }}] into [buy], or else sold-out, refused or queued"
        )
    })
}

/// Returns the first `true` or `false` of a JSON object. A number or a text may be an order's own, and then no other answer has it.
fn telling_value(body: &str) -> Option<(String, bool)> {
    let Ok(Value::Object(members)) = serde_json::from_str(body) else { return None };
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
    let mut usable = members.iter().filter(|(name, _)| is_name(name));
    usable.find_map(|(name, value)| Some((format!("$.{name}"), value.as_bool()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(origin: &str, body: &str) -> String {
        let answer = ShownAnswer { status: 200, headers: Vec::new(), body: body.to_owned() };
        remedy(&Doubt::Unnamed { status: 200, is_cut: false }, origin, &answer).unwrap()
    }

    #[test]
    fn a_pattern_is_proposed_in_the_form_of_the_shop() {
        let body = r#"{"errorMsg":"none left","success":false}"#;
        let of_file = proposal("shop.toml:12", body);
        assert!(
            of_file.contains(r#"write sold = [{ status = 200, json = { "$.success" = false } }] into [buy]"#),
            "{of_file}"
        );
        let of_flags = proposal("--buy", body);
        assert!(of_flags.contains("add --sold '200 $.success=false', or else --sold-out"), "{of_flags}");
        for body in ["<html>", "[1]", "{}", r#"{"data":null,"a b":1}"#, r#"{"token":"…"}"#, r#"{"order":"7"}"#] {
            assert!(proposal("shop.toml:12", body).contains("sold = [{ status = 200 }]"), "{body}");
        }
    }

    #[test]
    fn no_pattern_helps_where_no_answer_came() {
        let answer = ShownAnswer { status: 200, headers: Vec::new(), body: String::new() };
        assert_eq!(remedy(&Doubt::Timeout, "shop.toml:12", &answer), None);
    }
}
