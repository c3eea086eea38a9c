//! The documents: each link leads to a file and to a heading of it, and `ARCHITECTURE.md` names what exists.

use std::fs;
use std::path::{Path, PathBuf};

use crate::architecture::root;

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
                let is_defined = ["(", "<"].iter().any(|next| text.contains(&format!("fn {function}{next}")));
                assert!(is_defined, "{document}: there is no function {function} in {path}");
            }
            paths += 1;
            functions += named.len();
        }
    }
    assert!(paths > 60 && functions > 80, "the documents name {paths} paths and {functions} functions");
}
