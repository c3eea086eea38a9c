//! Instances that die or freeze between the steps of a purchase.

use nix::sys::signal::Signal;
use testbed::StopSignal;
use tokio::net::TcpStream;

use super::support::RESERVE;
use crate::lab::{Lab, wait_until};
use crate::program::Program;

/// The business of a purchase takes longer than the test.
const STUCK: [&str; 8] =
    ["--lock-wait", "1s", "--db-timeout", "20m", "--http-timeout", "21m", "--business-time", "10m"];

/// Kills an instance.
async fn die(program: Program) {
    program.signal(Signal::SIGKILL);
    wait_until(async || TcpStream::connect(program.address).await.is_err()).await;
}

/// Goal: a buyer whose instance died between the two steps of one request loses nothing. Method: the request comes again, under its
/// key and to another instance.
// S116
#[tokio::test]
async fn a_purchase_that_died_between_its_steps_goes_on() {
    let lab = Lab::new().await;
    let arguments = [&STUCK[..], &["--reservation-ttl", "1h", "--key-lifetime", "24h"]].concat();
    let program = Program::start(&lab, StopSignal::Terminate, &arguments, &[]).await;
    program.put_on_sale(1, 1, RESERVE).await.assert_ok();
    let buyer = program.spawn_order(1, 1, "", "key");
    wait_until(async || lab.in_state("held").await == 1).await;
    assert_eq!(lab.assert_balance(1).await, (0, 1, 0));
    buyer.abort();
    die(program).await;

    let instance = lab.start(&[]).await;
    instance.order(1, 1, "", "another").await.assert_problem(409, "sold-out");
    let sold = instance.order(1, 1, "", "key").await;
    sold.assert_created();
    instance.order(1, 1, "", "key").await.assert_replay_of(&sold);
    assert_eq!(lab.in_state("confirmed").await, 1, "it is the same reservation");
    assert_eq!(lab.assert_balance(1).await, (0, 0, 1));
}

// S116
#[tokio::test]
async fn units_held_by_a_dead_instance_sell_again() {
    let lab = Lab::new().await;
    let arguments = [&STUCK[..], &["--reservation-ttl", "601s", "--key-lifetime", "24h"]].concat();
    let program = Program::start(&lab, StopSignal::Terminate, &arguments, &[]).await;
    program.put_on_sale(1, 1, RESERVE).await.assert_ok();
    let buyer = program.spawn_order(1, 1, "", "key");
    wait_until(async || lab.in_state("held").await == 1).await;
    buyer.abort();
    die(program).await;
    // As if the time had passed.
    let sql = "update reservations set expires_at = clock_timestamp()";
    sqlx::query(sql).execute(&mut lab.connect().await).await.unwrap();
    let instance = lab.start(&[]).await;
    instance.order(1, 1, "", "another").await.assert_created();
    instance.order(1, 1, "", "key").await.assert_problem(409, "sold-out");
    assert_eq!(lab.assert_balance(1).await, (0, 0, 1));
}

/// Goal: an instance that freezes keeps neither units nor other sweepers from their work, and does no harm when it goes on.
// S115
#[tokio::test]
async fn the_sweeper_of_a_paused_instance_keeps_nothing() {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &["--reservation-ttl", "300ms"], &[]).await;
    program.put_on_sale(1, 4, RESERVE).await.assert_ok();
    let numbers = [program.hold(1, 2, "1").await, program.hold(1, 2, "2").await];
    program.pause().await;
    let other = lab.start(&["--reservation-ttl", "1h"]).await;
    wait_until(async || lab.in_state("held").await == 0).await;
    let next = other.hold(1, 4, "3").await;
    program.go_on();
    for number in numbers {
        program.confirm(number).await.assert_problem(410, "reservation-expired");
    }
    program.confirm(next).await.assert_created();
    assert_eq!(lab.assert_balance(1).await, (0, 0, 4));
}

/// Goal: a shutdown finishes a confirmation that has begun.
#[tokio::test]
async fn a_shutdown_waits_for_a_payer_under_way() {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    program.put_on_sale(1, 1, RESERVE).await.assert_ok();
    let number = program.hold(1, 1, "key").await;
    let row = lab.lock(&format!("select from reservations where reservation_id = {number} for update")).await;
    let shop = crate::lab::Shop::at(program.address);
    let payer = tokio::spawn(async move { shop.confirm(number).await });
    lab.wait_for_lock().await;
    program.signal(Signal::SIGTERM);
    wait_until(async || TcpStream::connect(program.address).await.is_err()).await;
    row.release().await;
    payer.await.unwrap().assert_created();
    assert_eq!(lab.assert_balance(1).await, (0, 0, 1));
}
