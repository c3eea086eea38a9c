//! `loadgen check` at a shop that is not ours: a small server of these tests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use testbed::Authority;
use tokio::net::TcpListener;

use crate::support::{Finished, TestFolder, finish};

const TOKEN: &str = "t0k3n-of-a-buyer";

/// A shop in the style of the field's courses: it answers 200 and says in the body what that means.
#[derive(Debug, Default)]
struct CourseShop {
    stock: AtomicI64,
    /// How often a queued buyer has asked.
    asked: AtomicI64,
}

async fn buy(State(shop): State<Arc<CourseShop>>, headers: HeaderMap) -> Response {
    if headers.get("authorization").is_none_or(|token| token != TOKEN) {
        return (StatusCode::UNAUTHORIZED, "log in first").into_response();
    }
    shop.stock.fetch_sub(1, Ordering::SeqCst);
    Json(json!({"success": true, "data": 17})).into_response()
}

/// Answers as a course does whose sale has not begun.
async fn closed() -> Response {
    Json(json!({"success": false, "errorMsg": "not yet"})).into_response()
}

async fn outcome(State(shop): State<Arc<CourseShop>>, Path(ticket): Path<String>) -> Response {
    if shop.asked.fetch_add(1, Ordering::SeqCst) == 0 {
        return StatusCode::ACCEPTED.into_response();
    }
    Json(json!({"order": format!("of-{ticket}")})).into_response()
}

/// Starts the shop, and returns its address.
async fn start() -> String {
    let reset = |State(shop): State<Arc<CourseShop>>, headers: HeaderMap| async move {
        let status = if headers.contains_key("x-admin") { StatusCode::NO_CONTENT } else { StatusCode::FORBIDDEN };
        shop.stock.store(100, Ordering::SeqCst);
        status
    };
    let stock =
        |State(shop): State<Arc<CourseShop>>| async move { Json(json!({"left": shop.stock.load(Ordering::SeqCst)})) };
    let routes = Router::new()
        .route("/reset", post(reset))
        .route("/login", post(|| async { Json(json!({"success": true, "data": TOKEN})) }))
        .route("/buy", post(buy))
        .route("/closed", post(closed))
        .route("/queue", post(|| async { (StatusCode::ACCEPTED, Json(json!({"ticket": "a/7"}))) }))
        .route("/tickets/{ticket}", get(outcome))
        .route("/away", post(|| async { (StatusCode::FOUND, [("location", "http://shop.invalid/")]) }))
        .route("/stock", get(stock))
        .with_state(Arc::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

/// Writes a shop file of which only the purchase is to be given.
fn write_shop(folder: &TestFolder, url: &str, rest: &str) {
    let text = format!(
        "[shop]\nname = \"course\"\nurls = [\"{url}\"]\nstock = 100\n[sale]\nrequests = [\"curl -X POST {{{{url}}}}/reset -H \
         'X-Admin: {{{{env.KEY}}}}'\"]\n{rest}"
    );
    fs::write(folder.path("shop.toml"), text).unwrap();
}

fn dry_run(folder: &TestFolder) -> Finished {
    finish(folder.loadgen(["check", "--dry-run", "shop.toml"]).env("KEY", "k3y-of-the-shop"))
}

const LOGIN_AND_BUY: &str = "[buyers]
requests = [\"curl {{url}}/login -d 'phone={{number}}'\"]
take = { token = \"$.data\" }
[buy]
requests = [\"curl -X POST {{url}}/buy -H 'authorization: {{token}}'\"]
sold = [{ status = 200, json = { \"$.success\" = true } }]
order = \"$.data\"
[books]
stock = { request = \"curl {{url}}/stock\", value = \"$.left\" }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_each_answer_and_no_secret() {
    let folder = TestFolder::new();
    write_shop(&folder, &start().await, LOGIN_AND_BUY);
    let finished = dry_run(&folder);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    for expected in [
        "[sale] puts the stock on sale\nshop.toml:6\n> POST http://127.0.0.1:",
        "> x-admin: …\n< 204 No Content\n",
        "the page says: 100 units left after [sale]\n",
        "> phone=0\n< 200 OK\n",
        "= token: …\n= read as: a success, so the buyer goes on\n",
        "> authorization: …\n",
        "< {\"data\":17,\"success\":true}\n= read as: sold\n",
        "buyer 0 was told: sold, as order 17\n",
        "the page says: 99 units left after the purchase\n",
        "not checked by one buyer:\n* whether the shop has answers that match sold-out, refused\n",
    ] {
        assert!(finished.stdout.contains(expected), "{expected}\n{}", finished.stdout);
    }
    for secret in [TOKEN, "k3y-of-the-shop"] {
        assert!(!finished.stdout.contains(secret) && !finished.stderr.contains(secret), "{}", finished.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_meaning_ends_with_the_pattern_to_add() {
    let folder = TestFolder::new();
    let buy = "[buy]\nrequests = [\"curl -X POST {{url}}/closed\"]\nsold = [{ json = { \"$.success\" = true } }]\n";
    write_shop(&folder, &start().await, buy);
    let finished = dry_run(&folder);
    let expected = "answered 200, which no pattern of sold, sold-out, over-limit, refused or queued matches; if it means sold, write sold = [{ \
                    status = 200, json = { \"$.success\" = false } }] into [buy], or else sold-out, over-limit, refused or queued\n";
    finished.assert_error(3, expected);
    assert!(finished.stdout.contains("< {\"errorMsg\":\"not yet\",\"success\":false}\n"), "{}", finished.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_buyer_asks_until_it_is_told() {
    let folder = TestFolder::new();
    let queue = "[buy]\nrequests = [\"curl -X POST {{url}}/queue\"]\nqueued = [{ status = 202 }]\nsold = [{ status = 200 }]\n\
                 take = { ticket = \"$.ticket\" }\norder = \"$.order\"\n[outcome]\nrequests = [\"curl \
                 {{url}}/tickets/{{ticket}}\"]\nevery = \"10ms\"\n";
    write_shop(&folder, &start().await, queue);
    let finished = dry_run(&folder);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.stdout.matches("= read as: queued\n").count(), 2, "{}", finished.stdout);
    assert!(finished.stdout.contains("buyer 0 was told: sold, as order of-a/7\n"), "{}", finished.stdout);
    assert!(finished.stdout.contains("answers that match sold-out, refused\n"), "{}", finished.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_no_buyer_is_named_by_its_section() {
    let url = start().await;
    for (from, to, section) in [("X-Admin", "X-Other", "[sale]"), ("{{url}}/stock", "{{url}}/none", "[books]")] {
        let folder = TestFolder::new();
        write_shop(&folder, &url, LOGIN_AND_BUY);
        let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
        fs::write(folder.path("shop.toml"), text.replace(from, to)).unwrap();
        let finished = dry_run(&folder);
        finished.assert_error(3, &format!("and {section} needs 2xx; correct the request, or add --location"));
        let told = format!("{}{}", finished.stdout, finished.stderr);
        let shown = told.lines().filter(|line| line.starts_with("= read as: ")).collect::<Vec<_>>();
        assert!(shown.last().unwrap().ends_with(&format!("and {section} needs 2xx")), "{told}");
        assert!(!told.contains("sign-up") && !told.contains("so the buyer goes on"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_leaves_the_answers_of_another_meaning_alone() {
    let folder = TestFolder::new();
    let buy = "[buy]\nrequests = [\"curl -X POST {{url}}/closed\"]\nsold = [{ status = 201 }]\nsold-out = [{ status = 200, json = { \
               \"$.errorMsg\" = \"sold out\" } }]\n";
    write_shop(&folder, &start().await, buy);
    let expected =
        "if it means sold, write sold = [{ status = 200, json = { \"$.errorMsg\" = \"not yet\" } }] into [buy]";
    dry_run(&folder).assert_error(3, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_without_a_file_is_tried_by_flags() {
    let folder = TestFolder::new();
    let url = start().await;
    let buy = format!("curl -X POST {url}/buy -H 'authorization: {TOKEN}'");
    let reset = format!("curl -X POST {url}/reset -H 'X-Admin: a'");
    let args = ["check", "--dry-run", "--buy", &buy, "--reset", &reset, "--stock", "100"];
    let told =
        finish(&mut folder.loadgen([&args[..], &["--sold", "200 $.success=true", "--order", "$.data"]].concat()));
    assert_eq!(told.code, Some(0), "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("buyer 0 was told: sold, as order 17\n"), "{}", told.stdout);
    assert!(!told.stdout.contains(TOKEN), "{}", told.stdout);
    let unknown = finish(&mut folder.loadgen([&args[..], &["--sold", "201"]].concat()));
    unknown.assert_error(
        3,
        "if it means sold, add --sold '200 $.success=true', or else --sold-out, --over-limit, --refused or --queued",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_before_the_purchase_is_named_by_its_line() {
    let url = start().await;
    for (rest, expected) in [
        (
            LOGIN_AND_BUY.replace("/login", "/logon"),
            "error: buyer 0 could not sign up: shop.toml:8: answered 404, and a",
        ),
        (LOGIN_AND_BUY.replace("$.data\" }", "$.token\" }"), "no answer has `token`, which is taken from $.token"),
        (LOGIN_AND_BUY.replace("$.left", "$.units"), ": the answer has nothing at $.units; name where the number is"),
        (
            LOGIN_AND_BUY.replace("{{url}}/buy", "-L {{url}}/away"),
            "redirects to http://shop.invalid, and requests go only to",
        ),
    ] {
        let folder = TestFolder::new();
        write_shop(&folder, &url, &rest);
        dry_run(&folder).assert_error(3, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_printed_before_it_runs() {
    let url = start().await;
    let folder = TestFolder::new();
    let sale = |command: &str| {
        write_shop(&folder, &url, LOGIN_AND_BUY);
        let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
        let requests = text.lines().nth(5).unwrap().to_owned();
        fs::write(folder.path("shop.toml"), text.replace(&requests, &format!("command = \"{command}\""))).unwrap();
    };
    sale("echo restocked >restocked");
    let ran = dry_run(&folder);
    assert!(ran.stdout.contains("[sale] puts the stock on sale\nruns: echo restocked >restocked\n"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(folder.path("restocked")).unwrap(), "restocked\n");
    sale("echo no stock; exit 4");
    dry_run(&folder)
        .assert_error(3, "the command of [sale] failed (exit status: 4); its output ends with:\nno stock\n");
}

#[test]
fn a_shop_elsewhere_needs_the_word_of_its_owner() {
    let folder = TestFolder::new();
    write_shop(&folder, "http://shop.invalid", LOGIN_AND_BUY);
    let expected = "error: the shop is not on this machine: http://shop.invalid; nothing was sent. If the shop is yours, add \
                    --yes-this-is-my-shop\n";
    dry_run(&folder).assert_error(64, expected);
    let mut command = folder.loadgen(["check", "--dry-run", "shop.toml", "--yes-this-is-my-shop"]);
    finish(command.env("KEY", "a")).assert_error(3, "error: [sale] failed: no answer: ");
}

#[test]
fn a_shop_file_is_written_once_and_can_be_read() {
    let folder = TestFolder::new();
    let written = finish(&mut folder.loadgen(["check", "--init"]));
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    assert!(written.stdout.starts_with("wrote shop.toml; fill it in"), "{}", written.stdout);
    let again = finish(&mut folder.loadgen(["check", "--init"]));
    again.assert_error(64, "error: shop.toml exists, and is not replaced; name another file");
    let other = finish(&mut folder.loadgen(["check", "--init", "other.toml"]));
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let text = fs::read_to_string(folder.path("other.toml")).unwrap();
    fs::write(folder.path("other.toml"), text.replace("stock = 100", "stok = 100")).unwrap();
    let refused = finish(&mut folder.loadgen(["check", "--dry-run", "other.toml"]));
    refused.assert_error(
        64,
        "has no key \"stok\"; the keys are name, urls, stock, per-buyer, certificate; did you mean stock?",
    );
}

#[test]
fn flags_that_need_each_other_say_so() {
    let folder = TestFolder::new();
    for (args, expected) in [
        (&["check"][..], "SHOP"),
        (&["check", "--dry-run"], "SHOP"),
        (&["check", "--dry-run", "--buy", "curl http://127.0.0.1:1/"], "--reset <CURL>"),
        (&["check", "--dry-run", "--shop", "shop.toml", "--sold", "200"], "cannot be used with"),
        (&["check", "--init", "--stock", "7"], "cannot be used with"),
        (&["check", "--dry-run", "shop.toml", "--shop", "shop.toml"], "cannot be used with"),
        (&["check", "--dry-run", "none.toml"], "the shop none.toml cannot be read: No such file"),
    ] {
        let finished = finish(&mut folder.loadgen(args));
        finished.assert_error(64, expected);
    }
}

/// A shop behind TLS. It answers every request alike, and is killed when the test ends.
struct SecureShop {
    child: Child,
    port: u16,
}

const SECURE_SHOP: &str = "
import http.server, ssl, sys
class Shop(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'{}')
    def log_message(self, *_):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server = http.server.HTTPServer(('127.0.0.1', 0), Shop)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

impl SecureShop {
    fn start(authority: &Authority) -> SecureShop {
        let identity = authority.issue("127.0.0.1").unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", SECURE_SHOP]).arg(&identity.certificate).arg(&identity.key);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        SecureShop { port: port.trim().parse().unwrap(), child }
    }
}

impl Drop for SecureShop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_shop_behind_tls_is_trusted_by_its_certificate() {
    let folder = TestFolder::new();
    let authority = Authority::create().unwrap();
    let shop = SecureShop::start(&authority);
    let buy = "[buy]\nrequests = [\"curl -X POST {{url}}/buy\"]\nsold = [{ status = 200 }]\n";
    write_shop(&folder, &format!("https://127.0.0.1:{}", shop.port), buy);
    dry_run(&folder).assert_error(3, "error: [sale] failed: no answer: ");
    let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
    let certificate = format!("stock = 100\ncertificate = \"{}\"", authority.certificate().display());
    fs::write(folder.path("shop.toml"), text.replacen("stock = 100", &certificate, 1)).unwrap();
    let trusted = dry_run(&folder);
    assert_eq!(trusted.code, Some(0), "{}{}", trusted.stdout, trusted.stderr);
}

// `script` gives a program a terminal, and ends with its status.
#[cfg(target_os = "linux")]
#[test]
fn the_user_of_a_terminal_is_asked() {
    let folder = TestFolder::new();
    write_shop(&folder, "http://shop.invalid", LOGIN_AND_BUY);
    for (answer, code, expected) in
        [("yes\n", 3, "[sale] failed: no answer"), ("y\n", 64, "nothing was sent. If the shop")]
    {
        let line = format!("{} check --dry-run shop.toml", env!("CARGO_BIN_EXE_loadgen"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(folder.path("")).env("KEY", "a");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("Is it your shop? Type yes to go on:") && shown.contains(expected), "{shown}");
        assert_eq!(output.status.code(), Some(code), "{shown}");
    }
}
