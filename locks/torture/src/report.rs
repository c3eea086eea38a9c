//! What the campaign writes.

use std::fs;
use std::path::{Path, PathBuf};

use program::{Exit, print};
use serde::Serialize;
use stats::figures::things;

use crate::TortureError;
use crate::round::{RoundRecord, SCHEMA};
use crate::table::{Cell, Cells};

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
        let record = read(path)?;
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

fn read(path: &Path) -> Result<RoundRecord, TortureError> {
    let text = fs::read_to_string(path).map_err(|source| TortureError::File { path: path.to_owned(), source })?;
    let foreign = |why: String| TortureError::Foreign { path: path.to_owned(), why };
    let record: RoundRecord = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
    if record.schema == SCHEMA { Ok(record) } else { Err(foreign(format!("its format is {:?}", record.schema))) }
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
pub(crate) fn table(cells: &Cells, libraries: &[&str], repeats: u64) -> String {
    let mut text = String::new();
    for (title, figure) in FIGURES {
        let head = libraries.join(" | ");
        let lines = "--:|".repeat(libraries.len());
        text += &format!("### {title}, worst of {}\n\n| fault | {head} |\n|---|{lines}\n", things(repeats, "round"));
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
    text
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
