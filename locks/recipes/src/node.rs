//! The parts of names and paths of nodes that need errors, logs or random numbers. [`zk_recipes_protocol::names`] parses the names
//! of contenders.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;
use uuid::Uuid;
use zk_recipes_protocol::names::{self, EXHAUSTED_FROM, Naming, PROTECTION, Sequence, Supply};
use zk_recipes_protocol::session_queue::Wish;

use crate::error::Error;

/// The path under which the servers keep their own nodes.
const RESERVED: &str = "/zookeeper";

/// Logs once that the numbers of a parent are running out, if `number` is close to the end.
pub(crate) fn note_supply(parent: &str, number: Sequence, is_reported: &AtomicBool) {
    if number.supply() == Supply::Low && !is_reported.swap(true, Ordering::Relaxed) {
        warn_of_low_supply(parent, number);
    }
}

/// Logs that the numbers of a parent are running out.
pub(crate) fn warn_of_low_supply(lock: &str, number: Sequence) {
    warn!(
        lock,
        number = number.get(),
        refused_from = EXHAUSTED_FROM,
        "the numbers of the lock's contenders run out: delete its node while nobody contends"
    );
}

/// Returns a new uuid.
pub(crate) fn unique() -> String {
    Uuid::new_v4().to_string()
}

/// Returns the part of a contender's name before the server's number, with a new uuid.
pub(crate) fn protected_prefix(marker: &str) -> String {
    names::protected_prefix(&unique(), marker)
}

/// Returns the length of the name of a contender's node. `has_uuid`: whether its name has a protected prefix.
pub(crate) fn name_len(marker: &str, has_uuid: bool) -> usize {
    let prefix = if has_uuid { PROTECTION.len() + uuid::fmt::Hyphenated::LENGTH + 1 } else { 0 };
    prefix + marker.len() + Sequence::new(0).to_string().len()
}

/// Returns the data of a node without the mark of its creator. Only nodes whose names have no protected prefix may have a mark, at
/// the beginning of their data.
pub(crate) fn without_mark(name: &str, mut data: Vec<u8>) -> Vec<u8> {
    let uuid = PROTECTION.len()..PROTECTION.len() + uuid::fmt::Hyphenated::LENGTH;
    let is_mark = data.starts_with(PROTECTION.as_bytes())
        && data.get(uuid.end) == Some(&b'-')
        && data.get(uuid.clone()).is_some_and(|uuid| Uuid::try_parse_ascii(uuid).is_ok());
    if is_mark && !name.starts_with(PROTECTION) {
        data.drain(..=uuid.end);
    }
    data
}

/// How to find a contender's node after the reply to `create` was lost.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    naming: Naming,
    pub(crate) marker: &'static str,
    /// The beginning of the node's name. If the name is only the marker and a number, the beginning of the node's data. Only this
    /// contender writes it.
    pub(crate) text: String,
}

impl Mark {
    pub(crate) fn new(wish: &Wish) -> Self {
        let marker = wish.names.marker(wish.mode);
        let uuid = unique();
        let text = match wish.naming {
            Naming::Protected => names::protected_prefix(&uuid, marker),
            Naming::Numbered => names::protected_prefix(&uuid, ""),
        };
        Self { naming: wish.naming, marker, text }
    }

    pub(crate) fn is_in_data(&self) -> bool {
        self.naming == Naming::Numbered
    }

    /// Returns the name of a new node, without the number that is appended to it.
    pub(crate) fn name(&self) -> &str {
        if self.is_in_data() { self.marker } else { &self.text }
    }

    pub(crate) fn data(&self, node_data: &[u8]) -> Vec<u8> {
        if self.is_in_data() { [self.text.as_bytes(), node_data].concat() } else { node_data.to_vec() }
    }
}

/// Returns the last component of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns the path of a child.
pub(crate) fn child(parent: &str, name: &str) -> String {
    format!("{parent}/{name}")
}

/// Returns the parent of a path. `None` if the parent is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// Checks that a path can name a lock. Every recipe does the same check when it is made. A program can use it before it has a
/// session.
///
/// ```
/// assert!(zk_recipes::validate_path("/locks/goods-1").is_ok());
/// let error = zk_recipes::validate_path("locks").unwrap_err();
/// assert_eq!(error.to_string(), "invalid lock path \"locks\": it must start with /");
/// ```
///
/// # Errors
/// [`Error::InvalidPath`] for a path that a server would refuse or read as another path. Also for the root and for `/zookeeper`,
/// which belongs to the servers.
pub fn validate_path(path: &str) -> Result<(), Error> {
    let reason = if !path.starts_with('/') {
        "it must start with /"
    } else if path == "/" {
        "the root cannot be a lock"
    } else if path.ends_with('/') {
        "it must not end with /"
    } else if path[1..].split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        "it must have no empty, . or .. part"
    } else if path.chars().any(char::is_control) {
        "it must have no control characters"
    } else if path.chars().any(is_refused) {
        "it must have no private-use characters, specials, or characters beyond U+FFFF, such as emoji"
    } else if path == RESERVED || path.strip_prefix(RESERVED).is_some_and(|rest| rest.starts_with('/')) {
        "/zookeeper is the servers' own"
    } else {
        return Ok(());
    };
    Err(Error::InvalidPath { path: path.to_owned(), reason })
}

/// Tells whether servers refuse a character. They check UTF-16 code units and refuse surrogates, so they refuse every character
/// beyond U+FFFF.
fn is_refused(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_prefix_is_named_as_curator_names_it() {
        let prefix = protected_prefix("lock-");
        assert_eq!(prefix.len(), "_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-".len());
        assert!(prefix.starts_with("_c_") && prefix.ends_with("-lock-"));
        assert_ne!(prefix, protected_prefix("lock-"));
    }

    #[test]
    fn paths_that_the_server_would_refuse_are_named_with_the_reason() {
        for path in ["", "locks", "/", "/locks/", "/a//b", "/a/../b", "/a/./b", "/zookeeper", "/zookeeper/a"] {
            assert!(matches!(validate_path(path), Err(Error::InvalidPath { .. })), "{path:?}");
        }
        for character in ['\0', '\u{1f}', '\u{7f}', '\u{9f}', '\u{e000}', '\u{f8ff}', '\u{fff0}', '\u{fffe}', '😀'] {
            let path = format!("/a{character}b");
            assert!(matches!(validate_path(&path), Err(Error::InvalidPath { .. })), "{path:?}");
        }
        for path in ["/a", "/locks/goods-1", "/a.b/..c", "/zookeepers", "/a/zookeeper", "/käse/\u{f900}\u{ffef}"] {
            assert!(validate_path(path).is_ok(), "{path:?}");
        }
    }

    #[test]
    fn paths_come_apart_and_together() {
        assert_eq!(name("/locks/a"), "a");
        assert_eq!(parent("/locks/a"), Some("/locks"));
        assert_eq!(parent("/locks"), None);
        assert_eq!(child("/locks", "a"), "/locks/a");
    }
}
