//! What a shop file, or the flags of the quick form, say of a shop. Requests and sources are texts here.

use std::path::PathBuf;
use std::time::Duration;

use buyers::script::Meanings;

use super::keys::NamedText;
use super::noted::Noted;

/// A shop whose texts are not read yet.
#[derive(Debug)]
pub(super) struct Draft {
    /// Where paths of files begin.
    pub(super) folder: PathBuf,
    pub(super) name: String,
    pub(super) urls: Vec<Noted<String>>,
    pub(super) stock: u32,
    pub(super) per_buyer: Option<u32>,
    /// Path of a file with certificates.
    pub(super) certificate: Option<Noted<String>>,
    pub(super) sale: DraftTask,
    /// Path of a file with a line per buyer.
    pub(super) csv: Option<Noted<String>>,
    pub(super) sign_up: DraftSteps,
    pub(super) buy: DraftSteps,
    pub(super) meanings: Meanings,
    pub(super) order: Option<Noted<String>>,
    pub(super) outcome: Option<DraftPoll>,
    pub(super) stock_left: Option<DraftReading>,
    pub(super) order_count: Option<DraftReading>,
    pub(super) queries: Option<DraftQueries>,
    /// How long the books have to stay the same.
    pub(super) quiet: Duration,
    pub(super) clean: Option<DraftTask>,
}

/// Something that is done for all buyers at once.
#[derive(Debug)]
pub(super) enum DraftTask {
    Requests(Vec<Noted<String>>),
    Command(String),
    Sql { url: Noted<String>, statements: Vec<String> },
}

/// Requests of a buyer, and the values that their answers give.
#[derive(Debug, Default)]
pub(super) struct DraftSteps {
    pub(super) requests: Vec<Noted<String>>,
    /// Each has a name and a source.
    pub(super) take: Vec<NamedText>,
}

/// Requests that are repeated until a queued buyer knows its outcome.
#[derive(Debug)]
pub(super) struct DraftPoll {
    pub(super) steps: DraftSteps,
    pub(super) every: Duration,
    pub(super) within: Duration,
}

/// A request whose answer has a number of the books.
#[derive(Debug)]
pub(super) struct DraftReading {
    pub(super) request: Noted<String>,
    pub(super) source: Noted<String>,
}

/// Queries for the books in the shop's database.
#[derive(Debug)]
pub(super) struct DraftQueries {
    pub(super) url: Noted<String>,
    pub(super) stock: Option<String>,
    pub(super) orders: Option<String>,
}
