//! The requests of a shop, as a script sends them by curl.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use buyers::script::{Body, FormPart, ScriptRequest, Source, Steps, Template, encoded};
use reqwest::Method;

use super::shell::{Word, of_environment, plain, take, variable};
use super::variables::ScriptVariables;
use crate::shop::described::Shop;
use crate::shop::scope::ENV;

/// Writes requests with the values of their buyers.
#[derive(Debug)]
pub(super) struct ShellRequests<'a> {
    shop: &'a Shop,
    variables: &'a ScriptVariables<'a>,
    /// The names of the values that answers give.
    taken: BTreeSet<&'a str>,
    pub(super) has_cookies: bool,
}

/// What a buyer does by some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuyerPart {
    /// Signs up. A script ends if that fails.
    SignUp,
    /// Buys. An early answer may end the purchase.
    Purchase,
    /// Asks for the outcome.
    Outcome,
}

/// The sender of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sender {
    /// The number of the buyer, whose values they have.
    pub(super) buyer: usize,
    /// The name of the files with the answers.
    pub(super) name: String,
}

impl Sender {
    /// Returns a buyer that signs up.
    pub(super) fn of(buyer: usize) -> Sender {
        Sender { buyer, name: buyer.to_string() }
    }
}

/// How the values of a text are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As they are.
    Plain,
    /// Encoded behind the host.
    Url,
    /// In the quotation marks of `curl --form`.
    Quoted,
}

impl<'a> ShellRequests<'a> {
    pub(super) fn of(shop: &'a Shop, variables: &'a ScriptVariables<'a>) -> ShellRequests<'a> {
        let script = &shop.script;
        let polled = script.outcome.iter().map(|poll| &poll.steps);
        let steps = [&script.sign_up, &script.buy].into_iter().chain(polled);
        let taken = steps.flat_map(|steps| steps.take.keys().map(String::as_str)).chain(["order"]).collect();
        // Of several requests, one may need the cookie of an earlier one.
        let has_cookies = script.sign_up.requests.len() + script.buy.requests.len() > 1 || script.outcome.is_some();
        ShellRequests { shop, variables, taken, has_cookies }
    }

    /// Writes requests, each with the values that are taken from its answer.
    pub(super) fn steps(&self, steps: &Steps, sender: &Sender, (indent, part): (&str, BuyerPart)) -> String {
        let mut text = String::new();
        let Sender { buyer, name } = sender;
        for (position, request) in steps.requests.iter().enumerate() {
            let _ = writeln!(text, "{indent}curl_as {name} {}", self.curl(request, Some(sender)));
            let is_last = position + 1 == steps.requests.len();
            match part {
                BuyerPart::SignUp => {
                    let _ = writeln!(text, "{indent}succeeds {name} '[buyers] of buyer {buyer}' form");
                }
                BuyerPart::Purchase if !is_last => {
                    let _ = writeln!(
                        text,
                        "{indent}case $(meaning {name}) in sold-out | over-limit | refused) exit ;; esac"
                    );
                }
                BuyerPart::Purchase | BuyerPart::Outcome => {}
            }
            for (value, source) in &steps.take {
                let _ = writeln!(text, "{indent}{}", taking(&variable(value, *buyer), source, name));
            }
        }
        text
    }

    /// Writes the arguments of curl for a request, of a buyer if there is one.
    pub(super) fn curl(&self, request: &ScriptRequest, sender: Option<&Sender>) -> String {
        let number = sender.map(|sender| sender.buyer);
        let method = match request.method {
            Method::HEAD => "--head".to_owned(),
            ref method => format!("-X {method}"),
        };
        let mut words = vec![method, self.word("", &request.url, number, Spelling::Url)];
        for (name, value) in &request.headers {
            words.push(format!("-H {}", self.word(&format!("{name}: "), value, number, Spelling::Plain)));
        }
        match &request.body {
            Body::Empty => {}
            Body::Text(body) => {
                words.push(format!("--data-raw {}", self.word("", body, number, Spelling::Plain)));
            }
            Body::Form(parts) => words.extend(parts.iter().map(|part| self.form_part(part, number))),
        }
        if request.follows {
            words.push("-L".to_owned());
        }
        if let Some(within) = request.within {
            words.push(format!("--max-time {}", within.as_secs_f64()));
        }
        if let (true, Some(sender)) = (self.has_cookies, sender) {
            words.push(jar(&sender.name));
        }
        words.join(" ")
    }

    /// Writes a text, which has no values, as one word of the shell.
    pub(super) fn text(&self, text: &str) -> String {
        let mut word = Word::default();
        self.add(&mut word, text);
        word.written()
    }

    /// Writes a part of a form. Without a type, curl takes its value as it is.
    fn form_part(&self, part: &FormPart, number: Option<usize>) -> String {
        let FormPart { name, value, file_name, mime } = part;
        if file_name.is_none() && mime.is_none() {
            return format!("--form-string {}", self.word(&format!("{name}="), value, number, Spelling::Plain));
        }
        let file_name = file_name.iter().map(|name| format!(";filename=\"{}\"", quoted(name)));
        let mime = mime.iter().map(|mime| format!(";type={mime}"));
        let rest: String = ["\"".to_owned()].into_iter().chain(file_name).chain(mime).collect();
        let value = self.word(&format!("{name}=\""), value, number, Spelling::Quoted);
        format!("-F {value}{}", plain(&rest))
    }

    /// Writes a text with its values as one word of the shell.
    fn word(&self, beginning: &str, template: &Template, number: Option<usize>, spelling: Spelling) -> String {
        let values = number.map_or_else(|| self.shop.values(), |number| self.shop.values_of(number));
        let mut word = Word::default();
        word.text(beginning);
        let text = template.to_string();
        let mut rest = text.as_str();
        let spelt = |text: &str| if spelling == Spelling::Quoted { quoted(text) } else { text.to_owned() };
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, behind) = after.split_once("}}").unwrap_or((after, ""));
            self.add(&mut word, &spelt(before));
            let is_in_path = spelling == Spelling::Url && !word.is_empty();
            match self.expansion(name, number) {
                Some(value) if is_in_path => word.shell(&format!("$(uri \"{value}\")")),
                Some(value) => word.shell(&value),
                None => {
                    let value = values.get(name).map_or("", String::as_str);
                    self.add(&mut word, &if is_in_path { encoded(value) } else { spelt(value) });
                }
            }
            rest = behind;
        }
        self.add(&mut word, &spelt(rest));
        word.written()
    }

    /// Writes what the shell replaces by a value. `None` for a value that the script may show.
    fn expansion(&self, name: &str, number: Option<usize>) -> Option<String> {
        if let Some(name) = name.strip_prefix(ENV) {
            return Some(of_environment(name));
        }
        let number = number?;
        (self.taken.contains(name) || self.shop.secrets.is_secret(name)).then(|| format!("${}", variable(name, number)))
    }

    /// Adds a text to a word, with variables in the place of its secrets.
    fn add(&self, word: &mut Word, text: &str) {
        for (piece, secret) in self.variables.pieces(text) {
            match secret {
                Some(expansion) => word.shell(&expansion),
                None => word.text(piece),
            }
        }
    }
}

/// Writes what takes a value of the last answer. The one that is known stays, unless there is another one.
pub(super) fn taking(variable: &str, source: &Source, name: &str) -> String {
    format!("taken={}; {variable}=${{taken:-${{{variable}:-}}}}", take(source, name))
}

/// Writes the arguments of curl that keep cookies under a name.
pub(super) fn jar(name: &str) -> String {
    format!("-b \"$folder/{name}.jar\" -c \"$folder/{name}.jar\"")
}

/// Writes a text for the quotation marks of `curl --form`.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
