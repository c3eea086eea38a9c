//! Shop files as users write them, and the mistakes in them.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::super::TEMPLATE;
use super::*;

const SHOP: &str = "[shop]
name = \"my shop\"
urls = [\"http://127.0.0.1:8000\", \"http://127.0.0.1:8001/api/\"]
stock = 100
";
const SALE: &str = "[sale]
requests = [\"curl -X POST {{url}}/reset -H 'X-Admin: {{env.KEY}}'\"]
";
const BUY: &str = "[buy]
requests = [\"curl -X POST {{url}}/buy\"]
sold = [{ status = 200 }]
";

fn lookup(name: &str) -> Option<String> {
    [("KEY", "k3y-of-admin"), ("EMPTY", "")]
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| (*value).to_owned())
}

fn shop(text: &str) -> Result<Shop, String> {
    parse(ShopText { name: "shop.toml", text }, &lookup)
}

fn assert_refused(text: &str, expected: &str) {
    let refused = shop(text).unwrap_err();
    assert!(refused.starts_with(expected), "{text}\n{refused}\n{expected}");
}

/// Expects a refusal of a file with these lines behind the nine that are right.
fn assert_refused_with(lines: &str, expected: &str) {
    assert_refused(&format!("{SHOP}{SALE}{BUY}{lines}"), expected);
}

fn values(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_whole_file_is_read() {
    let whole = r##"
        [shop]
        name = "course"
        urls = ["http://127.0.0.1:8000", "http://127.0.0.1:8001/api/"]
        stock = 100
        per-buyer = 1
        [sale]
        sql = { url = "postgres://me:{{env.KEY}}@127.0.0.1/shop", statements = ["update item set stock = 100"] }
        [buyers]
        requests = ["curl {{url}}/code?phone={{number}}", "curl {{url}}/login -d 'code={{code}}'"]
        take = { code = "$.data", token = "header:X-Token" }
        [buy]
        requests = ["curl -X POST {{url}}/order/1 -H 'authorization: {{token}}'"]
        take = { ticket = "cookie:ticket" }
        sold = [{ status = [200, 201], json = { "$.success" = true, "$.code" = 0 } }]
        sold-out = [{ json = { "$.errorMsg" = "库存不足" } }, { header = { Location = "/sold-out" }, text = "库存不足" }]
        queued = [{ status = 202 }]
        order = "$.data"
        [outcome]
        requests = ["curl {{url}}/orders/{{order}}?ticket={{ticket}}"]
        every = "100ms"
        [books]
        stock = { request = "curl {{url}}/stock", value = "$.left" }
        orders = { request = "curl {{url}}/orders", count = "$.total" }
        sql = { url = "postgres://127.0.0.1/shop", orders = "select id, buyer, 1 from orders" }
        [clean]
        command = "./clean.sh"
    "##;
    let shop = shop(whole).unwrap();
    assert_eq!((shop.name.as_str(), shop.stock, shop.per_buyer), ("course", 100, Some(1)));
    assert_eq!(shop.urls(), ["http://127.0.0.1:8000", "http://127.0.0.1:8001/api"]);
    let script = &shop.script;
    assert_eq!((script.sign_up.requests.len(), script.sign_up.take.len(), script.buy.take.len()), (2, 2, 1));
    let login = &script.sign_up.requests[1];
    assert_eq!((login.origin.as_str(), login.method.as_str()), ("shop.toml:10", "POST"));
    let meanings = &script.meanings;
    assert_eq!((meanings.sold[0].statuses.as_slice(), meanings.sold[0].values.len()), (&[200, 201][..], 2));
    assert_eq!(meanings.refused[0].statuses, [429, 503]);
    let on_page = &meanings.sold_out[1];
    assert_eq!((on_page.headers[0].0.as_str(), on_page.text.as_deref()), ("location", Some("库存不足")));
    let poll = script.outcome.as_ref().unwrap();
    assert_eq!((poll.every, poll.within), (Duration::from_millis(100), Duration::from_secs(30)));
    assert!(matches!(&shop.sale, Task::Sql(sql) if sql.statements.len() == 1));
    assert!(matches!(&shop.clean, Some(Task::Command(command)) if command.text == "./clean.sh"));
    assert!(shop.books.stock.is_some() && shop.books.orders.is_some() && shop.books.queries.is_some());
    let secrets: Vec<_> = shop.secrets.names().iter().collect();
    assert_eq!(secrets, ["env.KEY", "token"]);
    assert_eq!(shop.secrets.hide("k3y-of-admin"), "…");
}

#[test]
fn buyers_take_the_addresses_in_turns() {
    let shop = shop(&format!("{SHOP}{SALE}{BUY}")).unwrap();
    let key = ("env.KEY", "k3y-of-admin");
    let second = values(&[key, ("number", "1"), ("url", "http://127.0.0.1:8001/api")]);
    assert_eq!((shop.values_of(1), shop.values_of(3)["url"].as_str()), (second, "http://127.0.0.1:8001/api"));
    assert_eq!(shop.values(), values(&[key, ("url", "http://127.0.0.1:8000")]));
}

#[test]
fn the_buyers_of_a_csv_file_have_its_values() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("buyers.csv"), "phone,password\n1,a\n2,b\n").unwrap();
    fs::write(folder.path().join("login.json"), "{\"phone\":\"{{phone}}\",\"password\":\"{{password}}\"}").unwrap();
    let name = folder.path().join("shop.toml").display().to_string();
    let buyers = "[buyers]\ncsv = \"buyers.csv\"\nrequests = [\"curl {{url}}/login --json @login.json\"]\n";
    let text = format!("{SHOP}{SALE}{BUY}{buyers}");
    let shop = parse(ShopText { name: &name, text: &text }, &lookup).unwrap();
    assert_eq!(shop.values_of(1)["phone"], "2");
    let Body::Text(body) = &shop.script.sign_up.requests[0].body else { panic!("a body") };
    assert_eq!(body.fill(&shop.values_of(0)).unwrap(), r#"{"phone":"1","password":"a"}"#);
    let taken = format!("{text}take = {{ phone = \"$.data\" }}\n");
    let refused = parse(ShopText { name: &name, text: &taken }, &lookup).unwrap_err();
    assert!(refused.ends_with(":13: \"phone\" is also a column of the CSV; take it by another name"), "{refused}");
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_one() {
    assert_refused(
        "[shop]\nname = \"a\"\nurl = [\"http://a\"]\n",
        "shop.toml:3: [shop] has no key \"url\"; the keys are name, urls, stock, per-buyer, certificate; did you mean urls?",
    );
    assert_refused(
        "\n[shops]\nname = \"a\"\n",
        "shop.toml:2: a shop file has no key \"shops\"; the keys are shop, sale,",
    );
    assert_refused_with(
        "sold-out = [{ statuses = 409 }]",
        "shop.toml:10: sold-out has no key \"statuses\"; the keys are status, json, header, text; did you mean status?",
    );
    assert_refused_with(
        "[books]\nstock = { request = \"curl {{url}}\", count = \"$.a\" }",
        "shop.toml:11: stock has no key \"count\"",
    );
}

#[test]
fn a_missing_key_is_named_with_an_example() {
    for (text, expected) in [
        ("", "shop.toml: the file has no [shop]; add it with name, urls and stock"),
        ("[shop]\n", "shop.toml: the file has no [sale]; add it with requests, command or sql"),
        (SHOP, "shop.toml: the file has no [sale]"),
        (&format!("{SHOP}{SALE}"), "shop.toml: the file has no [buy]; add it with requests and sold"),
        (
            &format!("{SHOP}{SALE}[buy]\nsold = [{{ status = 200 }}]\n"),
            "shop.toml:7: [buy] has no requests; write requests = [",
        ),
        (
            &format!("{SHOP}{SALE}[buy]\nrequests = [\"curl {{{{url}}}}\"]\n"),
            "shop.toml:7: [buy] has no sold; write sold = [{",
        ),
        (
            &format!("[shop]\nname = \"a\"\nstock = 1\n{SALE}{BUY}"),
            "shop.toml:1: [shop] has no urls; write urls = [\"http",
        ),
        (&format!("{SHOP}[sale]\n{BUY}"), "shop.toml:5: [sale] is empty; write requests or a command"),
    ] {
        assert_refused(text, expected);
    }
}

#[test]
fn a_key_that_needs_another_one_says_so() {
    for (lines, expected) in [
        ("queued = [{ status = 202 }]", "shop.toml:7: queued needs [outcome], as a queued buyer has to ask"),
        ("[outcome]\nrequests = [\"curl {{url}}\"]", "shop.toml:10: [outcome] needs queued in [buy]"),
        (
            "[buyers]\ntake = { token = \"$.a\" }",
            "shop.toml:11: take needs requests, whose answers it takes values from",
        ),
        ("[buyers]\n", "shop.toml:10: [buyers] has neither csv nor requests"),
        ("[books]\n", "shop.toml:10: [books] is empty; write stock, orders or sql"),
        (
            "[books]\nsql = { url = \"postgres://127.0.0.1/a\" }",
            "shop.toml:11: sql has no query; write stock = \"select",
        ),
        (
            "[books]\nstock = { request = \"curl {{url}}\" }",
            "shop.toml:11: stock has no value; write value = \"$.path\"",
        ),
        (
            "[clean]\ncommand = \"a\"\nrequests = [\"curl {{url}}\"]",
            "shop.toml:10: [clean] says in two ways what to do",
        ),
    ] {
        assert_refused_with(lines, expected);
    }
}

#[test]
fn a_wrong_value_is_refused_with_what_was_seen() {
    for (from, to, expected) in [
        (
            "stock = 100",
            "stock = \"many\"",
            "shop.toml:4: stock has the text \"many\"; write a whole number from 1 to 100000000",
        ),
        ("stock = 100", "stock = 0", "shop.toml:4: stock has the number 0"),
        ("name = \"my shop\"", "name = 7", "shop.toml:2: name has the number 7; write a text in quotation marks"),
        ("urls = [", "urls = \"http://a\"\n#", "shop.toml:3: urls has the text \"http://a\"; write a list of texts"),
        ("urls = [", "urls = [] # ", "shop.toml:3: the list of urls is empty"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "shop.toml:3: \"127.0.0.1:8000\" is no base URL"),
        ("{ status = 200 }", "200", "shop.toml:9: sold has the number 200; write the keys status, json, header, text"),
        ("{ status = 200 }", "{ status = 20 }", "shop.toml:9: a status is a number from 100 to 599"),
        ("{ status = 200 }", "{}", "shop.toml:9: an empty pattern of sold matches every answer"),
        ("{ status = 200 }", "{ json = { \"$..a\" = 1 } }", "shop.toml:9: `$..a` may find several values"),
        ("{ status = 200 }", "{ json = { \"$.a\" = 2026-01-01 } }", "shop.toml:9: JSON has no dates"),
        ("curl -X POST {{url}}/buy", "curl -k {{url}}/buy", "shop.toml:8: curl's --insecure is not supported"),
        ("[sale]", "[sale", "shop.toml:5: this is no TOML: "),
        ("[buy]", "[buy]\norder = \"data\"", "shop.toml:8: `data` is no source of a value"),
    ] {
        let text = format!("{SHOP}{SALE}{BUY}");
        assert!(text.contains(from), "{from}");
        assert_refused(&text.replacen(from, to, 1), expected);
    }
    let outcome = "queued = [{ status = 202 }]\n[outcome]\nrequests = [\"curl {{url}}\"]\n";
    assert_refused_with(
        &format!("{outcome}every = \"1 min\"\nwithin = \"2s\""),
        "shop.toml:11: every is longer than within",
    );
    assert_refused_with(&format!("{outcome}every = \"soon\""), "shop.toml:13: every has \"soon\", and ");
    assert_refused_with(
        &format!("{outcome}within = \"2d\""),
        "shop.toml:13: within has \"2d\", and it is not from 1ms to 1day",
    );
}

#[test]
fn a_wrong_header_or_text_of_a_pattern_is_refused() {
    for (pattern, expected) in [
        ("text = 7", "text has the number 7; write a text in quotation marks"),
        ("text = \"\"", "text has an empty text; write it"),
        ("text = \"a\\nb\"", "a text to search is one line; write a part of the page without a line break"),
        ("header = \"a\"", "header has the text \"a\"; write a table, as in header = { location = \"/thanks\" }"),
        ("header = { a = 1 }", "a has the number 1; write a text in quotation marks"),
        ("header = { \"a b\" = \"c\" }", "\"a b\" is no name of a header; write one like location"),
        ("header = { a = \"é\" }", "headers are compared in ASCII; write a part of the value that has no other letter"),
        ("txt = \"a\"", "sold has no key \"txt\"; the keys are status, json, header, text; did you mean text?"),
    ] {
        let buy = BUY.replace("status = 200", pattern);
        assert_refused(&format!("{SHOP}{SALE}{buy}"), &format!("shop.toml:9: {expected}"));
    }
}

#[test]
fn a_value_that_does_not_exist_yet_is_refused() {
    let buyers = |line: &str| format!("[buyers]\nrequests = [\"curl {{{{url}}}}/a\", \"curl {{{{url}}}}/b?{line}\"]\n");
    for (text, expected) in [
        (
            BUY.replace("/buy", "/buy/{{tokn}}"),
            "shop.toml:8: nothing gives {{tokn}}; the values here are {{number}}, {{url}} and",
        ),
        (
            format!("{BUY}{}take = {{ token = \"$.a\" }}\n", buyers("{{tokn}}")),
            "shop.toml:11: nothing gives {{tokn}}; the values here are {{number}}, {{token}}, {{url}} and {{env.NAME}}; did you \
             mean token?",
        ),
        (
            format!("{BUY}take = {{ ticket = \"$.a\" }}\n{}", buyers("{{ticket}}")),
            "shop.toml:12: {{ticket}} does not exist here: [buy] takes it, and [buy] comes after [buyers]",
        ),
        (
            format!("{}take = {{ ticket = \"$.a\" }}\n", BUY.replace("/buy", "/buy/{{ticket}}")),
            "shop.toml:8: {{ticket}} does not exist here: [buy] takes it, and this is the first request of [buy]",
        ),
        (
            BUY.replace("/buy", "/{{order}}"),
            "shop.toml:8: {{order}} does not exist here: nothing says where it is; write order =",
        ),
        (
            format!("{BUY}[books]\nstock = {{ request = \"curl {{{{url}}}}/{{{{number}}}}\", value = \"$.a\" }}\n"),
            "shop.toml:11: {{number}} does not exist here: it belongs to one buyer",
        ),
        (
            BUY.replace("/buy", "/{{env.NONE}}"),
            "shop.toml:8: the environment has no variable NONE; set it, as in `export NONE=…`",
        ),
        (BUY.replace("/buy", "/{{env.EMPTY}}"), "shop.toml:8: the environment has no variable EMPTY"),
        (BUY.replace("/buy", "/{{a b}}"), "shop.toml:8: "),
        (format!("{BUY}take = {{ url = \"$.a\" }}\n"), "shop.toml:10: \"url\" is a value that every shop has"),
    ] {
        assert_refused(&format!("{SHOP}{SALE}{text}"), expected);
    }
}

#[test]
fn the_order_of_the_tables_in_the_file_is_free() {
    let buyers = "[buyers]\nrequests = [\"curl {{url}}/login\"]\ntake = { token = \"$.a\" }\n";
    let buy = BUY.replace("/buy", "/buy -H 'x-token: {{token}}'");
    assert!(shop(&format!("{buy}{buyers}{SALE}{SHOP}")).is_ok());
}

#[test]
fn a_password_of_curl_is_encoded_and_secret() {
    let buy = BUY.replace("/buy", "/buy -u 'admin:{{env.KEY}}'");
    let shop = shop(&format!("{SHOP}{SALE}{buy}")).unwrap();
    let (name, value) = &shop.script.buy.requests[0].headers[0];
    assert_eq!((name.as_str(), value.to_string().as_str()), ("authorization", "Basic YWRtaW46azN5LW9mLWFkbWlu"));
    assert_eq!(shop.secrets.hide("Basic YWRtaW46azN5LW9mLWFkbWlu"), "Basic …");
    let per_buyer = BUY.replace("/buy", "/buy -u '{{number}}:a'");
    assert_refused(&format!("{SHOP}{SALE}{per_buyer}"), "shop.toml:8: curl's --user cannot have {{number}}");
}

#[test]
fn a_copied_host_is_left_to_the_client() {
    let buy = BUY.replace("/buy", "/buy -H 'Host: 127.0.0.1:8000' -H 'host: shop.example'");
    let shop = shop(&format!("{SHOP}{SALE}{buy}")).unwrap();
    let values: Vec<_> = shop.script.buy.requests[0].headers.iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(values, ["shop.example"]);
}

#[test]
fn addresses_that_are_not_on_this_machine_are_told() {
    let far = format!("{SHOP}{SALE}{BUY}").replace("http://127.0.0.1:8001/api/", "https://shop.example");
    let sql = "[books]\nsql = { url = \"postgres://me:secret@db.example/shop\", stock = \"select 1\" }\n";
    let strangers = shop(&format!("{far}{sql}")).unwrap().strangers();
    assert_eq!(strangers, ["https://shop.example", "postgres://db.example:5432"]);
    assert!(shop(&format!("{SHOP}{SALE}{BUY}")).unwrap().strangers().is_empty());
}

#[test]
fn a_certificate_is_a_file_of_pem() {
    let folder = TempDir::new().unwrap();
    let name = folder.path().join("shop.toml").display().to_string();
    let text = format!("{SHOP}certificate = \"ca.pem\"\n{SALE}{BUY}");
    let read = || parse(ShopText { name: &name, text: &text }, &lookup);
    assert!(read().unwrap_err().contains(":5: could not read the certificate "));
    fs::write(folder.path().join("ca.pem"), "none").unwrap();
    assert!(read().unwrap_err().contains("ca.pem has no certificate; name a file of PEM"));
    fs::write(folder.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert!(read().unwrap().certificate.is_some());
}

/// Returns the file to fill in, with the comment signs removed before the keys whose lines are wanted.
fn uncommented(is_wanted: impl Fn(&str) -> bool) -> String {
    let lines = TEMPLATE.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') && is_wanted(key) => key,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_file_to_fill_in_is_read_as_it_is() {
    let shop = shop(TEMPLATE).unwrap();
    assert_eq!((shop.name.as_str(), shop.stock), ("my shop", 100));
}

// Each way to say the same stands there, so the file is read with one way of each.
#[test]
fn every_key_of_the_file_to_fill_in_is_right() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("buyers.csv"), "phone\n1\n").unwrap();
    fs::write(folder.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let name = folder.path().join("shop.toml").display().to_string();
    let read = |text: &str| parse(ShopText { name: &name, text }, &lookup).unwrap();
    let with_requests = uncommented(|key| {
        !key.starts_with("command") && !key.starts_with("sql = { url = \"postgres://me@127.0.0.1/shop\", statements")
    });
    let shop = read(&with_requests);
    assert!(shop.people.is_some() && shop.script.outcome.is_some() && shop.clean.is_some() && shop.per_buyer.is_some());
    for way in ["command", "sql"] {
        let text = with_requests.replace("requests = [\"curl -X POST {{url}}/reset\"]", "");
        let key = TEMPLATE.lines().find_map(|line| line.strip_prefix('#').filter(|key| key.starts_with(way))).unwrap();
        read(
            &text.replace("[sale]", &format!("[sale]\n{key}")).replace("[clean]", "[clean]\ncommand = \"./clean.sh\""),
        );
    }
}

#[test]
fn a_scenario_replaces_what_its_buyers_do() {
    let of_scenario = |text: &str| {
        let draft = file::draft_for_scenario(ShopText { name: "shop.toml", text })?;
        of(draft, &lookup)
    };
    for replaced in ["", "[buy]\nrequests = [\"{{env.UNSET}}\"]\n[buyers]\ncsv = \"none.csv\"\n[outcome]\n"] {
        let shop = of_scenario(&format!("{SHOP}{SALE}{replaced}[clean]\ncommand = \"true\"\n")).unwrap();
        assert!(shop.people.is_none() && shop.script.buy.requests.is_empty() && shop.clean.is_some());
    }
    let refused = of_scenario(&format!("{SHOP}[bye]\n")).unwrap_err();
    assert!(refused.starts_with("shop.toml:5: a shop file has no key \"bye\""), "{refused}");
}

#[test]
fn a_name_is_one_line() {
    let text = format!("{SHOP}{SALE}{BUY}").replacen("name = \"", "name = \"x\\ntouch pwned", 1);
    assert_refused(&text, "shop.toml:2: a name is one line");
}
