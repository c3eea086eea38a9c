//! What may happen next in a state of the world.

use std::collections::BTreeSet;
use std::mem;

use zk_recipes_protocol::session_queue::{Ask, ContenderId, Event, FirstLook, Pause};

use super::arriving::Arriving;
use super::server::{Child, SessionNo};
use super::{Phase, User, World};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Come(usize),
    /// The contender of Apache Curator takes its next step.
    Curator,
    Wait(usize),
    Release(usize),
    Apply(SessionNo),
    /// Contenders that search take one step together.
    ApplyTogether(SessionNo),
    /// A read waits for the end of another one, so that contenders can share it.
    Postpone(SessionNo),
    /// An answer or a notification arrives.
    Deliver(SessionNo, usize),
    /// A contender that waits for it is told that the session lives.
    Prove(SessionNo, ContenderId),
    Wake(SessionNo, ContenderId, Pause),
    Drop(usize),
    Connect(SessionNo),
    /// Sends a request that was delayed.
    Send(SessionNo, usize),
    /// As `Send`. The look overtakes the `create` before it.
    SendLookFirst(SessionNo, usize),
    /// The connection ends. Only what was sent to this contender has arrived.
    Cut(SessionNo, Option<ContenderId>),
    Expire(SessionNo),
    /// The server throttles the next request of the session.
    Throttle(SessionNo),
    Delete(String),
    Overwrite(String),
    BeginAnew {
        keeps_data: bool,
    },
}

impl World {
    /// Lists what happens sooner or later.
    pub(crate) fn progress(&self, actions: &mut Vec<Action>) {
        for (i, user) in self.users.iter().enumerate() {
            match user.phase {
                Phase::Outside if self.may_come(i) => actions.push(Action::Come(i)),
                Phase::Inside(_) if self.is_placed(user) => actions.push(Action::Wait(i)),
                Phase::Inside(_) if self.holds(user) => actions.push(Action::Release(i)),
                Phase::Lost(_) => actions.push(Action::Release(i)),
                _ => {}
            }
        }
        if self.curator.as_ref().is_some_and(|curator| curator.can_go(&self.server)) {
            actions.push(Action::Curator);
        }
        for (session, of) in self.sessions.iter().enumerate() {
            if of.is_away {
                actions.push(Action::Connect(session));
            } else {
                for (i, delayed) in of.delayed.iter().enumerate() {
                    actions.push(Action::Send(session, i));
                    if matches!(delayed.ask, Ask::Create(_, _, FirstLook::List | FirstLook::Note)) {
                        actions.push(Action::SendLookFirst(session, i));
                    }
                }
            }
            if !of.requests.is_empty() {
                actions.push(Action::Apply(session));
            }
            if self.has_shared_search(session) {
                actions.push(Action::ApplyTogether(session));
            }
            actions.extend(of.arriving.deliverable().map(|i| Action::Deliver(session, i)));
            if !of.is_away {
                actions.extend(of.proving.iter().map(|id| Action::Prove(session, *id)));
            }
            actions.extend(of.pauses.iter().map(|(id, pause)| Action::Wake(session, *id, *pause)));
        }
    }

    /// Lists the reads that may be delayed: another contender's read of their kind is under way.
    pub(super) fn delays(&self, actions: &mut Vec<Action>) {
        for (session, of) in self.sessions.iter().enumerate() {
            let mut sent = of.requests.iter();
            let Some(first) = sent.next().filter(|first| first.is_shared()) else { continue };
            let mut others = sent.chain(&of.delayed).chain(of.arriving.answered());
            if others.any(|other| mem::discriminant(&other.ask) == mem::discriminant(&first.ask)) {
                actions.push(Action::Postpone(session));
            }
        }
    }

    /// Lets the server throttle the next request of a session.
    pub(super) fn throttle(&mut self, session: SessionNo) {
        let of = &mut self.sessions[session];
        let Some(request) = of.requests.pop_front() else { return };
        if let Some(event) = request.throttled() {
            of.arriving.push(Arriving::answer(request, event));
        }
    }

    /// Lists the faults that are left.
    pub(super) fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (i, user) in self.users.iter().enumerate() {
            if left.drops > 0 && matches!(user.phase, Phase::Inside(_)) {
                actions.push(Action::Drop(i));
            }
        }
        for session in 0..self.sessions.len() {
            let is_used = !self.sessions[session].is_over && !self.sessions[session].known.is_empty();
            if left.cuts > 0 && is_used && !self.sessions[session].is_away {
                let told: BTreeSet<ContenderId> = self.sessions[session].arriving.contenders().collect();
                actions.push(Action::Cut(session, None));
                actions.extend(told.into_iter().map(|told| Action::Cut(session, Some(told))));
            }
            let next = self.sessions[session].requests.front();
            if left.throttles > 0 && next.is_some_and(|next| next.throttled().is_some()) {
                actions.push(Action::Throttle(session));
            }
            if left.expiries > 0 && is_used {
                actions.push(Action::Expire(session));
            }
        }
        for (name, child) in &self.server.children {
            if left.overwrites > 0 && child.mark.is_some() {
                actions.push(Action::Overwrite(name.clone()));
            }
            if left.deletions > 0 && self.is_of_a_waiter(name, child) {
                actions.push(Action::Delete(name.clone()));
            }
        }
        if left.new_parents > 0 && self.server.children.is_empty() {
            actions.extend([true, false].map(|keeps_data| Action::BeginAnew { keeps_data }));
        }
    }

    /// Tells whether a node belongs to a waiter that still waits after all answers on their way have arrived. A contender that
    /// holds as soon as they arrive is a holder: the server has let it in.
    fn is_of_a_waiter(&self, name: &str, child: &Child) -> bool {
        let is_of = |user: &&User| match user.phase {
            Phase::Inside(id) => match self.sessions[user.session].queue.node(id) {
                Some(node) => node.name == name,
                None => (child.owner, child.mark) == (Some(user.session), Some(id)),
            },
            _ => false,
        };
        let Some(user) = self.users.iter().position(|user| is_of(&user) && self.waits(user)) else { return false };
        let mut later = self.clone();
        let session = self.users[user].session;
        loop {
            let of = &mut later.sessions[session];
            let next = of.arriving.deliverable().next();
            let event = match next {
                Some(i) => of.arriving.take(i),
                None => match of.proving.pop_first() {
                    Some(id) => Event::Proved(id, Ok(())),
                    None => return later.waits(&later.users[user]),
                },
            };
            later.tell(session, event);
        }
    }
}
