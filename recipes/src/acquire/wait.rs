//! What a contender does from its first look at the queue to its grant: decide, watch, look again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{join, try_join, try_join_all};
use tracing::warn;
use zk_recipes_protocol::names::{Mode, Naming, Sequence};
use zk_recipes_protocol::predecessors::Predecessors;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::ParentState;
use zookeeper_client::{Error as ClientError, Stat};

use super::{LockQueue, Place, Seen};
use crate::error::Error;
use crate::node;
use crate::pulse::Proof;
use crate::relay::{Baton, Member};
use crate::wire::{self, Fired, retry_lost_reply};

/// What a waiter hears of the one that it watches.
enum Event {
    Fired(Fired),
    /// It has passed the lock on to us.
    Passed(Baton),
}

impl LockQueue {
    /// Watches the nearest of those ahead until it has gone, and looks again, until nobody is ahead.
    pub(crate) async fn wait_for_grant(&self, place: &Place, mut seen: Seen) -> Result<(Seen, Proof), Error> {
        let _waiting = self.known.arrivals.wait();
        while !seen.ahead.is_nobody() {
            let Some((predecessor, name)) = seen.ahead.predecessor() else {
                seen = self.list_ahead(place, seen.noted_version).await?;
                continue;
            };
            let name = name.to_owned();
            match self.watch(place, &name, &mut seen.before).await? {
                Event::Passed(baton) => {
                    let (proof, noted_version) = (baton.proof.clone(), baton.note.as_ref().map(|note| note.version));
                    let seen = Seen::new(Predecessors::nobody(), noted_version);
                    // The predecessor's node and ours were there together, so they are children of one node.
                    if let Some(note) = &baton.note {
                        place.incarnation.get_or_init(|| note.incarnation);
                    }
                    return Ok((Seen { baton: Some(baton), ..seen }, proof));
                }
                Event::Fired(Fired::Deleted) => {
                    seen.ahead.pop();
                    seen = self.look_again(place, predecessor, seen).await?;
                }
                Event::Fired(Fired::Otherwise) => {}
            }
        }
        Ok((seen, self.prove().await?))
    }

    /// Waits for a proof that the session lives, without which what was seen is no grant: a follower that is cut off shows the queue
    /// as it was, and so does a process that was paused.
    pub(super) async fn prove(&self) -> Result<Proof, Error> {
        self.session.prove().await.map_err(|error| self.session.explain("write", &self.parent, error))
    }

    /// Waits for a contender to go or to pass the lock on, or for something else to happen to it. Forgets what was known
    /// of it `before` without a look if its node turns out to be another.
    async fn watch(&self, place: &Place, name: &str, before: &mut Option<Arc<Member>>) -> Result<Event, Error> {
        let path = node::child(&self.parent, name);
        let (stat, watch) = match retry_lost_reply(|| self.session.wire().watch(&path)).await {
            Ok((_, stat, watch)) => (stat, watch),
            // It went before we looked.
            Err(ClientError::NoNode) => {
                *before = None;
                self.known.note_busy(false);
                return Ok(Event::Fired(Fired::Deleted));
            }
            Err(error) => return Err(self.session.explain("watch", &path, error)),
        };
        self.known.note_busy(true);
        if before.is_none() {
            *before = self.before(place);
        }
        let (czxid, own) = (stat.czxid, place.token.get());
        // A younger one is most likely of a node where the numbers have begun anew, and ours went with the one before.
        if czxid > own && self.are_present(&[], place).await? != [true] {
            return Err(self.node_deleted(place));
        }
        before.take_if(|before| before.name != name || before.czxid != czxid || czxid > own);
        let Some(before) = before else { return Ok(Event::Fired(watch.fired().await)) };
        // Its node was there when ours was, too, and has the number before: nobody is in between.
        if let Some(incarnation) = before.incarnation.get() {
            place.incarnation.get_or_init(|| *incarnation);
        }
        let passed = before.follow(node::child(&self.parent, &place.name), place.token.get());
        let mut fired = Box::pin(watch.fired());
        tokio::select! {
            biased;
            Ok(baton) = passed => {
                // It will fire soon. To take it back would cost a request.
                tokio::spawn(fired);
                Ok(Event::Passed(baton))
            }
            fired = &mut fired => Ok(Event::Fired(fired)),
        }
    }

    /// Looks at who is still ahead after the `predecessor` has gone. If the last proof that the session lives is old, asks
    /// for a new one in the same flight, as a grant will need it.
    async fn look_again(&self, place: &Place, predecessor: Sequence, seen: Seen) -> Result<Seen, Error> {
        let (seen, ()) = join(self.look_ahead(place, predecessor, seen), self.session.freshen()).await;
        seen
    }

    /// Looks by what the last holder has left, by asking for the few that were seen ahead before, or else by a listing.
    async fn look_ahead(&self, place: &Place, predecessor: Sequence, mut seen: Seen) -> Result<Seen, Error> {
        if self.naming == Naming::Numbered {
            let noted = self.read_note_beside(place).await?;
            seen.noted_version = noted.version_to_replace();
            place.incarnation.get_or_init(|| noted.incarnation);
            if noted.passes(predecessor, place.sequence, place.token.get()) {
                seen.ahead = Predecessors::nobody();
                return Ok(seen);
            }
        }
        if let Some(incarnation) = seen.before.take().and_then(|before| before.incarnation.get().copied()) {
            // Its node was there when ours was, too.
            place.incarnation.get_or_init(|| incarnation);
        }
        if let Some(floor) = place.incarnation.get().and_then(|incarnation| self.known.floor(*incarnation)) {
            seen.ahead.raise(floor);
        }
        // Whoever goes on in its own place was not seen before.
        if self.names.may_downgrade() || !seen.ahead.is_complete() || !seen.ahead.is_cheap_to_probe() {
            return self.list_ahead(place, seen.noted_version).await;
        }
        // Our own node last: if it is there when all ahead of it have gone, it holds.
        let ahead: Vec<&str> = seen.ahead.names().collect();
        let present = self.are_present(&ahead, place).await?;
        let Some((true, ahead)) = present.split_last() else {
            return Err(self.node_deleted(place));
        };
        seen.ahead.keep(ahead);
        Ok(seen)
    }

    /// Which of these nodes are there, and last whether our own is. Asked for over one connection, in this order; after a
    /// lost reply all of them again, as the order is what the answers are worth.
    async fn are_present(&self, names: &[&str], place: &Place) -> Result<Vec<bool>, Error> {
        let names = names.iter().copied().chain([place.name.as_str()]);
        let paths: Vec<String> = names.map(|name| node::child(&self.parent, name)).collect();
        let wire = self.session.wire();
        let stats = retry_lost_reply(async || {
            let line = wire.line().await?;
            try_join_all(paths.iter().map(|path| wire.stat_over(&line, path))).await
        });
        let stats = stats.await;
        let mut stats = stats.map_err(|error| self.session.explain("read", &self.parent, error))?;
        // Where the numbers have begun anew, a name that is nothing but a number may be another's.
        stats.last_mut().and_then(|own| own.take_if(|own| own.czxid != place.token.get()));
        Ok(stats.iter().map(Option::is_some).collect())
    }

    /// Reads the note of the last holder, and then whether our own node is there: a note says nothing about that.
    ///
    /// Both are asked for over one connection, in this order. If a reply is lost, both are asked for again: a node that was
    /// there before the note was written may have been deleted since.
    async fn read_note_beside(&self, place: &Place) -> Result<ParentState, Error> {
        let wire = self.session.wire();
        let own = node::child(&self.parent, &place.name);
        let read = retry_lost_reply(async || {
            let line = wire.line().await?;
            try_join(wire.data_over(&line, &self.parent), wire.stat_over(&line, &own)).await
        });
        match read.await {
            Ok(((data, stat), Some(own))) if own.czxid == place.token.get() => {
                Ok(ParentState::new(&data, &wire::seen(&stat)))
            }
            Ok(_) | Err(ClientError::NoNode) => Err(self.node_deleted(place)),
            Err(error) => Err(self.session.explain("read", &self.parent, error)),
        }
    }

    /// What the last holder has left.
    pub(super) async fn read_note(&self, place: &Place) -> Result<ParentState, Error> {
        match retry_lost_reply(|| self.session.wire().data(&self.parent)).await {
            Ok((data, stat)) => Ok(ParentState::new(&data, &wire::seen(&stat))),
            // It is there as long as our node is.
            Err(ClientError::NoNode) => Err(self.node_deleted(place)),
            Err(error) => Err(self.session.explain("read", &self.parent, error)),
        }
    }

    /// Who is ahead of us, by a listing.
    pub(super) async fn list_ahead(&self, place: &Place, noted_version: Option<i32>) -> Result<Seen, Error> {
        match retry_lost_reply(|| self.session.wire().children_and_stat(&self.parent)).await {
            Ok((children, stat)) => self.see(place, &children, &stat, noted_version),
            Err(ClientError::NoNode) => Err(self.node_deleted(place)),
            Err(error) => Err(self.session.explain("list", &self.parent, error)),
        }
    }

    pub(super) fn see(
        &self,
        place: &Place,
        children: &[String],
        stat: &Stat,
        noted_version: Option<i32>,
    ) -> Result<Seen, Error> {
        let queue = Queue::from_children(children, self.names);
        self.report_foreign(&queue);
        let is_there = stat.czxid < place.token.get();
        let ahead = queue.ahead_of(&place.name).filter(|_| is_there).ok_or_else(|| self.node_deleted(place))?;
        place.incarnation.get_or_init(|| stat.czxid);
        Ok(Seen::new(ahead, noted_version))
    }

    pub(super) fn see_noted(&self, place: &Place, noted: &ParentState) -> Seen {
        let is_alone = noted.has_only_child(place.token.get());
        let ahead = if is_alone { Predecessors::nobody() } else { self.number_before(place) };
        let noted_version = noted.version_to_replace();
        if noted_version.is_none() && !self.foreign_reported.swap(true, Ordering::Relaxed) {
            warn!(lock = self.parent, "the data of the lock's node are not ours: each hand-over needs a listing");
        }
        place.incarnation.get_or_init(|| noted.incarnation);
        Seen::new(ahead, noted_version)
    }

    /// The one directly ahead, if its name is known without a look: by its number, or because it is of our session.
    pub(super) fn directly_ahead(&self, place: &Place) -> Option<Predecessors> {
        if self.naming == Naming::Numbered {
            return Some(self.number_before(place));
        }
        let before = self.before(place)?;
        Some(Predecessors::directly(before.sequence, before.name.clone()))
    }

    /// The contender of our session that has the number before.
    pub(super) fn before(&self, place: &Place) -> Option<Arc<Member>> {
        self.known.member(place.sequence.before())
    }

    /// Whoever is ahead if it is one that leaves notes, too.
    fn number_before(&self, place: &Place) -> Predecessors {
        let marker = self.names.marker(Mode::Exclusive);
        Predecessors::number_before(place.sequence, |number| format!("{marker}{number}"))
    }

    fn node_deleted(&self, place: &Place) -> Error {
        Error::NodeDeleted { path: node::child(&self.parent, &place.name) }
    }

    fn report_foreign(&self, queue: &Queue<'_>) {
        if let Some(child) = queue.foreign()
            && !self.foreign_reported.swap(true, Ordering::Relaxed)
        {
            warn!(
                lock = self.parent,
                child, "ignoring a child that is no contender; Apache Curator clients would queue behind it"
            );
        }
    }
}
