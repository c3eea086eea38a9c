//! The buyers of a batch that is handed over: each is answered as soon as the owner has decided its purchase.

use serde_json::json;
use tokio::task::JoinHandle;

use super::instances::{Replies, Sender, TestOwner, reply};
use super::{STRATEGY, make_owner, named, owner_and_other};
use crate::commits::Gate;
use crate::lab::{Answer, Instance, Lab};

/// The database refuses each batch of several orders, as if a key were in use. So the owner divides it.
const DIVIDE_BATCHES: &str = "create function divide() returns trigger language plpgsql as
     $$ begin
         if (select count(*) from added) > 1 then
             raise 'a batch of several orders' using errcode = 'lock_not_available';
         end if;
         return null;
     end $$;
     create trigger divide after insert on orders referencing new table as added
     for each statement execute function divide()";

/// Goal: a purchase that takes long delays no other answer of its batch. Method: the owner sells the two purchases of a batch by
/// two commits, and the second commit waits at a gate. Only this purchase has a key, so only its commit meets the gate.
// S47
#[tokio::test]
async fn a_slow_purchase_delays_nobody_who_was_handed_over_with_it() {
    let lab = Lab::new().await;
    let [owner, other] = owner_and_other(&lab).await;
    make_owner(&owner).await;
    sqlx::raw_sql(DIVIDE_BATCHES).execute(&mut lab.connect().await).await.unwrap();
    Gate::before_commits(&lab, "idempotency_keys", "insert").await;
    let gate = Gate::close(&lab).await;
    let orders = lab.lock_orders().await;
    let first = other.spawn_buy(1, STRATEGY);
    // The batch of the first buyer waits for the table. The next two buyers are one batch.
    lab.wait_for_lock().await;
    let quick = other.spawn_buy(1, STRATEGY);
    other.wait_for_waiting(STRATEGY, 1).await;
    let slow = other.spawn_order(1, 1, STRATEGY, "slow");
    other.wait_for_waiting(STRATEGY, 2).await;
    orders.release().await;
    first.await.unwrap().assert_ok();
    quick.await.unwrap().assert_ok();
    assert!(!slow.is_finished());
    gate.open().await;
    slow.await.unwrap().assert_created();
    assert_eq!(lab.assert_adds_up(1, "a batch in two commits").await, 4);
}

/// How the replies to a batch end.
type End = fn(&Replies);

/// Lets an instance hand two buyers over in one batch. Returns them with the way to reply to it.
async fn two_in_a_batch(instance: &Instance, owner: &mut TestOwner) -> ([JoinHandle<Answer>; 2], Replies) {
    let first = instance.spawn_buy(1, STRATEGY);
    let (_, replies) = owner.batch().await;
    let one = instance.spawn_buy(1, STRATEGY);
    instance.wait_for_waiting(STRATEGY, 1).await;
    let two = instance.spawn_buy(1, STRATEGY);
    instance.wait_for_waiting(STRATEGY, 2).await;
    replies.sold_out(0);
    drop(replies);
    first.await.unwrap().assert_problem(409, "sold-out");
    let (batch, replies) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 2, "{batch}");
    ([one, two], replies)
}

/// Goal: however the answer of an owner ends, the replies that have come count. Method: the test is the owner. It ends the
/// answer when it has seen that the first buyer was answered.
// S48
#[tokio::test]
async fn only_buyers_whose_answer_did_not_come_get_an_unknown_outcome() {
    let lab = Lab::new().await;
    let instance = named(&lab, "instance").await;
    let mut owner = TestOwner::elect(&lab).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let ends: [(&str, End); 6] = [
        ("the body ends", |_| ()),
        ("the connection breaks", Replies::break_off),
        ("a reply breaks off", |replies| replies.send(r#"{"index":1"#)),
        ("a reply that cannot be read", |replies| replies.send("?\n")),
        ("a reply to a buyer who was answered", |replies| replies.sold_out(0)),
        ("a reply to a buyer who is none", |replies| replies.sold_out(2)),
    ];
    for (context, end) in ends {
        let ([one, two], replies) = two_in_a_batch(&instance, &mut owner).await;
        replies.sold_out(0);
        one.await.unwrap().assert_problem(409, "sold-out");
        assert!(!two.is_finished(), "{context}");
        end(&replies);
        drop(replies);
        let answer = two.await.unwrap();
        assert_eq!(answer.problem(), Some("outcome-unknown"), "{context}: {answer:?}");
    }
    // The owner says that it has not decided the first purchase. So this one is handed over again.
    let ([one, two], replies) = two_in_a_batch(&instance, &mut owner).await;
    replies.send(&(reply(0, &json!("elsewhere")) + "?\n"));
    drop(replies);
    two.await.unwrap().assert_problem(503, "outcome-unknown");
    let (batch, replies) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 1, "{batch}");
    replies.sold_out(0);
    drop(replies);
    one.await.unwrap().assert_problem(409, "sold-out");
    assert_eq!(lab.orders().await, 0);
}

/// Goal: a buyer whose instance is gone buys nothing. Method: the test hands a buyer over, and hangs up while the buyer waits for
/// its batch at the owner.
// S49
#[tokio::test]
async fn a_buyer_whose_instance_hangs_up_waits_no_longer_at_the_owner() {
    let lab = Lab::new().await;
    let owner = named(&lab, "owner").await;
    make_owner(&owner).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let first = owner.spawn_buy(1, STRATEGY);
    lab.wait_for_statement("active", "commit").await;
    let mut sender = Sender::connect(&lab).await;
    for part in sender.batch() {
        sender.send(&part).await;
    }
    owner.wait_for_waiting(STRATEGY, 1).await;
    drop(sender);
    owner.wait_for_waiting(STRATEGY, 0).await;
    gate.open().await;
    first.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "an instance is gone").await, 2);
}
