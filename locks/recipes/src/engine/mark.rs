//! The mark of a contender's node, for the search after the reply to `create` was lost.

use zk_recipes_protocol::names::{Naming, protected_prefix};
use zk_recipes_protocol::session_queue::Wish;

use crate::node;

/// How to find a contender's node after the reply to `create` was lost.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    naming: Naming,
    pub(super) marker: &'static str,
    /// The beginning of the node's name. If the name is only the marker and a number, the beginning of the node's data. Only this
    /// contender writes it.
    pub(super) text: String,
}

impl Mark {
    pub(super) fn new(wish: &Wish) -> Self {
        let marker = wish.names.marker(wish.mode);
        let uuid = node::unique();
        let text = match wish.naming {
            Naming::Protected => protected_prefix(&uuid, marker),
            Naming::Numbered => protected_prefix(&uuid, ""),
        };
        Self { naming: wish.naming, marker, text }
    }

    pub(super) fn is_in_data(&self) -> bool {
        self.naming == Naming::Numbered
    }

    /// Returns the name of a new node, without the number that is appended to it.
    pub(super) fn name(&self) -> &str {
        if self.is_in_data() { self.marker } else { &self.text }
    }

    pub(super) fn data(&self, node_data: &[u8]) -> Vec<u8> {
        if self.is_in_data() { [self.text.as_bytes(), node_data].concat() } else { node_data.to_vec() }
    }
}
