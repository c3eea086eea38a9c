//! The end of a connection, and the end of a session.

use zk_recipes_protocol::session_queue::{Ask, Batching, ContenderId, Event, Failure, NotCreated, NotDeleted};

use super::arriving::Arriving;
use super::request::{ModelRequest, Progress};
use super::rules::Sight;
use super::server::SessionNo;
use super::{ModelSession, Phase, World};

impl World {
    /// Ends the connection of a session. Requests that were not applied never will be, and answers that have not arrived are lost.
    /// The answers to the contender `told` have arrived.
    pub(super) fn cut(&mut self, session: SessionNo, told: Option<ContenderId>) {
        let watches = self.server.unwatch(session);
        let of = &mut self.sessions[session];
        of.is_away = true;
        let mut events: Vec<Event> = watches.into_iter().map(|(_, event)| event).collect();
        let mut unanswered = Vec::new();
        for arriving in std::mem::take(&mut of.arriving) {
            match arriving {
                arriving if told.is_some() && arriving.contender() == told => of.arriving.push(arriving),
                Arriving::Answer(answer) => {
                    self.past.note_lost_reply(&answer.0, Some(&answer.1));
                    unanswered.push(answer.0);
                }
                Arriving::Notification(Event::Fired { id, .. }) => events.push(Event::Fired { id, is_gone: false }),
                Arriving::Notification(event) => events.push(event),
            }
        }
        for request in of.requests.drain(..) {
            self.past.note_lost_reply(&request, None);
            unanswered.push(request);
        }
        for request in unanswered {
            match lost_reply(&request.ask) {
                Some(event) => events.push(event),
                // Reads are repeated: a search continues with its next read, and the reads of other asks begin again.
                None if matches!(request.progress, Progress::Searching { .. }) => of.delayed.push(request),
                None => of.delayed.push(ModelRequest { progress: Progress::Fresh, ..request }),
            }
        }
        for event in events {
            match event {
                // The contender first learns that the watch is set.
                Event::Fired { id, .. } if Some(id) == told => {
                    self.sessions[session].arriving.push(Arriving::Notification(event))
                }
                event => self.tell(session, event),
            }
        }
    }

    /// Expires a session. If its client connects again, its users go on in a new session.
    pub(super) fn expire(&mut self, session: SessionNo, connects_again: bool) {
        let of_session = || self.users.iter().filter(|user| user.session == session);
        let has_holder = of_session().any(|user| user.holds());
        let has_waiter = of_session().any(|user| user.waits());
        self.past.note(has_holder, Sight::ExpiredHolder);
        self.past.note(has_waiter, Sight::ExpiredWaiter);
        let told = self.server.expire(session);
        self.sessions[session] = ModelSession { is_over: true, ..ModelSession::new(Batching::default()) };
        for user in self.users.iter_mut().filter(|user| user.session == session) {
            if !connects_again || user.phase != Phase::Outside {
                user.phase = Phase::Done;
            }
            if connects_again {
                user.session = self.sessions.len();
            }
        }
        if connects_again {
            self.sessions.push(ModelSession::new(self.batching));
            if self.server.has_followers() {
                self.server.attach();
            }
        }
        self.notify(told.into_iter().filter(|(other, _)| *other != session).collect());
    }
}

/// Returns what a queue is told of a request whose connection has ended. `None` for a read that is repeated.
fn lost_reply(ask: &Ask) -> Option<Event> {
    match ask {
        Ask::Create(id, ..) => Some(Event::Created(*id, Err(NotCreated::Failed(Failure::ReplyLost)))),
        Ask::Delete(id, _) => Some(Event::Deleted(*id, Err(NotDeleted::Failed(Failure::ReplyLost)))),
        Ask::WatchParent(_, names) => Some(Event::ParentWatchSet(*names, None)),
        _ => None,
    }
}
