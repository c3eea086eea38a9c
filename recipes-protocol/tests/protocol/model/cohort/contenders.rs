//! Where the contenders of a cohort stand, and what is on the server.

use std::collections::BTreeSet;

use zk_recipes_protocol::cohort::{Standing, Turns};

/// A hold of the cohort's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) node: u8,
    /// The session's count of losses when it was granted.
    pub(super) losses: u8,
    pub(super) handovers: u8,
    pub(super) handovers_unasked: u8,
    pub(super) is_time_over: bool,
}

/// What comes with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Nothing,
    /// The number of a node, whose name is known or not.
    Queued(u8, bool),
    Held(Hold),
}

/// Why a turn is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sending {
    /// The hold is released or its guard dropped.
    LetGo { standing: Standing, is_drop: bool },
    /// Without a decision.
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Away,
    /// For a turn, which may have been sent already.
    Waits(Option<Stage>),
    HasTurn(Stage),
    Holds(Hold),
    /// Whether we are alone.
    Asks(Hold),
    /// Waits for the deletion to be confirmed.
    Deletes(u8),
    Sends {
        to: usize,
        stage: Stage,
        why: Sending,
    },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) turns: Turns<usize>,
    pub(super) phases: Vec<Phase>,
    /// In the order of their arrival.
    pub(super) arrived: Vec<usize>,
    /// The nodes of the lock, ours and the other process's, in the order of the queue.
    pub(super) nodes: Vec<(u8, Owner)>,
    nodes_made: u8,
    /// Those that the reaper will delete.
    pub(super) abandoned: BTreeSet<u8>,
    pub(super) is_other_done: bool,
    /// How many hand-overs the other process has waited for.
    pub(super) passed_over: u8,
    pub(super) is_suspect: bool,
    pub(super) losses: u8,
    /// Whether the server has expired the session.
    pub(super) is_expired: bool,
    /// Whether we know that the session has ended.
    pub(super) is_ended: bool,
    pub(super) deletions: u8,
    /// How many were told that their node was deleted.
    pub(super) failures: u8,
    pub(super) newest_token: Option<(u8, u8)>,
    pub(super) mistakes: Mistakes,
}

/// What must never be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mistakes {
    pub(super) overtaken: bool,
    pub(super) token_shrank: bool,
    pub(super) took_what_was_unsure: bool,
    pub(super) loss_untold: bool,
    pub(super) spoilt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    Cohort,
    Other,
}

impl Phase {
    /// The hold that the contender has, in whatever way.
    pub(super) fn hold(self) -> Option<Hold> {
        match self {
            Self::Holds(hold) | Self::Asks(hold) => Some(hold),
            Self::Waits(Some(Stage::Held(hold))) | Self::HasTurn(Stage::Held(hold)) => Some(hold),
            Self::Sends { stage: Stage::Held(hold), .. } => Some(hold),
            _ => None,
        }
    }
}

impl State {
    /// Nobody has come yet.
    pub(super) fn new(contenders: usize) -> Self {
        Self {
            turns: Turns::default(),
            phases: vec![Phase::Away; contenders],
            arrived: vec![],
            nodes: vec![],
            nodes_made: 0,
            abandoned: BTreeSet::new(),
            is_other_done: false,
            passed_over: 0,
            is_suspect: false,
            losses: 0,
            is_expired: false,
            is_ended: false,
            deletions: 0,
            failures: 0,
            newest_token: None,
            mistakes: Mistakes::default(),
        }
    }

    pub(super) fn is_lost(&self, hold: &Hold) -> bool {
        self.is_ended || self.losses > hold.losses
    }

    pub(super) fn delete(&mut self, node: u8) {
        self.nodes.retain(|(other, _)| *other != node);
        self.abandoned.remove(&node);
    }

    pub(super) fn abandon(&mut self, stage: Stage) {
        if let Stage::Queued(node, _) | Stage::Held(Hold { node, .. }) = stage {
            self.abandoned.insert(node);
        }
    }

    pub(super) fn make(&mut self, owner: Owner) -> u8 {
        self.nodes_made += 1;
        self.nodes.push((self.nodes_made, owner));
        self.nodes_made
    }

    pub(super) fn holds(&mut self, i: usize, hold: Hold, token: (u8, u8)) {
        self.mistakes.token_shrank |= self.newest_token >= Some(token);
        self.newest_token = Some(token);
        let ahead = self.arrived.iter().take_while(|other| **other != i);
        self.mistakes.overtaken |=
            ahead.into_iter().any(|other| matches!(self.phases[*other], Phase::Waits(_) | Phase::HasTurn(_)));
        self.phases[i] = Phase::Holds(hold);
    }
}
