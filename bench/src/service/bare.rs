//! A handler that answers like `GET /goods/{goods_no}` and reads nothing.

use std::io::{self, Write as _};

use axum::extract::Path;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::net::TcpListener;

#[derive(Serialize)]
struct Goods {
    goods_no: i64,
    sale: i64,
    stock_initial: i64,
    on_hand: i64,
    guard: &'static str,
    strategy: &'static str,
}

/// Serves on a free port until the process is stopped. Prints the port.
pub(crate) async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let show = |Path(goods_no): Path<i64>| async move {
        Json(Goods {
            goods_no,
            sale: 1,
            stock_initial: 1_000_000_000,
            on_hand: 999_999_999,
            guard: "pg-row",
            strategy: "pg-conditional",
        })
    };
    axum::serve(listener, Router::new().route("/goods/{goods_no}", get(show))).await
}
