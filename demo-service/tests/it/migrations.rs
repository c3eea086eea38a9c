//! Databases that an earlier version of the service has filled.

use serde_json::json;
use sqlx::Executor;

use crate::lab::{Lab, MIGRATIONS};

/// A key after the migration: its SKU, its sale and its order.
type Key = (String, i64, i64, i64);

/// Goal: a key keeps its order, and the key of a refusal goes. Method: rows as version 3 wrote them are migrated.
#[tokio::test]
async fn keys_that_had_an_order_keep_it_and_keys_of_refusals_are_deleted() {
    let lab = Lab::new().await;
    let mut connection = lab.connect().await;
    MIGRATIONS.run_to(3, &mut connection).await.unwrap();
    connection
        .execute(
            r#"insert into goods (goods_no, sale, stock_initial, on_hand) values (1, 4, 10, 8), (2, 7, 5, 0);
               insert into idempotency_keys (key, cart, sold_out) values
                   ('one', '[[1, 2]]', null), ('cart', '[[1, 1], [2, 5]]', null), ('refused', '[[2, 1]]', 2);
               insert into orders (strategy, instance, idempotency_key)
                   values ('zk-mutex', 'old', 'one'), ('zk-multi', 'old', 'cart'), ('unguarded', 'old', null);
               insert into order_lines (order_id, goods_no, sale, quantity, remaining)
               select order_id, 1, 4, 2, 8 from orders where idempotency_key = 'one'
               union all select order_id, 2, 6, 5, 0 from orders where idempotency_key = 'cart'
               union all select order_id, 1, 3, 1, 9 from orders where idempotency_key = 'cart'
               union all select order_id, 1, 4, 1, 7 from orders where idempotency_key is null"#,
        )
        .await
        .unwrap();
    let sql = "select idempotency_key, order_id from orders where idempotency_key is not null order by order_id";
    let before: Vec<(String, i64)> = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
    let [(_, one), (_, both)] = before[..] else { panic!("{before:?}") };

    let instance = lab.start(&[]).await;
    let sql = "select key, goods_no, sale, order_id from idempotency_keys order by order_id";
    let after: Vec<Key> = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
    // The SKU of a cart is the first one by number.
    assert_eq!(after, [("one".to_owned(), 1, 4, one), ("cart".to_owned(), 1, 3, both)]);
    assert_eq!(lab.orders().await, 3);

    let replayed = instance.order(1, 2, "zk-mutex", "one").await;
    replayed.assert_created();
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"), "{replayed:?}");
    assert_eq!(replayed.body["order_id"], one);
    instance.order(1, 3, "zk-mutex", "one").await.assert_problem(422, "idempotency-key-reused");
    // The refusal is not remembered: it is evaluated anew.
    instance.order(2, 1, "zk-mutex", "refused").await.assert_problem(409, "sold-out");
    assert_eq!(lab.units_ordered(1, 4).await, 3);
}

#[tokio::test]
async fn a_sale_that_was_on_before_there_were_guards_has_none_and_is_claimed_by_its_first_purchase() {
    let lab = Lab::new().await;
    let mut connection = lab.connect().await;
    MIGRATIONS.run_to(3, &mut connection).await.unwrap();
    connection
        .execute("insert into goods (goods_no, sale, stock_initial, on_hand) values (1, 4, 10, 8), (2, 1, 3, 3)")
        .await
        .unwrap();
    let instance = lab.start(&[]).await;
    for goods_no in [1, 2] {
        let looked = instance.get(&format!("/goods/{goods_no}")).await;
        looked.assert_ok();
        assert_eq!((&looked.body["guard"], &looked.body["strategy"]), (&json!(null), &json!(null)), "{looked:?}");
    }
    instance.buy(1, "pg-row-lock").await.assert_ok();
    assert_eq!(instance.get("/goods/1").await.body["guard"], "pg-row");
    instance.put_on_sale(2, 3, "zk-naive").await.assert_ok();
    assert_eq!(instance.get("/goods/2").await.body["guard"], "zk-naive");
}
