//! One build against the other.

use crate::judge::diff::Diff;
use crate::judge::diff::rows::{Conclusion, Row as Compared};
use crate::judge::metrics::Metric;
use crate::report::html::page::{Block, Cell, Column, Group, Mark, Row, Section, Table};
use crate::report::table::{COMPARED, compared, titles};

pub(super) fn section(diff: &Diff, metrics: &[&Metric]) -> Section {
    let sides = [&diff.old, &diff.new].map(|side| format!("{}: {}.", side.name, side.described()));
    let mut lines = vec![sides.join(" "), format!("{}.", diff.counted())];
    lines.extend(diff.caveats.iter().map(|caveat| format!("{caveat}.")));
    let mut blocks: Vec<Block> = lines.into_iter().map(Block::Paragraph).collect();
    if !diff.rows.is_empty() {
        blocks.push(Block::Table(table(diff, metrics)));
    }
    Section { id: "builds", title: "One build against the other", blocks }
}

fn table(diff: &Diff, metrics: &[&Metric]) -> Table {
    let [figure, by, old, new, ratio, p, _] = titles(diff);
    let words = ["Strategy".to_owned(), figure, by].into_iter().map(|title| Column::words(&title));
    let figures = [old, new, ratio, p].into_iter().map(|title| Column::figures(&title, ""));
    let columns = words.chain(figures).chain([Column::words("Verdict")]).collect();
    let row = |row: &Compared| {
        let values = [None, None, row.old, row.new, row.ratio.map(|ratio| ratio.value), Some(row.p), None];
        let mark = match row.conclusion {
            Conclusion::Worse => Mark::Bad,
            Conclusion::Better => Mark::Good,
            Conclusion::Same => Mark::None,
            Conclusion::CannotTell => Mark::Open,
        };
        let mut cells = compared(row, metrics);
        cells[6] = row.conclusion.word().to_owned();
        let cells = cells.into_iter().zip(values).map(|(text, sort)| Cell { text, sort, ..Cell::default() });
        let mut cells: Vec<Cell> = cells.collect();
        cells[6].mark = mark;
        Row { name: format!("{} @{}", row.named(), row.users), cells }
    };
    Table {
        id: "table-builds",
        caption: format!("{} against {}: {COMPARED}", diff.new.name, diff.old.name),
        label: None,
        columns,
        groups: vec![Group { title: None, rows: diff.rows.iter().map(row).collect() }],
    }
}
