//! Messages of the stream, and what is kept under keys: another program may write there, too.

use redis::Value;

use super::{Delivery, Message, read_order};
use crate::redis_store::gate::known_order;
use crate::sale::{BuyerId, IdempotencyKey, PromisedOrder};

fn list(words: &[&str]) -> Vec<Value> {
    words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect()
}

fn assert_sound(order: &PromisedOrder) {
    assert!(order.order_id > 0 && order.remaining >= 0 && !order.instance.is_empty(), "{order:?}");
    assert!(order.quantity().get() > 0 && order.purchase.cart.lines().len() == 1, "{order:?}");
}

/// Returns the fields of a message, as the script of the gate writes them.
fn fields(Message { order, waiter, load, .. }: &Message) -> Vec<String> {
    let PromisedOrder { order_id, sale, purchase, remaining, instance } = order;
    let goods_no = purchase.cart.numbers()[0].to_string();
    let quantity = order.quantity().get().to_string();
    let buyer = purchase.buyer.as_ref().map_or("", BuyerId::as_str).to_owned();
    let key = purchase.key.as_ref().map_or("", IdempotencyKey::as_str).to_owned();
    let pairs = [
        ("order", order_id.to_string()),
        ("goods", goods_no),
        ("sale", sale.to_string()),
        ("quantity", quantity),
        ("remaining", remaining.to_string()),
        ("buyer", buyer),
        ("key", key),
        ("instance", instance.clone()),
        ("waiter", waiter.clone().unwrap_or_default()),
        ("load", load.clone()),
    ];
    pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

// S125
#[test]
fn a_message_is_an_order_or_is_passed_over() {
    fuzz::any_lines("redis-orders", |lines| {
        let message = Value::Array(vec![Value::BulkString(b"5-0".to_vec()), Value::Array(list(lines))]);
        let delivery = Delivery::of(Value::Array(vec![message, Value::Nil]));
        assert_eq!((delivery.orders.len() + delivery.unreadable.len(), delivery.lost), (1, 1));
        let Some(read) = read_order("5-0", list(lines)) else { return };
        assert_eq!(delivery.orders, std::slice::from_ref(&read));
        assert_sound(&read.order);
        let written = fields(&read);
        let written: Vec<_> = written.iter().map(String::as_str).collect();
        assert_eq!(read_order("5-0", list(&written)), Some(read.clone()), "{written:?}");
        // What is kept under a key is the same order.
        let PromisedOrder { order_id, sale, purchase, remaining, instance } = &read.order;
        let [goods_no] = purchase.cart.numbers()[..] else { panic!("{purchase:?}") };
        let kept = format!("{order_id} {goods_no} {sale} {} {remaining} {instance}", read.order.quantity().get());
        assert_eq!(known_order(&kept, purchase), Some(read.order.clone()), "{kept:?}");
    });
}

// S125
#[test]
fn what_is_kept_under_a_key_is_an_order_or_nothing() {
    fuzz::any_text("redis-keys", |text| {
        let purchase = super::Purchase::of_one("1".parse().unwrap(), super::Quantity::ONE, None);
        if let Some(order) = known_order(text, &purchase) {
            assert_sound(&order);
        }
    });
}
