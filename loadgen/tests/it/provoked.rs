//! The audit finds each kind of mistake: in a real service, triggers of the database break the ledger, or a proxy falsifies
//! the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::support::{Lab, Running, demo_service, exports, finish};

/// The strategies that sell in batches.
const BATCHES: [&str; 3] = ["pg-merge", "zk-merge", "zk-owner"];

/// Changes an answer: of what request, the status and the body.
type Falsify = Box<dyn FnMut(&str, u16, &mut Value) -> u16 + Send>;

/// A service that is up, and a proxy in front of it that may lie.
struct Broken {
    lab: Lab,
    client: Lab,
    running: Running,
    variables: BTreeMap<String, String>,
    proxy: SocketAddr,
    falsify: Arc<Mutex<Falsify>>,
    runtime: Runtime,
}

#[derive(Clone)]
struct Proxy {
    service: String,
    client: reqwest::Client,
    falsify: Arc<Mutex<Falsify>>,
}

impl Broken {
    fn start() -> Broken {
        let (lab, client) = (Lab::new(), Lab::new());
        let running = Running::start(
            lab.loadgen_throwaway(["up", "--instances", "1", "--hold", "0ms"])
                .arg("--demo-service")
                .arg(demo_service()),
        );
        let variables = exports(&running.until_stdout("# what was sold"));
        let falsify: Arc<Mutex<Falsify>> = Arc::new(Mutex::new(Box::new(|_, status, _| status)));
        let runtime = Runtime::new().unwrap();
        let proxy = Proxy {
            service: variables["SECKILL_URLS"].clone(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            falsify: Arc::clone(&falsify),
        };
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass_on).with_state(proxy);
        runtime.spawn(async move { axum::serve(listener, router).await });
        Broken { lab, client, running, variables, proxy: address, falsify, runtime }
    }

    /// Lets the proxy lie in this way from now on.
    fn falsify(&self, falsify: impl FnMut(&str, u16, &mut Value) -> u16 + Send + 'static) {
        *self.falsify.lock().unwrap() = Box::new(falsify);
    }

    fn execute(&self, statements: &'static str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.variables["DATABASE_URL"]).await.unwrap();
            sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// Compares through the proxy, and returns the exit code with the report.
    fn compare(&self, strategy: &str) -> (Option<i32>, Value) {
        let args = ["run", strategy, "--users", "12", "--stock", "6", "--trials", "1", "--no-warm-up", "--target"];
        let url = format!("http://{}", self.proxy);
        let finished = finish(self.client.loadgen(args).arg(&url).envs(&self.variables));
        assert!(finished.code.is_some(), "{}", finished.stderr);
        (finished.code, self.client.report())
    }

    /// Compares, and expects this of the audit.
    fn assert_found(&self, what: &str, expected: impl Fn(&Value) -> bool) {
        self.assert_found_of("zk-mutex", what, expected);
    }

    /// Compares this strategy, and expects this of the audit.
    fn assert_found_of(&self, strategy: &str, what: &str, expected: impl Fn(&Value) -> bool) {
        let (code, report) = self.compare(strategy);
        assert_eq!(code, Some(2), "{what}: {report:#}");
        assert_eq!(report["results"][0]["finding"], "broken", "{what}: {report:#}");
        assert!(expected(&report["trials"][0]), "{what}: {:#}", report["trials"][0]);
    }

    /// Expects the strategies that sell in batches to be right as long as nothing is broken.
    fn assert_kept_by_batches(&self) {
        for strategy in BATCHES {
            let (code, report) = self.compare(strategy);
            assert!([Some(0), Some(4)].contains(&code), "an honest service: {report:#}");
            let audit = &report["trials"][0]["audit"];
            let has_tokens = strategy.starts_with("zk-");
            let tokens = if has_tokens { 0.into() } else { Value::Null };
            assert_eq!((&audit["out_of_sequence"], &audit["tokens_out_of_order"]), (&0.into(), &tokens), "{audit:#}");
            assert_eq!(audit["overtaken_in_batch"].as_u64().unwrap_or(0), 0, "{audit:#}");
        }
    }

    fn stop(self) {
        self.running.signal(nix::sys::signal::Signal::SIGINT);
        let (status, _) = self.running.wait();
        assert_eq!(status.code(), Some(0));
        assert!(self.lab.is_clean() && self.client.is_clean(), "something is left");
    }
}

/// Passes a request on, and its answer back, falsified.
async fn pass_on(State(proxy): State<Proxy>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let url = format!("{}{uri}", proxy.service);
    let mut request = proxy.client.request(method, url).body(body);
    for name in ["authorization", "content-type"] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let Ok(mut body) = serde_json::from_str::<Value>(&text) else {
        return (StatusCode::from_u16(status).unwrap(), text).into_response();
    };
    let status = (proxy.falsify.lock().unwrap())(uri.path(), status, &mut body);
    let content_type = [("content-type", "application/json")];
    (StatusCode::from_u16(status).unwrap(), content_type, body.to_string()).into_response()
}

/// Does something to one answer that sold, and to no other.
fn once(mut change: impl FnMut(&mut Value) -> u16 + Send) -> impl FnMut(&str, u16, &mut Value) -> u16 + Send {
    let mut is_done = false;
    move |path, status, body| {
        if path.starts_with("/goods-stock/") && status == 200 && !is_done {
            is_done = true;
            return change(body);
        }
        status
    }
}

#[test]
fn a_ledger_that_a_trigger_breaks_is_found_out_by_its_kind() {
    let broken = Broken::start();
    let (code, report) = broken.compare("zk-mutex");
    assert!([Some(0), Some(4)].contains(&code), "an honest service: {report:#}");

    // Every second deduction is undone as it is written.
    broken.execute(
        "create function undo() returns trigger language plpgsql as $$ begin
             if old.sale = new.sale and new.on_hand % 2 = 0 then new.on_hand := old.on_hand; end if; return new;
         end $$;
         create trigger undo before update on goods for each row execute function undo();",
    );
    broken.assert_found("a lost update, a double sale and an oversold unit", |trial| {
        let audit = &trial["audit"];
        let is_above = |field: &str| audit[field].as_i64().unwrap() > 0;
        is_above("oversold") && is_above("double_sales") && audit["lost_updates"].as_i64().unwrap() < 0
    });
    let audited = finish(broken.client.loadgen(["audit"]).envs(&broken.variables));
    assert_eq!(audited.code, Some(2), "{}", audited.stdout);
    assert!(audited.stdout.contains("verdict: wrong: sale "), "{}", audited.stdout);

    // Every deduction takes two units.
    broken.execute(
        "create or replace function undo() returns trigger language plpgsql as $$ begin
             if old.sale = new.sale then new.on_hand := greatest(new.on_hand - 1, 0); end if; return new;
         end $$;",
    );
    broken.assert_found("units that went without an order", |trial| {
        let audit = &trial["audit"];
        (&audit["undersold"], &audit["lost_updates"], &audit["oversold"]) == (&3.into(), &3.into(), &0.into())
    });

    // An order is forgotten as soon as it is written; the buyer has its number.
    broken.execute(
        "drop trigger undo on goods;
         create function forget() returns trigger language plpgsql as $$ begin
             if new.remaining = 3 then delete from order_lines where order_id = new.order_id; end if; return null;
         end $$;
         create trigger forget after insert on order_lines for each row execute function forget();",
    );
    broken.assert_found("a confirmation without an order", |trial| {
        trial["audit"]["confirmations_unfounded"] == 1 && trial["audit"]["lost_updates"] == 1
    });
    broken.stop();
}

#[test]
fn a_batch_that_drops_its_last_order_is_found_out() {
    let broken = Broken::start();
    broken.assert_kept_by_batches();
    // The buyers have the numbers of all orders, and the stock is without the units of all of them.
    broken.execute(
        "create function drop_last() returns trigger language plpgsql as $$ begin
             delete from order_lines where order_id = (select max(order_id) from written); return null;
         end $$;
         create trigger drop_last after insert on order_lines referencing new table as written
             for each statement execute function drop_last();",
    );
    for strategy in BATCHES {
        broken.assert_found_of(strategy, "a confirmation without an order for each batch", |trial| {
            let audit = &trial["audit"];
            let dropped = audit["confirmations_unfounded"].as_i64().unwrap();
            let sold = (&audit["sold"], &audit["lost_updates"]);
            dropped > 0 && sold == (&(6 - dropped).into(), &dropped.into()) && audit["oversold"] == 0
        });
    }
    broken.stop();
}

#[test]
fn a_batch_that_is_answered_before_a_commit_that_fails_is_found_out_by_its_answers_alone() {
    let broken = Broken::start();
    // The first batch of each sale is lost at its commit: its orders are gone, and its units are back.
    broken.execute(
        "create table crash (sale bigint primary key, batch xid8);
         create function crash() returns trigger language plpgsql as $$ begin
             insert into crash values (new.sale, pg_current_xact_id()) on conflict do nothing;
             if exists (select from crash where sale = new.sale and batch = pg_current_xact_id()) then
                 delete from order_lines where order_id = new.order_id;
                 update goods set on_hand = on_hand + new.quantity where goods_no = new.goods_no and sale = new.sale;
             end if;
             return null;
         end $$;
         create constraint trigger crash after insert on order_lines initially deferred
             for each row execute function crash();",
    );
    // The owner of a SKU would write the stock that it remembers over the units that came back.
    for strategy in ["pg-merge", "zk-merge"] {
        broken.assert_found_of(strategy, "confirmations without an order", |trial| {
            let audit = &trial["audit"];
            let books = ["lost_updates", "double_sales", "out_of_sequence", "oversold"].map(|field| &audit[field]);
            audit["confirmations_unfounded"].as_i64().unwrap() > 0 && books == [&Value::from(0); 4]
        });
        let audited = finish(broken.client.loadgen(["audit"]).envs(&broken.variables));
        assert_eq!(audited.code, Some(0), "the books balance: {}", audited.stdout);
    }
    broken.stop();
}

#[test]
fn orders_of_batches_that_are_out_of_sequence_or_of_an_older_token_are_found_out() {
    let broken = Broken::start();
    broken.execute(
        "create function skip() returns trigger language plpgsql as $$ begin
             if new.remaining = 3 then new.remaining := 30; end if; return new;
         end $$;
         create trigger skip before insert on order_lines for each row execute function skip();",
    );
    for strategy in BATCHES {
        broken.assert_found_of(
            strategy,
            "an order with a wrong number of units left, and a gap in its place",
            |trial| {
                let audit = &trial["audit"];
                // That order, the first one, which does not follow it, and the one behind the gap.
                let found = audit["out_of_sequence"].as_u64().unwrap();
                found >= 3 && (&audit["double_sales"], &audit["lost_updates"]) == (&0.into(), &0.into())
            },
        );
    }
    let audited = finish(broken.client.loadgen(["audit"]).envs(&broken.variables));
    assert_eq!(audited.code, Some(2), "{}", audited.stdout);

    broken.execute(
        "create or replace function skip() returns trigger language plpgsql as $$ begin
             if new.remaining = 3 then new.token := -1; end if; return new;
         end $$;",
    );
    for strategy in ["zk-merge", "zk-owner"] {
        broken.assert_found_of(strategy, "a token that falls", |trial| {
            let (audit, history) = (&trial["audit"], &trial["history"]);
            (&audit["tokens_out_of_order"], &audit["out_of_sequence"]) == (&1.into(), &0.into())
                && history["token_regressions"].is_null()
        });
    }
    broken.stop();
}

#[test]
fn a_batch_that_does_not_keep_to_the_order_of_arrival_is_found_out_by_its_history() {
    let broken = Broken::start();
    // The first buyers take so long that all others wait for the batches behind them.
    broken.execute(
        "create function doze() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return null; end $$;
         create trigger doze after insert on orders for each statement execute function doze();",
    );
    broken.assert_kept_by_batches();
    // The service would say so if its batches sold to the latest arrivals first.
    broken.falsify(|path, status, body| {
        let records = (path == "/admin/history").then(|| body["records"].as_array_mut()).flatten();
        records.into_iter().flatten().for_each(|record| {
            record["asked_ns"] = (1_u64 << 62).saturating_sub(record["asked_ns"].as_u64().unwrap()).into();
        });
        status
    });
    for strategy in BATCHES {
        broken.assert_found_of(strategy, "orders behind later arrivals", |trial| {
            trial["audit"]["overtaken_in_batch"].as_u64().unwrap() > 0 && trial["audit"]["out_of_sequence"] == 0
        });
    }
    broken.stop();
}

#[test]
fn answers_that_are_not_what_the_database_has_are_found_out() {
    let broken = Broken::start();
    let refusal = json!({"type": "urn:seckill-lab:problem:lock-timeout", "title": "t", "status": 503, "detail": "d"});
    broken.falsify(once(move |body| {
        *body = refusal.clone();
        503
    }));
    broken.assert_found("an order behind a refusal", |trial| {
        trial["audit"]["orders_unexplained"] == 1 && trial["answers"]["refused"] == 1
    });

    broken.falsify(once(|body| {
        body["order_id"] = 999_999.into();
        200
    }));
    broken.assert_found("an order that is not there", |trial| {
        trial["audit"]["confirmations_unfounded"] == 1 && trial["audit"]["orders_unexplained"] == 1
    });

    let mut first: Option<Value> = None;
    broken.falsify(move |path, status, body| {
        if path.starts_with("/goods-stock/") && status == 200 {
            *body = first.get_or_insert_with(|| body.clone()).clone();
        }
        status
    });
    broken.assert_found("one order told to everybody", |trial| trial["audit"]["confirmations_repeated"] == 5);

    // An order without an answer is nobody's fault, and is counted apart.
    broken.falsify(once(|_| 500));
    let (code, report) = broken.compare("zk-mutex");
    assert!([Some(0), Some(4)].contains(&code), "{report:#}");
    let trial = &report["trials"][0];
    assert_eq!((&trial["audit"]["indeterminate"], &trial["answers"]["error"]), (&1.into(), &1.into()), "{trial:#}");
    assert_eq!(report["results"][0]["figures"]["indeterminate"]["value"], 1.0);
    broken.stop();
}

#[test]
fn a_lock_that_does_not_exclude_is_found_out_by_its_history() {
    let broken = Broken::start();
    let records = |body: &mut Value| body["records"].as_array_mut().filter(|records| records.len() >= 3).cloned();
    broken.falsify(move |path, status, body| {
        if path == "/admin/history"
            && let Some(mut records) = records(body)
        {
            // The third was inside before the second had left.
            records[2]["entered_ns"] = (records[1]["left_ns"].as_u64().unwrap() - 1).into();
            records[2]["asked_ns"] = records[1]["asked_ns"].clone();
            body["records"] = records.into();
        }
        status
    });
    broken.assert_found("an overlap", |trial| {
        let history = &trial["history"];
        (&history["overlaps"], &history["inside_max"], &trial["audit"]["oversold"]) == (&1.into(), &2.into(), &0.into())
    });

    broken.falsify(move |path, status, body| {
        if path == "/admin/history"
            && let Some(mut records) = records(body)
        {
            records[1]["token"] = (records[0]["token"].as_i64().unwrap() - 1).into();
            body["records"] = records.into();
        }
        status
    });
    broken.assert_found("a token regression", |trial| {
        (&trial["history"]["token_regressions"], &trial["history"]["overlaps"]) == (&1.into(), &0.into())
    });

    // One instance can be compared with itself, whatever it says of its clock.
    broken.falsify(|path, status, body| {
        if path == "/admin/history" {
            body["clock"] = Value::Null;
        }
        status
    });
    let (code, report) = broken.compare("zk-mutex");
    assert!([Some(0), Some(4)].contains(&code), "one instance has one clock, whatever its name: {report:#}");
    broken.stop();
}
