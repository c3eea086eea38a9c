//! A contender of Apache Curator's `InterProcessMutex`, in a session of its own that has no faults.
//!
//! It creates its node, lists the queue, and holds if it is the first. Otherwise it watches the node directly ahead, and lists the
//! queue again when that node is gone. Each step is one request with its answer, because a request of it under way concerns no
//! other contender.

use zk_recipes_protocol::names::{Names, Sequence};

use super::server::{ModelServer, Notifications};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Curator {
    Outside,
    /// It is about to list the queue.
    Queued(String),
    /// It watches the node directly ahead.
    Watching {
        own: String,
        ahead: String,
    },
    Holding(String),
    Done,
}

impl Curator {
    /// Tells whether it can take its next step.
    pub(super) fn can_go(&self, server: &ModelServer) -> bool {
        match self {
            Self::Outside | Self::Queued(_) | Self::Holding(_) => true,
            Self::Watching { ahead, .. } => !server.leader.children.contains_key(ahead),
            Self::Done => false,
        }
    }

    /// Takes its next step.
    pub(super) fn go(self, server: &mut ModelServer, told: &mut Notifications) -> Self {
        match self {
            Self::Outside => Self::Queued(server.add_curators(told)),
            Self::Queued(own) | Self::Watching { own, .. } => Self::look(own, server),
            Self::Holding(own) => {
                server.delete(&own, told);
                Self::Done
            }
            Self::Done => Self::Done,
        }
    }

    fn look(own: String, server: &ModelServer) -> Self {
        let number = |name: &String| Names::MUTEX.parse(name).map(|(_, number)| number);
        let mut queue: Vec<(Sequence, &String)> =
            server.leader.children.keys().filter_map(|name| Some((number(name)?, name))).collect();
        queue.sort_by(|one, other| one.0.queue_cmp(other.0));
        let place = queue.iter().position(|(_, name)| **name == own).expect("BUG: its node was deleted");
        match place.checked_sub(1) {
            Some(ahead) => Self::Watching { own, ahead: queue[ahead].1.clone() },
            None => Self::Holding(own),
        }
    }
}
