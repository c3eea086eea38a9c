//! A shell script in which a few buyers buy at the same instant, for the maintainer of a shop that sells wrongly. It needs curl,
//! jq where answers are read as JSON, and the client of the database where the books are there.
//!
//! | file | has |
//! |---|---|
//! | `variables` | the variables of the environment, in which the script finds the secrets |
//! | `requests` | the requests, as lines of curl |
//! | `books` | what the books tell, and what is concluded |
//! | `functions` | the fixed parts |
//! | `shell` | words and conditions of the shell |

mod books;
mod functions;
mod requests;
mod shell;
mod variables;

use std::fmt::Write as _;

use stats::figures::things;

use self::functions::{BEGINNING, called_in};
use self::requests::{BuyerPart, Sender, ShellRequests, jar, taking};
use self::shell::{condition, plain, variable};
use self::variables::ScriptVariables;
use super::database::DatabaseUrl;
use super::described::{Shop, Task};

/// The buyers of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// How many there are.
    pub(crate) buyers: usize,
    /// How many purchases each of them makes at the same instant.
    pub(crate) purchases: usize,
}

impl Crowd {
    /// Describes it in words.
    pub(crate) fn describe(self) -> String {
        let Crowd { buyers, purchases } = self;
        let each = if purchases > 1 { format!(" with {purchases} purchases each") } else { String::new() };
        format!("{}{each} at the same instant", things(buyers, "buyer"))
    }

    /// Returns each purchase, by its buyer and a name of its own.
    fn senders(self) -> impl Iterator<Item = Sender> {
        (0..self.buyers).flat_map(move |buyer| {
            (1..=self.purchases).map(move |purchase| match self.purchases {
                1 => Sender::of(buyer),
                _ => Sender { buyer, name: format!("{buyer}-{purchase}") },
            })
        })
    }
}

/// Writes a script of these buyers. `seen` says how it was found.
pub(crate) fn reproduction(shop: &Shop, crowd: Crowd, seen: &str) -> String {
    let variables = ScriptVariables::of(shop, crowd.buyers);
    let requests = ShellRequests::of(shop, &variables);
    let script = ShellScript { shop, crowd, variables: &variables, requests: &requests };
    shop.secrets.hide(&script.write(seen))
}

struct ShellScript<'a> {
    shop: &'a Shop,
    crowd: Crowd,
    variables: &'a ScriptVariables<'a>,
    requests: &'a ShellRequests<'a>,
}

impl ShellScript<'_> {
    fn write(&self, seen: &str) -> String {
        let Shop { name, stock, .. } = self.shop;
        let crowd = self.crowd.describe();
        let urls = self.shop.urls().join(" and ");
        let story = self.databases() + &self.meaning() + &books::reading(self.shop, self.requests).unwrap_or_default();
        let tries = self.tries();
        let functions = called_in(&(story.clone() + &tries));
        let programs = self.programs(&(functions.clone() + &tries));
        let needed = listed(&programs);
        let comment = self.variables.comment();
        let ensured = self.variables.ensured();
        format!(
            "#!/bin/sh\n\
             # {name}: {crowd}. {seen}.\n\
             # Sends requests to {urls} only. Needs {needed}.\n\
             # Usage: sh THIS-FILE [TRIES]. Exit status: 1 as soon as a try has sold wrongly, 0 if none of them has, and another one\n\
             # if it could not be tried.\n\
             {comment}\
             # shellcheck disable=SC1078,SC1079,SC2016\n\
             {BEGINNING}{functions}{story}\
             for program in {}; do\n    \
                 command -v \"$program\" >/dev/null || unusable \"this script needs $program; install it\"\n\
             done\n\
             {ensured}stock={stock}\n{tries}",
            programs.join(" ")
        )
    }

    /// Writes the functions that run statements at the databases.
    fn databases(&self) -> String {
        let write = |name: &str, url: &DatabaseUrl| {
            let client = url.client(self.variables.of_database(url).unwrap_or_default());
            format!("# Runs a statement at the database.\n{name}() {{\n{client}}}\n\n")
        };
        let of_sale = match &self.shop.sale {
            Task::Sql(sql) => write("sale", &sql.url),
            Task::Requests(_) | Task::Command(_) => String::new(),
        };
        let of_books = self.shop.books.queries.as_ref().map(|queries| write("database", &queries.url));
        of_sale + &of_books.unwrap_or_default()
    }

    /// Returns the programs that the script needs.
    fn programs(&self, text: &str) -> Vec<&'static str> {
        let mut programs = vec!["curl"];
        if text.contains("jq -") {
            programs.push("jq");
        }
        if let Task::Sql(sql) = &self.shop.sale {
            programs.push(sql.url.program());
        }
        programs.extend(self.shop.books.queries.as_ref().map(|queries| queries.url.program()));
        programs.dedup();
        programs
    }

    /// Writes the function that reads an answer.
    fn meaning(&self) -> String {
        let meanings = &self.shop.script.meanings;
        let mut text =
            "# Reads an answer.\nmeaning() {\n    status=$(cat \"$folder/$1.status\" 2>/dev/null || true)\n".to_owned();
        let all = [
            ("sold", &meanings.sold),
            ("queued", &meanings.queued),
            ("sold-out", &meanings.sold_out),
            ("over-limit", &meanings.over_limit),
            ("refused", &meanings.refused),
        ];
        for (meaning, patterns) in all {
            for pattern in patterns {
                let _ = writeln!(text, "    if {}; then echo {meaning}; return; fi", condition(pattern));
            }
        }
        text + "    echo \"unknown: status $status\"\n}\n\n"
    }

    /// Writes the tries: the sale, the buyers, and what they were sold.
    fn tries(&self) -> String {
        let mut text = "tries=${1:-20}\ncase $tries in *[!0-9]*) tries=0 ;; esac\n\
             [ \"$tries\" -gt 0 ] || unusable \"usage: sh $0 [TRIES], a whole number from 1\"\n\
             for try in $(seq \"$tries\"); do\n    rm -f \"$folder\"/*\n    buyers=\n    # [sale]\n"
            .to_owned();
        text += &self.sale();
        text += &books::before(&self.shop.books);
        text += &self.sign_up();
        text += "    # [buy]: all at the same instant\n";
        for sender in self.crowd.senders() {
            text += &self.purchase(&sender);
        }
        text += "    wait\n";
        text += &books::conclusion(self.shop, self.crowd);
        text + "done\necho \"nothing was sold wrongly\"\n"
    }

    fn sale(&self) -> String {
        match &self.shop.sale {
            Task::Requests(requests) => {
                let cookies = if requests.len() > 1 { format!(" {}", jar("sale")) } else { String::new() };
                let curls = requests.iter().map(|request| self.requests.curl(request, None));
                curls.map(|curl| format!("    curl_as sale {curl}{cookies}\n    succeeds sale '[sale]'\n")).collect()
            }
            Task::Command(command) => {
                // The script may be run anywhere.
                let folder = std::path::absolute(command.folder.join(".")).unwrap_or_else(|_| command.folder.clone());
                let folder = plain(&folder.display().to_string());
                let text = self.requests.text(&command.text);
                format!("    (cd {folder} && sh -c {text}) >/dev/null || unusable \"the command of [sale] failed\"\n")
            }
            Task::Sql(sql) => {
                let of = |statement: &String| {
                    format!(
                        "    sale {} >/dev/null || unusable \"the SQL of [sale] failed\"\n",
                        self.requests.text(statement)
                    )
                };
                sql.statements.iter().map(of).collect()
            }
        }
    }

    fn sign_up(&self) -> String {
        let steps = &self.shop.script.sign_up;
        if steps.requests.is_empty() {
            return String::new();
        }
        let of = |buyer: usize| self.requests.steps(steps, &Sender::of(buyer), ("    ", BuyerPart::SignUp));
        format!("    # [buyers]: each signs up\n{}", (0..self.crowd.buyers).map(of).collect::<String>())
    }

    /// Writes a purchase, which runs beside the others.
    fn purchase(&self, sender: &Sender) -> String {
        let script = &self.shop.script;
        let [request] = script.buy.requests.as_slice() else { return self.long_purchase(sender) };
        if script.outcome.is_some() {
            return self.long_purchase(sender);
        }
        let Sender { name, .. } = sender;
        format!("    buys {name} {} &\n    buyers=\"$buyers $!\"\n", self.requests.curl(request, Some(sender)))
    }

    /// Writes a purchase of several requests.
    fn long_purchase(&self, sender: &Sender) -> String {
        let script = &self.shop.script;
        let Sender { buyer, name } = sender;
        let mut text = "    (\n        trap stop TERM\n".to_owned();
        if self.crowd.purchases > 1 && self.requests.has_cookies {
            let _ = writeln!(text, "        cp \"$folder/{buyer}.jar\" \"$folder/{name}.jar\" 2>/dev/null || true");
        }
        text += &self.requests.steps(&script.buy, sender, ("        ", BuyerPart::Purchase));
        if let Some(poll) = &script.outcome {
            if let Some(source) = &script.order {
                let order = variable("order", *buyer);
                let _ = writeln!(
                    text,
                    "        {}\n        printf '%s' \"${order}\" >\"$folder/{name}.order\"",
                    taking(&order, source, name)
                );
            }
            let times = poll.within.as_millis() / poll.every.as_millis().max(1);
            let _ = write!(
                text,
                "        for _ in $(seq {times}); do\n            [ \"$(meaning {name})\" = queued ] || break\n            \
                 sleep {}\n{}        done\n",
                poll.every.as_secs_f64(),
                self.requests.steps(&poll.steps, sender, ("            ", BuyerPart::Outcome))
            );
        }
        text + "    ) &\n    buyers=\"$buyers $!\"\n"
    }
}

/// Lists things in a sentence.
fn listed(all: &[&str]) -> String {
    match all {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        few => few.join(""),
    }
}

#[cfg(test)]
mod tests;
