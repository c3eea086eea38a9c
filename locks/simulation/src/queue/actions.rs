//! What may happen next in a state of the world, and what follows from it.

use std::collections::BTreeSet;
use std::mem;

use zk_recipes_protocol::session_queue::{Ask, ContenderId, ContenderState, Event, Failure, FirstLook, Pause};

use super::arriving::Arriving;
use super::request::Decline;
use super::rules::Sight;
use super::server::{Notifications, SessionNo};
use super::tree::Child;
use super::{Phase, QueueModel, User, World};

/// What may happen next. Users and sessions are given by their index, and nodes by the transactions that created them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A user arrives.
    Come(usize),
    /// The contender of Apache Curator takes its next step.
    Curator,
    /// A user with a place waits for the grant from now on.
    Wait(usize),
    /// A user releases.
    Release(usize),
    /// The server carries out the next request, or a part of it.
    Apply(usize),
    /// Contenders that search take one step together.
    ApplyTogether(usize),
    /// A read waits for the end of another one, so that contenders can share it.
    Postpone(usize),
    /// An answer or a notification arrives.
    Deliver(usize, usize),
    /// The server of the session applies a change that it did not know yet.
    CatchUp(usize),
    /// A contender that waits for it is told that the session lives.
    Prove(usize, ContenderId),
    /// The pause of a contender is over.
    Wake(usize, ContenderId, Pause),
    /// A user gives up, or drops what it has.
    Drop(usize),
    /// The session has a connection again.
    Connect(usize),
    /// Sends a request that was delayed.
    Send(usize, usize),
    /// As `Send`. The look overtakes the `create` before it.
    SendLookFirst(usize, usize),
    /// The connection ends. Only what was sent to this contender has arrived.
    Cut(usize, Option<ContenderId>),
    /// The session expires.
    Expire(usize),
    /// The server throttles the next request of the session.
    Throttle(usize),
    /// The server refuses the next request of the session.
    Refuse(usize),
    /// A contender that waits for it is told that nothing proves that the session lives.
    FailProof(usize, ContenderId),
    /// Somebody deletes a node.
    Delete(i64),
    /// Somebody overwrites the data of a node.
    Overwrite(i64),
    /// Somebody deletes the lock's node and creates it again.
    BeginAnew {
        /// With its old data.
        keeps_data: bool,
    },
    /// Somebody deletes the lock's node.
    DeleteParent,
}

impl Action {
    pub(super) fn kind(&self) -> usize {
        match self {
            Self::Come(_) => 0,
            Self::Curator => 1,
            Self::Wait(_) => 2,
            Self::Release(_) => 3,
            Self::Apply(_) => 4,
            Self::ApplyTogether(_) => 5,
            Self::Postpone(_) => 6,
            Self::Deliver(..) => 7,
            Self::CatchUp(_) => 8,
            Self::Prove(..) => 9,
            Self::Wake(..) => 10,
            Self::Drop(_) => 11,
            Self::Connect(_) => 12,
            Self::Send(..) | Self::SendLookFirst(..) => 13,
            Self::Cut(..) => 14,
            Self::Expire(_) => 15,
            Self::Throttle(_) => 16,
            Self::Refuse(_) => 17,
            Self::FailProof(..) => 18,
            Self::Delete(_) => 19,
            Self::Overwrite(_) => 20,
            Self::BeginAnew { .. } | Self::DeleteParent => 21,
        }
    }
}

impl World {
    /// Returns a number for the contender, the session or the user that an action is about.
    pub(super) fn subject(&self, action: &Action) -> usize {
        let (session, id) = match *action {
            Action::Deliver(session, i) => (session, self.sessions[session].arriving.recipient(i)),
            Action::Prove(session, id) | Action::Wake(session, id, _) => (session, Some(id)),
            Action::Send(session, i) | Action::SendLookFirst(session, i) => {
                (session, self.sessions[session].delayed[i].ask.contender())
            }
            Action::Apply(session) | Action::CatchUp(session) | Action::Connect(session) => (session, None),
            Action::Come(user) | Action::Release(user) => return 40 + user,
            _ => return 0,
        };
        let place = |id| self.sessions[session].known.iter().position(|known| *known == id);
        session * 8 + id.and_then(place).map_or(0, |place| 1 + place % 7)
    }

    /// Lists what happens sooner or later.
    pub(super) fn progress(&self, actions: &mut Vec<Action>) {
        for (i, user) in self.users.iter().enumerate() {
            match user.phase {
                Phase::Outside if self.may_come(i) => actions.push(Action::Come(i)),
                Phase::Inside(_) if user.is_placed() => actions.push(Action::Wait(i)),
                Phase::Inside(_) if user.holds() => actions.push(Action::Release(i)),
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
            if self.server.lags(session) {
                actions.push(Action::CatchUp(session));
            }
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

    /// Lists the faults that are left.
    pub(super) fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (i, user) in self.users.iter().enumerate() {
            if left.drops > 0 && matches!(user.phase, Phase::Inside(_)) {
                actions.push(Action::Drop(i));
            }
        }
        for (session, of) in self.sessions.iter().enumerate() {
            let is_used = !of.is_over && !of.known.is_empty();
            if left.cuts > 0 && is_used && !of.is_away {
                let told: BTreeSet<ContenderId> = of.arriving.contenders().collect();
                actions.push(Action::Cut(session, None));
                actions.extend(told.into_iter().map(|told| Action::Cut(session, Some(told))));
            }
            let may_decline = |decline| of.requests.front().is_some_and(|next| next.declined(decline).is_some());
            if left.throttles > 0 && may_decline(Decline::Throttled) {
                actions.push(Action::Throttle(session));
            }
            if left.refusals > 0 && may_decline(Decline::Refused) {
                actions.push(Action::Refuse(session));
            }
            if left.refusals > 0 {
                actions.extend(of.proving.iter().map(|id| Action::FailProof(session, *id)));
            }
            if left.expiries > 0 && is_used {
                actions.push(Action::Expire(session));
            }
        }
        for child in self.server.leader.children.values() {
            if left.overwrites > 0 && child.mark.is_some() {
                actions.push(Action::Overwrite(child.czxid));
            }
            if left.deletions > 0 && self.waiter_of(child).is_some() {
                actions.push(Action::Delete(child.czxid));
            }
        }
        if left.new_parents > 0 && self.server.leader.children.is_empty() && self.server.leader.parent.is_some() {
            actions.extend([true, false].map(|keeps_data| Action::BeginAnew { keeps_data }));
            if left.parents_gone > 0 {
                actions.push(Action::DeleteParent);
            }
        }
    }

    /// Returns the user that waits with this node.
    fn waiter_of(&self, child: &Child) -> Option<usize> {
        let is_of = |user: &User| match user.phase {
            Phase::Inside(id) => match self.sessions[user.session].queue.node(id) {
                Some(node) => node.czxid == child.czxid,
                None => (child.owner, child.mark) == (Some(user.session), Some(id)),
            },
            _ => false,
        };
        self.users.iter().position(|user| is_of(user) && user.waits())
    }

    /// Tells whether a node belongs to a waiter that still waits after all answers on their way have arrived. A contender that
    /// holds as soon as they arrive is a holder: the server has let it in.
    fn is_of_a_waiter(&self, name: &str, child: &Child) -> bool {
        let Some(user) = self.waiter_of(child) else { return false };
        let session = self.users[user].session;
        let Phase::Inside(id) = self.users[user].phase else { return false };
        // If the leader has let it in, a server that lags behind does so, too.
        if self.server.has_followers() && !self.is_barred(session, id, name) {
            return false;
        }
        let mut later = self.clone();
        loop {
            let of = &mut later.sessions[session];
            let next = of.arriving.deliverable().next();
            let event = match next {
                Some(i) => of.arriving.take(i),
                None => match of.proving.pop_first() {
                    Some(id) => Event::Proved(id, Ok(())),
                    None => return later.sessions[session].queue.state(id) == ContenderState::Contending,
                },
            };
            later.tell(session, event);
        }
    }

    /// Lets an action happen. Returns `false` if it cannot happen after all.
    pub(super) fn step(&mut self, model: &QueueModel, action: Action) -> bool {
        let mut told = Vec::new();
        let has_happened = match action {
            Action::Cut(..)
            | Action::Expire(_)
            | Action::Throttle(_)
            | Action::Refuse(_)
            | Action::FailProof(..)
            | Action::Drop(_)
            | Action::Delete(_)
            | Action::Overwrite(_)
            | Action::BeginAnew { .. }
            | Action::DeleteParent => self.go_wrong(model, action, &mut told),
            action => self.go_on(action, &mut told),
        };
        if has_happened {
            self.notify(told);
            self.tidy();
            self.return_users();
            self.note_sights();
        }
        has_happened
    }

    fn go_on(&mut self, action: Action, told: &mut Notifications) -> bool {
        match action {
            Action::Come(i) => self.come(i),
            Action::Curator => {
                let Some(curator) = self.curator.take() else { return false };
                self.curator = Some(curator.go(&mut self.server, told));
            }
            Action::Wait(i) => {
                let User { session, phase: Phase::Inside(id), .. } = self.users[i] else { return false };
                self.tell(session, Event::Waits(id));
            }
            Action::Release(i) => {
                let User { session, phase, .. } = self.users[i];
                let (Phase::Inside(id) | Phase::Lost(id)) = phase else { return false };
                let is_lost = matches!(phase, Phase::Lost(_));
                self.past.note_leaving(session, id);
                self.tell(session, Event::Leaves { id, hands_over: !is_lost, is_node_gone: is_lost });
            }
            Action::Connect(session) => self.sessions[session].is_away = false,
            Action::Send(session, i) => self.send(session, i, false),
            Action::SendLookFirst(session, i) => self.send(session, i, true),
            Action::Apply(session) => self.apply(session),
            Action::ApplyTogether(session) => self.apply_together(session),
            Action::Postpone(session) => self.postpone(session),
            Action::Deliver(session, i) => {
                let event = self.sessions[session].arriving.take(i);
                self.tell(session, event);
            }
            Action::CatchUp(session) => {
                self.server.catch_up(session, told);
                self.past.note(!told.is_empty(), Sight::LateWatch);
            }
            Action::Prove(session, id) => {
                // An earlier proof may count, so the server need not know everything.
                self.sessions[session].proving.remove(&id);
                self.tell(session, Event::Proved(id, Ok(())));
            }
            Action::Wake(session, id, pause) => {
                self.sessions[session].pauses.remove(&(id, pause));
                self.tell(session, Event::Woke(id, pause));
            }
            fault => unreachable!("BUG: {fault:?} is a fault"),
        }
        true
    }

    fn go_wrong(&mut self, model: &QueueModel, action: Action, told: &mut Notifications) -> bool {
        let left = &mut self.left;
        match action {
            Action::Drop(i) => {
                left.drops -= 1;
                let User { session, phase: Phase::Inside(id), .. } = self.users[i] else { return false };
                self.past.note_leaving(session, id);
                self.drop_contender(session, id);
            }
            Action::Cut(session, told) => {
                left.cuts -= 1;
                self.cut(session, told);
            }
            Action::Throttle(session) => {
                left.throttles -= 1;
                self.decline(session, Decline::Throttled);
            }
            Action::Refuse(session) => {
                left.refusals -= 1;
                self.decline(session, Decline::Refused);
            }
            Action::FailProof(session, id) => {
                left.refusals -= 1;
                self.past.note_refusal(session, id);
                self.sessions[session].proving.remove(&id);
                self.tell(session, Event::Proved(id, Err(Failure::Refused { is_certain: false })));
            }
            Action::Expire(session) => {
                left.expiries -= 1;
                self.expire(session, model.connects_again);
            }
            Action::Delete(czxid) => {
                let leader = &self.server.leader;
                let Some(name) = leader.name_of(czxid).cloned() else { return false };
                if !self.is_of_a_waiter(&name, &leader.children[&name]) {
                    return false;
                }
                self.left.deletions -= 1;
                self.past.deleted.insert(czxid);
                self.server.delete(&name, told);
            }
            Action::Overwrite(czxid) => {
                left.overwrites -= 1;
                let Some(name) = self.server.leader.name_of(czxid).cloned() else { return false };
                let is_of_holder = self.contenders().any(|(_, queue, id)| {
                    queue.node(id).is_some_and(|node| node.czxid == czxid)
                        && matches!(queue.state(id), ContenderState::Holding { .. })
                });
                self.past.note(is_of_holder, Sight::Overwritten);
                self.server.overwrite(&name, told);
            }
            Action::BeginAnew { keeps_data } => {
                left.new_parents -= 1;
                self.past.note(true, Sight::BeganAnew);
                self.server.begin_anew(keeps_data, told);
            }
            Action::DeleteParent => {
                left.new_parents -= 1;
                left.parents_gone -= 1;
                self.server.delete_parent(told);
            }
            action => unreachable!("BUG: {action:?} is no fault"),
        }
        true
    }

    /// Lets the server decline the next request of a session.
    fn decline(&mut self, session: SessionNo, decline: Decline) {
        let Some(request) = self.sessions[session].requests.pop_front() else { return };
        if let (Decline::Refused, Some(id)) = (decline, request.ask.contender()) {
            self.past.note_refusal(session, id);
        }
        if let Some(event) = request.declined(decline) {
            self.sessions[session].arriving.push(Arriving::answer(request, event));
        }
    }
}
