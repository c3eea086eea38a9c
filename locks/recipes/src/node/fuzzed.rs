//! Paths that a user names, and data that any client may have written.

use uuid::Uuid;
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::{Wish, WishKind};

use super::{Mark, RESERVED, child, name, parent, validate_path, without_mark};

/// Tells whether `PathUtils.validatePath` of a server refuses a path. It reads UTF-16.
fn is_refused_by_servers(path: &str) -> bool {
    let is_part_refused = |part: &str| part.is_empty() || part == "." || part == "..";
    let is_unit_refused = |unit: u16| matches!(unit, 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..);
    !path.starts_with('/')
        || path != "/" && path.split('/').skip(1).any(is_part_refused)
        || path.encode_utf16().any(is_unit_refused)
}

// L90
#[test]
fn a_path_is_accepted_if_and_only_if_servers_take_it() {
    fuzz::any_text("lock-paths", |path| {
        let is_theirs = path == "/" || path == RESERVED || path.starts_with("/zookeeper/");
        assert_eq!(validate_path(path).is_ok(), !is_refused_by_servers(path) && !is_theirs, "{path:?}");
        if validate_path(path).is_ok() {
            assert_eq!(child(parent(path).unwrap_or_default(), name(path)), path);
        }
    });
}

/// Returns the data without a mark, by the library for UUIDs.
fn unmarked(data: &[u8]) -> &[u8] {
    let uuid = data.strip_prefix(b"_c_").and_then(|rest| rest.split_at_checked(36));
    match uuid {
        Some((uuid, [b'-', rest @ ..])) if Uuid::try_parse_ascii(uuid).is_ok() => rest,
        _ => data,
    }
}

// L90
#[test]
fn only_a_mark_is_taken_from_the_data_of_a_node() {
    fuzz::any_bytes("node-data", |data| {
        assert_eq!(without_mark("lock-0000000042", data.to_vec()), unmarked(data), "{data:?}");
        assert_eq!(without_mark("_c_x-lock-0000000042", data.to_vec()), data, "its name has the mark");
        for naming in [Naming::Numbered, Naming::Protected] {
            let mark = Mark::new(&Wish { mode: Mode::Exclusive, naming, names: Names::MUTEX, kind: WishKind::Wait });
            let node = format!("{}0000000042", mark.name());
            assert_eq!(without_mark(&node, mark.data(data)), data, "{node}");
        }
    });
}
