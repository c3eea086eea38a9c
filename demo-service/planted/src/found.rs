//! The file of what found each mistake. A row is written as soon as its hunt is over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::hunt::FoundMistake;
use crate::mistakes::MISTAKES;

const HEADER: &str = "# What found the mistakes that are planted in the workspace. Written by `make planted`.\n\
    # round or test\trounds\tseconds\twhat was found\tmistake\n";

/// A row of the file.
pub(crate) struct Row<'a> {
    /// The round or the test, the rounds, the seconds, what was found, the mistake.
    pub(crate) cells: [&'a str; 5],
    line: &'a str,
}

/// Reads the rows of the file.
///
/// # Panics
/// If a row is not one of that file.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let cells: Vec<_> = line.split('\t').collect();
        Row { cells: cells.try_into().unwrap_or_else(|_| panic!("a row without five cells: {line}")), line }
    })
}

/// Notes how a hunt ended. The row of a mistake that was not found goes, and all others stay as they are.
pub(crate) fn note(file: &Path, mistake: &str, found: Option<&FoundMistake>) -> io::Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let new = file.with_extension("new");
    fs::write(&new, noted(&text, mistake, found))?;
    fs::rename(&new, file)
}

/// Returns the file with another row for a mistake. The rows are in the order of the list, and those of other names are gone.
fn noted(text: &str, mistake: &str, found: Option<&FoundMistake>) -> String {
    let row = found.map(|FoundMistake { by, rounds, after, finding }| {
        format!("{by}\t{rounds}\t{}\t{finding}\t{mistake}", after.max(&Duration::from_secs(1)).as_secs())
    });
    let mut lines: BTreeMap<&str, &str> =
        rows(text).map(|Row { cells: [.., mistake], line }| (mistake, line)).collect();
    lines.remove(mistake);
    lines.extend(row.as_deref().map(|row| (mistake, row)));
    let lines = MISTAKES.iter().filter_map(|planted| lines.get(planted.mistake.name));
    lines.fold(HEADER.to_owned(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunt_writes_its_own_row_only() {
        let [first, second, third] = [0, 1, 2].map(|index| MISTAKES[index].mistake.name);
        let found = |by: &str| FoundMistake {
            by: by.to_owned(),
            rounds: 2,
            after: Duration::from_secs(70),
            finding: "units: 3".to_owned(),
        };
        let names = |text: &str| rows(text).map(|row| row.cells[4].to_owned()).collect::<Vec<_>>();
        let text = noted("", third, Some(&found("x, seed 1")));
        let text = noted(&text, first, Some(&found("x, seed 2")));
        let text = noted(&text, second, Some(&found("x, seed 3")));
        assert_eq!(names(&text), [first, second, third]);
        let again = noted(&text, second, Some(&found("y, seed 4")));
        assert_eq!(again, text.replace("x, seed 3", "y, seed 4"));
        assert_eq!(names(&noted(&again, first, None)), [second, third], "it was not found");
        let strange = text.replace(third, "a mistake that is no longer planted");
        assert_eq!(names(&noted(&strange, first, None)), [second]);
    }
}
