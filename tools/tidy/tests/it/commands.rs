//! The commands in the documents: each target of make, and each command and flag of a program, exists.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::architecture::root;
use crate::documents::files;

const PROGRAMS: [&str; 3] = ["demo-service", "loadgen", "zk-lock"];

/// Returns the commands in a document, without their comments: the lines of its blocks for `sh`, and its code spans.
fn lines(markdown: &str) -> Vec<String> {
    let mut code = String::new();
    let mut is_block = false;
    for event in Parser::new(markdown) {
        match event {
            Event::Code(text) => code.push_str(&format!("{text}\n")),
            Event::Text(text) if is_block => code.push_str(&text),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => is_block = &*kind == "sh",
            Event::End(TagEnd::CodeBlock) => is_block = false,
            _ => {}
        }
    }
    let whole = code.replace("\\\n", " ");
    whole.lines().map(|line| line.split(" #").next().unwrap().to_owned()).collect()
}

/// Returns the program that a line runs, the words after it up to its first flag, and its flags.
fn call(line: &str) -> Option<(&str, Vec<&str>, Vec<&str>)> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
    let program = Path::new(words.next()?).file_name()?.to_str()?;
    let words: Vec<_> = words.take_while(|word| !["--", "|", "&&", "||", ";", ">"].contains(word)).collect();
    let is_command = |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase());
    let commands = words.iter().take_while(is_command).copied().collect();
    let flags = words.into_iter().filter(|word| word.starts_with("--"));
    let end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    PROGRAMS.contains(&program).then(|| (program, commands, flags.filter_map(|flag| flag.split(end).next()).collect()))
}

/// Returns the `--help` of a program that was built beside the tests.
fn help(program: &str, commands: &[&str]) -> String {
    // A test is in the folder `deps` of the programs.
    let path = env::current_exe().unwrap().ancestors().nth(2).unwrap().join(program);
    assert!(path.exists(), "{} is missing: cargo build --workspace builds it", path.display());
    let output = Command::new(path).args(commands).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} has no command {commands:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_flag_in_the_documents_exists() {
    let mut checked = BTreeSet::new();
    // The changes tell of flags that are gone.
    for document in files(&["md"]).into_iter().filter(|document| !document.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(&document).unwrap();
        for (line, (program, commands, flags)) in lines(&text).iter().filter_map(|line| Some((line, call(line)?))) {
            let help = help(program, &commands);
            for flag in flags {
                let is_there = help
                    .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
                    .any(|word| word == flag);
                assert!(is_there, "{}: {program} has no {flag}: {line}", document.display());
                checked.insert(format!("{program} {flag}"));
            }
        }
    }
    assert!(checked.len() > 20, "the documents show flags, and not {checked:?}");
}

#[test]
fn every_target_of_make_in_the_documents_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut count = 0;
    for document in files(&["md"]) {
        let text = fs::read_to_string(&document).unwrap();
        for line in lines(&text).iter().filter_map(|line| line.trim().strip_prefix("make ")) {
            for target in line
                .split_whitespace()
                .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
            {
                assert!(makefile.contains(&format!("\n{target}:")), "{}: make has no {target}", document.display());
                count += 1;
            }
        }
    }
    assert!(count > 20, "the documents name targets, and not {count}");
}

#[test]
fn a_command_is_found_between_its_environment_and_its_arguments() {
    let document = "Text ` loadgen x ` and\n\n```text\nloadgen y\n```\n\n```sh\nA=b ./target/release/zk-lock --path=/l \\\n  --lead -- ./job --now # --no\n```\n";
    let lines = lines(document);
    let calls: Vec<_> = lines.iter().filter_map(|line| call(line)).collect();
    assert_eq!(calls, [("loadgen", vec!["x"], vec![]), ("zk-lock", vec![], vec!["--path", "--lead"])]);
}
