//! What an instance makes of the answers of an owner, and what an owner does with the buyers of other instances. The owner is
//! an instance, or the test itself.

use super::{STRATEGY, named};
use crate::lab::Lab;

#[tokio::test]
async fn a_sale_that_another_instance_restarts_is_sold_by_an_owner_that_remembers_an_empty_stock() {
    let lab = Lab::new().await;
    let (owner, other) = (named(&lab, "owner").await, named(&lab, "other").await);
    owner.put_on_sale(1, 1, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_problem(409, "sold-out");
    other.put_on_sale(1, 5, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "restarted").await, 1);
    owner.order(1, 5, STRATEGY, "too-many").await.assert_problem(409, "sold-out");
    // Now another family guards the sale.
    other.put_on_sale(1, 7, "pg-conditional").await.assert_ok();
    owner.order(1, 7, STRATEGY, "wrong-family").await.assert_problem(422, "guard-mismatch");
    owner.get("/goods-stock/1").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "another guard").await, 1);
}
