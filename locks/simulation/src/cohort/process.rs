//! The contenders of a process as its shell runs them, and the nodes on the server.

mod lingering;
mod sights;

use std::collections::BTreeSet;
use std::time::Duration;

use campaign::Sights;
use zk_recipes_protocol::cohort::{Ask, Bounds, Cohort, Event, MemberId, MemberState, Others, Reliance};

use self::lingering::ModelWatch;
use super::super::model::Memory;
use super::{CohortModel, Faults, Program, Sight};

/// What comes with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Passed {
    Nothing,
    /// A place in the lock's queue.
    Place {
        node: u8,
    },
    Hold {
        node: u8,
        /// The session's number of losses at the grant.
        losses: u8,
    },
}

/// Where a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Away,
    In { id: MemberId, asleep: bool, pending: Option<Ask> },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelMember {
    pub(super) phase: Phase,
    pub(super) had: Passed,
    is_try: bool,
    /// How often it comes again.
    returns: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NodeMaker {
    Cohort,
    Other,
}

/// What must never happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mistakes {
    pub(super) overtaken: bool,
    pub(super) token_shrank: bool,
    pub(super) took_what_was_unsure: bool,
    pub(super) loss_untold: bool,
}

/// A process with its contenders, and the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub(super) cohort: Cohort,
    pub(super) members: Vec<ModelMember>,
    /// The place or hold that is handed over, until the next contender takes it.
    pub(super) passed: Passed,
    pub(super) now: Duration,
    /// The contenders in the order of their arrival.
    arrived: Vec<usize>,
    /// The nodes of the lock in the order of the queue.
    pub(super) nodes: Vec<(u8, NodeMaker)>,
    created: u8,
    pub(super) watches: Vec<ModelWatch>,
    /// The nodes that the reaper will delete.
    pub(super) abandoned: BTreeSet<u8>,
    /// The nodes that somebody deleted.
    pub(super) deleted: BTreeSet<u8>,
    /// The nodes at which somebody asks for the lock.
    pub(super) requested: BTreeSet<u8>,
    pub(super) is_other_done: bool,
    /// The number of hand-overs that the other process has waited for.
    pub(super) passed_over: u8,
    pub(super) is_suspect: bool,
    pub(super) losses: u8,
    /// Whether the server has expired the session.
    pub(super) is_expired: bool,
    /// Whether the session's client knows that it has ended.
    pub(super) is_ended: bool,
    /// The number of contenders that were told that their node was deleted.
    pub(super) failures: u8,
    newest_token: Option<(u8, u64)>,
    pub(super) left: Faults,
    forgets_age: bool,
    pub(super) mistakes: Mistakes,
    pub(super) sights: Memory<Sights>,
}

impl Process {
    /// Returns the process before any contender has arrived.
    pub(super) fn new(model: &CohortModel) -> Self {
        let member = |program: &Program| ModelMember {
            phase: Phase::Away,
            had: Passed::Nothing,
            is_try: *program == Program::Try,
            returns: model.returns,
        };
        Self {
            cohort: Cohort::default(),
            members: model.programs.iter().map(member).collect(),
            passed: Passed::Nothing,
            now: Duration::ZERO,
            arrived: Vec::new(),
            nodes: Vec::new(),
            created: 0,
            watches: Vec::new(),
            abandoned: BTreeSet::new(),
            deleted: BTreeSet::new(),
            requested: BTreeSet::new(),
            is_other_done: false,
            passed_over: 0,
            is_suspect: false,
            losses: 0,
            is_expired: false,
            is_ended: false,
            failures: 0,
            newest_token: None,
            left: model.faults,
            forgets_age: model.forgets_age,
            mistakes: Mistakes::default(),
            sights: Memory::default(),
        }
    }

    pub(super) fn state(&self, i: usize) -> Option<MemberState> {
        match self.members[i].phase {
            Phase::In { id, .. } => Some(self.cohort.state(id)),
            Phase::Away | Phase::Done => None,
        }
    }

    pub(super) fn has_turn(&self, i: usize) -> bool {
        self.state(i).is_some_and(|state| !matches!(state, MemberState::Waits | MemberState::Closed))
    }

    pub(super) fn holds(&self, i: usize) -> bool {
        matches!(self.state(i), Some(MemberState::Holds { .. }))
    }

    /// Tells whether a contender waits for its turn and was not woken.
    pub(super) fn sleeps(&self, i: usize) -> bool {
        matches!(self.members[i].phase, Phase::In { asleep: true, .. })
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_other_done && self.members.iter().all(|member| member.phase == Phase::Done)
    }

    /// Returns everything that contenders have or that is being handed over.
    pub(super) fn had(&self) -> impl Iterator<Item = Passed> {
        self.members.iter().map(|member| member.had).chain([self.passed])
    }

    pub(super) fn is_lost(&self, had: Passed) -> bool {
        self.is_ended || matches!(had, Passed::Hold { losses, .. } if self.losses > losses)
    }

    fn reliance(&self, had: Passed) -> Reliance {
        match had {
            Passed::Hold { .. } if self.is_lost(had) => Reliance::Lost,
            Passed::Hold { .. } if self.is_suspect => Reliance::Suspect,
            _ => Reliance::Sure,
        }
    }

    fn is_there(&self, node: u8) -> bool {
        self.nodes.iter().any(|(other, _)| *other == node)
    }

    /// Tells whether a contender can take a step.
    pub(super) fn can_step(&self, i: usize) -> bool {
        let Phase::In { id, asleep, pending } = self.members[i].phase else { return false };
        let brought = if self.members[i].had == Passed::Nothing { self.passed } else { self.members[i].had };
        match (self.cohort.state(id), brought) {
            _ if pending.is_some() => true,
            _ if asleep => false,
            (MemberState::Queues, Passed::Place { node }) => !self.is_there(node) || self.nodes[0].0 == node,
            (MemberState::Takes, had) => self.reliance(had) != Reliance::Suspect,
            (state, _) => !matches!(state, MemberState::Holds { .. } | MemberState::LetsGo),
        }
    }

    pub(super) fn come(&mut self, i: usize, program: Program, bounds: Bounds) {
        self.arrived.push(i);
        let is_taken_again = self.lingers();
        self.sights.note(is_taken_again, Sight::TakenAgain as usize);
        let id = match program {
            Program::Lock => Some(self.cohort.enter(bounds)),
            Program::Try => self.cohort.enter_at_once(bounds),
        };
        self.members[i].phase = match id {
            Some(id) => Phase::In { id, asleep: self.cohort.state(id) == MemberState::Waits, pending: None },
            None => Phase::Done,
        };
        if self.holds(i) {
            // It has taken the hold without a look.
            self.mistakes.took_what_was_unsure |= self.reliance(self.passed) != Reliance::Sure;
        }
    }

    /// Does what a contender does when it is polled.
    pub(super) fn step(&mut self, i: usize) {
        let Phase::In { id, pending, .. } = self.members[i].phase else { return };
        self.bring(i, id);
        match (self.cohort.state(id), self.members[i].had) {
            (_, Passed::Hold { node, .. }) if pending == Some(Ask::LookForOthers) => {
                let others = self.look(node);
                self.see_others(i, others);
            }
            (_, Passed::Hold { node, .. }) if pending == Some(Ask::WatchQueue) => self.watch_queue(i, id, node),
            (_, Passed::Hold { node, .. }) if pending == Some(Ask::Release) => {
                self.delete(node);
                self.members[i].had = Passed::Nothing;
                self.tell(i, Event::Released);
                self.members[i].phase = Phase::Done;
            }
            (MemberState::Begins, _) if self.is_expired || self.is_ended => self.fail(i),
            (MemberState::Begins, _) if self.members[i].is_try && !self.nodes.is_empty() => self.leave(i),
            (MemberState::Begins, _) => {
                let node = self.create(NodeMaker::Cohort);
                if self.members[i].is_try {
                    return self.grant(i, node);
                }
                self.members[i].had = Passed::Place { node };
                self.tell(i, Event::Queues);
            }
            (MemberState::Queues, Passed::Place { node }) if !self.is_there(node) => {
                self.failures += u8::from(!self.is_expired);
                self.fail(i);
            }
            (MemberState::Queues, Passed::Place { node }) => self.grant(i, node),
            (MemberState::Takes, had) => self.take(i, had),
            _ => self.members[i].phase = Phase::Done,
        }
    }

    fn fail(&mut self, i: usize) {
        self.tell(i, Event::Fails);
        self.abandon(i);
        self.members[i].phase = Phase::Done;
    }

    fn grant(&mut self, i: usize, node: u8) {
        self.members[i].had = Passed::Hold { node, losses: self.losses };
        self.tell(i, Event::Granted);
        self.note_grant(i, node);
    }

    fn take(&mut self, i: usize, had: Passed) {
        let reliance = self.reliance(had);
        if self.tell(i, Event::Looked(reliance)).contains(&Ask::GiveUp) {
            self.abandon(i);
        }
        if let (true, Passed::Hold { node, losses }) = (self.holds(i), had) {
            self.mistakes.took_what_was_unsure |= reliance != Reliance::Sure;
            self.passed_over += u8::from(self.nodes.iter().any(|(_, owner)| *owner == NodeMaker::Other));
            let losses = if self.forgets_age { self.losses } else { losses };
            self.members[i].had = Passed::Hold { node, losses };
            self.note_grant(i, node);
        }
    }

    fn note_grant(&mut self, i: usize, node: u8) {
        let Some(MemberState::Holds { handovers }) = self.state(i) else { return };
        self.grant_token((node, handovers));
        let is_in_front =
            |other: &usize| matches!(self.members[*other].phase, Phase::In { .. }) && !self.lets_go(*other);
        let ahead = self.arrived.iter().take_while(|other| **other != i);
        self.mistakes.overtaken |= ahead.into_iter().any(is_in_front);
    }

    fn lets_go(&self, i: usize) -> bool {
        matches!(self.members[i].phase, Phase::In { pending: Some(_), .. })
    }

    pub(super) fn grant_token(&mut self, token: (u8, u64)) {
        // If somebody deleted a holder's node, the contender that this let in has a newer token.
        self.mistakes.token_shrank |= self.newest_token >= Some(token) && !self.deleted.contains(&token.0);
        self.newest_token = self.newest_token.max(Some(token));
    }

    pub(super) fn release(&mut self, i: usize) {
        let reliance = self.reliance(self.members[i].had);
        let asks = self.tell(i, Event::LetsGo(reliance));
        self.mistakes.loss_untold |= reliance == Reliance::Lost && !asks.contains(&Ask::Release);
        self.go_on_releasing(i, &asks);
    }

    fn look(&self, node: u8) -> Others {
        match u32::try_from(self.nodes.len()) {
            _ if self.is_expired || self.is_ended => Others::Unknown,
            _ if !self.is_there(node) => Others::OwnNodeGone,
            Ok(children) => Others::Children(children),
            Err(_) => Others::Unknown,
        }
    }

    fn see_others(&mut self, i: usize, others: Others) {
        let reliance = self.reliance(self.members[i].had);
        let asks = self.tell(i, Event::SawOthers(others, reliance));
        self.mistakes.loss_untold |= reliance == Reliance::Lost && !asks.contains(&Ask::Release);
        self.go_on_releasing(i, &asks);
    }

    fn go_on_releasing(&mut self, i: usize, asks: &[Ask]) {
        let is_request = |ask: &Ask| matches!(ask, Ask::LookForOthers | Ask::WatchQueue | Ask::Release);
        let asked = asks.iter().copied().find(is_request);
        match &mut self.members[i].phase {
            Phase::In { pending, .. } if asked.is_some() => *pending = asked,
            phase => *phase = Phase::Done,
        }
    }

    /// Lets a contender give up or be dropped, in any state.
    pub(super) fn leave(&mut self, i: usize) {
        let reliance = self.reliance(self.members[i].had);
        self.tell(i, Event::Leaves(reliance));
        self.abandon(i);
        self.members[i].phase = Phase::Done;
    }

    /// Leaves what a contender has to the reaper.
    fn abandon(&mut self, i: usize) {
        let had = std::mem::replace(&mut self.members[i].had, Passed::Nothing);
        self.leave_to_reaper(had);
    }

    fn leave_to_reaper(&mut self, had: Passed) {
        if let Passed::Place { node } | Passed::Hold { node, .. } = had
            && self.is_there(node)
        {
            self.abandoned.insert(node);
        }
    }

    pub(super) fn end(&mut self) {
        self.is_ended = true;
        let is_waiting = (0..self.members.len()).any(|i| self.sleeps(i));
        self.sights.note(is_waiting, Sight::Ended as usize);
        self.fire_watches();
        self.tell_of_lingering(Cohort::close);
    }

    pub(super) fn create(&mut self, owner: NodeMaker) -> u8 {
        self.created += 1;
        self.nodes.push((self.created, owner));
        self.fire_watches();
        self.created
    }

    pub(super) fn delete(&mut self, node: u8) {
        self.nodes.retain(|(other, _)| *other != node);
        self.abandoned.remove(&node);
        self.fire_watches();
    }

    /// Reports an event as the library does. What comes with the turn is handed over, unless the contender has to
    /// release it or give it up.
    fn tell(&mut self, i: usize, event: Event) -> Vec<Ask> {
        let Phase::In { id, .. } = self.members[i].phase else { return Vec::new() };
        self.bring(i, id);
        let mut asks = Vec::new();
        self.cohort.on(id, event, self.now, &mut asks);
        let is_kept = asks.iter().any(|ask| matches!(ask, Ask::Release | Ask::GiveUp));
        if !is_kept && asks.iter().any(|ask| matches!(ask, Ask::Wake(_) | Ask::Keep)) {
            self.passed = std::mem::replace(&mut self.members[i].had, Passed::Nothing);
        }
        self.wake(&asks);
        asks
    }

    fn bring(&mut self, i: usize, id: MemberId) {
        let has_turn = !matches!(self.cohort.state(id), MemberState::Waits | MemberState::Closed);
        if has_turn && self.members[i].had == Passed::Nothing {
            self.members[i].had = std::mem::replace(&mut self.passed, Passed::Nothing);
        }
    }

    fn wake(&mut self, asks: &[Ask]) {
        for member in &mut self.members {
            if let Phase::In { id, asleep, .. } = &mut member.phase {
                *asleep &= !asks.contains(&Ask::Wake(*id));
            }
        }
    }
}
