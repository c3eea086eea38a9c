//! Names of lock nodes: build, parse, sort. Pure.
//!
//! A contender's node is named as Apache Curator names it, `_c_<uuid>-lock-0000000042`: a protection prefix by which
//! its creator finds it again when the reply to `create` was lost, a marker that says what it wants, and the sequence
//! number that the server appends.

use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{self, AtomicBool};

use tracing::warn;
use uuid::Uuid;

use crate::error::Error;

/// The number of characters that the server pads a sequence number to.
const SEQUENCE_WIDTH: usize = 10;

/// What protected names begin with.
const PROTECTION: &str = "_c_";

/// Refuses a number near the end of a parent's supply, and warns of a low supply once.
///
/// # Errors
/// [`Error::NumbersExhausted`].
pub(crate) fn check_supply(parent: &str, number: Sequence, is_reported: &AtomicBool) -> Result<(), Error> {
    match number.supply() {
        Supply::Ample => Ok(()),
        Supply::Low => {
            if !is_reported.swap(true, atomic::Ordering::Relaxed) {
                warn!(
                    lock = parent,
                    number = number.get(),
                    refused_from = EXHAUSTED_FROM,
                    "the numbers of the lock's contenders run out: delete its node while nobody contends"
                );
            }
            Ok(())
        }
        Supply::Exhausted => Err(Error::NumbersExhausted { path: parent.to_owned(), number: number.get() }),
    }
}

/// Where the servers keep what they need themselves.
const RESERVED: &str = "/zookeeper";

/// The part of a contender's name that is known before the server appends the sequence number: `_c_<uuid>-lock-`.
pub(crate) fn protected_prefix(marker: &str) -> String {
    format!("{PROTECTION}{}-{marker}", Uuid::new_v4())
}

/// The data of a node as its creator's user gave them: those of a node that is not named by a protected prefix may begin
/// with one.
pub(crate) fn without_mark(name: &str, mut data: Vec<u8>) -> Vec<u8> {
    let length = PROTECTION.len() + uuid::fmt::Hyphenated::LENGTH + 1;
    let is_mark = data.starts_with(PROTECTION.as_bytes()) && data.get(length - 1) == Some(&b'-');
    if is_mark && !name.starts_with(PROTECTION) {
        data.drain(..length);
    }
    data
}

/// The nodes that `create`s with this protected prefix have made, of those that are there.
pub(crate) fn find_protected<'a>(children: &'a [String], prefix: &str) -> impl Iterator<Item = &'a str> {
    children.iter().map(String::as_str).filter(move |name| name.starts_with(prefix))
}

/// Whether a name is nothing but the marker and a sequence number.
pub(crate) fn is_numbered(name: &str, marker: &str) -> bool {
    Sequence::parse(name, marker).is_some_and(|sequence| name == format!("{marker}{sequence}"))
}

/// The last component of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A path and the name of a child of it.
pub(crate) fn child(parent: &str, name: &str) -> String {
    format!("{parent}/{name}")
}

/// The directory of a path, unless that is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// Checks that a path can name a lock, as every recipe does at its construction: for programs that want to know before
/// they have a session.
///
/// ```
/// assert!(zk_recipes::validate_path("/locks/goods-1").is_ok());
/// let error = zk_recipes::validate_path("locks").unwrap_err();
/// assert_eq!(error.to_string(), "invalid lock path \"locks\": it must start with /");
/// ```
///
/// # Errors
/// [`Error::InvalidPath`] for what a server would refuse, or would take for another path than was meant.
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

/// Whether servers refuse a character. They look at UTF-16, and refuse what that writes in surrogates.
fn is_refused(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// How a contender wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with others that share it.
    Shared,
}

/// How the nodes of a lock are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Naming {
    /// `_c_<uuid>-lock-0000000042`: found again by its name.
    Protected,
    /// `lock-0000000042`: known to whoever has the next number. Found again by its data, which begin with the prefix.
    Numbered,
}

/// Which children of a lock's parent are contenders, and how each wants the lock.
///
/// The markers of all of them are numbered by the same counter, that of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    markers: &'static [(&'static str, Mode)],
}

impl Names {
    /// Curator's `InterProcessMutex`.
    pub const MUTEX: Self = Self { markers: &[("lock-", Mode::Exclusive)] };
    /// Curator's `InterProcessReadWriteLock`.
    pub const READ_WRITE: Self = Self { markers: &[("__READ__", Mode::Shared), ("__WRIT__", Mode::Exclusive)] };
    /// Curator's `InterProcessMutex`, and the locks of kazoo.
    pub const MUTEX_AND_KAZOO: Self =
        Self { markers: &[("lock-", Mode::Exclusive), ("__lock__", Mode::Exclusive), ("__rlock__", Mode::Shared)] };
    /// Curator's `InterProcessReadWriteLock`, and the locks of kazoo.
    pub const READ_WRITE_AND_KAZOO: Self = Self {
        markers: &[
            ("__READ__", Mode::Shared),
            ("__WRIT__", Mode::Exclusive),
            ("__lock__", Mode::Exclusive),
            ("__rlock__", Mode::Shared),
        ],
    };
    /// The leases of Curator's `InterProcessSemaphoreV2`.
    pub const LEASES: Self = Self { markers: &[("lease-", Mode::Shared)] };
    /// Whatever queues in one parent.
    pub const ANY: Self = Self {
        markers: &[
            ("lock-", Mode::Exclusive),
            ("__READ__", Mode::Shared),
            ("__WRIT__", Mode::Exclusive),
            ("__lock__", Mode::Exclusive),
            ("__rlock__", Mode::Shared),
        ],
    };

    /// The marker that we write for a contender of this mode.
    pub(crate) fn marker(self, mode: Mode) -> &'static str {
        let (marker, _) =
            self.markers.iter().find(|(_, of)| *of == mode).expect("BUG: a contender in a mode that the lock lacks");
        marker
    }

    /// Whether one who holds may come in ahead of others once more, in its own place, as a writer does that goes on to
    /// read.
    pub(crate) fn may_downgrade(self) -> bool {
        self.markers.contains(&("__WRIT__", Mode::Exclusive))
    }

    /// What the name of a child says, or `None` for a child that is no contender: another recipe's, or a foreign one.
    pub fn parse(self, name: &str) -> Option<(Mode, Sequence)> {
        self.markers.iter().find_map(|&(marker, mode)| Some((mode, Sequence::parse(name, marker)?)))
    }
}

/// How many numbers a parent has left for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    Ample,
    /// The parent is to be deleted while nobody contends.
    Low,
    /// A contender with this number may have to share it with others.
    Exhausted,
}

/// The first number of which a lock warns, and the first that it refuses. At a thousand contenders a second the one comes a
/// day before the other, and twelve hours before the last number.
const LOW_FROM: i32 = 2_000_000_000;
const EXHAUSTED_FROM: i32 = 2_100_000_000;

/// The number that the server appended to a contender's name.
///
/// The server counts the children that were ever created in one parent in a signed 32-bit number. ZooKeeper 3.8 goes on
/// giving the last number, 2³¹ - 1, to every later child; older servers go on with negative numbers. So our contenders
/// refuse numbers near the end (`supply`), and those below are different. Others may have any. The order is
/// that of serial numbers (RFC 1982): `a` comes before `b` when `b` is at most 2³¹ - 1 steps ahead of it. For numbers that
/// are not negative it is the order of their text, which Curator compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// The order in the queue.
    pub(crate) fn queue_cmp(self, other: Self) -> Ordering {
        0.cmp(&other.0.wrapping_sub(self.0))
    }

    /// The number that the server gave before this one.
    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// The number itself.
    pub fn get(self) -> i32 {
        self.0
    }

    /// How near the end of the numbers this one is.
    pub(crate) fn supply(self) -> Supply {
        match self.0 {
            0..LOW_FROM => Supply::Ample,
            LOW_FROM..EXHAUSTED_FROM => Supply::Low,
            _ => Supply::Exhausted,
        }
    }

    /// Parses the number at the end of a name, right behind the `marker`. It is looked for from the end, and nowhere else:
    /// a listing may have thousands of names.
    pub(crate) fn parse(name: &str, marker: &str) -> Option<Self> {
        // A negative number may need one character more than it is padded to.
        [SEQUENCE_WIDTH, SEQUENCE_WIDTH + 1].into_iter().find_map(|width| {
            let (head, digits) = name.split_at_checked(name.len().checked_sub(width)?)?;
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = unsigned.bytes().all(|b| b.is_ascii_digit()) && unsigned.len() <= SEQUENCE_WIDTH;
            if is_number && head.ends_with(marker) { digits.parse().ok().map(Self) } else { None }
        })
    }
}

impl fmt::Display for Sequence {
    /// As the server writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$}", self.0, width = SEQUENCE_WIDTH)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(name: &str) -> Option<i32> {
        Sequence::parse(name, "lock-").map(|sequence| sequence.0)
    }

    #[test]
    fn a_protected_prefix_is_named_as_curator_names_it() {
        let prefix = protected_prefix("lock-");
        assert_eq!(prefix.len(), "_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-".len());
        assert!(prefix.starts_with("_c_") && prefix.ends_with("-lock-"));
        assert_ne!(prefix, protected_prefix("lock-"));
    }

    #[test]
    fn the_sequence_follows_the_last_lock_name() {
        assert_eq!(parse("_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-0000000042"), Some(42));
        assert_eq!(parse("lock-lock-0000000007"), Some(7));
        assert_eq!(parse("lock-2147483647"), Some(i32::MAX));
    }

    #[test]
    fn a_wrapped_sequence_is_read_with_its_sign() {
        assert_eq!(parse("lock--2147483648"), Some(i32::MIN));
        assert_eq!(parse("lock--000000001"), Some(-1));
    }

    #[test]
    fn children_that_are_no_contenders_are_not_parsed() {
        for name in ["0", "zzz", "lock-", "lock-42", "lock-000000004x", "lock-+000000042", "lock-99999999999", "lock--"]
        {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(Sequence::parse("_c_x-__READ__0000000001", "lock-"), None);
    }

    #[test]
    fn the_markers_of_all_clients_are_told_apart() {
        let kazoo = ["4e2a2c1bb2a94a0f9d5f0a3f7d6a1c11__lock__0000000003", "4e2a2c1bb2a94a0f__rlock__0000000004"];
        let modes = |names: Names, name: &str| names.parse(name).map(|(mode, sequence)| (mode, sequence.0));
        assert_eq!(modes(Names::MUTEX, "_c_x-lock-0000000001"), Some((Mode::Exclusive, 1)));
        assert_eq!(modes(Names::MUTEX, kazoo[0]), None);
        assert_eq!(modes(Names::MUTEX_AND_KAZOO, kazoo[0]), Some((Mode::Exclusive, 3)));
        assert_eq!(modes(Names::MUTEX_AND_KAZOO, kazoo[1]), Some((Mode::Shared, 4)));
        assert_eq!(modes(Names::READ_WRITE, "_c_x-__READ__0000000001"), Some((Mode::Shared, 1)));
        assert_eq!(modes(Names::READ_WRITE, "_c_x-__WRIT__0000000002"), Some((Mode::Exclusive, 2)));
        assert_eq!(modes(Names::READ_WRITE_AND_KAZOO, kazoo[1]), Some((Mode::Shared, 4)));
        assert_eq!(modes(Names::LEASES, "_c_x-lease-0000000009"), Some((Mode::Shared, 9)));
        assert_eq!(modes(Names::LEASES, "_c_x-lock-0000000009"), None);
        assert_eq!(
            (Names::MUTEX.marker(Mode::Exclusive), Names::READ_WRITE.marker(Mode::Shared)),
            ("lock-", "__READ__")
        );
    }

    #[test]
    fn only_a_name_without_a_prefix_is_numbered() {
        for (name, is_numbered) in [
            ("lock-0000000042", true),
            ("lock--2147483648", true),
            ("_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-0000000042", false),
            ("lock-lock-0000000042", false),
            ("lock-42", false),
            ("lock-", false),
        ] {
            assert_eq!(super::is_numbered(name, "lock-"), is_numbered, "{name}");
        }
    }

    #[test]
    fn protected_nodes_are_found_by_their_prefix_alone() {
        let children = ["_c_a-lock-0000000001", "_c_b-lock-0000000002", "_c_b-lock-0000000003"].map(str::to_owned);
        let found = |prefix| find_protected(&children, prefix).collect::<Vec<_>>();
        assert_eq!(found("_c_a-lock-"), [&children[0]]);
        assert_eq!(found("_c_b-lock-"), [&children[1], &children[2]]);
        assert_eq!(found("_c_c-lock-"), Vec::<&str>::new());
    }

    #[test]
    fn the_order_goes_on_over_the_wrap() {
        let before = Sequence(i32::MAX);
        let after = Sequence(i32::MIN);
        assert_eq!(before.queue_cmp(after), Ordering::Less);
        assert_eq!(after.queue_cmp(Sequence(i32::MIN + 1)), Ordering::Less);
        assert_eq!(Sequence(-1).queue_cmp(Sequence(0)), Ordering::Less);
    }

    #[test]
    fn numbers_are_refused_well_before_the_last_and_from_then_on() {
        for (number, supply) in [
            (0, Supply::Ample),
            (1_999_999_999, Supply::Ample),
            (2_000_000_000, Supply::Low),
            (2_099_999_999, Supply::Low),
            (2_100_000_000, Supply::Exhausted),
            (i32::MAX, Supply::Exhausted),
            (i32::MIN, Supply::Exhausted),
            (-1, Supply::Exhausted),
        ] {
            assert_eq!(Sequence(number).supply(), supply, "{number}");
        }
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

    proptest! {
        #[test]
        fn every_number_that_the_server_can_append_is_read_back(number in any::<i32>()) {
            // The server formats with Java's "%010d", whose width counts the sign.
            prop_assert_eq!(parse(&format!("lock-{number:010}")), Some(number));
            prop_assert_eq!(Sequence(number).to_string(), format!("{number:010}"));
        }

        #[test]
        fn numbers_that_have_not_wrapped_sort_as_their_text(a in 0..=i32::MAX, b in 0..=i32::MAX) {
            prop_assert_eq!(Sequence(a).queue_cmp(Sequence(b)), format!("{a:010}").cmp(&format!("{b:010}")));
        }

        #[test]
        fn the_order_is_antisymmetric_and_transitive_within_half_the_circle(
            start in any::<i32>(), near in 1..i32::MAX / 2, far in 1..i32::MAX / 2,
        ) {
            let (a, b) = (Sequence(start), Sequence(start.wrapping_add(near)));
            let c = Sequence(b.0.wrapping_add(far));
            prop_assert_eq!(a.queue_cmp(b), Ordering::Less);
            prop_assert_eq!(b.queue_cmp(a), Ordering::Greater);
            prop_assert_eq!(b.queue_cmp(c), Ordering::Less);
            prop_assert_eq!(a.queue_cmp(c), Ordering::Less);
        }

        #[test]
        fn parsing_never_panics(name in "\\PC*") {
            let _ = Sequence::parse(&name, "lock-");
        }
    }
}
