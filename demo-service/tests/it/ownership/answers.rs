//! The buyers of a batch that is handed over: each is answered as soon as the owner has decided its purchase.

use serde_json::json;
use sqlx::{Connection, Executor};
use tokio::task::JoinHandle;

use super::peers::{Answers, Owner, Sender, line, wait_for_waiting};
use super::{STRATEGY, make_owner, named};
use crate::commits::Gate;
use crate::lab::{Answer, Instance, Lab, Shop};

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
async fn a_buyer_that_was_handed_over_is_answered_before_the_rest_of_its_batch_is_decided() {
    let lab = Lab::new().await;
    let (owner, other) = (named(&lab, "owner").await, named(&lab, "other").await);
    make_owner(&owner).await;
    sqlx::raw_sql(DIVIDE_BATCHES).execute(&mut lab.connect().await).await.unwrap();
    Gate::before_commits(&lab, "idempotency_keys", "insert").await;
    let gate = Gate::close(&lab).await;
    let mut connection = lab.connect().await;
    let mut elsewhere = connection.begin().await.unwrap();
    elsewhere.execute("lock table orders in share mode").await.unwrap();
    let first = other.spawn_buy(1, STRATEGY);
    // The batch of the first buyer waits for the table. The next two buyers are one batch.
    lab.wait_for_lock().await;
    let quick = other.spawn_buy(1, STRATEGY);
    wait_for_waiting(&other, 1).await;
    let shop = Shop::at(other.address);
    let slow = tokio::spawn(async move { shop.order(1, 1, STRATEGY, "slow").await });
    wait_for_waiting(&other, 2).await;
    elsewhere.rollback().await.unwrap();
    first.await.unwrap().assert_ok();
    quick.await.unwrap().assert_ok();
    assert!(!slow.is_finished());
    gate.open().await;
    slow.await.unwrap().assert_created();
    assert_eq!(lab.assert_adds_up(1, "a batch in two commits").await, 4);
}

/// How an answer ends.
type End = fn(&Answers);

/// Two buyers of an instance who are handed over in one batch, and the way to answer it.
async fn two_in_a_batch(instance: &Instance, owner: &mut Owner) -> ([JoinHandle<Answer>; 2], Answers) {
    let first = instance.spawn_buy(1, STRATEGY);
    let (_, answers) = owner.batch().await;
    let one = instance.spawn_buy(1, STRATEGY);
    wait_for_waiting(instance, 1).await;
    let two = instance.spawn_buy(1, STRATEGY);
    wait_for_waiting(instance, 2).await;
    answers.sold_out(0);
    drop(answers);
    first.await.unwrap().assert_problem(409, "sold-out");
    let (batch, answers) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 2, "{batch}");
    ([one, two], answers)
}

/// Goal: however the answer of an owner ends, the answers that have come count. Method: the test is the owner. It ends the
/// answer when it has seen that the first buyer was answered.
// S48
#[tokio::test]
async fn only_buyers_whose_answer_did_not_come_get_an_unknown_outcome() {
    let lab = Lab::new().await;
    let instance = named(&lab, "instance").await;
    let mut owner = Owner::elect(&lab).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let ends: [(&str, End); 6] = [
        ("the body ends", |_| ()),
        ("the connection breaks", Answers::break_off),
        ("a line breaks off", |answers| answers.send(r#"{"place":1"#)),
        ("a line that cannot be read", |answers| answers.send("?\n")),
        ("a place that was answered", |answers| answers.sold_out(0)),
        ("a place that is none", |answers| answers.sold_out(2)),
    ];
    for (context, end) in ends {
        let ([one, two], answers) = two_in_a_batch(&instance, &mut owner).await;
        answers.sold_out(0);
        one.await.unwrap().assert_problem(409, "sold-out");
        assert!(!two.is_finished(), "{context}");
        end(&answers);
        drop(answers);
        let answer = two.await.unwrap();
        assert_eq!(answer.problem(), Some("outcome-unknown"), "{context}: {answer:?}");
    }
    // The owner says that it has not decided the first purchase. So this one is handed over again.
    let ([one, two], answers) = two_in_a_batch(&instance, &mut owner).await;
    answers.send(&(line(0, &json!("elsewhere")) + "?\n"));
    drop(answers);
    two.await.unwrap().assert_problem(503, "outcome-unknown");
    let (batch, answers) = owner.batch().await;
    assert_eq!(batch["purchases"].as_array().unwrap().len(), 1, "{batch}");
    answers.sold_out(0);
    drop(answers);
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
    wait_for_waiting(&owner, 1).await;
    drop(sender);
    wait_for_waiting(&owner, 0).await;
    gate.open().await;
    first.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "an instance is gone").await, 2);
}
