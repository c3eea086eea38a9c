//! The buyers of a shop, as a CSV file lists them: the header line names values, and each further line is a buyer.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::scope::is_reserved;
use crate::error::Error;

/// The buyers of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct People {
    /// The path of the file, for errors.
    file: String,
    names: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl People {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<People, String> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|error| format!("could not read {file}: {error}; csv begins in the folder of the shop file"))?;
        People::parse(&file, &bytes)
    }

    fn parse(file: &str, bytes: &[u8]) -> Result<People, String> {
        // Spreadsheets write a mark at the beginning of a file.
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let mut reader = ReaderBuilder::new().from_reader(bytes);
        let header = reader.headers().map_err(|error| wrong(file, &error))?.clone();
        let names = names(file, &header)?;
        let mut first_lines: HashMap<Vec<String>, u64> = HashMap::new();
        let mut lines = Vec::new();
        for record in records(&mut reader) {
            let record = record.map_err(|error| wrong(file, &error))?;
            let line = record.position().map_or(0, csv::Position::line);
            let buyer: Vec<String> = record.iter().map(str::to_owned).collect();
            if let Some(first) = first_lines.insert(buyer.clone(), line) {
                return Err(format!(
                    "{file}:{line}: the same buyer stands in line {first}, and would buy twice; remove one of them"
                ));
            }
            lines.push(buyer);
        }
        Ok(People { file: file.to_owned(), names, lines })
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Returns the names of the values that every buyer has.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the values of a buyer with their names.
    pub(super) fn values(&self, number: usize) -> impl Iterator<Item = (String, String)> {
        let line = self.lines.get(number).into_iter().flatten();
        self.names.iter().cloned().zip(line.cloned())
    }

    /// Refuses a load of more users than the file has buyers.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] with both numbers.
    pub(crate) fn ensure(&self, users: usize) -> Result<(), Error> {
        let buyers = self.lines.len();
        if buyers >= users {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{} has {buyers} buyers, and the load needs {users}; add lines to it, or give fewer users",
            self.file
        )))
    }
}

fn records<'a>(reader: &'a mut Reader<&[u8]>) -> impl Iterator<Item = csv::Result<StringRecord>> + 'a {
    std::iter::from_fn(move || {
        let mut record = StringRecord::new();
        reader.read_record(&mut record).map(|more| more.then_some(record)).transpose()
    })
}

/// Checks the names of the header line.
fn names(file: &str, header: &StringRecord) -> Result<Vec<String>, String> {
    let mut names = BTreeSet::new();
    for name in header {
        let refuse = |what: &str| Err(format!("{file}:1: {what}; the first line names the values of each buyer"));
        if is_reserved(name) {
            return refuse(&format!("the column {name:?} has the name of a value that every shop has"));
        }
        if name.is_empty() || !name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter)) {
            return refuse(&format!("the column {name:?} is no name of letters, digits, _ and -"));
        }
        if !names.insert(name) {
            return refuse(&format!("the column {name:?} stands there twice"));
        }
    }
    if names.is_empty() {
        return Err(format!("{file} is empty; write a line with the names of values, and a line for each buyer"));
    }
    Ok(header.iter().map(str::to_owned).collect())
}

fn wrong(file: &str, error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!(
                "{file}:{line}: the line has {len} fields, and the first line names {expected_len}; put a field with a comma \
                 into quotation marks"
            )
        }
        ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("{file}:{line}: the line is not UTF-8; save the file as UTF-8")
        }
        _ => format!("{file} cannot be read: {error}"),
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    fn people(text: &str) -> Result<People, String> {
        People::parse("buyers.csv", text.as_bytes())
    }

    #[test]
    fn each_line_is_a_buyer_with_the_values_of_the_header() {
        let people = people("\u{feff}phone,note\n1,\"a, b\"\n2,\n").unwrap();
        assert_eq!(people.names(), ["phone", "note"]);
        let second: Vec<_> = people.values(1).collect();
        assert_eq!(second, [("phone", "2"), ("note", "")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(people.values(2).count(), 0);
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        for (text, expected) in [
            ("a,b\n1,2\n3\n", "buyers.csv:3: the line has 1 fields, and the first line names 2; put a field"),
            ("a\n1\n2\n1\n", "buyers.csv:4: the same buyer stands in line 2"),
            ("a,a\n", "buyers.csv:1: the column \"a\" stands there twice"),
            ("a,\n", "buyers.csv:1: the column \"\" is no name"),
            ("a b\n", "buyers.csv:1: the column \"a b\" is no name"),
            ("number\n", "buyers.csv:1: the column \"number\" has the name of a value that every shop has"),
            ("env.a\n", "has the name of a value that every shop has"),
            ("", "buyers.csv is empty; write a line with the names"),
        ] {
            let refused = people(text).unwrap_err();
            assert!(refused.starts_with(expected) || refused.contains(expected), "{text:?}: {refused}");
        }
        let refused = People::parse("buyers.csv", b"a\n1\n\xff\n").unwrap_err();
        assert_eq!(refused, "buyers.csv:3: the line is not UTF-8; save the file as UTF-8");
    }

    #[test]
    fn a_file_with_too_few_buyers_is_refused() {
        let people = people("a\n1\n2\n").unwrap();
        assert!(people.ensure(2).is_ok());
        let refused = people.ensure(3).unwrap_err().to_string();
        assert_eq!(refused, "buyers.csv has 2 buyers, and the load needs 3; add lines to it, or give fewer users");
    }
}
