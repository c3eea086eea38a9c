//! Names of nodes, as any client may have made them.

use super::{Names, Sequence, is_numbered};

/// The markers of all contenders.
const MARKERS: [&str; 7] = ["lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__", "latch-", "lease-"];

const ALL: [Names; 7] = [
    Names::MUTEX,
    Names::READ_WRITE,
    Names::MUTEX_AND_KAZOO,
    Names::READ_WRITE_AND_KAZOO,
    Names::LATCH,
    Names::LEASES,
    Names::ANY,
];

/// Returns the number that the text ends with, as a server appends it to the marker. Java's `%010d` counts the sign.
fn appended(name: &str, marker: &str) -> Option<i32> {
    let (at, _) = name.rmatch_indices(marker).next()?;
    let digits = &name[at + marker.len()..];
    digits.parse().ok().filter(|number: &i32| format!("{number:010}") == digits)
}

/// Returns the number that the bytes of a text make up.
fn number(text: &str) -> i32 {
    text.bytes().fold(0_i32, |number, byte| number.wrapping_mul(251).wrapping_add(i32::from(byte)))
}

// L87
#[test]
fn a_number_is_read_only_as_a_server_writes_it() {
    fuzz::any_text("node-names", |name| {
        for marker in MARKERS {
            let read = Sequence::parse(name, marker);
            assert_eq!(read.map(Sequence::get), appended(name, marker), "{name:?} {marker}");
            assert_eq!(is_numbered(name, marker), read.is_some_and(|number| name == format!("{marker}{number}")));
            // Whatever the client chose, the server appends the number.
            let number = Sequence::new(number(name));
            assert_eq!(Sequence::parse(&format!("{name}{marker}{number}"), marker), Some(number));
            assert_eq!(Sequence::new(number.get()).after().before(), number);
        }
        for names in ALL {
            let Some((mode, number)) = names.parse(name) else { continue };
            let known: Vec<_> = names.markers.iter().filter(|(_, of)| *of == mode).map(|(marker, _)| marker).collect();
            assert!(known.iter().any(|marker| name.ends_with(&format!("{marker}{number}"))), "{name:?} {mode:?}");
            assert!(names == Names::LEASES || Names::ANY.parse(name) == Some((mode, number)), "{name:?}");
        }
    });
}
