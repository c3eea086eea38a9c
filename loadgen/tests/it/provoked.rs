//! The audit finds each kind of mistake: in a real service, triggers of the database break the ledger, or a proxy falsifies
//! the answers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::broken::{BATCHES, Broken, once};

// C5
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
    let audited = broken.audit(&[]);
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

// C7
#[test]
fn a_batch_that_drops_its_last_order_is_found_out() {
    let broken = Broken::start();
    broken.assert_kept_by_batches();
    // The buyers know the numbers of all orders, and the stock lacks the units of all orders.
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

// C7
#[test]
fn a_batch_answered_before_a_failed_commit_is_found_out() {
    let broken = Broken::start();
    // The first batch of each sale is lost at its commit: its orders are gone, and its units are back.
    broken.execute(
        "create table crash (sale bigint primary key, batch xid8);
         create function crash() returns trigger language plpgsql as $$ begin
             insert into crash values (new.sale, pg_current_xact_id()) on conflict do nothing;
             if exists (select from crash where sale = new.sale and batch = pg_current_xact_id()) then
                 delete from order_lines where order_id = new.order_id;
                 delete from orders where order_id = new.order_id;
                 update goods set on_hand = on_hand + new.quantity where goods_no = new.goods_no and sale = new.sale;
             end if;
             return null;
         end $$;
         create constraint trigger crash after insert on order_lines initially deferred
             for each row execute function crash();",
    );
    // The owner of a SKU remembers the stock, and would overwrite the units that came back.
    for strategy in ["pg-merge", "zk-merge"] {
        broken.assert_found_of(strategy, "confirmations without an order", |trial| {
            let audit = &trial["audit"];
            let books = ["lost_updates", "double_sales", "out_of_sequence", "oversold"].map(|field| &audit[field]);
            audit["confirmations_unfounded"].as_i64().unwrap() > 0 && books == [&Value::from(0); 4]
        });
        let audited = broken.audit(&[]);
        assert_eq!(audited.code, Some(0), "the books balance: {}", audited.stdout);
    }
    broken.stop();
}

// C5
#[test]
fn orders_out_of_sequence_or_of_an_older_token_are_found_out() {
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
            "an order with a wrong number of units left, and a gap where it should be",
            |trial| {
                let audit = &trial["audit"];
                // That order, the first one, which does not follow it, and the one behind the gap.
                let found = audit["out_of_sequence"].as_u64().unwrap();
                found >= 3 && (&audit["double_sales"], &audit["lost_updates"]) == (&0.into(), &0.into())
            },
        );
    }
    let audited = broken.audit(&[]);
    assert_eq!(audited.code, Some(2), "{}", audited.stdout);

    broken.execute(
        "create or replace function skip() returns trigger language plpgsql as $$ begin
             if new.remaining = 3 then new.token := -1; end if; return new;
         end $$;",
    );
    for strategy in ["zk-merge", "zk-owner"] {
        broken.assert_found_of(strategy, "a token that falls", |trial| {
            let audit = &trial["audit"];
            let history = &trial["history"];
            (&audit["tokens_out_of_order"], &audit["out_of_sequence"]) == (&1.into(), &0.into())
                && history["token_regressions"].is_null()
        });
    }
    broken.stop();
}

// C6
#[test]
fn a_batch_that_overtakes_is_found_out_by_its_history() {
    let broken = Broken::start();
    // The first buyers take so long that all others wait for the batches behind them.
    broken.execute(
        "create function doze() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return null; end $$;
         create trigger doze after insert on orders for each statement execute function doze();",
    );
    broken.assert_kept_by_batches();
    // The same history as of a service whose batches sell to the latest arrivals first.
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
    let audited = broken.audit(&["--target", &broken.url()]);
    assert_eq!(audited.code, Some(2), "the command judges the order of arrival, too: {}", audited.stdout);
    broken.stop();
}

// C5
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

    for (member, told) in [("remaining", json!(77)), ("quantity", json!(2)), ("goods_no", json!(2))] {
        broken.falsify(once(move |body| {
            body[member] = told.clone();
            200
        }));
        broken.assert_found("a receipt that is not what the order has", |trial| {
            let audit = &trial["audit"];
            (&audit["confirmations_wrong"], &audit["confirmations_unfounded"]) == (&1.into(), &0.into())
        });
    }

    let mut first: Option<Value> = None;
    broken.falsify(move |path, status, body| {
        if path.starts_with("/goods-stock/") && status == 200 {
            *body = first.get_or_insert_with(|| body.clone()).clone();
        }
        status
    });
    broken.assert_found("one order told to everybody", |trial| trial["audit"]["confirmations_repeated"] == 5);

    // Only the service itself may say that nothing is left.
    let conflicts = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&conflicts);
    broken.falsify(move |_, status, body| {
        if status == 409 {
            *counted.lock().unwrap() += 1;
            body["type"] = "about:blank".into();
        }
        status
    });
    let (_, report) = broken.compare("zk-mutex");
    let answers = &report["trials"][0]["answers"];
    assert_eq!(
        (&answers["sold_out"], &answers["error"]),
        (&0.into(), &(*conflicts.lock().unwrap()).into()),
        "{report:#}"
    );

    // An order without an answer is not a fault, and is counted apart.
    broken.falsify(once(|_| 500));
    let finished = broken.run_with("zk-mutex", &broken.url(), &["--errors-max", "10%"]);
    finished.assert_kept();
    let report = broken.client.report();
    let trial = &report["trials"][0];
    assert_eq!((&trial["audit"]["indeterminate"], &trial["answers"]["error"]), (&1.into(), &1.into()), "{trial:#}");
    assert_eq!(report["results"][0]["figures"]["indeterminate"]["value"], 1.0);
    broken.stop();
}

// C5
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

    // The times of a single instance can be compared without the name of its clock.
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

#[test]
fn a_strategy_whose_requests_fail_is_not_comparable() {
    let broken = Broken::start();
    // A sequence is not rolled back, so every third purchase fails, and its unit goes to another buyer.
    broken.execute(
        "create sequence purchases;
         create function fail() returns trigger language plpgsql as $$ begin
             if nextval('purchases') % 3 = 0 then raise exception 'out of order'; end if; return new;
         end $$;
         create trigger fail before insert on order_lines for each row execute function fail();",
    );
    let finished = broken.run("pg-conditional", &broken.url());
    let report = broken.client.report();
    let verdict = &finished.stdout;
    let result = &report["results"][0];
    let trial = &report["trials"][0];
    assert_eq!(trial["audit"]["sold"], 6, "everything was sold in the end: {trial:#}");
    assert_eq!((&result["finding"], &result["kept"]), (&"requests-failed".into(), &Value::Null), "{result:#}");
    assert_eq!((&result["is_comparable"], &result["rank"]), (&false.into(), &Value::Null), "{result:#}");
    let told = format!("{} of 12 requests ended in an error or a timeout", trial["answers"]["error"]);
    assert!(finished.code == Some(3) && verdict.contains(&told), "{verdict}");

    let allowed = broken.run_with("pg-conditional", &broken.url(), &["--errors-max", "50%"]);
    allowed.assert_kept();
    broken.stop();
}
