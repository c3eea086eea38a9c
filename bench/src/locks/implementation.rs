//! The implementations that are measured, and their processes.

use bench::Recipe;

/// A lock of a rival or of ours, or a floor that the locks are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation {
    /// Apache Curator's `InterProcessMutex`.
    Curator,
    /// kazoo's `Lock`.
    Kazoo,
    /// `Client::lock` of the crate `zookeeper-client`, with Curator's names.
    ZookeeperClient,
    /// Creates an ephemeral node and deletes it: the least work of a lock, without exclusion.
    Raw,
    /// Durable writes one at a time: a contender sends its write when the previous contender's write was answered. A
    /// hand-over that waits for a durable write cannot be faster.
    RawWrite,
    /// A recipe of `zk-recipes`.
    Ours(Recipe),
}

/// The process that an implementation runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    /// A Java virtual machine.
    Java,
    /// A Python interpreter.
    Python,
    /// This program, as a worker.
    Rust,
}

impl Implementation {
    /// Returns all implementations in the order of the report: rivals, then ours.
    pub(crate) fn all() -> Vec<Self> {
        let ours = Recipe::ALL.into_iter().filter(|recipe| recipe.is_mutex()).map(Self::Ours);
        [Self::Curator, Self::Kazoo, Self::ZookeeperClient, Self::Raw, Self::RawWrite].into_iter().chain(ours).collect()
    }

    /// Returns the name on the command line, on the wire and in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Curator => "curator",
            Self::Kazoo => "kazoo",
            Self::ZookeeperClient => "zookeeper-client",
            Self::Raw => "raw",
            Self::RawWrite => "raw-write",
            Self::Ours(recipe) => recipe.name(),
        }
    }

    /// Returns the implementation of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|implementation| implementation.name() == name)
    }

    /// Returns the process that the implementation runs in.
    pub(crate) fn host(self) -> Host {
        match self {
            Self::Curator => Host::Java,
            Self::Kazoo => Host::Python,
            Self::ZookeeperClient | Self::Raw | Self::RawWrite | Self::Ours(_) => Host::Rust,
        }
    }

    /// Returns whether it is a recipe of ours whose contenders queue. The naive lock does not: it is the control.
    pub(crate) fn is_our_queue(self) -> bool {
        matches!(self, Self::Ours(recipe) if recipe != Recipe::Naive)
    }

    /// Returns whether its waits in an open load are measured.
    pub(crate) fn has_open_load(self) -> bool {
        match self {
            Self::Curator | Self::ZookeeperClient => true,
            Self::Ours(recipe) => matches!(recipe, Recipe::Mutex | Recipe::Handoff | Recipe::Cohort),
            Self::Kazoo | Self::Raw | Self::RawWrite => false,
        }
    }

    /// Returns the node whose children are the contenders of the lock at `path`, and how many children a complete queue
    /// has. `None` if the contenders do not queue in ZooKeeper.
    pub(crate) fn queue(self, path: &str, contenders: u32, sessions: u32) -> Option<(String, u32)> {
        match self {
            Self::Raw | Self::RawWrite | Self::Ours(Recipe::Naive) => None,
            // Waiters of one session queue in memory behind one node.
            Self::Ours(Recipe::Cohort) => Some((path.to_owned(), sessions)),
            // The contenders queue for the lock of the leases. The lease itself is beside that queue.
            Self::Ours(Recipe::SemaphoreMutex) => Some((format!("{path}/locks"), contenders)),
            _ => Some((path.to_owned(), contenders)),
        }
    }
}

/// Returns the number of sessions that `contenders` contenders share.
pub(crate) fn sessions_of(contenders: u32) -> u32 {
    contenders.min(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_implementation_is_found_by_a_name_that_is_one_word() {
        for implementation in Implementation::all() {
            assert_eq!(Implementation::by_name(implementation.name()), Some(implementation));
            assert!(!implementation.name().contains(char::is_whitespace), "{implementation:?}");
        }
        assert_eq!(Implementation::by_name("read"), None, "readers share their lock");
    }

    #[test]
    fn a_queue_is_complete_when_every_contender_has_a_node() {
        let queue = |name: &str| Implementation::by_name(name).unwrap().queue("/a", 30, 3);
        assert_eq!(queue("mutex"), Some(("/a".to_owned(), 30)));
        assert_eq!(queue("curator"), Some(("/a".to_owned(), 30)));
        assert_eq!(queue("semaphore-mutex"), Some(("/a/locks".to_owned(), 30)));
        assert_eq!((queue("raw"), queue("raw-write"), queue("naive")), (None, None, None));
    }

    #[test]
    fn one_contender_has_one_session_and_many_share_three() {
        assert_eq!([1, 2, 3, 1500].map(sessions_of), [1, 2, 3, 3]);
    }
}
