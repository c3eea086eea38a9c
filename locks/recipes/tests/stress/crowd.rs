//! Crowds: enough contenders of one session at one path for them to join the queue together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::RngExt;

use crate::contenders::Contender;
use crate::lab::Lab;
use crate::places::{BUSY, Kind, PLACES};

/// Contenders of a crowd. From 32 that wait on, others of a session join in batches.
const CROWD: usize = 60;
/// The kinds of a crowd.
const KINDS: [Kind; 2] = [Kind::Mutex, Kind::Handoff];

/// Gathers a crowd now and then, until the run is to end.
pub(crate) async fn gather(lab: Arc<Lab>) {
    let mut rng = lab.rng(500);
    let place = PLACES.iter().find(|place| place.path == BUSY).expect("the path has a place");
    let mut crowds = 0;
    while lab.record.pause(Duration::from_millis(rng.random_range(2000..8000))).await {
        let slot = rng.random_range(0..lab.slots.len());
        let session = lab.slots[slot].session();
        if session.is_ended() {
            continue;
        }
        let kinds: Vec<Kind> = (0..CROWD).map(|_| KINDS[rng.random_range(0..KINDS.len())]).collect();
        crowds += 1;
        lab.record.count("crowds");
        join_all(kinds.into_iter().enumerate().map(|(number, kind)| {
            let mut contender = Contender::new(&lab, slot, 1000 * crowds * 10 + number);
            let session = &session;
            async move { contender.round(session, place, kind).await }
        }))
        .await;
    }
}
