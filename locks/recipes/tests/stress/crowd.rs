//! Crowds: enough contenders of one session at one path for them to join the queue together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::RngExt;

use crate::contended_paths::{BUSY, CONTENDED_PATHS, ContenderKind};
use crate::contenders::ContenderTask;
use crate::stress_run::StressRun;

/// Contenders of a crowd. From 32 that wait on, others of a session join in batches.
const CROWD: usize = 60;
/// The kinds of a crowd.
const KINDS: [ContenderKind; 2] = [ContenderKind::Mutex, ContenderKind::Handoff];

/// Gathers a crowd now and then, until the run is to end.
pub(crate) async fn gather(run: Arc<StressRun>) {
    let mut rng = run.rng(500);
    let contended = CONTENDED_PATHS.iter().find(|contended| contended.path == BUSY).expect("the path has a contended");
    let mut crowds = 0;
    while run.record.pause(Duration::from_millis(rng.random_range(2000..8000))).await {
        let session_number = rng.random_range(0..run.sessions.len());
        let session = run.sessions[session_number].session();
        if session.is_ended() {
            continue;
        }
        let kinds: Vec<ContenderKind> = (0..CROWD).map(|_| KINDS[rng.random_range(0..KINDS.len())]).collect();
        crowds += 1;
        run.record.count("crowds");
        join_all(kinds.into_iter().enumerate().map(|(number, kind)| {
            let mut contender = ContenderTask::new(&run, session_number, 1000 * crowds * 10 + number);
            let session = &session;
            async move { contender.round(session, contended, kind).await }
        }))
        .await;
    }
}
