//! The documents: each link leads to a file and to a heading of it, and what a document names exists.

use std::fs;
use std::path::{Path, PathBuf};

use crate::architecture::root;

/// The extensions of the files that a document names by their paths. Other files may be a user's, or be written.
const SOURCES: [&str; 7] = ["java", "jmx", "mjs", "py", "rs", "sh", "sql"];

/// Returns the files of this repository with one of these extensions, without those that a build writes.
pub(crate) fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                let is_written = ["target", ".git", "node_modules"].contains(&name) || path == root().join("report");
                if !is_written {
                    folders.push(path);
                }
            } else if extensions.iter().any(|extension| path.extension().is_some_and(|found| found == *extension)) {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the text of a document outside of its blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Returns the targets of the links of a document.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of the headings of a document, as forges make them.
fn anchors(text: &str) -> Vec<String> {
    let anchor = |heading: &str| {
        let kept = heading.trim().to_lowercase().replace(' ', "-");
        kept.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    };
    prose(text).lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#'))).collect()
}

fn assert_leads_somewhere(document: &Path, target: &str) {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { document.to_owned() } else { document.parent().unwrap().join(file) };
    assert!(path.exists(), "{}: there is no {target}", document.display());
    if !anchor.is_empty() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(anchors(&text).contains(&anchor.to_owned()), "{}: there is no {target}", document.display());
    }
}

#[test]
fn each_link_leads_to_a_file_and_a_heading() {
    let mut count = 0;
    for document in files(&["md"]) {
        let text = fs::read_to_string(&document).unwrap();
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            assert_leads_somewhere(&document, target);
            count += 1;
        }
    }
    assert!(count > 50, "the documents have links, and not {count}");
}

#[test]
fn an_anchor_is_made_of_the_letters_of_a_heading() {
    assert_eq!(anchors("# The `Mutex`, and *more*\n\n```\n# no heading\n```\n"), ["the-mutex-and-more"]);
    assert_eq!(anchors("## 我该用哪一个"), ["我该用哪一个"]);
}

#[test]
fn links_in_blocks_of_code_are_none() {
    assert_eq!(targets("[a](b.md) ```[c](d.md)``` ![e](f.png#g)"), ["b.md", "f.png#g"]);
}

/// Returns whether a source defines a function. If several have its name, the type tells them apart: `Claim::new`.
fn defines(source: &str, function: &str) -> bool {
    let has = |part: &str, name: &str| ["(", "<"].iter().any(|next| part.contains(&format!("fn {name}{next}")));
    let Some((of, name)) = function.split_once("::") else { return has(source, function) };
    source.split("\nimpl").skip(1).any(|block| {
        let (head, rest) = block.split_once('{').unwrap_or_default();
        let body = rest.split("\n}").next().unwrap();
        head.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == of) && has(body, name)
    })
}

/// Returns the paths that a document names in backticks, each with the functions that it names behind a colon.
fn named_paths(text: &str) -> Vec<(&str, Vec<&str>)> {
    let named = text.split('`').skip(1).step_by(2).filter(|name| name.contains('/') && !name.contains([' ', '{']));
    named
        .map(|name| match name.split_once(".rs:") {
            Some((_, functions)) => (name.split(':').next().unwrap(), functions.split(',').collect()),
            None => (name, Vec::new()),
        })
        .collect()
}

#[test]
fn the_architecture_names_what_exists() {
    let mut paths = 0;
    let mut functions = 0;
    for document in ["ARCHITECTURE.md", "locks/ARCHITECTURE.md"] {
        let architecture = fs::read_to_string(root().join(document)).unwrap();
        assert!(architecture.lines().count() <= 150, "{document} has at most 150 lines");
        for (path, named) in named_paths(&prose(&architecture)) {
            let beside = root().join(document).with_file_name(path);
            let found = if beside.exists() { beside } else { root().join(path) };
            assert!(found.exists(), "{document}: there is no {path}");
            for function in &named {
                let text = fs::read_to_string(&found).unwrap();
                assert!(defines(&text, function), "{document}: there is no function {function} in {path}");
            }
            paths += 1;
            functions += named.len();
        }
    }
    assert!(paths > 60 && functions > 80, "the documents name {paths} paths and {functions} functions");
}

#[test]
fn a_function_may_be_named_with_its_type() {
    let source = "struct A;\nimpl<T: C> A<T> {\n    fn new() {\n    }\n}\nimpl B {\n    fn go<T>() {}\n}\nfn of() {}\n";
    assert!(["new", "A::new", "B::go", "of"].iter().all(|function| defines(source, function)));
    assert!(!["ne", "B::new", "A::of", "C::of"].iter().any(|function| defines(source, function)));
}

/// Returns the sources that a document names in backticks, by the end of their paths.
fn named_sources(text: &str) -> Vec<&str> {
    let is_source = |name: &&str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        extension.is_some_and(|extension| SOURCES.contains(&extension)) && !name.contains([' ', '{', '<', '*', '$'])
    };
    let named = text.split('`').skip(1).step_by(2);
    named.map(|name| name.split_once(':').map_or(name, |(path, _)| path)).filter(is_source).collect()
}

#[test]
fn each_document_names_sources_that_exist() {
    let sources: Vec<_> = files(&SOURCES).iter().map(|path| path.display().to_string()).collect();
    let mut count = 0;
    // The changelog also names what is gone.
    for document in files(&["md"]).into_iter().filter(|document| !document.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(&document).unwrap();
        for named in named_sources(&prose(&text)) {
            let exists = sources.iter().any(|path| path.ends_with(&format!("/{named}")));
            assert!(exists, "{}: there is no {named}", document.display());
            count += 1;
        }
    }
    assert!(count > 300, "the documents name {count} sources");
}

#[test]
fn a_source_is_named_by_its_path_and_perhaps_a_function() {
    let text = "`src/a.rs`, `b.py`, `src/c.rs:one,two`, `src/<name>.rs`, `report.html`, d.rs, `cat e.sh`";
    assert_eq!(named_sources(text), ["src/a.rs", "b.py", "src/c.rs"]);
}
