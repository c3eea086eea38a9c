//! The content of the page for its template: parts with tables, charts and sentences.

use askama::Template;
use stats::figures;

use crate::judge::metrics::Metric;
use crate::judge::nouns::Nouns;
use crate::report::glossary::ShownTerm;
use crate::report::html::glance::Glance;

/// The whole page.
#[derive(Template)]
#[template(path = "page.html")]
pub(super) struct Page {
    pub(super) title: String,
    /// The line above the title.
    pub(super) kicker: &'static str,
    pub(super) nouns: &'static Nouns,
    /// The comparison in at most three sentences.
    pub(super) sentence: String,
    /// The same as a picture, if any trial was run.
    pub(super) glance: Option<Glance>,
    /// Further results, one line each.
    pub(super) details: Vec<String>,
    /// A warning that precedes everything else, such as an early end or a broken promise.
    pub(super) banner: Option<Banner>,
    /// The reasons of the verdict.
    pub(super) reasons: Vec<String>,
    /// The conditions, in a few words each.
    pub(super) conditions: Vec<ShownTerm>,
    /// Limits of the figures.
    pub(super) caveats: Vec<String>,
    pub(super) parts: Vec<PagePart>,
    /// Numbers of users, if there are several to choose from.
    pub(super) levels: Vec<u32>,
    pub(super) generated_at: String,
    /// The same in words.
    pub(super) ended: String,
    pub(super) loadgen_version: String,
    pub(super) schema: String,
    pub(super) licences: [(&'static str, &'static str); 2],
    pub(super) style: &'static str,
    /// The data of the charts: JSON that is safe inside a script element.
    pub(super) data: String,
    pub(super) libraries: [&'static str; 2],
    pub(super) script: &'static str,
}

/// A warning that must not be overlooked.
#[derive(Debug)]
pub(super) struct Banner {
    pub(super) title: String,
    /// Exit code of the program.
    pub(super) exit_code: u8,
    /// Whether something is wrong, and not merely undecided.
    pub(super) grave: bool,
}

/// A part of the page with a heading of its own.
#[derive(Debug)]
pub(super) struct PagePart {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) items: Vec<PageItem>,
}

/// A piece of a part.
#[derive(Debug)]
pub(super) enum PageItem {
    Paragraph(String),
    /// A script for a shell, line by line.
    Script(String),
    Terms(Vec<ShownTerm>),
    Table(Table),
    /// Charts side by side where there is room.
    Charts(Vec<Chart>),
}

/// A chart, or the sentence that says why there is none.
#[derive(Debug)]
pub(super) struct Chart {
    /// Id of the element, and name of the function that draws it.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// What the chart shows, and how to read it.
    pub(super) caption: String,
    /// The load model, where the chart shows latencies.
    pub(super) label: Option<String>,
    /// The same in words, one line per strategy.
    pub(super) words: Vec<String>,
    /// Why there is nothing to show.
    pub(super) absent: Option<Absent>,
    /// Whether it needs the full width.
    pub(super) wide: bool,
}

/// Why a chart has nothing to show, and the command that would change it.
#[derive(Debug)]
pub(super) struct Absent {
    pub(super) why: String,
    pub(super) command: &'static str,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) caption: String,
    /// The load model, where the table has latencies.
    pub(super) label: Option<String>,
    pub(super) columns: Vec<TableColumn>,
    pub(super) groups: Vec<Group>,
}

/// A column; the first one of a table names its rows.
#[derive(Debug)]
pub(super) struct TableColumn {
    pub(super) title: String,
    pub(super) unit: String,
    /// Whether it holds words, and not figures.
    pub(super) words: bool,
}

/// Rows that belong together.
#[derive(Debug)]
pub(super) struct Group {
    /// Their heading, if there is one.
    pub(super) title: Option<&'static str>,
    pub(super) rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Debug)]
pub(super) struct TableRow {
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    /// A note in smaller print: an interval, a bound.
    pub(super) aside: String,
    /// Its key for sorting.
    pub(super) sort: Option<f64>,
    pub(super) mark: Emphasis,
}

/// The emphasis of a cell. Its words say the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emphasis {
    #[default]
    None,
    Good,
    Bad,
    Open,
}

impl Emphasis {
    /// Returns the class of the cell.
    pub(super) fn class(self) -> &'static str {
        match self {
            Emphasis::None => "plain",
            Emphasis::Good => "good",
            Emphasis::Bad => "bad",
            Emphasis::Open => "open",
        }
    }
}

impl TableColumn {
    pub(super) fn words(title: &str) -> TableColumn {
        TableColumn { title: title.to_owned(), unit: String::new(), words: true }
    }

    /// Returns the column of a figure.
    pub(super) fn of(metric: &Metric) -> TableColumn {
        TableColumn::figures(metric.title, metric.unit)
    }

    pub(super) fn figures(title: &str, unit: &str) -> TableColumn {
        TableColumn { title: title.to_owned(), unit: unit.to_owned(), words: false }
    }
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    pub(super) fn figure(value: Option<f64>) -> Cell {
        Cell { text: figures::maybe(value), sort: value, ..Cell::default() }
    }

    pub(super) fn count(value: Option<u64>) -> Cell {
        Cell { text: figures::maybe_count(value), sort: value.map(stats::as_f64), ..Cell::default() }
    }

    pub(super) fn marked(self, mark: Emphasis) -> Cell {
        Cell { mark, ..self }
    }

    pub(super) fn aside(self, aside: impl Into<String>) -> Cell {
        Cell { aside: aside.into(), ..self }
    }
}
