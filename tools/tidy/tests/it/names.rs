//! One word, one meaning within a house. `docs/glossary.md` lists the words of each house and the types that carry them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Field, ItemEnum, ItemMod, ItemStruct, ItemTrait, ItemType, ItemUnion, Signature};

use crate::architecture::{root, sources};

/// The houses by their headings in the glossary, each with its folders.
const HOUSES: [(&str, &[&str]); 4] = [
    ("Locks", &["locks/protocol", "locks/recipes", "locks/simulation", "locks/zk-lock"]),
    ("Shop", &["demo-service"]),
    ("Load generator", &["loadgen", "tools/stats"]),
    (
        "Tools",
        &[
            "tools/testbed",
            "tools/weather",
            "tools/program",
            "tools/campaign",
            "tools/planting",
            "tools/fuzz",
            "bench",
            "locks/torture",
        ],
    ),
];

/// A name, and the file that gives it.
type Named = (String, PathBuf);

/// The names that the items of a house have.
#[derive(Default)]
struct Names {
    file: PathBuf,
    types: Vec<Named>,
    /// Functions, modules and fields.
    others: Vec<Named>,
}

impl Names {
    fn of(folders: &[&str]) -> Names {
        let mut names = Names::default();
        for (path, text) in folders.iter().flat_map(|folder| sources(folder)) {
            names.add(path.strip_prefix(root()).unwrap().to_owned(), &text);
        }
        names
    }

    fn add(&mut self, file: PathBuf, text: &str) {
        self.file = file;
        self.visit_file(&syn::parse_file(text).unwrap());
    }

    fn add_type(&mut self, name: &syn::Ident) {
        self.types.push((name.to_string(), self.file.clone()));
    }

    fn add_other(&mut self, name: &syn::Ident) {
        self.others.push((name.to_string(), self.file.clone()));
    }
}

/// Associated types are no items: a trait gives their names.
impl<'ast> Visit<'ast> for Names {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add_type(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add_type(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.add_type(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add_type(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add_type(&item.ident);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.add_other(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.add_other(&signature.ident);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        field.ident.iter().for_each(|name| self.add_other(name));
    }
}

/// A row of the glossary.
struct Row {
    /// Each with the words that it has.
    terms: Vec<Vec<String>>,
    meaning: String,
    /// The types that carry the word. A pattern may end with `*`.
    types: Vec<String>,
    /// The unit of which each may have a type of its own under such a name: see [`unit_of`]. Empty if there is one for all.
    one_per: String,
}

/// What the glossary says of a house.
struct Glossary {
    rows: Vec<Row>,
    gone: Vec<String>,
}

impl Glossary {
    fn of(text: &str, house: &str) -> Glossary {
        let part = text.split("\n## ").find(|part| part.lines().next() == Some(house));
        let part = part.unwrap_or_else(|| panic!("the glossary has no heading {house}"));
        let (_, gone) = part.split_once("Not used: ").expect("a line of the words that are not used");
        let gone = gone.lines().next().unwrap().trim_end_matches('.').split(", ").map(str::to_owned).collect();
        let rows = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term")).map(Row::of);
        Glossary { rows: rows.collect(), gone }
    }
}

impl Row {
    fn of(line: &str) -> Row {
        let [_, terms, _, meaning, types, one_per, _] = *line.split('|').map(str::trim).collect::<Vec<_>>() else {
            panic!("a row has the columns term, 中文, meaning, types and one per: {line}")
        };
        assert!(["", "crate", "machine", "feature"].contains(&one_per), "{line}");
        Row {
            terms: terms.split(", ").map(|term| term.to_lowercase().split(' ').map(singular).collect()).collect(),
            meaning: meaning.to_owned(),
            types: types.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
            one_per: one_per.to_owned(),
        }
    }

    /// Returns the terms of this row that a type carries.
    fn carried_by(&self, name: &str) -> Vec<&[String]> {
        let words = words(name);
        self.terms.iter().map(Vec::as_slice).filter(|term| has_term(&words, term)).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.types.iter().any(|pattern| matches(pattern, name))
    }
}

fn has_term(words: &[String], term: &[String]) -> bool {
    words.windows(term.len()).any(|found| found == term)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

fn singular(word: &str) -> String {
    word.strip_suffix('s').unwrap_or(word).to_owned()
}

/// Returns the words of a name in either spelling: `HoldTimes` and `hold_times` have hold and time.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
    }
    words.iter().filter(|word| !word.is_empty()).map(|word| singular(word)).collect()
}

/// Returns the unit that a file belongs to. A crate is the next folder with a `lib.rs` or a `main.rs`. A machine, or the model of
/// one, is the file or the folder of its name below `src` or `model`. A file that is compiled with a feature or without it stands
/// for itself.
fn unit_of(file: &Path, one_per: &str) -> PathBuf {
    let is_root = |folder: &&Path| ["lib.rs", "main.rs"].iter().any(|name| root().join(folder).join(name).exists());
    let is_machine =
        |path: &&Path| path.parent().is_some_and(|above| above.ends_with("src") || above.ends_with("model"));
    let unit = match one_per {
        "crate" => file.ancestors().skip(1).find(is_root),
        "machine" => file.ancestors().find(is_machine),
        _ => None,
    };
    unit.unwrap_or(file).with_extension("")
}

/// Returns the names that several types of a house have.
fn repeated(house: &str, names: &Names, glossary: &Glossary) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (name, file) in &names.types {
        files.entry(name).or_default().push(file);
    }
    let mut found = Vec::new();
    for (name, files) in files.into_iter().filter(|(_, files)| files.len() > 1) {
        let row = glossary.rows.iter().find(|row| row.has(name));
        let one_per = row.map_or("", |row| &row.one_per);
        let units: BTreeSet<_> = files.iter().map(|file| unit_of(file, one_per)).collect();
        if one_per.is_empty() || units.len() < files.len() {
            let meaning = row.map_or("no meaning", |row| &row.meaning);
            found.push(format!("{house}: {name} is defined in {files:?}; the glossary has: {meaning}"));
        }
    }
    found
}

/// Returns the types that carry a term of the glossary, and stand neither beside it nor beside a longer term that contains it.
fn unlisted(house: &str, names: &Names, glossary: &Glossary) -> Vec<String> {
    let mut found = Vec::new();
    for (name, file) in &names.types {
        let listing = glossary.rows.iter().filter(|row| row.has(name));
        let listed: Vec<_> = listing.flat_map(|row| row.carried_by(name)).collect();
        let is_listed =
            |term: &[String]| listed.iter().any(|longer| longer.len() > term.len() && has_term(longer, term));
        let is_missing = |row: &&Row| !row.has(name) && row.carried_by(name).into_iter().any(|term| !is_listed(term));
        for row in glossary.rows.iter().filter(is_missing) {
            found.push(format!("{house}: {name} in {file:?} carries a word of the glossary: {}", row.meaning));
        }
    }
    found
}

/// Returns the patterns of the glossary that no type matches.
fn stale(house: &str, names: &Names, glossary: &Glossary) -> Vec<String> {
    let patterns = glossary.rows.iter().flat_map(|row| &row.types);
    let stale = patterns.filter(|pattern| !names.types.iter().any(|(name, _)| matches(pattern, name)));
    stale.map(|pattern| format!("{house}: no type matches {pattern}")).collect()
}

/// Returns the names with a word that the house does not use.
fn gone(house: &str, names: &Names, glossary: &Glossary) -> Vec<String> {
    let named = names.types.iter().chain(&names.others);
    let has_gone = |name: &str| words(name).iter().any(|word| glossary.gone.contains(word));
    let found = named.filter(|(name, _)| has_gone(name));
    found.map(|(name, file)| format!("{house}: {name} in {file:?} has a word that is not used")).collect()
}

fn assert_none(check: fn(&str, &Names, &Glossary) -> Vec<String>) {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let mut found = Vec::new();
    for (house, folders) in HOUSES {
        let names = Names::of(folders);
        let glossary = Glossary::of(&text, house);
        assert!(names.types.len() > 150, "{house}: {} types were found", names.types.len());
        assert!(glossary.rows.len() > 10, "{house}: {} rows were found", glossary.rows.len());
        found.extend(check(house, &names, &glossary));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_type_name_is_given_once_in_a_house() {
    assert_none(repeated);
}

#[test]
fn a_listed_word_is_used_as_the_glossary_says() {
    assert_none(unlisted);
}

#[test]
fn every_pattern_of_the_glossary_matches_a_type() {
    assert_none(stale);
}

#[test]
fn words_that_are_gone_stay_gone() {
    assert_none(gone);
}

#[test]
fn a_planted_name_is_found() {
    let text = "# Words\n\n## Locks\n\nNot used: desk, place.\n\n| term | 中文 | meaning | types | one per |\n|---|---|---|---|---|\n\
                | hold | 持有 | The lock's. | `Hold`, `HoldTimes`, `Holding*` | |\n| error | 错误 | Why. | `Error` | crate |\n\
                | event | 事件 | What is told. | `Event` | machine |\n\
                | error page | 错误页 | A page. | `ErrorPage` | |\n";
    let glossary = Glossary::of(text, "Locks");
    let named = |sources: &[(&str, &str)]| {
        let mut names = Names::default();
        sources.iter().for_each(|(file, text)| names.add(PathBuf::from(file), text));
        let checks = [repeated, unlisted, stale, gone];
        checks.map(|check| check("Locks", &names, &glossary).len())
    };
    let sound = "struct Hold; mod of { enum HoldTimes { A } type Holding = u8; } trait Error { type Hold; } enum Event { } struct \
                 ErrorPage;";
    assert_eq!(named(&[("tools/stats/src/a.rs", sound)]), [0; 4]);
    let errors = |second| [("tools/stats/src/a.rs", sound), (second, "fn f() { struct Error; }")];
    assert_eq!(named(&errors("tools/program/src/b.rs")), [0; 4], "a crate has one of its own");
    assert_eq!(named(&errors("tools/stats/src/b.rs")), [1, 0, 0, 0]);
    let events = |second| [("tools/stats/src/a.rs", sound), (second, "enum Event {}")];
    assert_eq!(named(&events("tools/stats/src/b/c.rs")), [0; 4], "a machine has one of its own");
    assert_eq!(named(&events("tools/stats/src/a/b.rs")), [1, 0, 0, 0]);
    assert_eq!(named(&[("tools/stats/src/a.rs", sound), ("tools/program/src/b.rs", "struct Hold;")]), [1, 0, 0, 0]);
    assert_eq!(named(&[("tools/stats/src/a.rs", sound), ("tools/stats/src/b.rs", "struct HoldDesk;")]), [0, 1, 0, 1]);
    let places = "struct A { places: u8 } impl A { fn take_place() {} } mod desk {}";
    assert_eq!(named(&[("tools/stats/src/a.rs", sound), ("tools/stats/src/b.rs", places)]), [0, 0, 0, 3]);
    assert_eq!(named(&[("tools/stats/src/a.rs", sound), ("tools/stats/src/b.rs", "struct ErrorPages;")]), [0, 2, 0, 0]);
    assert_eq!(named(&[("tools/stats/src/a.rs", "struct Hold;")]), [0, 0, 5, 0]);
}
