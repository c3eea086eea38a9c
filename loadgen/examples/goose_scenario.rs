//! Checks the shop `loadgen/tests/shops/course_shop.py` by a goose scenario: buyers log in, buy, and wait in a queue.
//!
//! `cargo run --release -p loadgen --example goose_scenario -- loadgen/tests/shops/course_shop.toml --users 100`

use std::process::ExitCode;
use std::time::Duration;

use goose::prelude::*;
use loadgen::scenario::{BegunPurchase, check, rendezvous};
use serde_json::Value;

/// The token of a buyer that has logged in.
#[derive(Clone)]
struct AuthToken(String);

fn main() -> ExitCode {
    let log_in = transaction!(log_in).set_name("log in").set_on_start();
    let buy = transaction!(buy).set_name("buy");
    check(scenario!("course").register_transaction(log_in).register_transaction(buy))
}

async fn log_in(user: &mut GooseUser) -> TransactionResult {
    let phone = [("phone", user.weighted_users_index)];
    // To goose, 403 is an answer like any other. An error ends the check with the number of the buyer.
    let answer = user.post_form("/user/login", &phone).await?.response?.error_for_status()?;
    let answer: Value = answer.json().await?;
    let token = answer["data"].as_str().ok_or("the login gave no token")?;
    user.set_session_data(AuthToken(token.to_owned()));
    Ok(())
}

async fn buy(user: &mut GooseUser) -> TransactionResult {
    let purchase = rendezvous().await;
    let answer = ask(user, GooseMethod::Post, "/voucher-order/seckill/1").await?;
    let Some(ticket) = answer["data"].as_str() else { return tell(purchase, &answer) };
    loop {
        let answer = ask(user, GooseMethod::Get, &format!("/orders/{ticket}")).await?;
        match answer["data"]["status"].as_str() {
            Some("queued") => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => return tell(purchase, &answer),
        }
    }
}

/// Says what an answer of the shop told the buyer.
fn tell(purchase: BegunPurchase, answer: &Value) -> TransactionResult {
    match (answer["data"]["orderId"].as_str(), answer["errorMsg"].as_str()) {
        (Some(order), _) => purchase.sold(Some(order.to_owned())),
        (None, Some("库存不足")) => purchase.sold_out(),
        (None, why) => purchase.refused(why.unwrap_or("no reason")),
    }
    Ok(())
}

async fn ask(user: &mut GooseUser, method: GooseMethod, path: &str) -> Result<Value, Box<TransactionError>> {
    let token = user.get_session_data_unchecked::<AuthToken>().0.clone();
    let request = user.get_request_builder(&method, path)?.header("authorization", token);
    let request = GooseRequest::builder().method(method).path(path).set_request_builder(request).build();
    Ok(user.request(request).await?.response?.error_for_status()?.json().await?)
}
