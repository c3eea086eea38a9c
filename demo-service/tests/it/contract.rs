//! The interface as it is documented: `/openapi.json`, `/docs`, and whether the service keeps to them.

use std::env;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use demo_service::config::Config;
use demo_service::strategy::registry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::{Answer, Instance, Lab, TOKEN};

/// Much longer than schemathesis takes for one example of each operation.
const EXAMPLE_WITHIN: Duration = Duration::from_secs(15);

/// Returns how many requests schemathesis makes up for each operation. `CONTRACT_EXAMPLES` in the environment sets it, for a long run.
fn examples() -> u32 {
    env::var("CONTRACT_EXAMPLES").map_or(20, |examples| examples.parse().unwrap())
}

/// Returns every operation of a document, with its path and method.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(|(method, operation)| (path.clone(), method.to_uppercase(), operation))
    });
    operations.collect()
}

fn sample(path: &str) -> String {
    let numbers = ["{goods_no}", "{order_id}", "{ticket}", "{reservation_id}"];
    numbers.into_iter().fold(path.to_owned(), |path, number| path.replace(number, "1"))
}

// S83
#[tokio::test]
async fn every_documented_operation_is_there_and_no_other_method_is() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    let document = instance.get("/openapi.json").await.body;
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    assert_eq!(operations.len(), 17);
    for (path, _, _) in &operations {
        let documented: Vec<_> = operations.iter().filter(|one| one.0 == *path).map(|one| one.1.as_str()).collect();
        for method in ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            // Whatever can be looked at has a head, unless looking buys.
            let is_headed = documented.contains(&"GET") && !path.starts_with("/goods-stock");
            let is_there = documented.contains(&method) || method == "HEAD" && is_headed;
            let request = instance.request(Method::from_bytes(method.as_bytes()).unwrap(), &sample(path));
            let response = request.send().await.unwrap();
            assert_eq!(response.status() != 405, is_there, "{method} {path}: {response:?}");
            if !is_there {
                let allowed = response.headers()["allow"].to_str().unwrap();
                let expected = if is_headed { "GET,HEAD" } else { documented[0] };
                assert_eq!(allowed, expected, "{path}");
            }
        }
    }
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

#[tokio::test]
async fn a_request_for_the_head_of_a_purchase_buys_nothing() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    let response = instance.request(Method::HEAD, "/goods-stock/1").send().await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"GET".parse().unwrap()));
    assert_eq!(instance.get("/goods/1").await.body["on_hand"], 5);
}

#[tokio::test]
async fn the_document_lists_every_strategy_and_every_bound() {
    let lab = Lab::new().await;
    let document = lab.start(&[]).await.get("/openapi.json").await.body;
    let names: Vec<_> = registry::names().chain([""]).collect();
    let mut choices = 0;
    for (path, method, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let schema = &parameter["schema"];
            assert!(parameter["description"].is_string(), "{name} of {method} {path}: {parameter}");
            match name {
                "strategy" => {
                    assert_eq!(schema["enum"], json!(names), "{method} {path}");
                    choices += 1;
                }
                "goods_no" | "order_id" | "ticket" | "reservation_id" => {
                    assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(i64::MAX)));
                }
                "Buyer-Id" => {
                    assert_eq!((&parameter["required"], &parameter["in"]), (&json!(false), &json!("header")));
                }
                "Idempotency-Key" => assert_eq!((&parameter["required"], method.as_str()), (&json!(true), "POST")),
                _ => assert_eq!(path, "/admin/history", "{name}"),
            }
        }
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(answer["headers"]["x-request-id"].is_object(), "{status} of {method} {path}");
        }
        // What is meant for readers of the source must not get there.
        assert!(!operation.to_string().contains("# Errors"), "{method} {path}");
    }
    assert_eq!(choices, 4);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["NewOrder"]["properties"]["quantity"]["minimum"], 1);
    assert_eq!(schemas["NewCart"]["properties"]["lines"]["maxItems"], 20);
    for body in ["NewOrder", "NewCart", "NewLine", "NewReservation", "NewSale"] {
        assert_eq!(schemas[body]["additionalProperties"], false, "{body}");
    }
}

#[tokio::test]
async fn what_an_auditor_reads_is_documented_as_always_there() {
    let lab = Lab::new().await;
    let document = lab.start(&[]).await.get("/openapi.json").await.body;
    let schemas = &document["components"]["schemas"];
    for (schema, always) in [
        ("CriticalSection", &["asked_ns", "entered_ns", "left_ns", "order_id", "token"][..]),
        ("OfferedStrategy", &["permits"]),
        ("Goods", &["guard", "strategy"]),
        ("History", &["instance", "clock"]),
    ] {
        let parts = schemas[schema]["allOf"].as_array().cloned().unwrap_or_else(|| vec![schemas[schema].clone()]);
        let required: Vec<_> = parts.iter().filter_map(|part| part["required"].as_array()).flatten().collect();
        for name in always {
            assert!(required.contains(&&json!(name)), "{name} of {schema}: {}", schemas[schema]);
        }
    }
}

#[tokio::test]
async fn administration_is_documented_where_there_is_some() {
    let lab = Lab::new().await;
    let with = lab.start(&[]).await.get("/openapi.json").await.body;
    let start_sale = &with["paths"]["/admin/goods/{goods_no}"]["put"];
    assert_eq!(start_sale["security"], json!([{ "admin_token": [] }]));
    assert_eq!(with["components"]["securitySchemes"]["admin_token"]["scheme"], "bearer");

    let without = Instance::start(Config { admin_token: None, ..lab.config(&[]) }).await;
    let without = without.get("/openapi.json").await.body;
    assert_eq!(operations(&without).len(), operations(&with).len() - 2);
    assert!(without["components"]["securitySchemes"].is_null());
    assert!(!without.to_string().contains("startSale"), "not even a link leads there");
}

#[tokio::test]
async fn the_page_of_the_document_needs_nothing_from_elsewhere() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    // The client follows the redirect to the page.
    let page = instance.request(Method::GET, "/docs").send().await.unwrap();
    assert_eq!((page.status().as_u16(), page.url().path()), (200, "/docs/"));
    let mut texts = vec![page.text().await.unwrap()];
    let files: Vec<_> = texts[0].split('"').filter(|part| part.ends_with(".js") || part.ends_with(".css")).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>() {
        let response = instance.request(Method::GET, &format!("/docs/{file}")).send().await.unwrap();
        assert_eq!(response.status(), 200, "{file}");
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("http"), "{policy}");
        if file.ends_with("initializer.js") {
            texts.push(response.text().await.unwrap());
        }
    }
    for text in &texts {
        assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("\"//"), "{text}");
    }
    assert!(texts[1].contains(r#""url": "../openapi.json""#), "{}", texts[1]);
    instance.get("/docs/no-such-file").await.assert_refusal(404, "about:blank");
}

// S84
#[tokio::test]
async fn the_root_leads_a_browser_to_the_page_and_nobody_else() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let request = instance.request(Method::GET, "/").header("accept", "text/html,application/xml;q=0.9,*/*;q=0.8");
    let page = request.send().await.unwrap();
    assert_eq!((page.status().as_u16(), page.url().path()), (200, "/docs/"));
    instance.get("/").await.assert_refusal(404, "about:blank");
}

// S85
#[tokio::test]
async fn an_answer_and_its_problem_name_the_request() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let ask = async |id: &str| {
        Answer::of(instance.request(Method::GET, "/goods/7").header("x-request-id", id).send().await.unwrap()).await
    };
    let answer = ask("from/here").await;
    answer.assert_problem(404, "unknown-goods");
    assert_eq!(answer.header("x-request-id"), Some("from/here"));
    assert_eq!(answer.body["instance"], "urn:seckill-lab:request:from%2Fhere");

    let long = "i".repeat(129);
    for unusable in ["", "two words", &long] {
        let answer = ask(unusable).await;
        let id = answer.header("x-request-id").unwrap();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id} is a random UUID");
        assert_eq!(answer.body["instance"], format!("urn:seckill-lab:request:{id}"));
    }
    // Also in a refusal by the router, and in an answer without a problem document.
    let answer = Answer::of(instance.request(Method::DELETE, "/nowhere").send().await.unwrap()).await;
    assert!(answer.body["instance"].as_str().unwrap().ends_with(answer.header("x-request-id").unwrap()));
    assert!(instance.get("/healthz").await.header("x-request-id").is_some());
}

#[tokio::test]
async fn whole_numbers_may_be_written_with_a_point() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let request = instance.request(Method::PUT, "/admin/goods/1").bearer_auth(TOKEN);
    let request = request.header("content-type", "application/json").body(r#"{"stock":5.0}"#);
    let answer = Answer::of(request.send().await.unwrap()).await;
    answer.assert_ok();
    assert_eq!(answer.body["on_hand"], 5);
}

/// Goal: whatever a client sends, the service does what its document says. Method: schemathesis derives requests from
/// the document, well-formed ones, malformed ones and sequences along its links, and checks each answer against it.
// S83
#[tokio::test(flavor = "multi_thread")]
async fn the_service_keeps_to_its_document_whatever_it_is_asked() {
    let (lab, instance) = Lab::with_instance(&["--zk-sessions", "2"]).await;
    let document = format!("http://{}/openapi.json", instance.address);
    // It asks for the tickets 1 to 3.
    instance.put_on_sale(4, 3, "pg-queue").await.assert_ok();
    for _ in 0..3 {
        instance.buy(4, "").await.assert_ok();
    }
    // It would begin every sequence with one of these, by a number that no reservation has, because it takes them for requests that
    // make something.
    let ends = ["--exclude-operation-id", "confirmReservation", "--exclude-operation-id", "cancelReservation"];
    let single = ("examples,coverage,fuzzing", examples(), &[][..], 16);
    let sequences = ("stateful", 3 * examples(), &ends[..], 14);
    for (phases, examples, left_out, selected) in [single, sequences] {
        // The first phases leave sales of any size behind.
        for goods_no in GOODS {
            let strategy = if goods_no == IN_TWO_STEPS { "pg-reserve" } else { "" };
            instance.put_on_sale(goods_no, i64::MAX, strategy).await.assert_ok();
        }
        let orders_before = lab.orders().await;
        let output = schemathesis(&document, phases, examples, left_out).await;
        let report = String::from_utf8_lossy(&output.stdout);
        println!("{report}");
        assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
        // It leaves out the document itself. Without orders the checks would have had little to look at.
        assert!(report.contains(&format!("{selected} selected / 16 total")), "{report}");
        assert!(lab.orders().await > orders_before, "{report}");
        // It has named strategies of every family for the same SKUs, and has started sales under any of them.
        assert_eq!(sales_that_do_not_add_up(&lab).await, [], "{report}");
    }
}

/// Returns the sales, as SKU and number, whose orders and remaining units are together not what they started with.
async fn sales_that_do_not_add_up(lab: &Lab) -> Vec<(i64, i64)> {
    let sql = "select sales.goods_no, sales.sale from sales join goods on goods.goods_no = sales.goods_no
               where sales.stock_initial <> coalesce(sales.on_hand_final, goods.on_hand) + (
                   select coalesce(sum(line.quantity), 0) from order_lines as line
                   where line.goods_no = sales.goods_no and line.sale = sales.sale) + (
                   select coalesce(sum(held.quantity), 0) from reservations as held
                   where held.goods_no = sales.goods_no and held.sale = sales.sale and held.state = 'held')";
    sqlx::query_as(sql).fetch_all(&mut lab.connect().await).await.unwrap()
}

/// The SKUs that schemathesis.toml names.
const GOODS: [i64; 3] = [1, 2, 3];

/// The SKU that has reservations as long as nobody starts its next sale.
const IN_TWO_STEPS: i64 = 3;

async fn schemathesis(document: &str, phases: &str, examples: u32, left_out: &[&str]) -> Output {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = package.with_file_name("target/contract-python/bin/schemathesis");
    assert!(program.is_file(), "{} not found; run: make deps-test", program.display());
    let contract = package.join("tests/contract");
    let run = Command::new(program)
        .arg("--config-file")
        .arg(contract.join("schemathesis.toml"))
        .args(["run", document, "--phases", phases, "--max-examples", &examples.to_string()])
        .args(left_out)
        // Where it finds checks.py.
        .current_dir(&contract)
        .env("HYPOTHESIS_STORAGE_DIRECTORY", Path::new(env!("CARGO_TARGET_TMPDIR")).join("hypothesis"))
        .env("ADMIN_TOKEN", TOKEN)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NO_COLOR", "1")
        .env("COLUMNS", "120")
        .kill_on_drop(true)
        .output();
    timeout(EXAMPLE_WITHIN * examples, run).await.expect("schemathesis ends").unwrap()
}
