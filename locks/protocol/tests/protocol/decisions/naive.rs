use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NaiveOutcome, NaiveState, NodeAtPath, Taken};
use zk_recipes_protocol::session_queue::Failure;

const LOST: Event = Event::Created(Err(CreateError::Failed(Failure::ReplyLost)));
const EXISTS: Event = Event::Created(Err(CreateError::Exists));

fn found(czxid: i64, may_be_own: bool) -> NodeAtPath {
    NodeAtPath { czxid, is_ours: true, may_be_own }
}

fn entered(is_try: bool) -> Naive {
    let mut asks = Vec::new();
    let contender = Naive::enter(is_try, &mut asks);
    assert_eq!(asks, [if is_try { Ask::Read } else { Ask::Create }]);
    contender
}

/// Delivers each event to a contender. Returns its last ask, if it still asks for something.
fn tell(contender: &mut Naive, taken: &mut Taken, events: &[Event]) -> Option<Ask> {
    let mut asks = Vec::new();
    for event in events {
        asks.clear();
        contender.on(*event, taken, &mut asks);
    }
    asks.pop()
}

/// Returns a contender whose `create` was not answered.
fn doubtful(taken: &mut Taken) -> Naive {
    let mut contender = entered(false);
    assert_eq!(tell(&mut contender, taken, &[LOST, Event::Paused]), Some(Ask::Create));
    contender
}

#[test]
fn a_try_reads_before_it_writes_and_leaves_a_taken_lock() {
    let mut taken = Taken::default();
    let others = NodeAtPath { is_ours: false, ..found(7, false) };
    let mut late = entered(true);
    assert_eq!(tell(&mut late, &mut taken, &[Event::Read(Some(others))]), None);
    assert_eq!(late.state(), NaiveState::Leaving(NaiveOutcome::InTheWay));
    let mut overtaken = entered(true);
    assert_eq!(tell(&mut overtaken, &mut taken, &[Event::Read(None)]), Some(Ask::Create));
    assert_eq!(tell(&mut overtaken, &mut taken, &[EXISTS]), None);
    assert_eq!(overtaken.state(), NaiveState::Leaving(NaiveOutcome::InTheWay));
}

#[test]
fn a_holder_deletes_its_node_by_one_request() {
    let mut taken = Taken::default();
    let mut holder = entered(false);
    let granted = [Event::Created(Ok(found(7, true))), Event::Proved];
    assert_eq!(tell(&mut holder, &mut taken, &granted), None);
    assert_eq!((holder.state(), holder.czxid()), (NaiveState::Holding, Some(7)));
    assert_eq!(tell(&mut holder, &mut taken, &[Event::Leaves]), Some(Ask::Delete));
    assert_eq!(tell(&mut holder, &mut taken, &[Event::Deleted]), None);
    assert_eq!(holder.state(), NaiveState::Leaving(NaiveOutcome::Left));
}

#[test]
fn an_unanswered_deletion_is_repeated_only_for_its_own_node() {
    for (there, next) in [(Some(7), Some(Ask::Delete)), (Some(8), None), (None, None)] {
        let mut taken = Taken::default();
        let mut holder = entered(false);
        tell(&mut holder, &mut taken, &[Event::Created(Ok(found(7, true))), Event::Proved]);
        assert_eq!(tell(&mut holder, &mut taken, &[Event::Leaves]), Some(Ask::Delete));
        let there = there.map(|czxid| found(czxid, true));
        assert_eq!(tell(&mut holder, &mut taken, &[Event::Leaves]), Some(Ask::ReadLatest));
        assert_eq!(tell(&mut holder, &mut taken, &[Event::Read(there)]), next);
        assert_eq!(holder.state(), NaiveState::Leaving(NaiveOutcome::Left));
    }
}

#[test]
fn a_refused_contender_looks_for_a_node_only_after_a_lost_reply() {
    let refused = Event::Created(Err(CreateError::Failed(Failure::Refused { is_certain: true })));
    let mut taken = Taken::default();
    let no_parents = [Event::Created(Err(CreateError::NoParent)), Event::ParentsCreated(false)];
    for events in [&[refused][..], &no_parents] {
        let mut contender = entered(false);
        assert_eq!(tell(&mut contender, &mut taken, events), None);
        assert_eq!(contender.state(), NaiveState::Leaving(NaiveOutcome::Refused));
    }
    assert_eq!(tell(&mut doubtful(&mut taken), &mut taken, &[refused]), Some(Ask::ReadLatest));
}

#[test]
fn missing_parents_are_created() {
    let mut taken = Taken::default();
    let mut first = entered(false);
    assert_eq!(tell(&mut first, &mut taken, &[Event::Created(Err(CreateError::NoParent))]), Some(Ask::CreateParents));
    assert_eq!(tell(&mut first, &mut taken, &[Event::ParentsCreated(true)]), Some(Ask::Create));
}

#[test]
fn a_node_with_its_first_data_belongs_to_their_writer() {
    let mut taken = Taken::default();
    let mut one = doubtful(&mut taken);
    let mut other = doubtful(&mut taken);
    assert_eq!(tell(&mut other, &mut taken, &[EXISTS, Event::Watching(Some(found(7, false)))]), Some(Ask::Wait));
    assert_eq!(tell(&mut one, &mut taken, &[EXISTS, Event::Watching(Some(found(7, true)))]), Some(Ask::Prove));
}

#[test]
fn an_overwritten_node_belongs_to_its_first_possible_creator() {
    let mut taken = Taken::default();
    let mut one = entered(false);
    let mut other = doubtful(&mut taken);
    let overwritten = Event::Watching(Some(found(7, true)));
    assert_eq!(tell(&mut other, &mut taken, &[EXISTS, overwritten]), Some(Ask::Prove));
    let late = Event::Created(Ok(found(7, true)));
    assert_eq!(
        tell(&mut one, &mut taken, &[late]),
        Some(Ask::Watch),
        "the reply came after all, and the node is taken"
    );
    let next = [overwritten, Event::Fired, Event::Created(Ok(found(9, true)))];
    assert_eq!(tell(&mut one, &mut taken, &next), Some(Ask::Prove));
    let mut third = doubtful(&mut taken);
    assert_eq!(
        tell(&mut third, &mut taken, &[EXISTS, overwritten]),
        Some(Ask::Wait),
        "a contender has taken the node before"
    );
}
