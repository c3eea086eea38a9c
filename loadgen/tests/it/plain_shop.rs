//! A shop in the process of the tests, which is right or goes wrong in a way that a test chooses.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Finished, TestFolder, finish};

/// Units on sale in such a shop.
pub(crate) const STOCK: i64 = 10;

/// A shop that is right, unless its fields say otherwise.
#[derive(Debug, Default)]
pub(crate) struct PlainShop {
    pub(crate) stock: AtomicI64,
    pub(crate) orders: AtomicI64,
    /// Units that a reset restores.
    pub(crate) restored: i64,
    /// Whether a reset does nothing, and says that it is done.
    pub(crate) reset_lies: bool,
    /// Whether its page always shows the stock after a reset.
    pub(crate) is_cached: bool,
    /// Whether its page shows a unit less each time.
    pub(crate) shrinks: bool,
    /// The buyer that cannot log in.
    pub(crate) stranger: Option<&'static str>,
    /// Whether every purchase fails.
    pub(crate) is_down: bool,
    /// Whether purchases never end.
    pub(crate) hangs: bool,
    /// Whether a unit is sold twice in the first sale, and never again.
    pub(crate) errs_once: AtomicBool,
    /// How often each buyer has bought.
    pub(crate) bought: Mutex<HashMap<String, usize>>,
    /// How it keeps a limit of one unit per buyer, if it does.
    pub(crate) limit: Option<Limit>,
}

/// How a shop keeps a limit of one unit per buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A second purchase is refused with 403.
    Kept,
    /// Every purchase is refused with 403, also the first one.
    DeniedToAll,
}

impl PlainShop {
    pub(crate) fn right() -> PlainShop {
        PlainShop { restored: STOCK, ..PlainShop::default() }
    }

    /// Starts the shop, and returns its address.
    pub(crate) async fn start(self) -> String {
        let routes = Router::new()
            .route("/reset", post(reset))
            .route("/login", post(log_in))
            .route("/buy", post(buy))
            .route("/stock", get(stock))
            .with_state(Arc::new(self));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}")
    }
}

async fn reset(State(shop): State<Arc<PlainShop>>) -> StatusCode {
    if shop.reset_lies {
        return StatusCode::NO_CONTENT;
    }
    shop.stock.store(shop.restored, Ordering::SeqCst);
    shop.orders.store(0, Ordering::SeqCst);
    shop.bought.lock().unwrap().clear();
    StatusCode::NO_CONTENT
}

async fn log_in(State(shop): State<Arc<PlainShop>>, body: String) -> StatusCode {
    let is_stranger = shop.stranger.is_some_and(|stranger| body == format!("buyer={stranger}"));
    if is_stranger { StatusCode::FORBIDDEN } else { StatusCode::NO_CONTENT }
}

async fn buy(State(shop): State<Arc<PlainShop>>, buyer: String) -> Response {
    if shop.hangs {
        std::future::pending::<()>().await;
    }
    if shop.is_down {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut bought = shop.bought.lock().unwrap();
    let bought = bought.entry(buyer).or_default();
    if shop.limit == Some(Limit::DeniedToAll) || (shop.limit == Some(Limit::Kept) && *bought > 0) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let take = |left: i64| (left > 0).then_some(left - 1);
    let is_free = shop.errs_once.swap(false, Ordering::SeqCst);
    if !is_free && shop.stock.try_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
        return StatusCode::CONFLICT.into_response();
    }
    *bought += 1;
    let order = shop.orders.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::CREATED, Json(json!({ "order": order }))).into_response()
}

async fn stock(State(shop): State<Arc<PlainShop>>) -> Json<Value> {
    let left = if shop.is_cached {
        shop.restored
    } else if shop.shrinks {
        shop.stock.fetch_sub(1, Ordering::SeqCst)
    } else {
        shop.stock.load(Ordering::SeqCst)
    };
    Json(json!({ "left": left, "orders": shop.orders.load(Ordering::SeqCst) }))
}

/// The books of such a shop, on its page.
pub(crate) const BOOKS: &str = "[books]\nstock = { request = \"curl {{url}}/stock\", value = \"$.left\" }\norders = { request = \"curl \
                     {{url}}/stock\", count = \"$.orders\" }\n";

/// Writes the file of a shop, with these further lines.
pub(crate) fn write(folder: &TestFolder, name: &str, url: &str, rest: &str) {
    let text = format!(
        "[shop]\nname = \"{name}\"\nurls = [\"{url}\"]\nstock = {STOCK}\n[sale]\nrequests = [\"curl -X POST \
         {{{{url}}}}/reset\"]\n[buy]\nrequests = [\"curl -X POST {{{{url}}}}/buy -d buyer={{{{number}}}}\"]\nsold = [{{ status = \
         201 }}]\norder = \"$.order\"\n{rest}"
    );
    fs::write(folder.path(&format!("{name}.toml")), text).unwrap();
}

/// Checks these files, with few buyers and one trial.
pub(crate) fn check(folder: &TestFolder, args: &[&str]) -> Finished {
    let few = ["check", "--users", "30", "--trials", "1", "--no-warm-up"];
    finish(&mut folder.loadgen(few.iter().chain(args)))
}
