//! The prose of the project: no long sentence, and no word that the reader would have to decode.
//!
//! It reads the documents, the comments of the sources, the texts of the programs and the templates of the report.

use std::fs;

use proc_macro2::{TokenStream, TokenTree};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::architecture::root;
use crate::documents::files;

const WORDS_MAX: usize = 35;

const TEST_NAME_MAX: usize = 60;

/// Chinese is not divided into words.
const CHINESE_CHARACTERS_MAX: usize = 90;

/// Words that hide their subject, or stand for a word of the field: `for waiters`, and not `for those who wait`.
const RIDDLES: &str = "whoever, whomever, of whom, for whom, those who, that of, by which, one's, so many, as many as, \
    goes with, comes second, has gone, had gone, to be had, notifications a release, waiters a release, requests a release";

/// Returns the running text of a Markdown document: one string per block, a code span as one word.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut is_code = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        let block = blocks.last_mut().unwrap();
        match event {
            Event::Text(text) if !is_code => block.push_str(&text),
            Event::Code(code) => block.push_str(&format!("`{}`", code.replace(char::is_whitespace, "_"))),
            Event::SoftBreak | Event::HardBreak => block.push(' '),
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Link { .. })
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link)
            | Event::Text(_) => {}
            Event::Start(start) => {
                is_code = matches!(start, Tag::CodeBlock(_));
                blocks.push(String::new());
            }
            Event::End(_) => {
                is_code = false;
                blocks.push(String::new());
            }
            _ => {}
        }
    }
    blocks
}

/// Splits a block into sentences. One ends at `.`, `!`, `?`, `:` or `;` unless a small letter follows.
fn sentences(block: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = Vec::new();
    let words: Vec<&str> = block.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        sentence.push(*word);
        let ends = word.trim_end_matches(['"', ')', '*', '_']).ends_with(['.', '!', '?', ':', ';']);
        let goes_on = words.get(index + 1).is_some_and(|next| next.starts_with(char::is_lowercase));
        if ends && !goes_on {
            sentences.push(std::mem::take(&mut sentence).join(" "));
        }
    }
    sentences.push(sentence.join(" "));
    let chinese = |sentence: String| {
        sentence.split_inclusive(['。', '！', '？', '；', '：']).map(str::to_owned).collect::<Vec<_>>()
    };
    sentences.into_iter().flat_map(chinese).collect()
}

/// Returns the comments of a source, each with all its lines.
fn comments(source: &str) -> Vec<String> {
    let mut comments = Vec::<String>::new();
    let mut last = "";
    for line in source.lines().map(str::trim_start) {
        let mark = ["//!", "///", "//"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or_default();
        if mark != last {
            comments.push(String::new());
        }
        if !mark.is_empty() {
            comments.last_mut().unwrap().push_str(&format!("{}\n", &line[mark.len()..]));
        }
        last = mark;
    }
    comments
}

/// Returns the name of the function that a line begins.
pub(crate) fn function(line: &str) -> Option<&str> {
    let (before, name) = line.split_once("fn ")?;
    let begins = before.split_whitespace().all(|word| word == "async" || word.starts_with("pub"));
    begins.then(|| name.split(['(', '<']).next().unwrap())
}

/// Returns the names of the tests of a source, also of those in a `proptest!`, into which `syn` does not look.
pub(crate) fn tests(source: &str) -> Vec<&str> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some(name) = function(line) {
            if is_test {
                tests.push(name);
            }
            is_test = false;
        }
    }
    tests
}

/// Collects the string literals among the tokens of a source.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                    found.push(text.value());
                }
            }
            _ => {}
        }
    }
}

/// Returns the texts of a file that people read. The texts of tests and of SQL are for programs.
fn texts(path: &str, text: &str) -> Vec<String> {
    if path.ends_with(".md") {
        return vec![text.to_owned()];
    }
    if path.ends_with(".html") {
        return text.split(['<', '>', '{', '}']).map(str::to_owned).collect();
    }
    let mut texts = Vec::new();
    if !path.contains("tests/") {
        let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines();
        let code: Vec<_> = shipped.filter(|line| !line.trim_start().starts_with("//")).collect();
        literals(code.join("\n").parse().unwrap(), &mut texts);
        texts.retain(|text| {
            !["select ", "insert ", "update ", "with "].iter().any(|sql| text.trim_start().starts_with(sql))
        });
        // An indented line of a help text stands for itself.
        texts = texts.iter().map(|text| text.replace("\n ", "\n\n")).collect();
    }
    texts.extend(comments(text));
    texts
}

fn is_defect(sentence: &str, is_chinese: bool) -> bool {
    if is_chinese {
        return sentence.chars().count() > CHINESE_CHARACTERS_MAX;
    }
    let prose = sentence.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
    let words: Vec<_> = prose.split(|letter: char| !letter.is_alphanumeric() && letter != '\'').collect();
    let has = |riddle: &str| format!(" {} ", words.join(" ")).contains(&format!(" {riddle} "));
    sentence.split_whitespace().count() > WORDS_MAX
        || RIDDLES.split(", ").any(has)
        || prose.starts_with("who ") && !prose.ends_with('?')
}

/// Returns the defects of a file, one per line: `file: beginning`.
fn defects(path: &str, text: &str) -> Vec<String> {
    let sentences =
        texts(path, text).iter().flat_map(|text| blocks(text)).flat_map(|block| sentences(&block)).collect::<Vec<_>>();
    let defects = sentences.iter().filter(|sentence| is_defect(sentence, path.contains("zh-CN")));
    defects.map(|sentence| format!("{path}: {}", sentence.chars().take(70).collect::<String>())).collect()
}

#[test]
fn sentences_are_short_and_name_what_they_mean() {
    let mut found = Vec::new();
    // The sample report is made of the texts that are checked in the sources.
    for path in files(&["md", "rs", "html"]).into_iter().filter(|path| !path.ends_with("docs/sample-report.html")) {
        let relative = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        found.extend(defects(relative, &text));
    }
    assert!(found.is_empty(), "More than {WORDS_MAX} words, or a word of RIDDLES:\n{}", found.join("\n"));
}

#[test]
fn names_of_tests_are_short_and_plain() {
    let mut found = Vec::new();
    for path in files(&["rs"]) {
        let relative = path.strip_prefix(root()).unwrap().to_str().unwrap();
        for name in tests(&fs::read_to_string(&path).unwrap()) {
            let sentence = name.replace("_s_", "'s ").replace('_', " ");
            if name.len() > TEST_NAME_MAX || is_defect(&sentence, false) {
                found.push(format!("{relative}: {name}"));
            }
        }
    }
    assert!(found.is_empty(), "Over {TEST_NAME_MAX} letters, or a word of RIDDLES:\n{}", found.join("\n"));
}

#[test]
fn tests_are_found_in_every_form() {
    let plain = "#[test]\nfn a() {}\nfn b() {}\n";
    let nested = "    #[tokio::test(start_paused = true)]\n    #[expect(x)]\n    async fn c() {\n        fn d() {}\n";
    assert_eq!(tests(&format!("{plain}{nested}")), ["a", "c"]);
}

#[test]
fn a_code_span_is_one_word_and_each_block_ends_a_sentence() {
    let markdown = "# A heading\n\nOne *two* `let x = 1;` [four](five.md)\nsix\n\n* a. B\n* c; d\n\n```\ncode\n```\n| e | f |\n|---|---|\n| g | h |\n";
    let found: Vec<_> =
        blocks(markdown).iter().flat_map(|block| sentences(block)).filter(|text| !text.is_empty()).collect();
    assert_eq!(found, ["A heading", "One two `let_x_=_1;` four six", "a.", "B", "c; d", "e", "f", "g", "h"]);
}

#[test]
fn every_kind_of_defect_is_found_where_people_read_it() {
    let [short, long] = [WORDS_MAX, WORDS_MAX + 1].map(|words| vec!["word"; words].join(" "));
    let source = |comment: &str, text: &str| format!("{comment}\n#[error(\"{text}\")]\nstruct A;\n");
    assert_eq!(defects("a.rs", &source(&format!("/// {short}"), &short)), Vec::<String>::new());
    assert_eq!(defects("a.rs", &source("// Serves\n// whoever comes.", "who is it?")), ["a.rs: Serves whoever comes."]);
    assert_eq!(defects("a.rs", &source("", "of one's own")), ["a.rs: of one's own"]);
    assert_eq!(defects("a.md", "`of_one's`. Who waits goes.\n"), ["a.md: Who waits goes."]);
    assert_eq!(defects("a.html", &format!("<p>{short}</p><p>{long}</p>")).len(), 1);
    assert_eq!(defects("a.zh-CN.md", &format!("{0}。{0}，{0}。", "字".repeat(80))).len(), 1);
}
