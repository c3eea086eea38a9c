//! The mistakes of other shops and locks that somebody has described: as what each is planted, what finds it, and after how long. The tables
//! in the document are made of the files that the hunts and searches write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use crate::WORKSPACE;
use crate::found::{self, Row};
use crate::mistakes::MISTAKES;

/// The document with the tables.
const DOCUMENT: &str = "docs/GUARANTEES.md";
/// Set to write the tables.
const UPDATE: &str = "UPDATE_GUARANTEES";

const HEAD: &str = "| mistake | planted as | found by | after |\n|---|---|---|---|\n";
const FOUND: &str = "demo-service/planted/found.txt";
/// The files of searches, what each search makes, and how one of those is called.
const SEARCHES: [(&str, &str, &str); 2] = [
    ("locks/protocol/planted/tests/walks/seeds.txt", "walks of the machines of the locks", "walks"),
    ("demo-service/batch-queue/interleaved/tests/schedules/seeds.txt", "schedules of the batch queue", "schedules"),
];

/// A mistake that somebody has described.
struct WellKnown {
    name: &'static str,
    /// As which mistakes it is planted, or why it cannot be.
    planted: Result<&'static [&'static str], &'static str>,
}

const fn known(name: &'static str, planted: &'static [&'static str]) -> WellKnown {
    WellKnown { name, planted: Ok(planted) }
}

const WELL_KNOWN: [WellKnown; 12] = [
    known("no lock", &["a purchase takes no lock"]),
    known("the lock is released before the commit", &["a lock is released before its commit is over"]),
    known("a create without an answer is made again", &["a create is repeated without a search"]),
    known(
        "waiters watch the parent",
        &["a waiter watches the parent of its node", "a waiter watches the last in the queue"],
    ),
    known(
        "the end of a session is ignored",
        &["a write checks neither its hold nor its fence", "a lost hold is handed over"],
    ),
    known("the token is the number of the node", &["the token of a hold is the number of its node"]),
    known(
        "no `WHERE stock >= q`",
        &["units are sold although too few are left", "a write does not check that the row is unchanged"],
    ),
    known(
        "a release deletes a fixed path or key",
        &[
            "a release in Redis deletes the lock of any holder",
            "a contender that gives up deletes any node at the path",
        ],
    ),
    known("a retry without a key", &["an order is written without its key"]),
    WellKnown {
        name: "a read from a replica",
        planted: Err(
            "cannot be planted: all statements of an instance go to one server, and a URL that names several is refused",
        ),
    },
    known(
        "a batch drops its end",
        &["the buyers at the end of a batch get no orders", "the later half of a divided batch is lost"],
    ),
    known("the sweeper races with a payment", &["a reservation that the sweeper has ended is paid"]),
];

/// Returns what finds each mistake, and after how long.
fn finders() -> BTreeMap<String, [String; 2]> {
    let read = |path| fs::read_to_string(Path::new(WORKSPACE).join(path)).unwrap();
    let mut finders = BTreeMap::new();
    for Row { cells: [by, rounds, seconds, _, mistake], .. } in found::rows(&read(FOUND)) {
        let (by, runs) = match by.split_once(", seed ") {
            Some((strategy, _)) => (format!("faults, `{strategy}`"), "round"),
            None => (format!("test `{}`", by.rsplit("::").next().unwrap()), "run"),
        };
        let plural = if rounds == "1" { "" } else { "s" };
        finders.insert(mistake.to_owned(), [by, format!("{rounds} {runs}{plural}, {seconds} s")]);
    }
    for (file, by, runs) in SEARCHES {
        for found in planting::seeds::read(&read(file)) {
            let after = format!("{} {runs}", found.median);
            let earlier = finders.insert(found.mistake.to_owned(), [by.to_owned(), after]);
            assert!(earlier.is_none(), "two mistakes are called {:?}", found.mistake);
        }
    }
    finders
}

/// Returns the table: the mistakes that are well known, and then the others that are planted here.
fn table() -> String {
    let finders = finders();
    let row = |name: &str, mistake: &str| {
        let [by, after] =
            finders.get(mistake).map_or(["nothing yet", ""], |found| found.each_ref().map(String::as_str));
        format!("| {name} | {mistake} | {by} | {after} |\n")
    };
    let known = WELL_KNOWN.iter().flat_map(|WellKnown { name, planted }| match planted {
        Ok(planted) => planted.iter().map(|mistake| row(name, mistake)).collect(),
        Err(reason) => vec![format!("| {name} | {reason} | | |\n")],
    });
    let is_known = |name| WELL_KNOWN.iter().any(|known| known.planted.is_ok_and(|planted| planted.contains(&name)));
    let others = MISTAKES.iter().map(|planted| planted.mistake.name).filter(|name| !is_known(name));
    HEAD.to_owned() + &known.chain(others.map(|name| row("", name))).collect::<String>()
}

#[test]
fn the_document_says_what_finds_each_planted_mistake() {
    let path = Path::new(WORKSPACE).join(DOCUMENT);
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once(HEAD).unwrap();
    let rows: usize = after.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
    let updated = before.to_owned() + &table() + &after[rows..];
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, updated).unwrap();
    } else {
        assert_eq!(text, updated, "{DOCUMENT} is stale: set {UPDATE}=1");
    }
}
