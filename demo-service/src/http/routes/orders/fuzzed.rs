//! Bodies and keys of purchases, as any client may send them.

use axum::http::HeaderValue;
use serde_json::Value;

use super::*;
use crate::sale::LockSequence;

/// Returns the number if it is whole and fits.
fn whole_number(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
    let of_float = |float: f64| {
        (float.fract() == 0.0 && (-2_f64.powi(63)..2_f64.powi(63)).contains(&float)).then_some(float as i64)
    };
    value.as_i64().or_else(|| value.as_f64().filter(|_| value.is_f64()).and_then(of_float))
}

fn has_only(value: &Value, known: &[&str]) -> bool {
    value.as_object().is_some_and(|members| members.keys().all(|member| known.contains(&member.as_str())))
}

fn assert_buyer(named: Option<String>, value: &Value) {
    assert_eq!(named.as_deref(), value["buyer"].as_str());
    let is_name =
        |name: &String| (1..=64).contains(&name.len()) && name.chars().all(|letter| letter.is_ascii_graphic());
    let is_sound = named.as_ref().is_none_or(is_name);
    assert_eq!(BuyerHeader(None).or_member(named).is_ok(), is_sound);
}

fn assert_order(NewOrder { quantity: units, buyer }: NewOrder, value: &Value) {
    assert!(has_only(value, &["quantity", "buyer"]), "{value}");
    assert_eq!(Some(units), whole_number(&value["quantity"]), "{value}");
    assert_eq!(quantity(units).map(Quantity::get).ok(), (units > 0).then_some(units));
    assert_buyer(buyer, value);
}

fn assert_cart(NewCart { lines, buyer }: NewCart, value: &Value) {
    assert!(has_only(value, &["lines", "buyer"]), "{value}");
    assert_buyer(buyer, value);
    let members = value["lines"].as_array().expect("lines are a list");
    assert_eq!(lines.len(), members.len());
    for (Object(new), member) in lines.iter().zip(members) {
        assert!(has_only(member, &["goods_no", "quantity"]), "{member}");
        let read = [&member["goods_no"], &member["quantity"]].map(whole_number);
        assert_eq!([Some(new.goods_no), Some(new.quantity)], read);
    }
    let numbers: Vec<_> = lines.iter().map(|Object(new)| new.goods_no).collect();
    let Ok(lines) = lines.into_iter().map(line).collect::<Result<Vec<_>, _>>() else { return };
    assert!(lines.iter().all(|line| line.goods_no.get() > 0 && line.quantity.get() > 0));
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let is_sound = (1..=Cart::LINES_MAX).contains(&numbers.len()) && sorted.len() == numbers.len();
    let cart = Cart::new(lines);
    assert_eq!(cart.is_ok(), is_sound, "{numbers:?}");
    let Ok(cart) = cart else { return };
    assert_eq!(cart.numbers(), numbers);
    let canonical: Vec<_> = cart.goods_in_order(LockSequence::Canonical).into_iter().map(GoodsNo::get).collect();
    assert_eq!(canonical, sorted);
}

// S125
#[test]
fn a_body_is_read_as_the_document_says_or_refused() {
    fuzz::any_bytes("purchases", |body| {
        let value = serde_json::from_slice(body).unwrap_or_default();
        if let Ok(Object(new)) = serde_json::from_slice::<Object<NewOrder>>(body) {
            assert_order(new, &value);
        }
        if let Ok(Object(new)) = serde_json::from_slice::<Object<NewCart>>(body) {
            assert_cart(new, &value);
        }
    });
}

// S125
#[test]
fn a_key_counts_with_quotes_and_without_them() {
    fuzz::any_bytes("idempotency-keys", |bytes| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY.parse().unwrap(), value)]);
        let is_bare = |key: &[u8]| {
            (1..=255).contains(&key.len()) && key.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"')
        };
        // As `IdempotencyKey::PATTERN` says.
        let inner = bytes.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(bytes);
        let read = key_of(&headers);
        assert_eq!(read.as_ref().ok().map(|key| key.as_str().as_bytes()), is_bare(inner).then_some(inner));
    });
}
