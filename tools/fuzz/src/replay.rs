//! Replays the kept inputs of a target.

use std::fs;
use std::path::{Path, PathBuf};

use crate::INPUTS;

/// Prints the name of the input that breaks the property.
struct Replayed<'a>(&'a Path);

impl Drop for Replayed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is {}", self.0.display());
        }
    }
}

/// Returns the kept inputs of a target, in the order of their names.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let folders = ["corpus", "crashes"].map(|name| folder.join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut inputs: Vec<_> = entries.map(|entry| entry.path()).collect();
    inputs.sort();
    inputs
}

pub(crate) fn target(target: &str, property: impl Fn(&[u8])) {
    replay(&Path::new(INPUTS).join(target), property);
}

fn replay(folder: &Path, property: impl Fn(&[u8])) {
    let inputs = kept(folder);
    assert!(!inputs.is_empty(), "{} has no input in corpus", folder.display());
    for path in &inputs {
        let input = fs::read(path).expect("a kept input can be read");
        let _replayed = Replayed(path);
        property(&input);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tempfile::TempDir;

    use super::*;

    fn folder(inputs: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, input) in inputs {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, input).unwrap();
        }
        folder
    }

    // T16
    #[test]
    fn all_kept_inputs_are_replayed_in_their_order() {
        let folder = folder(&[("corpus/b", "2"), ("crashes/a", "3"), ("corpus/a", "1"), ("other/a", "4")]);
        let seen = RefCell::new(Vec::new());
        replay(folder.path(), |input| seen.borrow_mut().push(input.to_vec()));
        assert_eq!(seen.into_inner(), [b"1", b"2", b"3"]);
    }

    // T16
    #[test]
    #[should_panic(expected = "has no input in corpus")]
    fn a_target_without_inputs_fails() {
        replay(folder(&[("other/a", "4")]).path(), |_| ());
    }

    // T16
    #[test]
    #[should_panic(expected = "broken by 2")]
    fn an_input_that_breaks_the_property_fails_the_test() {
        let folder = folder(&[("corpus/a", "1"), ("crashes/b", "2")]);
        replay(folder.path(), |input| assert_eq!(input, b"1", "broken by {}", String::from_utf8_lossy(input)));
    }
}
