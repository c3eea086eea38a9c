//! A shop file, read key by key.

use std::path::Path;
use std::time::Duration;

use buyers::script::Meanings;
use toml::de::DeTable;

use super::draft::{Draft, DraftPoll, DraftQueries, DraftReading, DraftSteps, DraftTask};
use super::keys::{Keys, ShopText};
use super::noted::Noted;
use super::patterns;

/// The tables of a file.
const TABLES: [&str; 7] = ["shop", "sale", "buyers", "buy", "outcome", "books", "clean"];

/// The most units on sale, as in a plan.
const STOCK_MAX: u32 = 100_000_000;

/// The pause between two questions of a queued buyer.
pub(super) const EVERY: Duration = Duration::from_millis(200);
/// How long a queued buyer asks.
pub(super) const WITHIN: Duration = Duration::from_secs(30);

/// How long the books have to stay the same after the last answer, before what they lack counts as missing.
pub(super) const QUIET: Duration = Duration::from_secs(2);

/// Reads the text of a shop file. Each refusal names the line.
pub(super) fn draft(text: ShopText<'_>) -> Result<Draft, String> {
    with_purchase(text, DraftPurchase::read)
}

/// Reads a name, which stands in sentences and in the comments of scripts.
fn one_line(name: &str) -> Result<String, String> {
    if name.chars().any(char::is_control) {
        return Err("a name is one line; remove its line breaks and tabs".to_owned());
    }
    Ok(name.to_owned())
}

/// Reads the text of a shop file for a scenario, which replaces [buyers], [buy] and [outcome]. They are not read.
pub(super) fn draft_for_scenario(text: ShopText<'_>) -> Result<Draft, String> {
    with_purchase(text, |_| Ok(DraftPurchase::default()))
}

fn with_purchase(
    text: ShopText<'_>,
    purchase: impl FnOnce(&Keys<'_>) -> Result<DraftPurchase, String>,
) -> Result<Draft, String> {
    let document = DeTable::parse(text.text).map_err(|error| no_toml(text, &error))?;
    let file = Keys::of_file(text, document.get_ref(), &TABLES)?;
    let folder = Path::new(text.name).parent().unwrap_or_else(|| Path::new("")).to_owned();
    let shop = required(&file, "shop", &["name", "urls", "stock", "per-buyer", "certificate"], "name, urls and stock")?;
    let sale = required(&file, "sale", &["requests", "command", "sql"], "requests, command or sql")?;
    let DraftPurchase { csv, sign_up, buy, meanings, order, outcome } = purchase(&file)?;
    let books = DraftBooks::read(&file)?;
    let clean = file.table("clean", &["requests", "command"])?.as_ref().map(task).transpose()?;
    Ok(Draft {
        folder,
        name: shop.required("name", shop.text("name")?, "\"my shop\"")?.read(|name| one_line(name))?,
        urls: shop.required("urls", shop.texts("urls")?, "[\"http://127.0.0.1:8000\"]")?,
        stock: shop.required("stock", shop.whole("stock", 1..=STOCK_MAX)?, "100")?,
        per_buyer: shop.whole("per-buyer", 1..=STOCK_MAX)?,
        certificate: shop.text("certificate")?,
        sale: task(&sale)?,
        csv,
        sign_up,
        buy,
        meanings,
        order,
        outcome,
        stock_left: books.stock_left,
        order_count: books.order_count,
        queries: books.queries,
        quiet: books.quiet.unwrap_or(QUIET),
        clean,
    })
}

fn no_toml(text: ShopText<'_>, error: &toml::de::Error) -> String {
    let origin = error.span().map_or_else(|| text.name.to_owned(), |span| text.origin(span.start));
    format!("{origin}: this is no TOML: {}", error.message().trim_end())
}

fn required<'a>(file: &Keys<'a>, table: &str, known: &[&str], needed: &str) -> Result<Keys<'a>, String> {
    let found = file.table(table, known)?;
    found.ok_or_else(|| file.refuse(format!("the file has no [{table}]; add it with {needed}")))
}

/// Reads the requests of a table and what is taken from their answers.
fn steps(keys: &Keys<'_>) -> Result<DraftSteps, String> {
    let requests = keys.texts("requests")?.unwrap_or_default();
    let take = keys.named_texts("take", "name = \"$.path\"")?;
    if let (Some((name, _)), true) = (take.first(), requests.is_empty()) {
        return Err(name.refuse(format!(
            "take needs requests, whose answers it takes values from; write requests into {}",
            keys.name()
        )));
    }
    Ok(DraftSteps { requests, take })
}

fn required_steps(keys: &Keys<'_>) -> Result<DraftSteps, String> {
    let steps = steps(keys)?;
    if steps.requests.is_empty() {
        let name = keys.name();
        return Err(keys.refuse(format!("{name} has no requests; write requests = [\"curl {{{{url}}}}/…\"]")));
    }
    Ok(steps)
}

/// Reads what is done for all buyers at once, which is given in one of several ways.
fn task(keys: &Keys<'_>) -> Result<DraftTask, String> {
    let requests = keys.texts("requests")?;
    let command = keys.text("command")?;
    let sql = keys.table("sql", &["url", "statements"])?;
    match (requests, command, sql) {
        (Some(requests), None, None) => Ok(DraftTask::Requests(requests)),
        (None, Some(command), None) => Ok(DraftTask::Command(command.value)),
        (None, None, Some(sql)) => {
            let url = sql.required("url", sql.text("url")?, "\"postgres://…\"")?;
            let statements = sql.required("statements", sql.texts("statements")?, "[\"update …\"]")?;
            Ok(DraftTask::Sql { url, statements: statements.into_iter().map(|statement| statement.value).collect() })
        }
        (None, None, None) => Err(keys.refuse(format!("{} is empty; write requests or a command", keys.name()))),
        _ => Err(keys.refuse(format!("{} says in two ways what to do; keep one of them", keys.name()))),
    }
}

fn meanings(buy: &Keys<'_>) -> Result<Meanings, String> {
    let sold = buy.required("sold", patterns::of_key(buy, "sold")?, "[{ status = 200 }]")?;
    let optional = |key| patterns::of_key(buy, key).map(Option::unwrap_or_default);
    Ok(patterns::with_defaults(Meanings {
        sold,
        queued: optional("queued")?,
        sold_out: optional("sold-out")?,
        over_limit: optional("over-limit")?,
        refused: optional("refused")?,
    }))
}

/// Reads [outcome], which needs `queued` in [buy], and the other way round.
fn outcome(file: &Keys<'_>, buy: &Keys<'_>, meanings: &Meanings) -> Result<Option<DraftPoll>, String> {
    let found = file.table("outcome", &["requests", "take", "every", "within"])?;
    match (found, meanings.queued.is_empty()) {
        (None, true) => Ok(None),
        (None, false) => {
            Err(buy.refuse("queued needs [outcome], as a queued buyer has to ask; add [outcome] with requests"))
        }
        (Some(outcome), true) => Err(outcome.refuse(
            "[outcome] needs queued in [buy], as only queued buyers ask; write queued = [{ status = 202 }] into [buy]",
        )),
        (Some(outcome), false) => {
            let every = outcome.time("every")?.unwrap_or(EVERY);
            let within = outcome.time("within")?.unwrap_or(WITHIN);
            if every > within {
                return Err(outcome.refuse("every is longer than within, so nobody would ask; write a shorter every"));
            }
            Ok(Some(DraftPoll { steps: required_steps(&outcome)?, every, within }))
        }
    }
}

/// What the buyers do, from [buyers] to [outcome].
#[derive(Default)]
struct DraftPurchase {
    csv: Option<Noted<String>>,
    sign_up: DraftSteps,
    buy: DraftSteps,
    meanings: Meanings,
    order: Option<Noted<String>>,
    outcome: Option<DraftPoll>,
}

impl DraftPurchase {
    fn read(file: &Keys<'_>) -> Result<DraftPurchase, String> {
        let keys = ["requests", "take", "sold", "sold-out", "over-limit", "refused", "queued", "order"];
        let buy = required(file, "buy", &keys, "requests and sold")?;
        let buyers = file.table("buyers", &["csv", "requests", "take"])?;
        let sign_up = buyers.as_ref().map(steps).transpose()?.unwrap_or_default();
        let csv = buyers.as_ref().map(|buyers| buyers.text("csv")).transpose()?.flatten();
        if let (Some(buyers), None, true) = (&buyers, &csv, sign_up.requests.is_empty()) {
            return Err(buyers.refuse("[buyers] has neither csv nor requests; write one of them, or remove [buyers]"));
        }
        let meanings = meanings(&buy)?;
        let outcome = outcome(file, &buy, &meanings)?;
        Ok(DraftPurchase { csv, sign_up, buy: required_steps(&buy)?, meanings, order: buy.text("order")?, outcome })
    }
}

/// The parts of [books].
#[derive(Default)]
struct DraftBooks {
    stock_left: Option<DraftReading>,
    order_count: Option<DraftReading>,
    queries: Option<DraftQueries>,
    quiet: Option<Duration>,
}

impl DraftBooks {
    fn read(file: &Keys<'_>) -> Result<DraftBooks, String> {
        let Some(books) = file.table("books", &["stock", "orders", "sql", "quiet"])? else {
            return Ok(DraftBooks::default());
        };
        let found = DraftBooks {
            stock_left: reading(&books, "stock", "value")?,
            order_count: reading(&books, "orders", "count")?,
            queries: queries(&books)?,
            quiet: books.time("quiet")?,
        };
        if found.stock_left.is_none() && found.order_count.is_none() && found.queries.is_none() {
            return Err(books.refuse("[books] is empty; write stock, orders or sql, or remove [books]"));
        }
        Ok(found)
    }
}

fn reading(books: &Keys<'_>, key: &str, source: &str) -> Result<Option<DraftReading>, String> {
    let Some(keys) = books.table(key, &["request", source])? else { return Ok(None) };
    let request = keys.required("request", keys.text("request")?, "\"curl {{url}}/…\"")?;
    let source = keys.required(source, keys.text(source)?, "\"$.path\"")?;
    Ok(Some(DraftReading { request, source }))
}

fn queries(books: &Keys<'_>) -> Result<Option<DraftQueries>, String> {
    let Some(keys) = books.table("sql", &["url", "stock", "orders"])? else { return Ok(None) };
    let url = keys.required("url", keys.text("url")?, "\"postgres://…\"")?;
    let stock = keys.text("stock")?.map(|query| query.value);
    let orders = keys.text("orders")?.map(|query| query.value);
    if stock.is_none() && orders.is_none() {
        return Err(keys.refuse("sql has no query; write stock = \"select …\" or orders = \"select …\""));
    }
    Ok(Some(DraftQueries { url, stock, orders }))
}
