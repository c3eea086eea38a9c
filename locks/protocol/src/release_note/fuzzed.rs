//! The data of a lock's node, as any client may have written it.

use super::{NoteState, ParentState, note};
use crate::names::Sequence;
use crate::stat::{ParentCzxid, Stat};

// L88
#[test]
fn a_note_is_read_only_as_a_release_writes_it() {
    fuzz::any_bytes("release-notes", |data| {
        let read = NoteState::parse(data);
        match read {
            NoteState::Released { number, of_node } => assert_eq!(note(number, of_node), data),
            NoteState::NoNote => assert!(data.is_empty()),
            NoteState::Foreign => assert!(!data.is_empty()),
        }
        let state = ParentState::new(data, &Stat { czxid: 1, pzxid: 70, version: 3, num_children: 2 });
        let is_foreign = read == NoteState::Foreign;
        assert_eq!(state.version_to_replace(), (!is_foreign).then_some(3), "foreign data is never overwritten");
        assert!(!is_foreign || !state.proves_nobody_ahead(Sequence::new(4), Sequence::new(5), 60));
        // The bytes make up a number and a transaction.
        if let Some((number, rest)) = data.split_first_chunk()
            && let Some((czxid, _)) = rest.split_first_chunk()
        {
            let number = Sequence::new(i32::from_be_bytes(*number));
            let of_node = ParentCzxid(i64::from_be_bytes(*czxid));
            assert_eq!(NoteState::parse(&note(number, of_node)), NoteState::Released { number, of_node });
        }
    });
}
