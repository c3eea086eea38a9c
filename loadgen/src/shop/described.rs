//! A shop, as a file describes it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use buyers::script::{Script, ScriptRequest, Source, Steps, Values};
use goose::goose::Scenario;
use reqwest::Url;

use super::address::{self, is_loopback};
use super::database::DatabaseUrl;
use super::people::People;
use super::scope::{NUMBER, URL};
use super::secrets::Secrets;

/// The longest time for an answer, unless a request has its own.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The longest time of a purchase by a scenario: for an answer, and in a queue.
const SCENARIO_WITHIN: Duration = Duration::from_secs(60);

/// A shop that sells limited stock over HTTP.
pub(crate) struct Shop {
    pub(crate) name: String,
    /// The base URLs, of which there is at least one. Buyers take them in turns.
    pub(crate) urls: Vec<Url>,
    /// Units on sale.
    pub(crate) stock: u32,
    /// The most units that one buyer may have.
    pub(crate) per_buyer: Option<u32>,
    /// Certificates that the shop's own is signed by, as PEM.
    pub(crate) certificate: Option<Vec<u8>>,
    /// Puts the stock on sale.
    pub(crate) sale: Task,
    /// The buyers of a CSV file. `None`: a buyer is a number.
    pub(crate) people: Option<People>,
    /// What each buyer does.
    pub(crate) script: Script,
    /// The scenario of a goose user, which buys in the place of the script. The script is empty then.
    pub(crate) scenario: Option<Scenario>,
    pub(crate) books: ShopBooks,
    /// What is done after the last trial.
    pub(crate) clean: Option<Task>,
    pub(crate) secrets: Secrets,
    /// The variables of the environment that the file names, as `env.NAME`.
    pub(super) environment: Values,
}

/// Something that is done once for all buyers.
#[derive(Debug)]
pub(crate) enum Task {
    Requests(Vec<ScriptRequest>),
    Command(ShellCommand),
    Sql(Statements),
}

impl Task {
    /// Says what runs, unless requests are sent.
    pub(crate) fn told(&self) -> Option<String> {
        match self {
            Task::Requests(_) => None,
            Task::Command(command) => Some(format!("runs: {}", command.text)),
            Task::Sql(sql) => Some(format!("runs at {}: {}", sql.url.address(), sql.statements.join("; "))),
        }
    }
}

/// A command for a shell.
#[derive(Debug, Clone)]
pub(crate) struct ShellCommand {
    pub(crate) text: String,
    /// The folder in which it runs: the one of the shop file.
    pub(crate) folder: PathBuf,
}

/// Statements for a database.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) url: DatabaseUrl,
    pub(crate) statements: Vec<String>,
}

/// Where the books of a shop are read.
#[derive(Debug)]
pub(crate) struct ShopBooks {
    /// A page with the units that are left.
    pub(crate) stock: Option<PageNumber>,
    /// A page with the number of orders.
    pub(crate) orders: Option<PageNumber>,
    pub(crate) queries: Option<BookQueries>,
    /// How long the books have to stay the same after the last answer before they count.
    pub(crate) quiet: Duration,
}

impl ShopBooks {
    /// Tells whether the books say how many units are left.
    pub(crate) fn have_stock(&self) -> bool {
        self.stock.is_some() || self.queries.as_ref().is_some_and(|queries| queries.stock.is_some())
    }

    /// Tells whether the books say what was ordered.
    pub(crate) fn have_orders(&self) -> bool {
        self.orders.is_some() || self.have_order_rows()
    }

    /// Tells whether the books have each order by itself.
    pub(super) fn have_order_rows(&self) -> bool {
        self.queries.as_ref().is_some_and(|queries| queries.orders.is_some())
    }

    /// Tells whether there are any books at all.
    pub(crate) fn are_any(&self) -> bool {
        self.have_stock() || self.have_orders()
    }
}

/// A number on a page of the shop.
#[derive(Debug)]
pub(crate) struct PageNumber {
    pub(crate) request: ScriptRequest,
    pub(crate) source: Source,
}

/// Queries for the shop's database.
#[derive(Debug)]
pub(crate) struct BookQueries {
    pub(crate) url: DatabaseUrl,
    /// One number: the units that are left.
    pub(crate) stock: Option<String>,
    /// A row per order: its number, its buyer, its units.
    pub(crate) orders: Option<String>,
}

impl Shop {
    /// Returns the base URLs, without a slash at their ends.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.urls.iter().map(address::value).collect()
    }

    /// Tells whether an address of the shop is one of HTTPS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.urls.iter().any(|url| url.scheme() == "https")
    }

    /// Returns the values of what is done once for all buyers.
    pub(crate) fn values(&self) -> Values {
        let mut values = self.environment.clone();
        values.extend(self.urls.first().map(|url| (URL.to_owned(), address::value(url))));
        values
    }

    /// Returns the values with which a buyer begins. Buyers take the base URLs in turns.
    pub(crate) fn values_of(&self, number: usize) -> Values {
        let mut values = self.environment.clone();
        let url = self.urls.iter().cycle().nth(number % self.urls.len().max(1));
        values.extend(url.map(|url| (URL.to_owned(), address::value(url))));
        values.insert(NUMBER.to_owned(), number.to_string());
        values.extend(self.people.iter().flat_map(|people| people.values(number)));
        values
    }

    /// Lists what the file lets nobody see, and why.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let books = &self.books;
        let gaps = [
            (books.have_stock(), "the units that are left: [books] has no stock"),
            (
                books.have_orders(),
                "orders that no buyer was told of, and buyers without an order: [books] has no orders",
            ),
            (
                books.have_order_rows() || !books.have_orders(),
                "which buyer has no order: [books] only counts the orders, and sql would list them",
            ),
            (self.tells_orders(), "whether one order is told to two buyers: [buy] has no order"),
            (self.per_buyer.is_some(), "the limit per buyer: [shop] has no per-buyer"),
        ];
        gaps.into_iter().filter(|(is_seen, _)| !is_seen).map(|(_, gap)| gap.to_owned()).collect()
    }

    /// Tells whether a buyer that is told "sold" may be told the number of its order.
    pub(crate) fn tells_orders(&self) -> bool {
        self.script.order.is_some() || self.scenario.is_some()
    }

    /// Returns the longest time that a purchase can take.
    pub(crate) fn purchase_within(&self) -> Duration {
        if self.scenario.is_some() {
            return SCENARIO_WITHIN;
        }
        let of = |steps: &Steps| -> Duration {
            steps.requests.iter().map(|request| request.within.unwrap_or(ANSWER_WITHIN)).sum()
        };
        let asking = self.script.outcome.as_ref().map_or(Duration::ZERO, |poll| poll.within + of(&poll.steps));
        of(&self.script.buy) + asking
    }

    /// Returns the requests that a buyer of this many purchases sends at least, from the sign-up on. A scenario does not tell its
    /// requests, so its purchase counts as one.
    pub(crate) fn requests_of_a_buyer(&self, purchases: usize) -> usize {
        if self.scenario.is_some() {
            return 1;
        }
        self.script.sign_up.requests.len() + purchases * self.script.buy.requests.len()
    }

    /// Returns the addresses that are not on this machine: of the shop, and of its databases.
    pub(crate) fn strangers(&self) -> Vec<String> {
        let shops = self.urls.iter().filter(|url| !is_loopback(url.host_str().unwrap_or_default()));
        let of_sale = match &self.sale {
            Task::Sql(statements) => Some(&statements.url),
            Task::Requests(_) | Task::Command(_) => None,
        };
        let databases = of_sale.into_iter().chain(self.books.queries.as_ref().map(|queries| &queries.url));
        let mut strangers: Vec<String> = shops.map(address::address).collect();
        strangers.extend(databases.filter(|database| !database.is_here()).map(DatabaseUrl::address));
        strangers.dedup();
        strangers
    }
}

/// The values of the environment are secret, so they are left out.
impl fmt::Debug for Shop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shop").field("name", &self.name).field("urls", &self.urls()).finish_non_exhaustive()
    }
}
