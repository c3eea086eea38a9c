//! A purchase by the scenario of a goose user, in the place of what a file describes.
//!
//! | what | by whom |
//! |---|---|
//! | what the load is given: the scenario, addresses, clients | `own` |
//! | one buyer: its arrival at the rendezvous, and what it says it was told | `buyer` |
//! | each transaction runs under a watch, which names what goes wrong | `watch` |
//!
//! Goose runs the scenario, and knows nothing of the gate. So each transaction runs with its buyer as a value of its task, where
//! [`rendezvous`] finds it.

mod buyer;
mod own;
#[cfg(test)]
mod tests;
mod watch;

pub use self::buyer::{BegunPurchase, rendezvous};
pub use self::own::ScenarioPurchase;
pub(crate) use self::watch::ScenarioBuyers;
