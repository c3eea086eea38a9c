//! The values that a request may use: those that exist when it is sent.

use std::collections::{BTreeMap, BTreeSet};

use buyers::script::Template;
use program::did_you_mean;

/// Beginning of the names of variables of the environment.
pub(super) const ENV: &str = "env.";
/// The address of the shop.
pub(super) const URL: &str = "url";
/// The number of the buyer.
pub(super) const NUMBER: &str = "number";
/// The number of the order.
pub(super) const ORDER: &str = "order";

/// Tells whether a value of every shop has this name.
pub(super) fn is_reserved(name: &str) -> bool {
    [URL, NUMBER, ORDER].contains(&name) || name.starts_with(ENV)
}

/// The values that exist at one point of a shop file.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    known: BTreeSet<String>,
    /// The values that exist elsewhere, each with the reason why it does not exist here.
    elsewhere: BTreeMap<String, String>,
}

impl Scope {
    /// Makes a scope that knows some values.
    pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Scope {
        Scope { known: names.into_iter().map(str::to_owned).collect(), elsewhere: BTreeMap::new() }
    }

    /// Adds a value.
    pub(super) fn add(&mut self, name: &str) {
        self.known.insert(name.to_owned());
    }

    /// Notes why a value does not exist here. The last reason counts.
    pub(super) fn lacks(&mut self, name: &str, reason: impl Into<String>) {
        self.elsewhere.insert(name.to_owned(), reason.into());
    }

    /// Refuses a template with a value that does not exist. Variables of the environment are checked elsewhere.
    pub(super) fn check(&self, template: &Template) -> Result<(), String> {
        let unknown = template.names().find(|name| !name.starts_with(ENV) && !self.known.contains(*name));
        let Some(name) = unknown else { return Ok(()) };
        if let Some(reason) = self.elsewhere.get(name) {
            return Err(format!("{{{{{name}}}}} does not exist here: {reason}"));
        }
        let known: Vec<_> = self.known.iter().map(|known| format!("{{{{{known}}}}}")).collect();
        let meant = did_you_mean(name, self.known.iter().map(String::as_str));
        Err(format!(
            "nothing gives {{{{{name}}}}}; the values here are {} and {{{{env.NAME}}}}{meant}",
            known.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scope: &Scope, text: &str) -> Result<(), String> {
        scope.check(&Template::parse(text).unwrap())
    }

    #[test]
    fn a_value_that_nothing_gives_is_refused_with_those_that_exist() {
        let scope = Scope::of(["url", "number", "token"]);
        assert_eq!(check(&scope, "{{url}}/{{number}} {{env.KEY}}"), Ok(()));
        let expected = "nothing gives {{tokn}}; the values here are {{number}}, {{token}}, {{url}} and {{env.NAME}}; \
                        did you mean token?";
        assert_eq!(check(&scope, "{{url}}/{{tokn}}").unwrap_err(), expected);
    }

    #[test]
    fn a_value_of_a_later_part_is_refused_with_the_reason() {
        let mut scope = Scope::of(["url"]);
        scope.lacks("order", "another reason");
        scope.lacks("order", "[buy] takes it, which comes later");
        let expected = "{{order}} does not exist here: [buy] takes it, which comes later";
        assert_eq!(check(&scope, "{{url}}/{{order}}").unwrap_err(), expected);
        scope.add("order");
        assert_eq!(check(&scope, "{{url}}/{{order}}"), Ok(()));
    }
}
