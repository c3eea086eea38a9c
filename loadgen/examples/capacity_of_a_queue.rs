//! Searches for the capacity of a queue that is known, and counts the intervals that contain it.
//!
//! `cargo run --release -p loadgen --example capacity_of_a_queue -- SEARCHES` starts a shop whose buyers wait in one queue, which
//! serves one of them in every tick. It runs `loadgen capacity`, which has to be built beside it, at this shop: each time with
//! another tick. At least eight of ten intervals have to contain the truth and to reach at most 5 % above and below their middle, or
//! the exit status is 1.
//!
//! The truth follows from the tick. Let μ buyers be served a second, λ arrive a second, evenly spaced, for L seconds. The buyer at
//! the share s of the load waits s·L·(λ/μ − 1) + 1/μ. One in a hundred waits longer than T if λ = μ·(1 + (T − 1/μ) / (0.99·L)).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the output, errors go beside it")]

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// The time that one in a hundred buyers may exceed.
const WITHIN: Duration = Duration::from_millis(100);
/// Buyers that are served a second: the least and the most.
const SERVED: [f64; 2] = [150.0, 400.0];
/// The share of the intervals that have to contain the truth.
const SHARE_MIN: f64 = 0.8;

/// A queue that serves a buyer in every tick.
struct QueueShop {
    tick: Duration,
    /// When the next buyer can be served.
    free_at: Mutex<Instant>,
}

async fn buy(State(queue): State<Arc<QueueShop>>) -> StatusCode {
    let served_at = {
        let mut free_at = queue.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(Instant::now()) + queue.tick;
        *free_at
    };
    tokio::time::sleep_until(served_at).await;
    StatusCode::CREATED
}

/// Empties the queue, so that all trials begin alike.
async fn reset(State(queue): State<Arc<QueueShop>>) -> StatusCode {
    *queue.free_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    StatusCode::NO_CONTENT
}

/// What a search found, beside the truth.
struct FoundCapacity {
    low: f64,
    high: f64,
    truth: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let searches =
        std::env::args().nth(1).map_or(Some(10), |text| text.parse::<u32>().ok().filter(|searches| *searches > 0));
    let Some(searches) = searches else {
        eprintln!("usage: capacity_of_a_queue [SEARCHES]");
        return ExitCode::from(64);
    };
    println!("| served a second | truth | interval | contains it | ± |\n|--:|--:|--:|---|--:|");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut hits = 0;
    for _ in 0..searches {
        let served = random.random_range(SERVED[0]..SERVED[1]);
        let FoundCapacity { low, high, truth } = match search(served).await {
            Ok(search) => search,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(3);
            }
        };
        let contains = (low..=high).contains(&truth);
        let half = 100.0 * (high - low) / (high + low);
        hits += u32::from(contains && half < 5.05);
        let word = if contains { "yes" } else { "no" };
        println!("| {served:.1} | {truth:.1} | {low:.1} to {high:.1} | {word} | {half:.1} % |");
    }
    println!("\n{hits} of {searches} intervals contain the truth, and reach at most 5 % above and below their middle");
    ExitCode::from(u8::from(f64::from(hits) < SHARE_MIN * f64::from(searches)))
}

/// Searches for the capacity of a queue that serves this many buyers a second.
async fn search(served: f64) -> Result<FoundCapacity, Box<dyn Error>> {
    let tick = Duration::from_secs_f64(served.recip());
    let queue = Arc::new(QueueShop { tick, free_at: Mutex::new(Instant::now()) });
    let routes = Router::new().route("/buy", post(buy)).route("/reset", post(reset)).with_state(queue);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    let folder = tempfile::tempdir()?;
    let shop = format!(
        "[shop]\nname = \"queue\"\nurls = [\"{url}\"]\nstock = 100000000\n[sale]\nrequests = [\"curl -X POST {{{{url}}}}/reset\"]\n\
         [buy]\nrequests = [\"curl -X POST {{{{url}}}}/buy\"]\nsold = [{{ status = 201 }}]\n"
    );
    std::fs::write(folder.path().join("shop.toml"), shop)?;
    let mut loadgen = Command::new(program()?);
    loadgen.args(["capacity", "shop.toml", "--until", "p99<100ms", "--arrivals", "constant", "--quiet"]);
    loadgen.args(["--lowest", "50", "--highest", "2000"]).current_dir(folder.path());
    let ended = tokio::task::spawn_blocking(move || loadgen.output()).await??;
    server.abort();
    if !ended.status.success() {
        return Err(
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr)).into()
        );
    }
    let report: Value = serde_json::from_slice(&std::fs::read(folder.path().join("report/capacity.json"))?)?;
    let result = &report["results"][0];
    let found = &result["rules"][0]["capacity"];
    let bound = |name: &str| found[name].as_f64().ok_or_else(|| format!("the search has no bounds: {found}"));
    let lengths = result["trials"].as_array().into_iter().flatten().filter_map(|trial| trial["seconds"].as_f64());
    let length = lengths.fold(0.0, f64::max);
    let truth = served * (1.0 + (WITHIN - tick).as_secs_f64() / (0.99 * length));
    Ok(FoundCapacity { low: bound("low")?, high: bound("high")?, truth })
}

/// Returns the path of `loadgen`, in the folder above the examples.
fn program() -> Result<PathBuf, Box<dyn Error>> {
    let path = std::env::current_exe()?.with_file_name("../loadgen");
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} not found; build it by `cargo build --release`", path.display()).into())
    }
}
