//! A service that runs for years: it opens another session after each one that has ended, and leads again after each lost term.
//!
//! ```text
//! ZOOKEEPER_CONNECT=127.0.0.1:2181 cargo run --example leader
//! ```
//!
//! Start it twice: one instance leads, and the other one waits. Stop the leader with Ctrl-Z for ten seconds, and go on with `fg`. The
//! other instance leads, and the first one stands again, on another session. An instance gives its office back and ends with its
//! standard input, at Ctrl-D. A service would wait for SIGTERM instead.
//!
//! * [`Sessions`] serves every task that needs a lock. A lock belongs to its session, so a task makes its lock anew for each use.
//! * [`lead`] takes office, works, and stands again. The work never runs outside of a term. It is a future, so the loss of the term
//!   drops it. Its cancellation token stops what it has started in other tasks.
//! * No failure ends the loop, and each one is told. Between two terms there is a pause: other instances lead meanwhile, and a failure
//!   that comes at once is not repeated at once.

#![allow(clippy::print_stdout, reason = "the story is told there")]

use std::time::Duration;
use std::{env, io, process, thread};

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_recipes::{Error, LeaderLatch, LockGuard, Session, SessionConfig};

/// The path of the election.
const ELECTION: &str = "/leaders/example";

/// The pause before the service connects or stands again.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let servers = env::var("ZOOKEEPER_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".to_owned());
    let sessions = Sessions::open(servers).await?;
    let stop = CancellationToken::new();
    thread::spawn({
        let stop = stop.clone();
        move || {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            stop.cancel();
        }
    });
    lead(&sessions, &stop).await;
    sessions.close().await
}

/// The session of the service. Another one takes its place when it has ended.
struct Sessions {
    current: watch::Receiver<Session>,
}

impl Sessions {
    /// Opens the first session. So wrong settings end the service at its start.
    async fn open(servers: String) -> Result<Self, Error> {
        let (sender, current) = watch::channel(connect(&servers).await?);
        tokio::spawn(keep(servers, sender));
        Ok(Self { current })
    }

    /// Returns a session that has not ended. Waits until there is one.
    async fn current(&self) -> Session {
        let mut current = self.current.clone();
        let session = current.wait_for(|session| !session.is_ended()).await;
        session.expect("BUG: nobody keeps the sessions").clone()
    }

    /// Closes the last session.
    async fn close(self) -> Result<(), Error> {
        let session = self.current.borrow().clone();
        drop(self);
        session.close().await
    }
}

/// Opens another session each time one has ended, until nobody uses the sessions any more.
async fn keep(servers: String, sessions: watch::Sender<Session>) {
    loop {
        let session = sessions.borrow().clone();
        tokio::select! {
            biased;
            () = sessions.closed() => return,
            reason = session.ended() => println!("session {} has ended: {reason}", session.id()),
        }
        let next = loop {
            match connect(&servers).await {
                Ok(session) => break session,
                Err(error) => println!("{error}"),
            }
            sleep(PAUSE).await;
        };
        sessions.send_replace(next);
    }
}

async fn connect(servers: &str) -> Result<Session, Error> {
    let session = Session::connect(servers, SessionConfig::default().with_timeout(Duration::from_secs(4))).await?;
    println!("session {} is open", session.id());
    Ok(session)
}

/// Leads again and again until `stop`.
async fn lead(sessions: &Sessions, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = serve_a_term(sessions, stop).await {
            println!("{error}");
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Takes office, works, and gives the office back.
async fn serve_a_term(sessions: &Sessions, stop: &CancellationToken) -> Result<(), Error> {
    let elected = async {
        let latch = LeaderLatch::new(&sessions.current().await, ELECTION)?.with_id(process::id().to_string())?;
        latch.lead().await
    };
    let term = tokio::select! {
        term = elected => term?,
        // The future of a candidate leaves the election when it is dropped.
        () = stop.cancelled() => return Ok(()),
    };
    println!("leads with token {}", term.token());
    // If the term is lost, this drops the work, and then the guard.
    term.run(work(&term, stop)).await?;
    // The work has ended, so others may lead from here on.
    term.release().await?;
    println!("gave the office back");
    Ok(())
}

/// Does the work of the leader. When it is told to stop, it first ends what it has begun.
async fn work(term: &LockGuard, stop: &CancellationToken) {
    let over = term.cancellation_token();
    // A task goes on when this future is dropped. So it looks at the cancellation token.
    let task = tokio::spawn({
        let over = over.clone();
        async move {
            over.cancelled().await;
            println!("the task of the term has ended");
        }
    });
    stop.cancelled().await;
    over.cancel();
    let _ = task.await;
}
