//! Shows a holder that is paused at the worst moment, and a storage that rejects its late write.
//!
//! ```text
//! ZOOKEEPER_CONNECT=127.0.0.1:2181 cargo run --example fenced_off
//! ```
//!
//! Two buyers sell one unit each from a stock of ten, under one lock. Each buyer is a process of its own. Buyer A is stopped
//! between the grant of the lock and its write. Its session expires, and buyer B is granted the lock and sells. Then A continues,
//! and writes the stock that it computed before. A does not check its hold again before the write. Such a check would not help,
//! because A could be stopped right after it. So no check in a program rules this out.
//!
//! The storage here is this program. A database row does the same with one more column, the fence. The statement that reads
//! raises the fence, and the statement that writes checks it.
//!
//! `ZOOKEEPER_CONNECT` names a ZooKeeper server that runs. In the repository, `cargo run -p testbed -- -- COMMAND` starts one for
//! a command and sets the variable.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the story is told there")]

use std::error::Error;
use std::fmt::Display;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use zk_recipes::{Mutex, Session, SessionConfig};

const LOCK: &str = "/zk-recipes-examples/fenced-off";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(servers) => buy(&servers).await,
        None => storage(&std::env::var("ZOOKEEPER_CONNECT").map_err(|_| "set ZOOKEEPER_CONNECT to HOST:PORT")?).await,
    }
}

/// The row that the lock guards: the stock, and the greatest token that has read it.
struct Row {
    stock: i64,
    fence: i64,
}

impl Row {
    /// `update goods set fence = $token where fence <= $token returning stock`
    fn read(&mut self, token: i64) -> Option<i64> {
        (self.fence <= token).then(|| {
            self.fence = token;
            self.stock
        })
    }

    /// `update goods set stock = $stock where fence = $token`
    fn write(&mut self, token: i64, stock: i64) -> bool {
        let is_current = self.fence == token;
        if is_current {
            self.stock = stock;
        }
        is_current
    }
}

async fn storage(servers: &str) -> Result<(), Box<dyn Error>> {
    let mut row = Row { stock: 10, fence: 0 };

    let mut a = Buyer::start("A", servers)?;
    let stock_for_a = a.read(&mut row).await?;
    a.signal(Signal::SIGSTOP)?;
    println!("A is stopped while the answer is on its way");
    a.answer(stock_for_a).await?;

    let mut b = Buyer::start("B", servers)?;
    println!("B queues up behind A, whose session runs out");
    let stock_for_b = b.read(&mut row).await?;
    b.answer(stock_for_b).await?;
    let sold_by_b = b.write(&mut row).await?;

    a.signal(Signal::SIGCONT)?;
    println!("A goes on");
    let sold_by_a = a.write(&mut row).await?;

    println!("stock: 10 before, {} now; sold by B: {sold_by_b}, by A: {sold_by_a}", row.stock);
    for buyer in [a, b] {
        buyer.leave().await?;
    }
    if (row.stock, sold_by_a, sold_by_b) == (9, false, true) {
        Ok(())
    } else {
        Err("a unit was sold that the stock does not know of".into())
    }
}

/// A buyer's process, as the storage sees it.
struct Buyer {
    name: &'static str,
    process: Child,
    requests: Lines<BufReader<ChildStdout>>,
    answers: ChildStdin,
}

impl Buyer {
    fn start(name: &'static str, servers: &str) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(servers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (requests, answers) = process.stdout.take().zip(process.stdin.take()).ok_or("the buyer has no pipes")?;
        Ok(Self { name, process, requests: BufReader::new(requests).lines(), answers })
    }

    async fn request(&mut self) -> Result<Vec<i64>, Box<dyn Error>> {
        let line = self.requests.next_line().await?.ok_or("the buyer has ended")?;
        Ok(line.split(' ').map(str::parse).collect::<Result<_, _>>()?)
    }

    async fn answer(&mut self, answer: impl Display) -> Result<(), Box<dyn Error>> {
        Ok(self.answers.write_all(format!("{answer}\n").as_bytes()).await?)
    }

    async fn read(&mut self, row: &mut Row) -> Result<i64, Box<dyn Error>> {
        let [token] = self.request().await?[..] else { return Err("not a read".into()) };
        let stock = row.read(token).ok_or("the reader was overtaken")?;
        println!("{} holds with token {token} and reads a stock of {stock}; the fence is {}", self.name, row.fence);
        Ok(stock)
    }

    async fn write(&mut self, row: &mut Row) -> Result<bool, Box<dyn Error>> {
        let [token, stock] = self.request().await?[..] else { return Err("not a write".into()) };
        let fence = row.fence;
        let written = row.write(token, stock);
        let verdict = if written { "written" } else { "refused: somebody with a later token has read" };
        println!("{} writes a stock of {stock} with token {token} against the fence {fence}: {verdict}", self.name);
        self.answer(written).await?;
        Ok(written)
    }

    fn signal(&self, signal: Signal) -> Result<(), Box<dyn Error>> {
        let pid = self.process.id().ok_or("the buyer has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    async fn leave(mut self) -> Result<(), Box<dyn Error>> {
        self.process.wait().await?;
        Ok(())
    }
}

/// Makes one purchase. The storage is at the other end of standard input and output.
async fn buy(servers: &str) -> Result<(), Box<dyn Error>> {
    let mut answers = BufReader::new(tokio::io::stdin()).lines();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(4));
    let session = Session::connect(servers, config).await?;
    let held = Mutex::new(&session, LOCK)?.acquire().await?;
    println!("{}", held.token());
    let stock: i64 = answers.next_line().await?.ok_or("the storage has ended")?.parse()?;
    println!("{} {}", held.token(), stock - 1);
    answers.next_line().await?.ok_or("the storage has ended")?;
    if let Err(lost) = held.release().await {
        eprintln!("a buyer hears afterwards: {lost}");
    }
    Ok(())
}
