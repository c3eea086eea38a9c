//! What a contender does next, and what becomes of it: its requests, and its decisions on the answers.

use zk_recipes_protocol::leases::{self, Leases};
use zk_recipes_protocol::names::{self, Names};
use zk_recipes_protocol::number_proof::Expected;
use zk_recipes_protocol::predecessors::Predecessors;
use zk_recipes_protocol::queue::{Queue, Verdict};
use zk_recipes_protocol::release_note::{self, ParentState};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

use super::contender::{Claim, Client, Heir, Phase, Unordered};
use super::protocol::Protocol;
use super::server::{self, Kind, Program, Slot, State};

/// The transaction that created a contender's node, after those that created the nodes of the lock.
const CREATION: i64 = 1 << 8;

impl Protocol {
    pub(super) fn step(&self, state: &mut State, i: usize) {
        let client = &state.clients[i];
        let phase = match client.phase.clone() {
            _ if client.ended => return state.clients[i].end(),
            Phase::Look if self.is_free(state, client.program) => Phase::Create(Slot::First),
            Phase::Look => Phase::Done,
            Phase::Create(slot) => {
                let number = state.create(i, slot);
                state.clients[i].set_claim(slot, Claim::Named(number));
                state.clients[i].notes = !self.rules.notes_from_the_grant_on;
                match state.clients[i].expected.0.take() {
                    Some(expected) if self.is_met(state, expected, number) => self.grant(state, i),
                    _ => after_create(&state.clients[i], slot),
                }
            }
            Phase::Find(slot) => match self.find(state, i, slot) {
                Some(number) => {
                    state.clients[i].set_claim(slot, Claim::Named(number));
                    match after_create(&state.clients[i], slot) {
                        // Nobody knows what has happened since the creation.
                        Phase::ReadNote { .. } => Phase::ReadNote { changed: true },
                        phase => phase,
                    }
                }
                None => Phase::Create(slot),
            },
            Phase::List(Slot::First) if !self.rules.expects_before_creation && self.follows_now(state, i) => {
                self.grant(state, i)
            }
            Phase::List(Slot::First) | Phase::Again => self.decide(state, i),
            Phase::ReadNote { changed } => self.decide_at_creation(state, i, changed),
            Phase::ReadNoteOf(predecessor) => {
                let noted = noted(state, CREATION + 1);
                let (predecessor, own) = (server::sequence(predecessor), server::sequence(own_number(state, i)));
                if (self.rules.passes)(&noted, predecessor, own, CREATION) { Phase::CheckOwn } else { Phase::Again }
            }
            Phase::CheckOwn if self.rules.checks_own && client.node(Slot::First).is_none() => Phase::Clean,
            Phase::CheckOwn => self.grant(state, i),
            Phase::Probe(found) => self.probe(state, i, found),
            Phase::List(_) if client.program == Program::Downgrade => decide_on_downgrade(state, i),
            Phase::List(_) => self.decide_on_leases(state, i),
            Phase::Watch(kind, number) if state.has_for(i, kind, number) => Phase::Sleep(kind, number),
            Phase::Watch(..) => {
                state.clients[i].wake();
                state.clients[i].phase.clone()
            }
            Phase::WatchLeases if self.verdict_on_leases(state, i) == leases::Verdict::Full => {
                Phase::SleepOnLeases { changed: false }
            }
            Phase::WatchLeases => Phase::List(Slot::Second),
            // What was kept stands for nobody's hold any more.
            Phase::Kept => Phase::Clean,
            Phase::Unlock => {
                self.remove(state, i, Slot::First);
                Phase::HoldSecond
            }
            _ => unreachable!("BUG: {client:?} takes no step"),
        };
        state.clients[i].phase = phase;
        state.clients[i].finish_cleaning();
    }

    /// Whether it is worth while to try.
    fn is_free(&self, state: &State, program: Program) -> bool {
        let kind = program.kind(Slot::First);
        let children = state.children(Kind::Lease);
        let room = Leases::from_children(&children).have_room_for(program.leases().len(), self.permits);
        let children = state.children(kind);
        (room || program.leases().is_empty()) && Queue::from_children(&children, kind.names()).admits(kind.mode())
    }

    /// What a contender does when it sees the queue as it is now.
    fn decide(&self, state: &mut State, i: usize) -> Phase {
        let program = state.clients[i].program;
        let kind = program.kind(Slot::First);
        let children = state.children(kind);
        match (self.rules.verdict)(&children, kind.names(), &own_name(state, i, Slot::First)) {
            Verdict::Granted => self.grant(state, i),
            Verdict::Behind { .. } if program.only_tries() => Phase::Clean,
            Verdict::Behind { predecessor } => {
                let position = children.iter().position(|child| child == predecessor);
                let watched = position.and_then(|position| state.nodes(kind).nth(position));
                let (_, node) = watched.expect("BUG: a predecessor that is not in the listing");
                if program.may_probe() {
                    remember(state, i);
                }
                Phase::Watch(node.kind, node.number)
            }
            // An error, and the claim is dropped.
            Verdict::Missing => Phase::Clean,
        }
    }

    /// What a contender does that has created its node and read the last holder's note in the same flight.
    fn decide_at_creation(&self, state: &mut State, i: usize, changed: bool) -> Phase {
        let (noted, own) = (noted(state, CREATION + i64::from(changed)), server::sequence(own_number(state, i)));
        if (self.rules.has_only_child)(&noted, CREATION) {
            return self.grant(state, i);
        }
        let name = |_| match own_number(state, i).checked_sub(1) {
            Some(number) => server::name_for_others(Kind::Numbered, number),
            None => String::new(),
        };
        let ahead = Predecessors::number_before(own, name);
        let (kind, number) = ahead.predecessor().map(|(_, name)| server::remembered(name)).expect("BUG: nobody ahead");
        state.clients[i].seen = Unordered(ahead);
        Phase::Watch(kind, number)
    }

    /// What a contender does that asks for those whom it has seen ahead. The last is its own node.
    fn probe(&self, state: &mut State, i: usize, mut found: Vec<bool>) -> Phase {
        let client = &mut state.clients[i];
        let asked = client.seen.0.names().nth(found.len()).map(server::remembered);
        if let Some((kind, number)) = asked {
            found.push(state.has_for(i, kind, number));
            return Phase::Probe(found);
        }
        if self.rules.checks_own && client.node(Slot::First).is_none() {
            return Phase::Clean;
        }
        client.seen.0.keep(&found);
        match client.seen.0.predecessor().map(|(_, name)| server::remembered(name)) {
            _ if client.seen.0.is_nobody() => self.grant(state, i),
            Some((kind, number)) => Phase::Watch(kind, number),
            None => Phase::List(Slot::First),
        }
    }

    /// What a contender who has the turn does when it sees the leases as they are now.
    fn decide_on_leases(&self, state: &mut State, i: usize) -> Phase {
        match self.verdict_on_leases(state, i) {
            leases::Verdict::Granted => Phase::Unlock,
            leases::Verdict::Full | leases::Verdict::Missing if state.clients[i].program.only_tries() => Phase::Clean,
            leases::Verdict::Full => Phase::WatchLeases,
            // Those that somebody deleted are created again.
            leases::Verdict::Missing => {
                let client = &mut state.clients[i];
                let missing = |slot: &Slot| client.node(*slot).is_none();
                let missing: Vec<Slot> = client.program.leases().iter().copied().filter(missing).collect();
                missing.iter().for_each(|slot| client.set_claim(*slot, Claim::Disarmed));
                after_create(client, Slot::Second)
            }
        }
    }

    fn verdict_on_leases(&self, state: &State, i: usize) -> leases::Verdict {
        let slots = state.clients[i].program.leases();
        let own: Vec<String> = slots.iter().map(|slot| own_name(state, i, *slot)).collect();
        let own = own.iter().map(String::as_str).collect();
        Leases::from_children(&state.children(Kind::Lease)).verdict(&own, self.permits)
    }

    /// The number of the node of a `create` whose reply was lost.
    fn find(&self, state: &State, i: usize, slot: Slot) -> Option<u8> {
        let client = &state.clients[i];
        let kind = client.program.kind(slot);
        if kind == Kind::Numbered {
            // By its data, which only the contender has written.
            let node = client.nodes.iter().find(|node| node.slot == slot)?;
            return (self.rules.is_ours)(&stat_of(node.session), client.session.into()).then_some(node.number);
        }
        let children = state.children(kind);
        let found = names::find_protected(&children, &server::prefix(i, slot, kind)).next()?;
        let position = children.iter().position(|child| child == found)?;
        let (_, node) = state.nodes(kind).nth(position)?;
        (self.rules.is_ours)(&stat_of(node.session), client.session.into()).then_some(node.number)
    }

    pub(super) fn lose_reply(&self, state: &mut State, i: usize, slot: Slot, applied: bool) {
        if self.faults.replies_lost_max.is_some() {
            state.replies_lost += 1;
        }
        if matches!(state.clients[i].phase, Phase::Create(_)) {
            if applied {
                state.create(i, slot);
            }
            let client = &mut state.clients[i];
            client.set_claim(slot, Claim::Unnamed);
            client.expected = Unordered(None);
            client.phase = if self.rules.finds_before_repeating { Phase::Find(slot) } else { Phase::Create(slot) };
            return;
        }
        if applied && self.may_go(state, i) {
            self.remove_named(state, i, slot);
        }
        // A node that was found is looked for again, one whose name is known is deleted again.
        if let Claim::Found(_) = state.clients[i].claim(slot) {
            state.clients[i].set_claim(slot, Claim::Unnamed);
        }
    }

    /// Lets the one directly behind hold, before our own node has gone.
    pub(super) fn pass(&self, state: &mut State, i: usize) {
        let (Some(j), Some(run)) = (state.follower(i), state.clients[i].run) else {
            unreachable!("BUG: there is nobody to pass the lock on to")
        };
        let (kind, number) = (state.clients[j].program.kind(Slot::First), own_number(state, j));
        state.give_up(i);
        state.clients[i].heir = Some(Heir { kind, number, run });
        state.note_pass(j, run);
        let client = &mut state.clients[j];
        client.seen = Unordered(Predecessors::nobody());
        client.notes = client.program == Program::Handoff;
        client.phase = Phase::Hold;
    }

    /// Whether the node of a contender may be deleted. Of one that has passed the lock on it may not while it stands for
    /// whoever has that by now.
    fn may_go(&self, state: &State, i: usize) -> bool {
        let client = &state.clients[i];
        let is_needed = |heir: Heir| {
            let lacks_own = !state.has(heir.kind, heir.number) && client.node(Slot::First).is_some();
            self.rules.keeps_node && lacks_own && state.goes_on(heir.run)
        };
        !client.heir.is_some_and(is_needed)
    }

    /// Deletes the node that a claim names, if it is there, and leaves a note in its stead if it was that of a holder.
    fn remove_named(&self, state: &mut State, i: usize, slot: Slot) {
        let is_there = state.clients[i].node(slot).is_some();
        if let (true, true, Claim::Named(number)) = (state.clients[i].notes, is_there, state.clients[i].claim(slot)) {
            // Whoever passes the lock on leaves that to the next one, unless there is none any more. Once one behind has left
            // a note, the data have another version than the one to be replaced.
            let is_passed_on = |heir: Heir| state.has(heir.kind, heir.number);
            if !state.clients[i].heir.is_some_and(is_passed_on) {
                state.released = state.released.max(Some((number, state.incarnation)));
            }
        }
        delete_named(state, i, slot);
    }

    /// Lets the contender hold, or go on to what it wanted the lock for.
    fn grant(&self, state: &mut State, i: usize) -> Phase {
        let program = state.clients[i].program;
        state.clients[i].seen = Unordered(Predecessors::nobody());
        state.clients[i].notes = program == Program::Handoff;
        if program != Program::FlatPermit {
            state.note_grant(i);
        }
        if self.expects && program.may_probe() {
            let grant = server::grant(state.clients[i].incarnation, own_number(state, i));
            state.uncontended.granted(grant);
            // Whether it is worth while to rely on the next number is left open.
            state.uncontended.disturbed();
            if !self.rules.waits_for_release {
                state.uncontended.released(grant);
            }
        }
        if program.leases().is_empty() { Phase::Hold } else { Phase::Create(Slot::Second) }
    }

    /// Whether a contender holds because it follows the grant that was `expected`. The watch of the lock's node is set anew
    /// at every moment, and has fired when that node is another by now.
    fn is_met(&self, state: &State, expected: Expected, number: u8) -> bool {
        let watched = (self.rules.watched)(expected, ParentCzxid(state.incarnation.into()));
        expected.proves(server::sequence(number), watched)
    }

    /// Whether a contender that has its node follows the last grant, as far as is known by now.
    fn follows_now(&self, state: &State, i: usize) -> bool {
        let expected = state.uncontended.expected();
        expected.is_some_and(|expected| self.is_met(state, expected, own_number(state, i)))
    }

    pub(super) fn remove(&self, state: &mut State, i: usize, slot: Slot) {
        if !self.may_go(state, i) {
            // Whoever holds by then leaves a note.
            (state.clients[i].phase, state.clients[i].notes) = (Phase::Kept, false);
            return;
        }
        let claim = match state.clients[i].claim(slot) {
            Claim::Unnamed => self.find(state, i, slot).map_or(Claim::Disarmed, Claim::Found),
            _ => {
                self.remove_named(state, i, slot);
                Claim::Disarmed
            }
        };
        state.clients[i].set_claim(slot, claim);
        state.clients[i].finish_cleaning();
    }
}

/// Notes whom the contender sees ahead in a listing.
fn remember(state: &mut State, i: usize) {
    let kind = state.clients[i].program.kind(Slot::First);
    let children: Vec<String> =
        state.nodes(kind).map(|(_, node)| server::name_for_others(node.kind, node.number)).collect();
    let own = server::name_for_others(kind, own_number(state, i));
    let ahead = Queue::from_children(&children, kind.names()).ahead_of(&own);
    state.clients[i].seen = Unordered(ahead.expect("BUG: a contender behind another is not in the listing"));
}

/// Whom a contender has seen ahead, without those of whom others of its session know better.
pub(super) fn ahead_now(state: &State, i: usize) -> Predecessors {
    let mut ahead = state.clients[i].seen.0.clone();
    if let Some((incarnation, floor)) = state.floor
        && incarnation == state.clients[i].incarnation
    {
        ahead.raise(server::sequence(floor));
    }
    ahead
}

/// The contender with the number before, if it is one whose name others of its session know.
pub(super) fn directly_ahead(state: &State, i: usize) -> Option<(Kind, u8)> {
    let number = own_number(state, i).checked_sub(1)?;
    state.has_for(i, Kind::Lock, number).then_some((Kind::Lock, number))
}

/// The data of the lock's node, and what else is read with it, after the transaction `changed`.
fn noted(state: &State, changed: i64) -> ParentState {
    let data = state.released.map(|(number, of_node)| release_note::note(server::sequence(number), of_node.into()));
    let num_children = state.nodes(Kind::Lock).count().try_into().expect("BUG: too many nodes");
    let stat = Stat { czxid: state.incarnation.into(), pzxid: changed, num_children, ..Stat::default() };
    ParentState::new(&data.unwrap_or_default(), &stat)
}

/// What a server says of a node of this session, with nothing else filled in.
fn stat_of(session: u8) -> Stat {
    Stat { ephemeral_owner: session.into(), ..Stat::default() }
}

fn own_number(state: &State, i: usize) -> u8 {
    match state.clients[i].claim(Slot::First) {
        Claim::Named(number) => number,
        claim => unreachable!("BUG: {claim:?} has no name"),
    }
}

/// Deletes the node that a claim names, if it is there.
pub(super) fn delete_named(state: &mut State, i: usize, slot: Slot) {
    if let Claim::Named(number) | Claim::Found(number) = state.clients[i].claim(slot) {
        state.delete(i, |node| (node.slot, node.number) == (slot, number));
    }
}

/// What a contender does that knows the name of the node that it has created.
fn after_create(client: &Client, slot: Slot) -> Phase {
    let unnamed = |slot: &Slot| !matches!(client.claim(*slot), Claim::Named(_));
    match client.program.leases().iter().copied().find(unnamed) {
        Some(lacking) if slot != Slot::First => Phase::Create(lacking),
        _ if slot == Slot::First && client.program == Program::Handoff => Phase::ReadNote { changed: false },
        _ if slot == Slot::First => Phase::List(Slot::First),
        _ => Phase::List(Slot::Second),
    }
}

/// What a contender does that wants to share in the place of its own hold.
fn decide_on_downgrade(state: &State, i: usize) -> Phase {
    let children = state.children(Kind::Read);
    let queue = Queue::from_children(&children, Names::READ_WRITE);
    let is_held = queue.has(&own_name(state, i, Slot::First));
    match queue.verdict(&own_name(state, i, Slot::Second)) {
        Verdict::Granted if is_held => Phase::HoldBoth,
        // An error; its user then drops the hold, too.
        _ => Phase::Clean,
    }
}

fn own_name(state: &State, i: usize, slot: Slot) -> String {
    let client: &Client = &state.clients[i];
    match client.claim(slot) {
        Claim::Named(number) => server::name(i, slot, client.program.kind(slot), number),
        claim => unreachable!("BUG: {claim:?} has no name"),
    }
}
