//! The comparison of two builds.

use crate::judge::diff::Diff;
use crate::judge::diff::rows::{Conclusion, Row};
use crate::judge::metrics::Metric;
use crate::report::html::page::{Cell, Emphasis, Group, PageItem, PagePart, Table, TableColumn, TableRow};
use crate::report::table::{COMPARED, compared, titles};

pub(super) fn part(diff: &Diff, metrics: &[&Metric]) -> PagePart {
    let sides = [&diff.old, &diff.new].map(|side| format!("{}: {}.", side.name, side.described()));
    let mut lines = vec![sides.join(" "), format!("{}.", diff.counted())];
    lines.extend(diff.caveats.iter().map(|caveat| format!("{caveat}.")));
    let mut items: Vec<PageItem> = lines.into_iter().map(PageItem::Paragraph).collect();
    if !diff.rows.is_empty() {
        items.push(PageItem::Table(table(diff, metrics)));
    }
    PagePart { id: "builds", title: "One build against the other", items }
}

fn table(diff: &Diff, metrics: &[&Metric]) -> Table {
    let [figure, by, old, new, ratio, p, _] = titles(diff);
    let words = ["Strategy".to_owned(), figure, by].into_iter().map(|title| TableColumn::words(&title));
    let figures = [old, new, ratio, p].into_iter().map(|title| TableColumn::figures(&title, ""));
    let columns = words.chain(figures).chain([TableColumn::words("Verdict")]).collect();
    let row = |row: &Row| {
        let values = [None, None, row.old, row.new, row.ratio.map(|ratio| ratio.value), Some(row.p), None];
        let mark = match row.conclusion {
            Conclusion::Worse => Emphasis::Bad,
            Conclusion::Better => Emphasis::Good,
            Conclusion::Same => Emphasis::None,
            Conclusion::CannotTell => Emphasis::Open,
        };
        let mut cells = compared(row, metrics);
        cells[6] = row.conclusion.word().to_owned();
        let cells = cells.into_iter().zip(values).map(|(text, sort)| Cell { text, sort, ..Cell::default() });
        let mut cells: Vec<Cell> = cells.collect();
        cells[6].mark = mark;
        TableRow { name: format!("{} @{}", row.named(), row.users), cells }
    };
    Table {
        id: "table-builds",
        caption: format!("{} against {}: {COMPARED}", diff.new.name, diff.old.name),
        label: None,
        columns,
        groups: vec![Group { title: None, rows: diff.rows.iter().map(row).collect() }],
    }
}
