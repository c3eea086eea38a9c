//! What the campaign writes.

use std::fs;
use std::path::{Path, PathBuf};

use program::{Exit, print};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stats::figures::things;

use crate::TortureError;
use crate::library::NAMES;
use crate::round::{RoundRecord, SCHEMA};
use crate::table::{Cell, Cells, StoredTable, TABLE_SCHEMA};

/// Returns how a campaign ends, by whether it found nothing broken and nothing unchecked.
pub(crate) fn verdict(is_kept: bool, is_checked: bool) -> Exit {
    match (is_kept, is_checked) {
        (false, _) => Exit::PromiseBroken,
        (true, false) => Exit::Setup,
        (true, true) => Exit::Passed,
    }
}

/// Writes JSON into the folder of the campaign.
pub(crate) fn store(folder: &Path, name: &str, what: &impl Serialize) -> Result<(), TortureError> {
    let path = folder.join(name);
    let json =
        serde_json::to_string(what).map_err(|error| TortureError::File { path: path.clone(), source: error.into() })?;
    write(&path, &(json + "\n"))
}

/// Writes a file, and the folder for it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), TortureError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|source| TortureError::File { path: path.to_owned(), source })
}

/// Judges stored rounds again, and prints what each shows. Fails if that differs from what was found before.
pub(crate) fn judge_again(files: &[PathBuf]) -> Result<Exit, TortureError> {
    let mut text = String::new();
    let mut is_broken = false;
    let mut is_other = false;
    for path in files {
        let record = read(path, round_of)?;
        let findings = record.findings();
        let lines = findings.lines();
        is_broken |= !findings.broken.is_empty();
        is_other |= lines != record.found;
        let judged = if lines == record.found { "as before" } else { "OTHERWISE THAN BEFORE" };
        text += &format!("{}: {} acquires, judged {judged}\n", path.display(), record.history.operations.len());
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    }
    print(&text).map_err(TortureError::Output)?;
    Ok(match (is_other, is_broken) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::PromiseBroken,
        (false, false) => Exit::Passed,
    })
}

/// Reads a file that this program has stored.
fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, TortureError> {
    let text = fs::read_to_string(path).map_err(|source| TortureError::File { path: path.to_owned(), source })?;
    parse(&text).map_err(|why| TortureError::Foreign { path: path.to_owned(), why })
}

fn round_of(text: &str) -> Result<RoundRecord, String> {
    parsed(text, |round: &RoundRecord| (&round.schema, SCHEMA))
}

fn table_of(text: &str) -> Result<StoredTable, String> {
    parsed(text, |table: &StoredTable| (&table.schema, TABLE_SCHEMA))
}

/// Reads what has a format. `schema` returns the format that it has, and the one that it must have.
fn parsed<T: DeserializeOwned>(text: &str, schema: impl Fn(&T) -> (&str, &str)) -> Result<T, String> {
    let stored: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (found, expected) = schema(&stored);
    if found == expected { Ok(stored) } else { Err(format!("its format is {found:?}")) }
}

/// Prints stored tables as one document. If two have the same cell, it has the rounds of both.
pub(crate) fn results(files: &[PathBuf]) -> Result<Exit, TortureError> {
    let mut text = "# Lock libraries under each fault\n\n`lock-torture results` writes such a page from stored tables, and `make \
                    torture-results` the one in `locks/`.\n[How it is counted](TORTURE.md#the-table).\n\n| record | ended | first seed | \
                    commit | versions |\n|---|---|---|---|---|\n"
        .to_owned();
    let mut cells = Cells::new();
    for path in files {
        let table = read(path, table_of)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let commit = table.commit.as_deref().unwrap_or("unknown");
        let versions: Vec<String> = table.versions.iter().map(|(what, version)| format!("{what} {version}")).collect();
        text +=
            &format!("| `{name}` | {} | `{}` | `{commit}` | {} |\n", table.ended_at, table.seed, versions.join(", "));
        add(&mut cells, table.cells);
    }
    text += "\n";
    print(&(text + &table(&cells))).map_err(TortureError::Output)?;
    Ok(Exit::Passed)
}

/// Adds the cells of a table.
fn add(cells: &mut Cells, others: Cells) {
    for (fault, row) in others {
        for (library, cell) in row {
            cells.entry(fault.clone()).or_default().entry(library).or_default().merge(&cell);
        }
    }
}

/// Reads a figure of a cell, in seconds.
type CellFigure = fn(&Cell) -> Option<f64>;

/// The figures of the table, each with its title.
const FIGURES: [(&str, CellFigure); 4] = [
    ("Seconds with two holders", |cell| Some(cell.two_holders)),
    ("Seconds from the begin of the fault until the holder was told of its loss", |cell| cell.told),
    ("Seconds from the begin of the fault until another process held", |cell| cell.others),
    ("Seconds from the end of the fault until the struck process held again", |cell| cell.again),
];

/// Writes the table: a part for each figure, a row for each fault, a column for each library.
pub(crate) fn table(cells: &Cells) -> String {
    let mut libraries: Vec<&str> = cells.values().flat_map(|row| row.keys().map(String::as_str)).collect();
    let known = |library: &str| NAMES.iter().position(|name| *name == library).unwrap_or(NAMES.len());
    libraries.sort_unstable_by_key(|library| (known(library), *library));
    libraries.dedup();
    let rounds = cells.values().flat_map(|row| row.values()).map(|cell| cell.rounds).max().unwrap_or_default();
    let mut text = String::new();
    for (title, figure) in FIGURES {
        let head = libraries.join(" | ");
        let lines = "--:|".repeat(libraries.len());
        text += &format!("## {title}, worst of {}\n\n| fault | {head} |\n|---|{lines}\n", things(rounds, "round"));
        for (fault, row) in cells {
            let figures: Vec<String> = libraries.iter().map(|library| written(row.get(*library), figure)).collect();
            text += &format!("| `{fault}` | {} |\n", figures.join(" | "));
        }
        text += "\n";
    }
    for (fault, row) in cells {
        for (library, cell) in row {
            for owner in &cell.in_vain_behind {
                text += &format!(
                    "* {library} after `{fault}`: a process got no lock for 60 s, behind a node of {owner}.\n"
                );
            }
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn written(cell: Option<&Cell>, figure: CellFigure) -> String {
    let Some(cell) = cell else { return String::new() };
    if cell.failed.is_some() {
        return "not made".to_owned();
    }
    let figure = figure(cell).map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.2}"));
    match cell.met {
        met if met == cell.rounds => figure,
        0 => format!("{figure} (met no holder)"),
        met => format!("{figure} (met a holder in {met} of {})", cell.rounds),
    }
}

#[cfg(test)]
mod fuzzed;
