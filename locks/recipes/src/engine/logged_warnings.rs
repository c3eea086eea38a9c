//! The warnings about one lock, each of which is logged once.

use tracing::warn;
use zk_recipes_protocol::session_queue::Warning;

use crate::error::{Error, chain};
use crate::node;

/// The warnings that were logged.
#[derive(Debug, Default)]
pub(super) struct LoggedWarnings {
    foreign_child: bool,
    foreign_data: bool,
    low_supply: bool,
    refused_condition: bool,
}

impl LoggedWarnings {
    /// Logs a warning, once per kind.
    pub(super) fn warn(&mut self, lock: &str, warning: &Warning) {
        let is_new = |is_logged: &mut bool| !std::mem::replace(is_logged, true);
        match warning {
            Warning::ForeignChild(child) if is_new(&mut self.foreign_child) => {
                warn!(
                    lock,
                    child, "ignoring a child that is no contender; Apache Curator clients would queue behind it"
                );
            }
            Warning::ForeignData if is_new(&mut self.foreign_data) => {
                warn!(lock, "the data of the lock's node are not ours: each hand-over needs a listing");
            }
            Warning::LowSupply(number) if is_new(&mut self.low_supply) => node::warn_of_low_supply(lock, *number),
            _ => {}
        }
    }

    /// Logs once that the server refuses the condition of a release.
    pub(super) fn warn_of_condition(&mut self, lock: &str, error: &Error) {
        if !std::mem::replace(&mut self.refused_condition, true) {
            let error = chain(error);
            warn!(lock, error, "the server refuses the condition of a release: each hand-over needs another request");
        }
    }
}
