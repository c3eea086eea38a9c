use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NodeAtPath, Outcome, Taken};
use zk_recipes_protocol::session_queue::Failure;

const LOST: Event = Event::Created(Err(CreateError::Failed(Failure::ReplyLost)));
const EXISTS: Event = Event::Created(Err(CreateError::Exists));

fn found(czxid: i64, may_be_own: bool) -> NodeAtPath {
    NodeAtPath { czxid, is_ours: true, may_be_own }
}

/// Delivers each event to a contender. Returns its last ask.
fn tell(contender: &mut Naive, taken: &mut Taken, events: &[Event]) -> Ask {
    for event in events {
        contender.ask();
        contender.on(*event, taken);
    }
    contender.ask()
}

/// Returns a contender whose `create` was not answered.
fn doubtful(taken: &mut Taken) -> Naive {
    let mut contender = Naive::new(false);
    assert_eq!(tell(&mut contender, taken, &[LOST, Event::Paused]), Ask::Create);
    contender
}

#[test]
fn a_try_reads_before_it_writes_and_leaves_a_taken_lock() {
    let mut taken = Taken::default();
    let others = NodeAtPath { is_ours: false, ..found(7, false) };
    let mut late = Naive::new(true);
    assert_eq!(late.ask(), Ask::Read);
    assert_eq!(tell(&mut late, &mut taken, &[Event::Read(Some(others))]), Ask::End(Outcome::InTheWay));
    let mut overtaken = Naive::new(true);
    assert_eq!(tell(&mut overtaken, &mut taken, &[Event::Read(None)]), Ask::Create);
    assert_eq!(tell(&mut overtaken, &mut taken, &[EXISTS]), Ask::End(Outcome::InTheWay));
}

#[test]
fn a_holder_deletes_its_node_by_one_request() {
    let mut taken = Taken::default();
    let mut holder = Naive::new(false);
    let granted = [Event::Created(Ok(found(7, true))), Event::Proved];
    assert_eq!(tell(&mut holder, &mut taken, &granted), Ask::Hold);
    assert_eq!(holder.czxid(), Some(7));
    holder.leave();
    assert_eq!(tell(&mut holder, &mut taken, &[]), Ask::Delete);
    holder.on(Event::Deleted, &mut taken);
    assert_eq!(holder.ask(), Ask::End(Outcome::Left));
}

#[test]
fn an_unanswered_deletion_is_repeated_only_for_its_own_node() {
    for (there, next) in [(Some(7), Ask::Delete), (Some(8), Ask::End(Outcome::Left)), (None, Ask::End(Outcome::Left))] {
        let mut taken = Taken::default();
        let mut holder = Naive::new(false);
        tell(&mut holder, &mut taken, &[Event::Created(Ok(found(7, true))), Event::Proved]);
        holder.leave();
        assert_eq!(holder.ask(), Ask::Delete);
        let there = there.map(|czxid| found(czxid, true));
        assert_eq!(tell(&mut holder, &mut taken, &[]), Ask::ReadLatest);
        holder.on(Event::Read(there), &mut taken);
        assert_eq!(holder.ask(), next);
    }
}

#[test]
fn a_refused_contender_looks_for_a_node_only_after_a_lost_reply() {
    let refused = Event::Created(Err(CreateError::Failed(Failure::Refused { is_certain: true })));
    let mut taken = Taken::default();
    assert_eq!(tell(&mut Naive::new(false), &mut taken, &[refused]), Ask::End(Outcome::Refused));
    let no_parents = [Event::Created(Err(CreateError::NoParent)), Event::ParentsCreated(false)];
    assert_eq!(tell(&mut Naive::new(false), &mut taken, &no_parents), Ask::End(Outcome::Refused));
    let mut doubtful = doubtful(&mut taken);
    doubtful.on(refused, &mut taken);
    assert_eq!(doubtful.ask(), Ask::ReadLatest);
}

#[test]
fn missing_parents_are_created() {
    let mut taken = Taken::default();
    let mut first = Naive::new(false);
    assert_eq!(tell(&mut first, &mut taken, &[Event::Created(Err(CreateError::NoParent))]), Ask::CreateParents);
    assert_eq!(tell(&mut first, &mut taken, &[Event::ParentsCreated(true)]), Ask::Create);
}

#[test]
fn a_node_with_its_first_data_belongs_to_their_writer() {
    let mut taken = Taken::default();
    let (mut one, mut other) = (doubtful(&mut taken), doubtful(&mut taken));
    assert_eq!(tell(&mut other, &mut taken, &[EXISTS, Event::Watching(Some(found(7, false)))]), Ask::Wait);
    assert_eq!(tell(&mut one, &mut taken, &[EXISTS, Event::Watching(Some(found(7, true)))]), Ask::Prove);
}

#[test]
fn an_overwritten_node_belongs_to_its_first_possible_creator() {
    let mut taken = Taken::default();
    let (mut one, mut other) = (Naive::new(false), doubtful(&mut taken));
    let overwritten = Event::Watching(Some(found(7, true)));
    assert_eq!(tell(&mut other, &mut taken, &[EXISTS, overwritten]), Ask::Prove);
    let late = Event::Created(Ok(found(7, true)));
    assert_eq!(tell(&mut one, &mut taken, &[late]), Ask::Watch, "the reply came after all, and the node is taken");
    let next = [overwritten, Event::Fired, Event::Created(Ok(found(9, true)))];
    assert_eq!(tell(&mut one, &mut taken, &next), Ask::Prove);
    let mut third = doubtful(&mut taken);
    assert_eq!(
        tell(&mut third, &mut taken, &[EXISTS, overwritten]),
        Ask::Wait,
        "a contender has taken the node before"
    );
}
