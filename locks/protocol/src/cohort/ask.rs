//! What a cohort asks of its shell, and what the shell tells it.

/// The identity of one contender of a cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub(super) u64);

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It waits for the turn.
    Waits,
    /// It has nothing but the turn. It has to queue for the lock.
    Begins,
    /// It has the turn, and waits in the lock's queue.
    Queues,
    /// It has the turn, and another member's hold. It has to wait until the shell knows whether the hold can be relied on.
    Takes,
    /// It holds.
    Holds {
        /// Earlier hand-overs of this hold.
        handovers: u64,
    },
    /// It releases.
    LetsGo,
    /// It will never have the turn: the session has ended.
    Closed,
}

/// How far a hold can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reliance {
    /// It is sure.
    Sure,
    /// It may be lost.
    Suspect,
    /// It is lost.
    Lost,
}

/// An event of the member that has the turn. Only [`Event::Leaves`] may come from any member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It queues for the lock.
    Queues,
    /// It was granted the lock.
    Granted,
    /// The shell has looked at the hold that was handed over to it. The hold can be relied on to this degree.
    Looked(Reliance),
    /// It releases its hold, which can be relied on to this degree.
    LetsGo(Reliance),
    /// Does the same with a hold that it has not used. The hold does not linger.
    GivesBack(Reliance),
    /// The answer to [`Ask::LookForOthers`], and how far its hold can be relied on by now.
    SawOthers(Others, Reliance),
    /// Its node is deleted, or the shell deletes it later.
    Released,
    /// Its place in the queue has failed, or its attempt to get one.
    Fails,
    /// It gives up, in any state, or was dropped. If it has a hold, the hold can be relied on to this degree. The next member gets
    /// its place, or its hold if the bounds allow that.
    Leaves(Reliance),
}

/// The other contenders for the lock, as a holder sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// The number of children of the lock's node. The holder's node is one of them.
    Children(u32),
    /// The holder's node is missing: somebody else deleted it.
    OwnNodeGone,
    /// Somebody has asked for the lock, by a revocation request.
    Revoked,
    /// The server did not answer, or the shell did not ask: it has no room for another watch.
    Unknown,
}

/// What the shell has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Wakes this member: it has the turn now, or will never have it.
    Wake(MemberId),
    /// Asks how many children the lock's node has, and whether the holder's node is one of them. The answer is
    /// [`Event::SawOthers`].
    LookForOthers,
    /// Asks the same and whether somebody has asked for the lock. Watches the children of the lock's node, and the data of the
    /// holder's node. The answer is [`Event::SawOthers`]. When the watch fires, the shell calls
    /// [`Cohort::queue_changed`](super::Cohort::queue_changed).
    WatchQueue,
    /// Lets the hold linger until a member enters. The shell calls [`Cohort::end_linger`](super::Cohort::end_linger) when the time
    /// is over.
    Keep,
    /// Marks the hold as lost: somebody else deleted its node.
    Lose,
    /// Deletes the node of the hold. The answer is [`Event::Released`].
    Release,
    /// Gives up what came with the turn, or the hold that lingers. No member takes it.
    GiveUp,
}
