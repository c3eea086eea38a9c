//! Texts that no report, log or screen may show.

use std::collections::BTreeSet;
use std::fmt;

use buyers::script::Template;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderName, PROXY_AUTHORIZATION};

use super::scope::{ENV, NUMBER, ORDER, URL};

/// What stands for a secret.
pub(crate) const HIDDEN: &str = "…";

/// A shorter text is no secret of its own. Else the letter `a` could not be shown any more.
const BYTES_MIN: usize = 4;

/// Tells whether a header carries a secret.
pub(crate) fn is_secret_header(name: &HeaderName) -> bool {
    let own = name.as_str().strip_prefix("x-");
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name)
        || ["api-key", "apikey"].contains(&name.as_str())
        || own.is_some_and(|own| ["token", "key", "secret", "password"].iter().any(|end| own.ends_with(end)))
}

/// Tells whether a value of a buyer is a secret by its name, such as `password` or `auth_token`.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "secret", "token", "jwt", "auth", "session", "cookie", "apikey"].iter().any(|part| name.contains(part))
        || ["pw", "pwd", "pin", "key"].contains(&&*name)
        || name.ends_with("_key")
}

/// The secrets of a shop: variables of the environment, and what secret headers have.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// Names of values, and of headers, which may be shown.
    names: BTreeSet<String>,
    texts: BTreeSet<String>,
}

impl Secrets {
    /// Adds a variable of the environment.
    pub(super) fn add_variable(&mut self, name: &str, text: &str) {
        self.names.insert(name.to_owned());
        self.add_text(text);
    }

    /// Adds what a secret header has: its values, and the credentials that are written out in it.
    pub(super) fn add_header(&mut self, header: &HeaderName, template: &Template) {
        let own = [URL, NUMBER, ORDER];
        let taken = template.names().filter(|name| !own.contains(name) && !name.starts_with(ENV));
        self.names.extend(taken.map(str::to_owned));
        if template.names().next().is_some() {
            return;
        }
        self.names.insert(header.to_string());
        let text = template.to_string();
        if *header == COOKIE {
            text.split(';').filter_map(|pair| pair.split_once('=')).for_each(|(_, value)| self.add_text(value));
        } else {
            // The scheme, such as `Bearer`, is no secret.
            self.add_text(text.split_once(' ').map_or(text.as_str(), |(_, credentials)| credentials));
        }
    }

    /// Adds a text that only the shop and its user know.
    pub(super) fn add_text(&mut self, text: &str) {
        let text = text.trim();
        if text.len() >= BYTES_MIN {
            self.texts.insert(text.to_owned());
        }
    }

    /// Returns the names of the secret values and headers.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Tells whether a value is a secret: a secret header has it, or its name says so.
    pub(super) fn is_secret(&self, name: &str) -> bool {
        self.names.contains(name) || is_secret_name(name)
    }

    /// Cuts a text at the secrets that the file has. Tells of each piece whether it is one.
    pub(super) fn split<'a>(&self, text: &'a str) -> Vec<(&'a str, bool)> {
        let mut pieces = Vec::new();
        let mut rest = text;
        // Of two secrets that begin at the same letter, the longer one counts.
        let first = |rest: &str| {
            let found = self.texts.iter().filter_map(|secret| Some((rest.find(secret)?, secret.len())));
            found.min_by_key(|(at, length)| (*at, std::cmp::Reverse(*length)))
        };
        while let Some((at, length)) = first(rest) {
            let (before, from) = rest.split_at(at);
            let (secret, after) = from.split_at(length);
            pieces.extend([(before, false), (secret, true)]);
            rest = after;
        }
        pieces.push((rest, false));
        pieces.retain(|(piece, _)| !piece.is_empty());
        pieces
    }

    /// Hides the secrets that the file has, in a text. Values of a buyer are hidden where they are filled in.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut secrets: Vec<&String> = self.texts.iter().collect();
        // A secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(&self.names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add_variable("env.KEY", "k3y-of-shop");
        secrets.add_variable("env.SHORT", "ab");
        let template = |text| Template::parse(text).unwrap();
        secrets.add_header(&AUTHORIZATION, &template("Bearer {{token}}"));
        secrets.add_header(&AUTHORIZATION, &template("Basic bWU6c2VjcmV0"));
        secrets.add_header(&COOKIE, &template("session=0a1b2c3d; theme=dark-mode"));
        secrets
    }

    #[test]
    fn every_secret_of_the_file_is_hidden() {
        let hidden = secrets().hide("k3y-of-shop cab ab! bWU6c2VjcmV0 0a1b2c3d session dark-mode Bearer");
        assert_eq!(hidden, "… cab ab! … … session … Bearer");
    }

    #[test]
    fn only_names_of_secrets_are_printed() {
        let secrets = secrets();
        let names: Vec<_> = secrets.names().iter().collect();
        assert_eq!(names, ["authorization", "cookie", "env.KEY", "env.SHORT", "token"]);
        assert_eq!(format!("{secrets:?}"), r#"{"authorization", "cookie", "env.KEY", "env.SHORT", "token"}"#);
    }

    #[test]
    fn values_with_the_name_of_a_secret_are_secret() {
        assert!(
            ["token", "password", "pw", "auth_token", "jwt", "api_key"].iter().all(|name| secrets().is_secret(name))
        );
        assert!(!["phone", "number", "email", "pwsize", "keyword"].iter().any(|name| secrets().is_secret(name)));
    }

    #[test]
    fn headers_with_credentials_are_secret() {
        let is_secret = |name: &'static str| is_secret_header(&HeaderName::from_static(name));
        let all = ["authorization", "cookie", "x-token", "x-csrf-token", "x-api-key", "proxy-authorization", "apikey"];
        assert!(all.into_iter().all(is_secret));
        assert!(!["content-type", "x-request-id", "token-hint"].into_iter().any(is_secret));
    }
}
