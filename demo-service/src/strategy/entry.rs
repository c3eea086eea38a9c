//! A row of the table of strategies: what a strategy promises, and how it works.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;

use super::Strategy;
use super::context::Context;

/// What a strategy promises about selling more than there is, and more than one buyer may have, from the weakest to the strongest.
/// Each one that does not say otherwise keeps the limit per buyer of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Oversells under load: the control that shows that the load can find a mistake.
    Oversells,
    /// Never oversells on one instance; oversells on several.
    OversellsOnManyInstances,
    /// Never oversells, and sells a buyer more than the limit per buyer: the control for that limit.
    ExceedsLimit,
    /// Never oversells, and may tell a buyer "sold" who never gets an order: if Redis forgets the order, or the database refuses it.
    MayPromiseWithoutOrder,
    /// Never oversells unless a lock in Redis ends before its holder: by the clock, or because Redis forgets it.
    SafeWhileLockLives,
    /// Never oversells unless a holder outlives its ZooKeeper session unnoticed, for example by a pause before a write.
    SafeWhileSessionLives,
    /// Never oversells, whatever happens to processes and networks.
    NeverOversells,
}

/// What keeps purchases of one SKU apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Nothing.
    None,
    /// A mutex in the memory of one instance.
    Process,
    /// A lock in ZooKeeper.
    Zookeeper,
    /// A lock in Redis.
    Redis,
    /// The database itself.
    Postgres,
}

/// How many waiters one release wakes through ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wakes {
    /// Nobody waits in ZooKeeper.
    None,
    /// The next in line.
    One,
    /// All of them: the herd.
    All,
}

/// Which critical sections of one SKU may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Sections)]
pub enum Overlap {
    /// None, as long as the promise holds.
    Exclusive,
    /// At most one per permit.
    Permits,
    /// All of them.
    Overlapping,
}

impl Overlap {
    /// Returns the most purchases that may be inside at once, if a semaphore has `configured` permits. `None` means
    /// no limit.
    pub fn permits(self, configured: u32) -> Option<u32> {
        match self {
            Self::Exclusive => Some(1),
            Self::Permits => Some(configured),
            Self::Overlapping => None,
        }
    }
}

/// When a buyer is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// When the order is committed.
    AtCommit,
    /// Before there is an order, with its number. The order is written later.
    BeforeOrder,
    /// Before there is an order, with a ticket to ask with.
    WithTicket,
}

/// One row of the table.
#[derive(Serialize, ToSchema)]
#[schema(as = Strategy)]
pub struct Entry {
    /// The name of the strategy, for example `zk-mutex`.
    pub name: &'static str,
    /// What it promises.
    pub promise: Promise,
    /// What keeps its purchases apart.
    pub mechanism: Mechanism,
    /// The family of strategies that exclude each other. A sale is guarded by one family.
    pub family: &'static str,
    /// How many waiters one release wakes through ZooKeeper.
    pub wakes: Wakes,
    /// Which critical sections of one SKU may overlap.
    pub sections: Overlap,
    /// When it answers a buyer.
    pub answers: Answers,
    /// Whether it can sell several SKUs together.
    pub carts: bool,
    /// Whether it sells in two steps, too: by a reservation and its confirmation.
    pub two_steps: bool,
    /// Whether `loadgen compare` runs it by default.
    pub headline: bool,
    /// How it works, in one or two sentences.
    pub summary: &'static str,
    #[serde(skip)]
    pub(super) build: Build,
}

/// Makes a strategy for one instance of the service.
type Build = fn(Context) -> Box<dyn Strategy>;

impl Entry {
    /// Makes the strategy for one instance of the service.
    pub fn build(&self, context: Context) -> Box<dyn Strategy> {
        (self.build)(context)
    }

    /// Returns whether a purchase may make this strategy's family the guard of a sale. A control oversells on
    /// purpose, so only an administrator may choose it.
    pub fn may_claim(&self) -> bool {
        self.promise >= Promise::MayPromiseWithoutOrder
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name).finish()
    }
}
