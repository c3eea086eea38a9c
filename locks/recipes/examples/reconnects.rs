//! Measures which round trips a hold survives while its session connects again.
//!
//! ```text
//! make reconnects
//! ```
//!
//! Each session holds a lock over slow links. Its connection is cut at any moment, and every server can be reached again at once.
//! The table shows how many of the holds were kept. Another contender waits for each lock, and must not be granted while the hold is
//! not lost.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the table is told there, and a measurement may fail")]

use std::time::Duration;

use futures_util::future::join_all;
use testbed::{Ensemble, EnsembleConfig, Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{HoldState, LockGuard, Mutex, Session, SessionConfig, Waiter};

/// Session timeouts, each with the tick of the servers if the session is given it.
const SETTINGS: [(Duration, Option<Duration>); 3] = [
    (Duration::from_secs(4), None),
    (Duration::from_secs(10), None),
    (Duration::from_secs(10), Some(Duration::from_secs(2))),
];

/// A round trip takes the session timeout divided by one of these.
const PARTS: [u32; 11] = [60, 40, 30, 25, 22, 20, 18, 16, 14, 12, 10];

/// Sessions for each cell of the table.
const SESSIONS: u32 = 12;

/// Servers for all sessions of a row.
enum Servers {
    One(Box<ZooKeeper>),
    Three(Ensemble),
}

impl Servers {
    fn connect_strings(&self) -> Vec<String> {
        match self {
            Self::One(server) => vec![server.connect_string()],
            Self::Three(ensemble) => ensemble.connect_strings(),
        }
    }
}

/// One hold, the links of its session, and a contender that waits for the lock without them.
struct Run {
    links: Vec<Proxy>,
    _session: Session,
    held: LockGuard,
    rival: Waiter,
}

impl Run {
    async fn open(
        servers: &[String],
        config: SessionConfig,
        round_trip: Duration,
        rival: &Session,
        path: String,
    ) -> Self {
        let links: Vec<Proxy> = join_all(servers.iter().map(async |server| Proxy::start(server).await.unwrap())).await;
        let connect_string = links.iter().map(Proxy::connect_string).collect::<Vec<_>>().join(",");
        let session = Session::connect(&connect_string, config).await.unwrap();
        for link in &links {
            link.delay(round_trip / 2);
        }
        let held = Mutex::new(&session, &path).unwrap().acquire().await.unwrap();
        let rival = Mutex::new(rival, &path).unwrap().enqueue().await.unwrap();
        Self { links, _session: session, held, rival }
    }

    /// Cuts the connection once it has been used for a while, and tells whether the hold was kept.
    async fn survives_a_cut(self, used_for: Duration) -> bool {
        tokio::time::sleep(used_for).await;
        let Self { links, held, rival, _session } = self;
        links.iter().for_each(Proxy::cut);
        let granted = rival.granted();
        let settled = async {
            let mut is_away = false;
            loop {
                match held.state() {
                    HoldState::Suspect => is_away = true,
                    HoldState::Held if is_away => return true,
                    HoldState::Held => {}
                    HoldState::Lost(_) => return false,
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let is_kept = tokio::select! {
            biased;
            is_kept = settled => is_kept,
            _ = granted => panic!("two hold"),
        };
        drop(held.release().await);
        is_kept
    }
}

#[tokio::main]
async fn main() {
    println!("| `T` | tick | servers | {} |", PARTS.map(|part| format!("`T/{part}`")).join(" | "));
    println!("|---:|---:|---:|{}", "---:|".repeat(PARTS.len()));
    for (timeout, tick_time) in SETTINGS {
        let mut config = SessionConfig::default().with_timeout(timeout).with_connect_within(timeout * 10);
        config.tick_time = tick_time;
        let tick = tick_time.map_or("not given".to_owned(), |tick| format!("{} s, given", tick.as_secs()));
        for servers in [
            Servers::One(Box::new(ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap())),
            Servers::Three(Ensemble::start(EnsembleConfig::default()).await.unwrap()),
        ] {
            let addresses = servers.connect_strings();
            let rival = SessionConfig::default().with_timeout(Duration::from_secs(60));
            let rival = Session::connect(&addresses.join(","), rival).await.unwrap();
            let kept = join_all(PARTS.map(async |part| {
                let rows = (0..SESSIONS).map(async |row| {
                    let path = format!("/locks/{part}/{row}");
                    let phase = timeout / 5 * row / SESSIONS;
                    let row = Run::open(&addresses, config.clone(), timeout / part, &rival, path).await;
                    // After several proofs, and at any moment between two of them.
                    row.survives_a_cut(timeout * 3 / 2 + phase).await
                });
                join_all(rows).await.into_iter().filter(|&is_kept| is_kept).count()
            }))
            .await;
            let cells: Vec<String> = kept.iter().map(|kept| format!("{kept}")).collect();
            println!("| {} s | {tick} | {} | {} |", timeout.as_secs(), addresses.len(), cells.join(" | "));
        }
    }
}
