//! Lines of a shell, as manuals and browsers write them, and as a reproduction does.

use super::{Word, literal, plain};
use crate::shop::words::split;

// C57
#[test]
fn words_that_are_written_for_a_shell_are_read_back() {
    fuzz::any_text("shell-words", |line| {
        assert_eq!(split(&literal(line)), Ok(vec![line.to_owned()]));
        assert!(line.is_empty() || split(&plain(line)) == Ok(vec![line.to_owned()]), "{line:?}");
        let words = match split(line) {
            Ok(words) => words,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        let written = |text: &String| {
            let mut word = Word::default();
            word.text(text);
            word.written()
        };
        let written: Vec<_> = words.iter().map(written).collect();
        assert_eq!(split(&written.join(" ")), Ok(words), "{line:?}");
    });
}
