//! The acquire loop and the deletion, one request a step, and the decisions on the answers.

use zk_recipes_protocol::names::{Mode, Names, Sequence, Supply};
use zk_recipes_protocol::predecessors::Predecessors;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::{self, ParentState};
use zk_recipes_protocol::stat::Stat;

use super::contender::{Claim, Client, Phase, Program, Search};
use super::protocol::Ownership;
use super::server::{self, Made, Naming, Parent, State};

impl Ownership {
    pub(super) fn step(&self, state: &mut State, i: usize) {
        let program = state.clients[i].program;
        match state.clients[i].phase.clone() {
            Phase::Create { again, old } => self.create(state, i, again, old),
            Phase::Looking(made) if program == Program::Handoff => {
                state.clients[i].phase = Phase::Answered(made, Some(state.parent));
            }
            Phase::Looking(made) => {
                self.name(state, i, made, None);
                if state.clients[i].phase == Phase::Look {
                    list(state, i);
                }
            }
            Phase::Answered(made, look) => self.take_answer(state, i, made, look),
            Phase::AnsweredAlone(made) if self.may_take(state, i, made.czxid) => {
                self.name(state, i, made, None);
                if state.clients[i].phase == Phase::Look {
                    wait_for(state, i, number_before(made.number));
                }
            }
            Phase::AnsweredAlone(_) => state.clients[i].phase = Phase::Search(Search::default()),
            Phase::Search(search) => self.search(state, i, search),
            Phase::Look if program == Program::Handoff => self.see_noted(state, i, state.parent),
            Phase::Look | Phase::List => list(state, i),
            Phase::Watch => watch(state, i),
            Phase::Sleep(_) => {
                state.clients[i].ahead.pop();
                state.clients[i].phase = Phase::Again;
            }
            Phase::Again if program == Program::Handoff => state.clients[i].phase = Phase::CheckOwn(state.parent),
            Phase::Again => look_again(state, i),
            Phase::CheckOwn(noted) => self.decide_on_note(state, i, noted),
            Phase::Probe(found) => self.probe(state, i, found),
            Phase::Hold => state.clients[i].give_up(),
            Phase::Clean => self.remove(state, i),
            Phase::Done => unreachable!("BUG: a contender that is done takes no step"),
        }
    }

    fn create(&self, state: &mut State, i: usize, again: bool, old: Option<Parent>) {
        let naming = state.clients[i].program.naming();
        state.clients[i].phase = match state.create(i, naming) {
            Some(made) => {
                state.clients[i].claim = Claim::Unnamed;
                let is_looked_for = !again || naming == Naming::Protected;
                if is_looked_for { Phase::Looking(made) } else { Phase::Answered(made, old) }
            }
            // The name is in use: an error. Nothing was created by any request of this contender.
            None => return state.clients[i].give_up(),
        };
    }

    /// Sends `create` with nothing else.
    pub(super) fn create_alone(state: &mut State, i: usize) {
        match state.create(i, Naming::Numbered) {
            Some(made) => {
                state.clients[i].claim = Claim::Unnamed;
                state.clients[i].phase = Phase::AnsweredAlone(made);
            }
            None => state.clients[i].give_up(),
        }
    }

    /// The answer to a `create` says that it has made this node.
    fn take_answer(&self, state: &mut State, i: usize, made: Made, look: Option<Parent>) {
        if self.may_take(state, i, made.czxid) {
            return self.name(state, i, made, look);
        }
        let old = look.filter(|_| !self.rules.forgets_first_look);
        state.clients[i].phase = if self.rules.searches_before_second {
            Phase::Search(Search { old, ..Search::default() })
        } else {
            Phase::Create { again: true, old }
        };
    }

    /// Takes a place in the queue by this node.
    fn name(&self, state: &mut State, i: usize, node: Made, look: Option<Parent>) {
        state.clients[i].claim = Claim::Named { node, asked: false, note: None };
        match look {
            _ if self.is_refused(node.number) => state.clients[i].give_up(),
            Some(look) => self.see_noted(state, i, look),
            None => state.clients[i].phase = Phase::Look,
        }
    }

    pub(super) fn is_refused(&self, number: i32) -> bool {
        (self.rules.supply)(sequence(number)) == Supply::Exhausted
    }

    fn see_noted(&self, state: &mut State, i: usize, look: Parent) {
        let Made { czxid: own, number } = state.clients[i].own();
        let client = &mut state.clients[i];
        client.incarnation.get_or_insert(look.czxid);
        client.noted_version = Some(look.version);
        if noted(&look, true).has_only_child(own.into()) {
            return grant(state, i);
        }
        wait_for(state, i, number_before(number));
    }

    /// The note was read, and now the answer about the own node is there.
    fn decide_on_note(&self, state: &mut State, i: usize, note: Parent) {
        let Made { czxid: own, number } = state.clients[i].own();
        let is_there = if self.rules.checks_own { state.has(own) } else { note.children > 0 };
        if !is_there {
            return state.fail(i);
        }
        let client = &mut state.clients[i];
        client.noted_version = Some(note.version);
        client.incarnation.get_or_insert(note.czxid);
        let own_number = sequence(number);
        if noted(&note, self.rules.binds_notes).passes(own_number.before(), own_number, own.into()) {
            return grant(state, i);
        }
        look_again(state, i);
    }

    /// Asks for those whom the contender has seen ahead, one after the other. The last is its own node.
    fn probe(&self, state: &mut State, i: usize, mut found: Vec<bool>) {
        let client = &mut state.clients[i];
        if let Some(name) = client.ahead.names().nth(found.len()) {
            found.push(state.nodes.iter().any(|node| node.name() == name));
            client.phase = Phase::Probe(found);
            return;
        }
        let own = client.own().czxid;
        let mut ahead = client.ahead.clone();
        ahead.keep(&found);
        if state.has(own) { wait_for(state, i, ahead) } else { state.fail(i) }
    }

    /// One deletion, with what is asked before it.
    fn remove(&self, state: &mut State, i: usize) {
        let Claim::Named { node: Made { czxid, number }, asked, note } = state.clients[i].claim else {
            unreachable!("BUG: nothing is left to delete")
        };
        let name = own_name(&state.clients[i], i);
        let is_there = state.nodes.iter().any(|node| node.name() == name);
        if asked && !state.has(czxid) || !is_there {
            return state.clients[i].finish();
        }
        if let Some((incarnation, version)) = note {
            if version != state.parent.version {
                // The data are another's. The next request deletes the node and leaves no note.
                state.clients[i].claim = Claim::Named { node: Made { czxid, number }, asked, note: None };
                return;
            }
            state.parent.note = Some((number, incarnation));
            state.parent.version += 1;
        }
        state.delete(|node| node.name() == name);
        state.clients[i].finish();
    }

    /// A `create` or a deletion is applied or not, and nobody is told.
    pub(super) fn lose_reply(&self, state: &mut State, i: usize, applied: bool) {
        match state.clients[i].phase {
            Phase::Create { .. } => {
                state.left.creates_lost -= 1;
                if applied {
                    state.create(i, state.clients[i].program.naming());
                }
                let client = &mut state.clients[i];
                client.claim = Claim::Unnamed;
                client.phase = Phase::Search(Search::default());
            }
            _ => {
                state.left.deletes_lost -= 1;
                let mut claim = state.clients[i].claim;
                if applied {
                    self.remove(state, i);
                    if state.clients[i].phase == Phase::Clean {
                        claim = state.clients[i].claim;
                    }
                }
                if let Claim::Named { asked, .. } = &mut claim {
                    *asked = true;
                }
                (state.clients[i].claim, state.clients[i].phase) = (claim, Phase::Clean);
            }
        }
    }
}

/// Lists the queue and decides.
fn list(state: &mut State, i: usize) {
    let own = state.clients[i].own().czxid;
    let children = state.names();
    let name = own_name(&state.clients[i], i);
    let ahead = Queue::from_children(&children, Names::MUTEX).ahead_of(&name);
    match ahead.filter(|_| state.parent.czxid < own) {
        Some(ahead) => {
            state.clients[i].incarnation.get_or_insert(state.parent.czxid);
            wait_for(state, i, ahead);
        }
        None => state.fail(i),
    }
}

/// Lets the contender hold.
fn grant(state: &mut State, i: usize) {
    let Made { czxid: own, number } = state.clients[i].own();
    state.granted_without_node |= !state.has(own);
    let client = &mut state.clients[i];
    let (incarnation, version, session) = (client.incarnation, client.noted_version, usize::from(client.session));
    if let (Program::Handoff, Some(incarnation), Some(version), Claim::Named { note, .. }) =
        (client.program, incarnation, version, &mut client.claim)
    {
        *note = Some((incarnation, version));
    }
    (client.phase, client.ahead) = (Phase::Hold, Predecessors::nobody());
    (client.incarnation, client.noted_version) = (None, None);
    // Others of the session know from now on that nobody is before this number.
    if let (Some(incarnation), true) = (incarnation, client.program != Program::Curator) {
        let floor = &mut state.floors[session];
        if floor.is_none_or(|(of, floor)| of < incarnation || of == incarnation && floor < number) {
            *floor = Some((incarnation, number));
        }
    }
}

/// Waits for those ahead, or holds if there is nobody.
fn wait_for(state: &mut State, i: usize, ahead: Predecessors) {
    if ahead.is_nobody() {
        return grant(state, i);
    }
    let client = &mut state.clients[i];
    client.phase = if ahead.predecessor().is_some() { Phase::Watch } else { Phase::List };
    client.ahead = ahead;
}

/// Reads the predecessor with a watch.
fn watch(state: &mut State, i: usize) {
    let client = &state.clients[i];
    let own = client.own().czxid;
    let name = client.ahead.predecessor().map(|(_, name)| name).expect("BUG: there is nobody to watch");
    match state.nodes.iter().find(|node| node.name() == name).map(|node| node.czxid) {
        // One that is younger has the name in a lock's node where the numbers have begun anew.
        Some(czxid) if czxid > own && !state.has(own) => state.fail(i),
        Some(czxid) => state.clients[i].phase = Phase::Sleep(czxid),
        None => {
            state.clients[i].ahead.pop();
            state.clients[i].phase = Phase::Again;
        }
    }
}

/// Looks at who is still ahead, by what the contender remembers or by a listing.
fn look_again(state: &mut State, i: usize) {
    let client = &mut state.clients[i];
    if let Some((incarnation, floor)) = state.floors[usize::from(client.session)]
        && client.incarnation == Some(incarnation)
    {
        client.ahead.raise(sequence(floor));
    }
    let knows_all = client.ahead.is_complete() && client.program != Program::Curator;
    client.phase = if knows_all && client.ahead.names().next().is_none() { Phase::Probe(vec![]) } else { Phase::List };
}

/// The contender of the number before, if it is named by its number alone.
fn number_before(own: i32) -> Predecessors {
    Predecessors::number_before(sequence(own), |number| server::numbered(number.get()))
}

/// Whether the contender may ask for those ahead instead of listing.
pub(super) fn may_probe(client: &Client) -> bool {
    client.phase == Phase::List && client.program != Program::Curator && client.ahead.is_complete()
}

/// Whether the answers that have arrived let the contender hold.
pub(super) fn is_about_to_hold(client: &Client) -> bool {
    matches!(client.phase, Phase::Answered(made, Some(look)) if noted(&look, true).has_only_child(made.czxid.into()))
}

fn own_name(client: &Client, i: usize) -> String {
    let number = client.own().number;
    match client.program.naming() {
        Naming::Numbered => server::numbered(number),
        _ => format!("_c_{i}-{}", server::numbered(number)),
    }
}

fn sequence(number: i32) -> Sequence {
    let name = server::numbered(number);
    Sequence::parse(&name, Names::MUTEX.marker(Mode::Exclusive)).expect("BUG: a name that was built is not read")
}

/// One read of the lock's node, as the library takes it. If notes are not bound, any note counts as one of this node.
fn noted(read: &Parent, is_bound: bool) -> ParentState {
    let data = read.note.map(|(number, of_node)| {
        release_note::note(sequence(number), if is_bound { of_node } else { read.czxid }.into())
    });
    let stat = Stat {
        czxid: read.czxid.into(),
        pzxid: read.changed.into(),
        num_children: read.children.into(),
        version: read.version.into(),
        ..Stat::default()
    };
    ParentState::new(&data.unwrap_or_default(), &stat)
}
