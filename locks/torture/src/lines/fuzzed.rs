//! Lines, as any adapter may write them.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::*;

fn keeps<T: Serialize + DeserializeOwned + PartialEq + Debug>(line: &str) {
    let Ok(read) = serde_json::from_str::<T>(line) else { return };
    let written = serde_json::to_string(&read).unwrap();
    assert!(!written.contains('\n'), "{written:?}");
    assert_eq!(serde_json::from_str::<T>(&written).unwrap(), read);
}

// T15
#[test]
fn a_line_of_an_adapter_is_read_as_it_is_written() {
    fuzz::any_text("adapter-lines", |line| {
        keeps::<Said>(line);
        keeps::<Asked>(line);
    });
}
