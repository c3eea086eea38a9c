//! The variables of the environment in which a script finds what it may not show: each secret of the shop file has its own.

use std::collections::{BTreeMap, BTreeSet};

use buyers::script::{Body, ScriptRequest, Template};
use reqwest::header::HeaderName;

use super::shell::{is_name, of_environment, variable};
use crate::shop::database::DatabaseUrl;
use crate::shop::described::{Shop, Task};
use crate::shop::scope::ENV;

/// The variables that a script needs.
#[derive(Debug)]
pub(super) struct ScriptVariables<'a> {
    shop: &'a Shop,
    needed: Vec<ScriptVariable>,
    /// The variable of each secret that the shop file writes out.
    of_secrets: BTreeMap<String, String>,
}

/// A variable, and where the shop file has its value.
#[derive(Debug)]
struct ScriptVariable {
    name: String,
    value: String,
    spots: Vec<String>,
    remedy: &'static str,
}

/// What has a secret in a request.
#[derive(Debug, Clone, Copy)]
enum Holder<'a> {
    Header(&'a HeaderName),
    Text(&'static str),
}

impl<'a> ScriptVariables<'a> {
    /// Finds what a script of this many buyers needs.
    pub(super) fn of(shop: &'a Shop, buyers: usize) -> ScriptVariables<'a> {
        let mut variables = ScriptVariables { shop, needed: Vec::new(), of_secrets: BTreeMap::new() };
        for (section, request) in requests(shop) {
            let place = format!("{section} ({})", request.origin);
            variables.note(Holder::Text("the URL"), &request.url, &place);
            for (name, value) in &request.headers {
                variables.note(Holder::Header(name), value, &place);
            }
            match &request.body {
                Body::Empty => {}
                Body::Text(body) => variables.note(Holder::Text("the body"), body, &place),
                Body::Form(parts) => {
                    parts.iter().for_each(|part| variables.note(Holder::Text("the form"), &part.value, &place));
                }
            }
        }
        if let Some(queries) = &shop.books.queries {
            let texts = queries.stock.iter().chain(&queries.orders);
            texts.for_each(|text| variables.note_text(Holder::Text("the SQL"), text, "[books]"));
            variables.note_database(&queries.url, "[books]", "SHOP");
        }
        match &shop.sale {
            Task::Requests(_) => {}
            Task::Command(command) => variables.note_text(Holder::Text("the command"), &command.text, "[sale]"),
            Task::Sql(sql) => {
                sql.statements.iter().for_each(|text| variables.note_text(Holder::Text("the SQL"), text, "[sale]"));
                // The books may have the same database.
                variables.note_database(&sql.url, "[sale]", "SALE");
            }
        }
        variables.note_buyers(buyers);
        variables
    }

    /// Tells how a text is written: in pieces, of which some are expansions of a variable.
    pub(super) fn pieces<'t>(&self, text: &'t str) -> Vec<(&'t str, Option<String>)> {
        let secrets = &self.shop.secrets;
        let of = |piece: &str| self.of_secrets.get(piece).map(|name| of_environment(name));
        secrets.split(text).into_iter().map(|(piece, is_secret)| (piece, of(piece).filter(|_| is_secret))).collect()
    }

    /// Names the variable of a database.
    pub(super) fn of_database(&self, url: &DatabaseUrl) -> Option<&str> {
        self.of_secrets.get(url.text()).map(String::as_str)
    }

    /// Lists the variables for the user.
    pub(super) fn comment(&self) -> String {
        if self.needed.is_empty() {
            return String::new();
        }
        let line = |variable: &ScriptVariable| {
            format!("#   {}: {} in {}\n", variable.name, variable.value, variable.spots.join(" and "))
        };
        let lines: String = self.needed.iter().map(line).collect();
        format!("# Needs these variables of the environment, with the values that the shop file has:\n{lines}")
    }

    /// Writes the commands that end the script if a variable is missing.
    pub(super) fn ensured(&self) -> String {
        let line = |variable: &ScriptVariable| {
            let ScriptVariable { name, remedy, .. } = variable;
            format!(": \"${{{name}:?{remedy}}}\"\n")
        };
        self.needed.iter().filter(|variable| is_name(&variable.name)).map(line).collect()
    }

    fn note(&mut self, holder: Holder<'_>, template: &Template, place: &str) {
        for variable in template.names().filter_map(|name| name.strip_prefix(ENV)) {
            self.need(variable, &format!("{{{{env.{variable}}}}}"), place);
        }
        self.note_text(holder, &template.to_string(), place);
    }

    /// Notes the secrets that a text has.
    fn note_text(&mut self, holder: Holder<'_>, text: &str, place: &str) {
        let shop = self.shop;
        let mut before = "";
        for (piece, is_secret) in shop.secrets.split(text) {
            if is_secret {
                let known = self.of_secrets.get(piece).cloned().or_else(|| self.of_environment(piece));
                let name = known.unwrap_or_else(|| self.free_name(holder));
                let value = match holder {
                    Holder::Header(header) if before.trim_end().eq_ignore_ascii_case("basic") => {
                        format!("NAME:PASSWORD in base64, of the header {header}")
                    }
                    Holder::Header(header) => format!("the secret of the header {header}"),
                    Holder::Text(what) => format!("the secret of {what}"),
                };
                self.need(&name, &value, place);
                self.of_secrets.insert(piece.to_owned(), name);
            }
            before = piece;
        }
    }

    /// Returns the variable of the environment that the shop file names for this secret.
    fn of_environment(&self, secret: &str) -> Option<String> {
        let mut environment = self.shop.environment.iter();
        environment.find(|(_, value)| *value == secret).and_then(|(name, _)| name.strip_prefix(ENV)).map(str::to_owned)
    }

    fn note_database(&mut self, url: &DatabaseUrl, section: &str, owner: &str) {
        let Some(value) = url.needs() else { return };
        let name = match self.of_secrets.get(url.text()) {
            Some(name) => name.clone(),
            None => self.free(&format!("{owner}_DATABASE")),
        };
        self.need(&name, value, section);
        self.of_secrets.insert(url.text().to_owned(), name);
    }

    /// Notes the secrets of the buyers, as far as requests have them.
    fn note_buyers(&mut self, buyers: usize) {
        let shop = self.shop;
        let Some(people) = &shop.people else { return };
        let used: BTreeSet<&str> = requests(shop).into_iter().flat_map(|(_, request)| names(request)).collect();
        let secret = people.names().iter().filter(|name| used.contains(&***name) && shop.secrets.is_secret(name));
        for name in secret {
            for number in 0..buyers {
                self.needed.push(ScriptVariable {
                    name: variable(name, number),
                    value: format!("{name} of this buyer"),
                    spots: vec![people.file().to_owned()],
                    remedy: "set it to the value of this buyer",
                });
            }
        }
    }

    fn need(&mut self, name: &str, value: &str, place: &str) {
        let place = place.to_owned();
        match self.needed.iter_mut().find(|known| known.name == name) {
            Some(known) if known.spots.contains(&place) => {}
            Some(known) => known.spots.push(place),
            None => {
                self.needed.push(ScriptVariable {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    spots: vec![place],
                    remedy: "set it to the value that the shop file has",
                });
            }
        }
    }

    fn free_name(&self, holder: Holder<'_>) -> String {
        match holder {
            Holder::Header(header) => {
                let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
                self.free(&format!("SHOP_{}", header.as_str().to_uppercase().chars().map(letter).collect::<String>()))
            }
            Holder::Text(_) => self.free("SHOP_SECRET"),
        }
    }

    /// Returns a name that no other variable has.
    fn free(&self, name: &str) -> String {
        let is_taken = |name: &str| {
            self.needed.iter().any(|known| known.name == name)
                || self.shop.environment.contains_key(&format!("{ENV}{name}"))
        };
        let further = (2_u32..).map(|number| format!("{name}_{number}"));
        std::iter::once(name.to_owned()).chain(further).find(|name| !is_taken(name)).unwrap_or_default()
    }
}

/// Returns the requests that a script sends, each with its section.
fn requests(shop: &Shop) -> Vec<(&'static str, &ScriptRequest)> {
    let script = &shop.script;
    let sale = match &shop.sale {
        Task::Requests(requests) => requests.as_slice(),
        Task::Command(_) | Task::Sql(_) => &[],
    };
    let outcome = script.outcome.as_ref().map_or(&[][..], |poll| poll.steps.requests.as_slice());
    let parts = [
        ("[sale]", sale),
        ("[buyers]", script.sign_up.requests.as_slice()),
        ("[buy]", script.buy.requests.as_slice()),
        ("[outcome]", outcome),
    ];
    let pages = [&shop.books.stock, &shop.books.orders].into_iter().flatten().map(|page| ("[books]", &page.request));
    parts
        .into_iter()
        .flat_map(|(section, all)| all.iter().map(move |request| (section, request)))
        .chain(pages)
        .collect()
}

/// Returns the names of the values in a request.
fn names(request: &ScriptRequest) -> Vec<&str> {
    let body: Vec<&Template> = match &request.body {
        Body::Empty => Vec::new(),
        Body::Text(body) => vec![body],
        Body::Form(parts) => parts.iter().map(|part| &part.value).collect(),
    };
    let headers = request.headers.iter().map(|(_, value)| value);
    [&request.url].into_iter().chain(headers).chain(body).flat_map(Template::names).collect()
}
