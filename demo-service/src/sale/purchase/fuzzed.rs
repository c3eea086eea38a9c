//! Numbers, keys and names, as any client may write them.

use super::{BuyerId, IdempotencyKey};
use crate::sale::GoodsNo;

// S125
#[test]
fn a_number_a_key_and_a_name_have_one_spelling() {
    fuzz::any_text("purchase-words", |text| {
        let is_visible = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic());
        if let Ok(number) = text.parse::<GoodsNo>() {
            assert!(number.get() > 0);
            assert_eq!(number.to_string(), text);
            assert_eq!(GoodsNo::try_from(number.get()), Ok(number));
        } else {
            let is_canonical = text.parse::<i64>().is_ok_and(|number| number > 0 && number.to_string() == text);
            assert!(!is_canonical, "{text:?} is the number of a SKU");
        }
        let key = text.parse::<IdempotencyKey>();
        assert_eq!(key.is_ok(), is_visible && text.len() <= 255 && !text.contains('"'), "{text:?}");
        assert!(key.is_err() || key.is_ok_and(|key| key.as_str() == text && key.to_string() == text));
        let buyer = text.parse::<BuyerId>();
        assert_eq!(buyer.is_ok(), is_visible && text.len() <= 64, "{text:?}");
        assert!(buyer.is_err() || buyer.is_ok_and(|buyer| buyer.as_str() == text));
    });
}
