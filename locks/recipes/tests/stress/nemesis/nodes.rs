//! What is done to nodes by hand: revocations, deletions, foreign children, and the deletion of empty nodes of locks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::contended_paths::{self, CONTENDED_PATHS, ContendedPath, Deletable};
use crate::record::{Record, Subject};
use crate::stress_run::{StressRun, expect_lasting};

/// What Curator's `Revoker` writes.
const REVOKE: &[u8] = b"__REVOKE__";

/// Children that are no contenders.
const FOREIGN: [&str; 4] = ["0", "config", "zzz", "_c_nested-lock-1"];

/// Somebody who meddles with the nodes.
struct Meddler {
    record: Arc<Record>,
    client: Client,
    rng: ChaCha8Rng,
}

/// Meddles with the nodes until the run is to end.
pub(crate) async fn meddle(run: Arc<StressRun>) {
    let record = Arc::clone(&run.record);
    let client = run.raw().await;
    let mut meddler = Meddler { record, client, rng: run.rng(400) };
    loop {
        let pause = meddler.rng.random_range(1..25);
        if !meddler.record.pause(Duration::from_millis(pause)).await {
            return;
        }
        let contended = &CONTENDED_PATHS[meddler.rng.random_range(0..CONTENDED_PATHS.len())];
        let done = match meddler.rng.random_range(0..100) {
            0..35 => meddler.revoke(contended).await,
            35..60 => meddler.delete(contended).await,
            60..75 => meddler.add_or_remove_foreign(contended).await,
            _ => meddler.delete_empty(contended).await,
        };
        if let Err(error) = done {
            expect_lasting(&error);
        }
    }
}

impl Meddler {
    /// Asks a contender for the lock.
    async fn revoke(&mut self, contended: &ContendedPath) -> Result<(), Error> {
        let children = self.client.list_children(contended.queue).await?;
        if children.is_empty() {
            return Ok(());
        }
        let path = format!("{}/{}", contended.queue, children[self.rng.random_range(0..children.len())]);
        self.client.set_data(&path, REVOKE, None).await?;
        self.record.count("revocations");
        self.record.note(Subject::Lock(contended.path), format!("revoked {path}"));
        Ok(())
    }

    /// Deletes the node of a holder or of a waiter.
    async fn delete(&mut self, contended: &'static ContendedPath) -> Result<(), Error> {
        let mut queue = contended_paths::contenders(self.client.list_children(contended.queue).await?);
        match contended.deletable {
            Deletable::Nothing => return Ok(()),
            Deletable::Protected | Deletable::Any => {}
        }
        if queue.is_empty() {
            return Ok(());
        }
        // The first one holds.
        let chosen = if self.rng.random_bool(0.2) { 0 } else { self.rng.random_range(0..queue.len()) };
        queue.truncate(chosen + 1);
        let paths: Vec<String> = queue.iter().map(|(_, name)| format!("{}/{name}", contended.queue)).collect();
        let path = &paths[chosen];
        if contended.deletable == Deletable::Protected && !queue[chosen].1.starts_with("_c_") {
            return Ok(());
        }
        let mut stats = try_join_all(paths.iter().map(|path| self.client.check_stat(path))).await?;
        let Some(stat) = stats.pop().flatten() else { return Ok(()) };
        let may_be_passed_on = stats.iter().flatten().any(|ahead| ahead.ephemeral_owner == stat.ephemeral_owner);
        let note = |event: &str| {
            let what = format!("{event} of {path} with token {} at contended {chosen}", stat.czxid);
            self.record.note(Subject::Lock(contended.path), what);
        };
        note("deletion by hand");
        self.record.history(|history| history.deleting(stat.czxid, path, self.record.now(), may_be_passed_on));
        match self.client.delete(path, None).await {
            Ok(()) => {
                self.record.history(|history| history.deleted(stat.czxid, self.record.now()));
                self.record.count(if chosen == 0 { "deletions of the first node" } else { "deletions of later nodes" });
                note("deleted");
                Ok(())
            }
            Err(error) => {
                note("uncertain deletion");
                Err(error)
            }
        }
    }

    async fn add_or_remove_foreign(&mut self, contended: &ContendedPath) -> Result<(), Error> {
        let path = format!("{}/{}", contended.queue, FOREIGN[self.rng.random_range(0..FOREIGN.len())]);
        if self.rng.random_bool(0.4) {
            self.client.create(&path, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
            self.record.count("foreign children created");
        } else {
            self.client.delete(&path, None).await?;
            self.record.count("foreign children deleted");
        }
        Ok(())
    }

    /// Deletes the lock's node, often enough to find it empty.
    async fn delete_empty(&mut self, contended: &ContendedPath) -> Result<(), Error> {
        if !contended.may_vanish {
            return Ok(());
        }
        let mut children = Vec::new();
        if contended.queue != contended.path {
            children = self.client.list_children(contended.path).await?;
        }
        let own = [contended.path.to_owned()];
        for path in children.into_iter().map(|child| format!("{}/{child}", contended.path)).chain(own) {
            match self.client.delete(&path, None).await {
                Ok(()) => {
                    self.record.count("nodes of locks deleted");
                    self.record.note(Subject::Lock(contended.path), format!("deleted the empty node {path}"));
                }
                Err(Error::NotEmpty | Error::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
