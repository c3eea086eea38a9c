//! Contenders that are not of the library: raw sessions that queue by Curator's protocol.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::checker::{CertainHold, Time};
use crate::contended_paths::{self, BRIEF, BUSY};
use crate::record::{Record, Subject};
use crate::stress_run::{StressRun, expect_lasting};

/// The pause between two looks at the queue, and between two attempts after a lost connection.
const PAUSE: Duration = Duration::from_millis(5);

/// A session that contends by names of Curator's.
pub(crate) struct Foreign {
    record: Arc<Record>,
    client: Client,
    name: String,
    rng: ChaCha8Rng,
}

/// A node in the queue.
struct ForeignNode {
    lock: &'static str,
    name: String,
    czxid: i64,
}

impl Foreign {
    pub(crate) async fn new(run: &StressRun, number: u64) -> Self {
        let record = Arc::clone(&run.record);
        let client = run.raw().await;
        Self { record, client, name: format!("foreign contender {number}"), rng: run.rng(100 + number) }
    }

    /// Contends until the run is to end.
    pub(crate) async fn run(mut self) {
        while self.record.is_running() {
            let lock = if self.rng.random_bool(0.8) { BUSY } else { BRIEF };
            if let Some(node) = self.queue(lock).await {
                self.contend(&node).await;
                self.delete(&node).await;
            }
            let pause = self.rng.random_range(10..150);
            self.record.pause(Duration::from_millis(pause)).await;
        }
    }

    /// Creates a node, also if replies are lost. `None` when there is none.
    async fn queue(&mut self, lock: &'static str) -> Option<ForeignNode> {
        let prefix = format!("_c_{}-lock-", Uuid::from_u128(self.rng.random()));
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        match self.client.create(&format!("{lock}/{prefix}"), b"192.0.2.1", &options).await {
            Ok((stat, sequence)) => {
                return Some(ForeignNode { lock, name: format!("{prefix}{sequence}"), czxid: stat.czxid });
            }
            Err(Error::NoNode) => {
                let _ = self.client.mkdir(lock, &CreateMode::Container.with_acls(Acls::anyone_all())).await;
                return None;
            }
            Err(error) => self.lost(&error).await,
        }
        let children = self.children(lock).await?;
        let name = children.into_iter().find(|name| name.starts_with(&prefix))?;
        let path = format!("{lock}/{name}");
        loop {
            match self.client.check_stat(&path).await {
                Ok(stat) => return stat.map(|stat| ForeignNode { lock, name, czxid: stat.czxid }),
                Err(error) => self.lost(&error).await,
            }
        }
    }

    /// Waits until the node is the first one, and holds for a moment.
    async fn contend(&mut self, node: &ForeignNode) {
        let patience = self.record.now() + Duration::from_millis(self.rng.random_range(0..3000));
        while self.record.now() < patience {
            let Some(children) = self.children(node.lock).await else { return };
            let queue = contended_paths::contenders(children);
            match queue.iter().position(|(_, name)| *name == node.name) {
                Some(0) => return self.hold(node).await,
                Some(_) => tokio::time::sleep(PAUSE).await,
                // Somebody has deleted it.
                None => return,
            }
        }
        self.record.count("foreign contenders that gave up");
    }

    async fn hold(&mut self, node: &ForeignNode) {
        let first: Time = self.record.now();
        let ForeignNode { lock, name, czxid } = node;
        self.record.count("grants of foreign contenders");
        self.record.note(Subject::Lock(lock), format!("{} holds {name} with token {czxid}", self.name));
        let hold = CertainHold {
            lock,
            who: self.name.clone(),
            session_number: None,
            node: format!("{lock}/{name}"),
            token: (*czxid, 0),
            is_reader: false,
            first,
            last: first,
        };
        let watched = self.record.watch(hold);
        let time = if self.rng.random_bool(0.3) { 0 } else { self.rng.random_range(1..20) };
        tokio::time::sleep(Duration::from_millis(time)).await;
        watched.extend(self.record.now());
        self.record.note(Subject::Lock(lock), format!("{} lets go", self.name));
    }

    async fn delete(&self, node: &ForeignNode) {
        let path = format!("{}/{}", node.lock, node.name);
        loop {
            match self.client.delete(&path, None).await {
                Ok(()) | Err(Error::NoNode) => return,
                Err(error) => self.lost(&error).await,
            }
        }
    }

    /// Returns the children of a node; `None` if it does not exist.
    async fn children(&self, path: &str) -> Option<Vec<String>> {
        loop {
            match self.client.list_children(path).await {
                Ok(children) => return Some(children),
                Err(Error::NoNode) => return None,
                Err(error) => self.lost(&error).await,
            }
        }
    }

    /// Waits after an error, which only the restarts of the server may cause.
    async fn lost(&self, error: &Error) {
        expect_lasting(error);
        tokio::time::sleep(PAUSE).await;
    }
}
