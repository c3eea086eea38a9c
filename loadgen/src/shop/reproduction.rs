//! A shell script in which a few buyers buy at the same instant, for the maintainer of a shop that sells wrongly. It needs curl,
//! jq where answers are read as JSON, and the client of the database where the books are there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use buyers::script::{Body, JsonPath, Pattern, ScriptRequest, Source, Steps, Template, encoded};
use serde_json::Value;

use super::described::{PageNumber, Shop, Task};

/// Puts a text into single quotes for the shell.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes a script of `buyers` buyers. `seen` says how it was found.
pub(crate) fn reproduction(shop: &Shop, buyers: usize, seen: &str) -> String {
    let script = ShellScript { shop, taken: taken(shop), has_cookies: has_cookies(shop) };
    shop.secrets.hide(&script.write(buyers, seen))
}

/// Returns the names of the values that answers give.
fn taken(shop: &Shop) -> BTreeSet<&str> {
    let polled = shop.script.outcome.iter().map(|poll| &poll.steps);
    let steps = [&shop.script.sign_up, &shop.script.buy].into_iter().chain(polled);
    steps.flat_map(|steps| steps.take.keys().map(String::as_str)).chain(["order"]).collect()
}

/// Tells whether a buyer sends several requests, so that a cookie may matter.
fn has_cookies(shop: &Shop) -> bool {
    let script = &shop.script;
    script.sign_up.requests.len() + script.buy.requests.len() > 1 || script.outcome.is_some()
}

struct ShellScript<'a> {
    shop: &'a Shop,
    taken: BTreeSet<&'a str>,
    has_cookies: bool,
}

/// The functions of a script, each by its name.
const FUNCTIONS: [(&str, &str); 6] = [
    ("uri", "# Encodes a value for a URL.\nuri() { jq -rn --arg text \"$1\" '$text | @uri'; }\n"),
    (
        "json",
        "# Takes a value of a JSON answer.\njson() { jq -r \"$2 // empty\" \"$folder/$1.body\" 2>/dev/null || true; }\n",
    ),
    (
        "has",
        "# Tells whether a JSON answer has a value.\nhas() { jq -e \"$2\" \"$folder/$1.body\" >/dev/null 2>&1; }\n",
    ),
    (
        "header",
        "# Takes a header of an answer.\n\
         header() { tr -d '\\r' <\"$folder/$1.head\" | sed -n \"s/^$2: *//Ip\" | tail -n 1; }\n",
    ),
    (
        "cookie",
        "# Takes a cookie of an answer.\n\
         cookie() { tr -d '\\r' <\"$folder/$1.head\" | sed -n \"s/^set-cookie: *$2=\\([^;]*\\).*/\\1/Ip\" | tail -n 1; }\n",
    ),
    (
        "curl_as",
        "# Sends a request, and keeps its answer by a name.\n\
         curl_as() {\n    \
             name=$1\n    \
             shift\n    \
             curl -sS --max-time 60 -o \"$folder/$name.body\" -D \"$folder/$name.head\" -w '%{http_code}' \"$@\" \\\n        \
                 >\"$folder/$name.status\" || true\n\
         }\n",
    ),
];

impl ShellScript<'_> {
    fn write(&self, buyers: usize, seen: &str) -> String {
        let Shop { name, stock, .. } = self.shop;
        let urls = self.shop.urls().join(" and ");
        let mut text = self.meaning();
        let _ = write!(
            text,
            "\nfor try in $(seq \"${{1:-20}}\"); do\n    rm -f \"$folder\"/*\n    # [sale]\n{}",
            self.sale()
        );
        text += &self.sign_up(buyers);
        text += "    # [buy]: all at the same instant\n";
        for number in 0..buyers {
            text += &self.purchase(number);
        }
        text += "    wait\n";
        let _ = write!(text, "    stock={stock}\n{}", self.conclusion(buyers));
        text += "done\necho \"nothing was sold wrongly\"\n";
        let used = FUNCTIONS.iter().filter(|(name, _)| text.contains(&format!("{name} ")));
        let functions: String = used.map(|(_, function)| *function).collect();
        let jq = if functions.contains("jq ") { " and jq" } else { "" };
        format!(
            "#!/bin/sh\n\
             # {name}: {buyers} buyers at the same instant. {seen}.\n\
             # Sends requests to {urls} only. Needs curl{jq}.\n\
             # Usage: sh THIS-FILE [TRIES]. Exit status: 1 as soon as a try has sold wrongly, 0 if none of them has.\n\
             set -eu\n\
             folder=$(mktemp -d)\n\
             trap 'rm -rf \"$folder\"' EXIT\n\n\
             {functions}{text}"
        )
    }

    /// Writes the function that reads an answer.
    fn meaning(&self) -> String {
        let meanings = &self.shop.script.meanings;
        let mut text = "# Reads an answer.\nmeaning() {\n    status=$(cat \"$folder/$1.status\")\n".to_owned();
        let all = [
            ("sold", &meanings.sold),
            ("queued", &meanings.queued),
            ("sold-out", &meanings.sold_out),
            ("refused", &meanings.refused),
        ];
        for (meaning, patterns) in all {
            for pattern in patterns {
                let _ = writeln!(text, "    if {}; then echo {meaning}; return; fi", condition(pattern));
            }
        }
        text + "    echo \"unknown: status $status\"\n}\n"
    }

    fn sale(&self) -> String {
        match &self.shop.sale {
            Task::Requests(requests) => {
                let of = |request: &ScriptRequest| {
                    format!("    curl -sS --fail-with-body -o \"$folder/sale\" {}\n", self.curl(request, None))
                };
                requests.iter().map(of).collect()
            }
            Task::Command(command) => {
                let folder = literal(&command.folder.display().to_string());
                let go = if folder == "''" { String::new() } else { format!("cd {folder} && ") };
                format!("    ({go}sh -c {})\n", literal(&command.text))
            }
            Task::Sql(sql) => {
                let of = |statement: &String| format!("    {}\n", sql.url.client(statement));
                sql.statements.iter().map(of).collect()
            }
        }
    }

    fn sign_up(&self, buyers: usize) -> String {
        let steps = &self.shop.script.sign_up;
        if steps.requests.is_empty() {
            return String::new();
        }
        let of = |number: usize| self.steps(steps, number, "    ");
        format!("    # [buyers]: each signs up\n{}", (0..buyers).map(of).collect::<String>())
    }

    /// Writes a purchase, which runs beside the others.
    fn purchase(&self, number: usize) -> String {
        let script = &self.shop.script;
        let [request] = script.buy.requests.as_slice() else { return self.long_purchase(number) };
        if script.outcome.is_some() {
            return self.long_purchase(number);
        }
        format!("    curl_as {number} {} &\n", self.curl(request, Some(number)))
    }

    /// Writes a purchase of several requests.
    fn long_purchase(&self, number: usize) -> String {
        let script = &self.shop.script;
        let mut text = format!("    (\n{}", self.steps(&script.buy, number, "        "));
        if let Some(source) = &script.order {
            let _ = writeln!(text, "        order_{number}={}", take(source, number));
        }
        if let Some(poll) = &script.outcome {
            let times = poll.within.as_millis() / poll.every.as_millis().max(1);
            let _ = write!(
                text,
                "        for again in $(seq {times}); do\n            [ \"$(meaning {number})\" = queued ] || break\n            \
                 sleep {}\n{}        done\n",
                poll.every.as_secs_f64(),
                self.steps(&poll.steps, number, "            ")
            );
        }
        text + "    ) &\n"
    }

    /// Writes requests, each with the values that are taken from its answer.
    fn steps(&self, steps: &Steps, number: usize, indent: &str) -> String {
        let mut text = String::new();
        for request in &steps.requests {
            let _ = writeln!(text, "{indent}curl_as {number} {}", self.curl(request, Some(number)));
            for (name, source) in &steps.take {
                let variable = variable(name, number);
                let _ = writeln!(
                    text,
                    "{indent}{variable}=$(printf %s {}); export {variable}",
                    either(source, number, &variable)
                );
            }
        }
        text
    }

    /// Writes the arguments of curl for a request, of a buyer if there is one.
    fn curl(&self, request: &ScriptRequest, number: Option<usize>) -> String {
        let mut words = vec![format!("-X {}", request.method), self.word("", &request.url, number, true)];
        for (name, value) in &request.headers {
            words.push("-H".to_owned());
            words.push(if self.shop.secrets.has(&value.to_string()) {
                let variable = name.as_str().to_uppercase().replace('-', "_");
                format!("\"{name}: ${{{variable}:?set it to the value that the shop file has}}\"")
            } else {
                self.word(&format!("{name}: "), value, number, false)
            });
        }
        match &request.body {
            Body::Empty => {}
            Body::Text(body) => words.push(format!("--data-raw {}", self.word("", body, number, false))),
            Body::Form(parts) => words.extend(parts.iter().map(|part| {
                let file_name = part.file_name.iter().map(|name| format!(";filename={name}"));
                let mime = part.mime.iter().map(|mime| format!(";type={mime}"));
                let rest: String = file_name.chain(mime).collect();
                format!("-F {}{}", self.word(&format!("{}=", part.name), &part.value, number, false), plain(&rest))
            })),
        }
        if request.follows {
            words.push("-L".to_owned());
        }
        if let (true, Some(number)) = (self.has_cookies, number) {
            words.push(format!("-b \"$folder/{number}.jar\" -c \"$folder/{number}.jar\""));
        }
        words.join(" ")
    }

    /// Writes a text with its values as one word of the shell.
    fn word(&self, beginning: &str, template: &Template, number: Option<usize>, is_url: bool) -> String {
        let values = number.map_or_else(|| self.shop.values(), |number| self.shop.values_of(number));
        let mut word = Word::default();
        word.text(beginning);
        let text = template.to_string();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, behind) = after.split_once("}}").unwrap_or((after, ""));
            word.text(before);
            let is_in_path = is_url && !word.is_empty();
            match (name.strip_prefix("env."), number) {
                (Some(name), _) => word.shell(&format!("${{{name}:?}}")),
                (None, Some(number)) if self.taken.contains(name) => {
                    let variable = variable(name, number);
                    word.shell(&if is_in_path { format!("$(uri \"${variable}\")") } else { format!("${variable}") });
                }
                (None, Some(number)) if self.shop.secrets.is_secret(name) => {
                    let value = format!("${{{}:?set it to the value of this buyer}}", variable(name, number));
                    word.shell(&if is_in_path { format!("$(uri \"{value}\")") } else { value });
                }
                _ => {
                    let value = values.get(name).map_or("", String::as_str);
                    word.text(&if is_in_path { encoded(value) } else { value.to_owned() });
                }
            }
            rest = behind;
        }
        word.text(rest);
        word.written()
    }

    /// Writes what the try has sold, and what the books say.
    fn conclusion(&self, buyers: usize) -> String {
        let books = &self.shop.books;
        let mut text =
            format!("    for number in $(seq 0 {}); do meaning \"$number\"; done >\"$folder/told\"\n", buyers - 1);
        text += "    sort \"$folder/told\" | uniq -c\n";
        text += "    sold=$(grep -cx sold \"$folder/told\" || true)\n    left=\n    orders=\n";
        if books.are_any() {
            let _ = writeln!(text, "    sleep {}", books.quiet.as_secs_f64());
        }
        let of_page = |page: &PageNumber| {
            let value = take(&page.source, "books");
            format!("curl_as books {}\n    {{}}={value}", self.curl(&page.request, None))
        };
        if let Some(page) = &books.stock {
            let _ = writeln!(text, "    {}", of_page(page).replace("{}", "left"));
        }
        if let Some(page) = &books.orders {
            let _ = writeln!(text, "    {}", of_page(page).replace("{}", "orders"));
        }
        if let Some(queries) = &books.queries {
            if let Some(query) = &queries.stock {
                let _ = writeln!(text, "    left=$({})", queries.url.client(query));
            }
            if let Some(query) = &queries.orders {
                let counted = format!("select count(*) from ({}) as orders", query.trim().trim_end_matches(';'));
                let _ = writeln!(text, "    orders=$({})", queries.url.client(&counted));
            }
        }
        text + CONCLUSION
    }
}

/// The end of a try.
const CONCLUSION: &str = r#"    echo "try $try: $sold of $stock units told as sold; left: ${left:-not known}; orders: ${orders:-not known}"
    wrong=
    [ "$sold" -le "$stock" ] || wrong="more units were sold than there are"
    [ -z "$left" ] || [ $((stock - left)) -eq "$sold" ] || wrong="the stock fell by $((stock - left)), and $sold were sold"
    [ -z "$orders" ] || [ "$orders" -eq "$sold" ] || wrong="$sold were told \"sold\", and there are $orders orders"
    if [ "$sold" -lt "$stock" ] && grep -qx sold-out "$folder/told"; then wrong="a buyer was told \"sold out\", and units are left"; fi
    if [ -n "$wrong" ]; then
        echo "WRONG: $wrong"
        exit 1
    fi
"#;

/// A word of the shell that is being written.
#[derive(Default)]
struct Word {
    /// The beginning, in quotes where it needs them.
    written: String,
    /// Text that follows, without quotes.
    text: String,
}

impl Word {
    fn is_empty(&self) -> bool {
        self.written.is_empty() && self.text.is_empty()
    }

    fn text(&mut self, text: &str) {
        self.text += text;
    }

    /// Adds what the shell is to replace.
    fn shell(&mut self, expansion: &str) {
        self.written += &plain(&std::mem::take(&mut self.text));
        self.written += &format!("\"{expansion}\"");
    }

    fn written(mut self) -> String {
        self.written += &plain(&self.text);
        if self.written.is_empty() { "''".to_owned() } else { self.written }
    }
}

/// Names the shell variable of a buyer's value.
fn variable(name: &str, number: usize) -> String {
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    format!("{name}_{number}")
}

/// Writes a text as a word of the shell, without quotes where none are needed.
fn plain(text: &str) -> String {
    let needs_none = |letter: char| letter.is_ascii_alphanumeric() || "/:._-@%+,=".contains(letter);
    if text.chars().all(needs_none) { text.to_owned() } else { literal(text) }
}

/// Writes the command that takes a value from the last answer.
fn take(source: &Source, name: impl std::fmt::Display) -> String {
    match source {
        Source::Json(path) => format!("$(json {name} {})", literal(&jq(path))),
        Source::Header(header) => format!("$(header {name} {header})"),
        Source::Cookie(cookie) => format!("$(cookie {name} {})", literal(cookie)),
    }
}

/// Writes the value of the last answer, or the one that is known already.
fn either(source: &Source, number: usize, variable: &str) -> String {
    format!("\"$(taken={}; echo \"${{taken:-${{{variable}:-}}}}\")\"", take(source, number))
}

/// Writes a path for jq.
fn jq(path: &JsonPath) -> String {
    let steps: String = path.steps().iter().map(|step| format!("[{step}]")).collect();
    format!(".{steps}")
}

/// Writes what an answer must have as a condition of the shell.
fn condition(pattern: &Pattern) -> String {
    let statuses: Vec<String> = pattern.statuses.iter().map(|status| format!("[ \"$status\" = {status} ]")).collect();
    let value =
        |(path, value): &(JsonPath, Value)| format!("has \"$1\" {}", literal(&format!("{} == {value}", jq(path))));
    let mut parts: Vec<String> = pattern.values.iter().map(value).collect();
    parts.extend(pattern.headers.iter().map(|(name, part)| format!("header \"$1\" {name} | {}", search(part))));
    parts.extend(pattern.text.iter().map(|text| format!("{} \"$folder/$1.body\"", search(text))));
    match statuses.as_slice() {
        [] => {}
        [one] => parts.insert(0, one.clone()),
        many => parts.insert(0, format!("{{ {}; }}", many.join(" || "))),
    }
    if parts.is_empty() { "true".to_owned() } else { parts.join(" && ") }
}

/// Writes the command that searches a text, by its bytes.
fn search(text: &str) -> String {
    format!("LC_ALL=C grep -qF -e {}", literal(text))
}

#[cfg(test)]
mod tests;
