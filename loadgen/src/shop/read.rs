//! Makes a shop of what a file or the command line says.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use buyers::script::{Body, FormPart, Poll, Script, ScriptRequest, Source, Steps, Template, Values};
use goose::goose::Scenario;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HOST};

use super::address::{self, allowed, base_urls};
use super::curl::{self, CurlBody, CurlPart, CurlRequest};
use super::database::DatabaseUrl;
use super::described::{BookQueries, PageNumber, ShellCommand, Shop, ShopBooks, Statements, Task};
use super::draft::{Draft, DraftQueries, DraftReading, DraftSteps, DraftTask};
use super::file;
use super::keys::ShopText;
use super::noted::Noted;
use super::people::People;
use super::scope::{ENV, NUMBER, ORDER, Scope, URL, is_reserved};
use super::secrets::{Secrets, is_secret_header};
use crate::error::Error;

/// Returns a variable of the environment.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a shop file, the files that it names, and the variables of the environment that it uses.
///
/// # Errors
///
/// [`Error::Usage`] with the line, what was seen there, and the remedy.
pub(crate) fn read(path: &Path) -> Result<Shop, Error> {
    read_by(path, file::draft)
}

/// Reads a shop file for a scenario, which buys in the place of the file's buyers. The parts that it replaces are not read.
///
/// # Errors
///
/// [`Error::Usage`] with the line, what was seen there, and the remedy.
pub(crate) fn read_for_scenario(path: &Path, scenario: Scenario) -> Result<Shop, Error> {
    Ok(Shop { scenario: Some(scenario), ..read_by(path, file::draft_for_scenario)? })
}

fn read_by(path: &Path, draft: impl FnOnce(ShopText<'_>) -> Result<Draft, String>) -> Result<Shop, Error> {
    let name = path.display().to_string();
    let unreadable = |error| Error::Usage(format!("the shop {name} cannot be read: {error}; see loadgen check --init"));
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let draft = draft(ShopText { name: &name, text: &text });
    draft.and_then(|draft| of(draft, &variable)).map_err(Error::Usage)
}

/// Reads the text of a shop file.
#[cfg(test)]
pub(super) fn parse(text: ShopText<'_>, lookup: Lookup<'_>) -> Result<Shop, String> {
    of(file::draft(text)?, lookup)
}

/// Returns a variable of this process.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Makes a shop.
pub(super) fn of(draft: Draft, lookup: Lookup<'_>) -> Result<Shop, String> {
    let urls = base_urls(&draft.urls)?;
    let people = draft.csv.as_ref().map(|csv| csv.read(|csv| People::read(&draft.folder.join(csv)))).transpose()?;
    let scopes = Scopes::of(&draft, people.as_ref())?;
    let mut reader = ShopReader {
        folder: draft.folder.clone(),
        urls,
        lookup,
        environment: Values::new(),
        secrets: Secrets::default(),
    };
    let sale = reader.task(&draft.sale, &scopes.for_all)?;
    let script = reader.script(&draft, scopes.buyer)?;
    let books = ShopBooks {
        stock: draft.stock_left.as_ref().map(|page| reader.page(page, &scopes.for_all)).transpose()?,
        orders: draft.order_count.as_ref().map(|page| reader.page(page, &scopes.for_all)).transpose()?,
        queries: draft.queries.as_ref().map(|queries| reader.queries(queries, &scopes.for_all)).transpose()?,
        quiet: draft.quiet,
    };
    let clean = draft.clean.as_ref().map(|task| reader.task(task, &scopes.for_all)).transpose()?;
    let certificate = draft.certificate.as_ref().map(|path| certificate(path, &draft.folder)).transpose()?;
    let ShopReader { urls, environment, secrets, .. } = reader;
    let Draft { name, stock, per_buyer, .. } = draft;
    Ok(Shop {
        name,
        urls,
        stock,
        per_buyer,
        certificate,
        sale,
        people,
        script,
        scenario: None,
        books,
        clean,
        secrets,
        environment,
    })
}

fn certificate(path: &Noted<String>, folder: &Path) -> Result<Vec<u8>, String> {
    let file = folder.join(&path.value);
    let unreadable = |error| path.refuse(format!("could not read the certificate {}: {error}", file.display()));
    let pem = std::fs::read(&file).map_err(unreadable)?;
    if String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Ok(pem);
    }
    Err(path
        .refuse(format!("{} has no certificate; name a file of PEM with -----BEGIN CERTIFICATE-----", file.display())))
}

/// The values that exist for a buyer at first, and for what is done once for all buyers.
struct Scopes {
    buyer: Scope,
    for_all: Scope,
}

impl Scopes {
    fn of(draft: &Draft, people: Option<&People>) -> Result<Scopes, String> {
        let columns = people.map_or(&[][..], People::names);
        let parts = [Some(&draft.sign_up), Some(&draft.buy), draft.outcome.as_ref().map(|outcome| &outcome.steps)];
        let taken: Vec<&Noted<String>> =
            parts.into_iter().flatten().flat_map(|steps| &steps.take).map(|(name, _)| name).collect();
        for name in &taken {
            name.read(|name| free_name(name, columns))?;
        }
        let mut buyer = Scope::of([URL, NUMBER]);
        let mut for_all = Scope::of([URL]);
        let single = "it belongs to one buyer, and this is done once for all buyers";
        for_all.lacks(NUMBER, single);
        for_all.lacks(ORDER, single);
        for column in columns {
            buyer.add(column);
            for_all.lacks(column, single);
        }
        for name in taken {
            for_all.lacks(&name.value, single);
        }
        Ok(Scopes { buyer, for_all })
    }
}

/// Checks the name of a value that is taken.
fn free_name(name: &str, columns: &[String]) -> Result<(), String> {
    if is_reserved(name) {
        return Err(format!("{name:?} is a value that every shop has; take it by another name"));
    }
    if columns.iter().any(|column| column == name) {
        return Err(format!("{name:?} is also a column of the CSV; take it by another name"));
    }
    match Template::parse(&format!("{{{{{name}}}}}")) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{name:?} is no name of a value; write letters, digits, _ and -")),
    }
}

/// Reads the parts of a shop one after the other.
struct ShopReader<'a> {
    folder: PathBuf,
    urls: Vec<Url>,
    lookup: Lookup<'a>,
    environment: Values,
    secrets: Secrets,
}

impl ShopReader<'_> {
    /// Reads what a buyer does. The values of each part exist in the later ones.
    fn script(&mut self, draft: &Draft, mut scope: Scope) -> Result<Script, String> {
        let polled = draft.outcome.iter().flat_map(|outcome| &outcome.steps.take);
        for (name, _) in polled {
            scope.lacks(&name.value, "[outcome] takes it, and [outcome] comes last");
        }
        for (name, _) in &draft.buy.take {
            scope.lacks(&name.value, "[buy] takes it, and [buy] comes after [buyers]");
        }
        let has_order = draft.order.is_some();
        let no_order = "nothing says where it is; write order = \"$.path\" into [buy], and use it in [outcome]";
        scope.lacks(
            ORDER,
            if has_order { "the last answer of [buy] gives it, so only [outcome] has it" } else { no_order },
        );
        let sign_up = self.steps(&draft.sign_up, "[buyers]", &mut scope)?;
        let buy = self.steps(&draft.buy, "[buy]", &mut scope)?;
        if has_order {
            scope.add(ORDER);
        }
        let outcome = match &draft.outcome {
            Some(outcome) => {
                let steps = self.steps(&outcome.steps, "[outcome]", &mut scope)?;
                Some(Poll { steps, every: outcome.every, within: outcome.within })
            }
            None => None,
        };
        let order = draft.order.as_ref().map(|order| order.read(|order| Source::parse(order))).transpose()?;
        Ok(Script { sign_up, buy, outcome, meanings: draft.meanings.clone(), order })
    }

    /// Reads requests in their order. What they take exists from the second one on.
    fn steps(&mut self, draft: &DraftSteps, part: &str, scope: &mut Scope) -> Result<Steps, String> {
        let mut steps = Steps::default();
        let mut first = scope.clone();
        for (name, _) in &draft.take {
            first.lacks(&name.value, format!("{part} takes it, and this is the first request of {part}"));
        }
        for (name, source) in &draft.take {
            scope.add(&name.value);
            steps.take.insert(name.value.clone(), source.read(|source| Source::parse(source))?);
        }
        for (number, request) in draft.requests.iter().enumerate() {
            steps.requests.push(self.request(request, if number == 0 { &first } else { scope })?);
        }
        Ok(steps)
    }

    fn task(&mut self, draft: &DraftTask, scope: &Scope) -> Result<Task, String> {
        Ok(match draft {
            DraftTask::Requests(requests) => {
                Task::Requests(requests.iter().map(|request| self.request(request, scope)).collect::<Result<_, _>>()?)
            }
            DraftTask::Command(text) => Task::Command(ShellCommand { text: text.clone(), folder: self.folder.clone() }),
            DraftTask::Sql { url, statements } => {
                Task::Sql(Statements { url: self.database(url, scope)?, statements: statements.clone() })
            }
        })
    }

    fn page(&mut self, draft: &DraftReading, scope: &Scope) -> Result<PageNumber, String> {
        let request = self.request(&draft.request, scope)?;
        Ok(PageNumber { request, source: draft.source.read(|source| Source::parse(source))? })
    }

    fn queries(&mut self, draft: &DraftQueries, scope: &Scope) -> Result<BookQueries, String> {
        let url = self.database(&draft.url, scope)?;
        Ok(BookQueries { url, stock: draft.stock.clone(), orders: draft.orders.clone() })
    }

    /// Reads the URL of a database, which may name variables of the environment.
    fn database(&mut self, url: &Noted<String>, scope: &Scope) -> Result<DatabaseUrl, String> {
        let template = self.template(&url.value, scope).map_err(|what| url.refuse(what))?;
        let filled = url.read(|_| template.fill(&self.environment))?;
        let database = url.read(|_| DatabaseUrl::read(&filled, &self.folder))?;
        if let Some(password) = Url::parse(&filled).ok().as_ref().and_then(Url::password) {
            self.secrets.add_text(password);
        }
        Ok(database)
    }

    fn request(&mut self, line: &Noted<String>, scope: &Scope) -> Result<ScriptRequest, String> {
        self.read_request(line, scope).map_err(|what| line.refuse(what))
    }

    fn read_request(&mut self, line: &Noted<String>, scope: &Scope) -> Result<ScriptRequest, String> {
        let CurlRequest { method, url, headers, body, follows, within, user } = curl::read(&line.value, &self.folder)?;
        let url = self.template(&allowed(&url, &self.urls)?, scope)?;
        let mut read = Vec::new();
        for (name, value) in headers {
            if name == HOST && self.is_own_host(&value) {
                continue;
            }
            let value = self.template(&value, scope)?;
            if is_secret_header(&name) {
                self.secrets.add_header(&name, &value);
            }
            read.push((name, value));
        }
        if let Some(user) = user {
            let value = self.basic(&user, scope)?;
            self.secrets.add_header(&AUTHORIZATION, &value);
            read.push((AUTHORIZATION, value));
        }
        let body = match body {
            CurlBody::Empty => Body::Empty,
            CurlBody::Text(text) => Body::Text(self.template(&text, scope)?),
            CurlBody::Form(parts) => {
                Body::Form(parts.into_iter().map(|part| self.form_part(part, scope)).collect::<Result<_, _>>()?)
            }
        };
        Ok(ScriptRequest { origin: line.origin.clone(), method, url, headers: read, body, follows, within })
    }

    /// Tells whether a header `Host` repeats an address of the shop. Copies of a browser have it, and the client writes it.
    fn is_own_host(&self, host: &str) -> bool {
        let authority = |url: &Url| address::address(url).split_once("://").map(|(_, rest)| rest.to_owned());
        self.urls.iter().filter_map(authority).any(|own| own == host)
    }

    fn form_part(&mut self, part: CurlPart, scope: &Scope) -> Result<FormPart, String> {
        let CurlPart { name, value, file_name, mime } = part;
        Ok(FormPart { name, value: self.template(&value, scope)?, file_name, mime })
    }

    /// Makes the credentials of `--user`. They are encoded now, so they cannot have a value that differs from buyer to buyer.
    fn basic(&mut self, user: &str, scope: &Scope) -> Result<Template, String> {
        let template = self.template(user, scope)?;
        if let Some(name) = template.names().find(|name| !name.starts_with(ENV)) {
            return Err(format!(
                "curl's --user cannot have {{{{{name}}}}}, because it is encoded before buyers have values; write the \
                 password or {{{{env.NAME}}}}, or take a token from a login"
            ));
        }
        let filled = template.fill(&self.environment).map_err(|missing| missing.to_string())?;
        if let Some((_, password)) = filled.split_once(':') {
            self.secrets.add_text(password);
        }
        Template::parse(&format!("Basic {}", BASE64_STANDARD.encode(&filled))).map_err(|error| error.to_string())
    }

    /// Reads a text with values, which all have to exist.
    fn template(&mut self, text: &str, scope: &Scope) -> Result<Template, String> {
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        scope.check(&template)?;
        for name in template.names() {
            if let Some(variable) = name.strip_prefix(ENV) {
                let found = (self.lookup)(variable).filter(|value| !value.is_empty()).ok_or_else(|| {
                    format!("the environment has no variable {variable}; set it, as in `export {variable}=…`")
                })?;
                self.secrets.add_variable(name, &found);
                self.environment.insert(name.to_owned(), found);
            }
        }
        Ok(template)
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;
