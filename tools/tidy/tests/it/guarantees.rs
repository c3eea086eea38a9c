//! Each promise has an id, and each id has a test: a line `// L7, L9` above the attributes of a test names what it shows.
//!
//! Below the first comment of a file, or above its `mod tests`, such a line counts for all tests of the file. Anywhere else it is
//! refused. The third columns of the tables are made of these lines.
//!
//! The optimisations of the queue locks name their tests, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::architecture::{read, root};
use crate::documents::files;
use crate::prose::{function, tests};

/// Set to write the columns.
const UPDATE: &str = "UPDATE_GUARANTEES";

const PROMISES: [&str; 2] = ["docs/GUARANTEES.md", "locks/GUARANTEES.md"];

/// The faults that were found, each with the promise that it broke.
const FAULTS: [&str; 2] = ["docs/faults.md", "locks/FAULTS.md"];

/// Returns the ids that a text lists, if it lists nothing else.
fn ids(text: &str) -> Option<Vec<&str>> {
    let is_id = |text: &&str| {
        let number = text.strip_prefix(|letter: char| letter.is_ascii_uppercase()).unwrap_or_default();
        !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit())
    };
    let ids: Vec<_> = text.split(", ").collect();
    ids.iter().all(is_id).then_some(ids)
}

/// Returns the promises that a source shows, each with the name of the test, or with nothing if the whole file shows it.
///
/// # Panics
/// If a line of ids stands neither below the first comment of the file nor above the attributes of an item.
fn shown(source: &str) -> Vec<(&str, Option<&str>)> {
    let lines: Vec<_> = source.lines().map(str::trim_start).collect();
    let mut shown = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(ids) = line.strip_prefix("// ").and_then(ids) else { continue };
        let is_above_an_item = lines.get(index + 1).is_some_and(|next| next.starts_with("#["));
        let is_below_the_header = lines[..index].iter().all(|line| line.is_empty() || line.starts_with("//!"));
        assert!(is_above_an_item || is_below_the_header, "{line} does not stand above the attributes of a test");
        let item = lines[index..].iter().find(|line| line.contains("mod tests") || function(line).is_some());
        let test = item.and_then(|item| function(item)).filter(|_| is_above_an_item);
        shown.extend(ids.into_iter().map(|id| (id, test)));
    }
    shown
}

/// Returns what shows each promise: tests by their names, with their file if another test has that name, and whole files.
fn columns(sources: &[(String, String)]) -> BTreeMap<&str, Vec<String>> {
    let mut count = BTreeMap::new();
    for test in sources.iter().flat_map(|(_, source)| tests(source)) {
        *count.entry(test).or_insert(0) += 1;
    }
    let mut columns = BTreeMap::<_, Vec<_>>::new();
    for (path, source) in sources {
        for (id, test) in shown(source) {
            columns.entry(id).or_default().push(match test {
                None if tests(source).is_empty() => panic!("{path} shows {id}, and has no test"),
                None => format!("`{path}`"),
                Some(test) => match count.get(test) {
                    None => panic!("{path}: {test} shows {id}, and is no test"),
                    Some(1) => format!("`{test}`"),
                    Some(_) => format!("`{path}:{test}`"),
                },
            });
        }
    }
    columns
}

/// Returns the id and the promise of a row.
fn row(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    ids(id).and(Some((id, rest.rsplit_once(" | ")?.0)))
}

/// Returns the table with its third column made anew. The columns that it uses are taken, and files of its folder have short paths.
fn rewritten(
    folder: &str,
    table: &str,
    columns: &mut BTreeMap<&str, Vec<String>>,
    defects: &mut Vec<String>,
) -> String {
    let rewrite = |line: &str| {
        let Some((id, promise)) = row(line) else { return format!("{line}\n") };
        let Some(column) = columns.remove(id) else {
            defects.push(format!("{id} has no test, or two rows"));
            return format!("{line}\n");
        };
        format!("| {id} | {promise} | {} |\n", column.join(", ").replace(&format!("`{folder}/"), "`"))
    };
    table.lines().map(rewrite).collect()
}

#[test]
fn each_promise_has_its_tests_and_each_marker_its_promise() {
    let path = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let mut sources: Vec<_> =
        files(&["rs"]).iter().map(|file| (path(file), fs::read_to_string(file).unwrap())).collect();
    sources.sort();
    let mut columns = columns(&sources);
    assert!(columns.len() > 200, "{} promises are shown", columns.len());
    let mut defects = Vec::new();
    for document in PROMISES {
        let table = read(document);
        let (folder, _) = document.split_once('/').unwrap();
        let rewritten = rewritten(folder, &table, &mut columns, &mut defects);
        if std::env::var_os(UPDATE).is_some() {
            fs::write(root().join(document), &rewritten).unwrap();
        } else if rewritten != table {
            defects.push(format!("{document} is stale: set {UPDATE}=1"));
        }
    }
    defects.extend(columns.keys().map(|id| format!("{id} has no row")));
    assert!(defects.is_empty(), "{}", defects.join("\n"));
}

#[test]
fn each_fault_names_a_promise_and_files_that_exist() {
    let promises = PROMISES.map(read);
    let known: BTreeSet<_> =
        promises.iter().flat_map(|table| table.lines().filter_map(row)).map(|(id, _)| id).collect();
    let sources: Vec<_> = files(&["rs"]).iter().map(|path| path.display().to_string()).collect();
    for document in FAULTS {
        let text = read(document);
        let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Fault |"));
        for row in rows {
            let named = row.trim_end_matches(" |").rsplit_once(" | ").and_then(|(_, last)| ids(last));
            let is_known = named.is_some_and(|ids| ids.iter().all(|id| known.contains(id)));
            assert!(is_known, "{document}: {row}");
            for file in row.split('`').filter(|word| word.ends_with(".rs")) {
                assert!(sources.iter().any(|path| path.ends_with(&format!("/{file}"))), "{document}: {file}");
            }
        }
    }
}

#[test]
fn each_optimisation_names_a_test_that_exists() {
    let sources: Vec<_> = files(&["rs"]).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let known: BTreeSet<_> = sources.iter().flat_map(|source| tests(source)).collect();
    let benchmarks = read("docs/benchmarks.md");
    let (_, table) = benchmarks.split_once("| part | code | lines | gain | test |\n").unwrap();
    let rows: Vec<_> = table.lines().skip(1).take_while(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 4, "{rows:?}");
    for row in rows {
        let test = row.trim_end_matches("` |").rsplit_once('`').unwrap().1;
        assert!(known.contains(test), "docs/benchmarks.md: there is no test {test}");
    }
}

#[test]
fn a_planted_marker_is_found() {
    let first = "//! L9\n\n// L1, L2\n\n/// Why.\n// L2\n#[test]\n#[expect(x)]\nasync fn a() {}\n#[test]\nfn b() {}\n";
    let second = "// L3\n#[cfg(test)]\nmod tests {\n    // L4\n    #[test]\n    fn b() {}\n    // L4 is none\n}\n";
    let sources = [("locks/one.rs", first), ("two.rs", second)].map(|(path, text)| (path.to_owned(), text.to_owned()));
    let mut columns = columns(&sources);
    let mut defects = Vec::new();
    let table =
        "| id | promise | shown by |\n| L2 | The `|`. | |\n| L4 | A. B. | `old` |\n| L4 | C. | |\n| L5 | D. | |\n";
    let made = rewritten("locks", table, &mut columns, &mut defects);
    assert_eq!(made, table.replacen("| |", "| `one.rs`, `a` |", 1).replace("`old`", "`two.rs:b`"));
    assert_eq!(defects, ["L4 has no test, or two rows", "L5 has no test, or two rows"]);
    assert_eq!(columns.into_keys().collect::<Vec<_>>(), ["L1", "L3"]);
}

#[test]
#[should_panic(expected = "// L1 does not stand above the attributes of a test")]
fn a_planted_marker_above_a_doc_comment_is_found() {
    shown("//! A file.\n\nuse a::b;\n\n// L1\n/// Why.\n#[test]\nfn a() {}\n");
}

#[test]
#[should_panic(expected = "// L1 does not stand above the attributes of a test")]
fn a_planted_marker_above_a_function_is_found() {
    shown("#[test]\nfn a() {}\n\n// L1\nfn b() {}\n");
}
