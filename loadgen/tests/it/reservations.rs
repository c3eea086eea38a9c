//! Buyers of a strategy that sells in two steps: some never pay, some pay too late, and some pay twice.

use std::fs;

use serde_json::json;

use crate::broken::Broken;
use crate::compare::{figure, result};
use crate::support::{TestFolder, finish};

// C54
#[test]
fn a_purchase_in_two_steps_is_compared_with_one_in_one() {
    let folder = TestFolder::new();
    let args =
        "compare --users 40 --stock 20 --trials 1 --no-warm-up --instances 2 --strategies pg-conditional,pg-reserve";
    let finished = finish(&mut folder.loadgen(args.split_whitespace()));
    finished.assert_kept();
    let report = folder.report();
    for name in ["pg-conditional", "pg-reserve"] {
        let answers = &result(&report, name)["answers"];
        assert_eq!([&answers["sold"], &answers["sold_out"], &answers["unpaid"]], [20, 20, 0], "{name}");
    }
    assert_eq!(figure(result(&report, "pg-reserve"), "misplaced"), Some(0.0));
    assert_eq!(report["plan"]["habits"], json!(null));
}

/// Goal: units that nobody pays sell again while buyers come, and everybody is told the truth. Method: the buyers come again and
/// again for several times as long as a reservation lasts.
// C54
#[test]
fn units_that_nobody_pays_sell_again_and_all_is_told_rightly() {
    let folder = TestFolder::new();
    let plan = "users = 10\nstock = 30\nduration = \"3s\"\n[payers]\nabandon = \"30%\"\npay-late = \"10%\"\n[service]\n\
                args = [\"--reservation-ttl\", \"200ms\"]\ninstances = 2\n";
    fs::write(folder.path("plan.toml"), plan).unwrap();
    let args = "run pg-reserve --plan plan.toml --pay-twice 20% --trials 1 --no-warm-up";
    let finished = finish(&mut folder.loadgen(args.split_whitespace()));
    assert!([Some(0), Some(4)].contains(&finished.code), "{}", finished.stderr);
    assert!(finished.stdout.contains("30 % never pay, 10 % pay too late, 20 % pay twice"), "{}", finished.stdout);
    let report = folder.report();
    assert_eq!(report["plan"]["habits"], json!({ "abandon": 0.3, "pay_late": 0.1, "pay_twice": 0.2 }));
    let trial = &report["trials"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    // A slow machine pays late by itself, so the stock may outlast the buyers.
    let [sold, unpaid] = ["sold", "unpaid"].map(|outcome| number(&trial["answers"][outcome]));
    assert!(sold > 0 && sold <= 30 && unpaid > 0 && sold + unpaid > 30, "units were held again: {trial:#}");
    let audit = &trial["audit"];
    for wrong in ["oversold", "undersold", "lost_updates", "misplaced", "orders_unexplained", "confirmations_wrong"] {
        assert_eq!(audit[wrong], 0, "{wrong}: {trial:#}");
    }
    assert_eq!(trial["settled"], true, "{trial:#}");
}

// C54
#[test]
fn habits_of_payers_need_strategies_with_reservations() {
    let folder = TestFolder::new();
    for (args, expected) in [
        ("compare --strategies pg-reserve,zk-mutex,pg-merge --abandon 30%", "which zk-mutex, pg-merge does not have"),
        ("run pg-reserve --abandon 60% --pay-late 50%", "add up to more than 100%"),
        ("compare --strategies pg-reserve --abandon 130%", "write a share from 0% to 100%"),
        ("export k6 --strategies pg-reserve --pay-twice 1%", "an exported load buys in one step"),
    ] {
        let finished = finish(&mut folder.loadgen(args.split_whitespace()));
        assert_eq!(finished.code, Some(64), "{args}: {}", finished.stderr);
        assert!(finished.stderr.contains(expected), "{args}: {}", finished.stderr);
    }
}

/// Goal: a service that does something else than it tells its payers is found out. Method: a proxy changes one answer, and then
/// triggers give units back that were paid.
// C54
#[test]
fn a_payer_who_is_told_another_end_is_found() {
    let broken = Broken::start();
    broken.assert_kept("pg-reserve");
    let mut is_done = false;
    broken.falsify(move |path, status, body| {
        if !path.ends_with("/confirm") || is_done {
            return status;
        }
        is_done = true;
        *body = json!({ "type": "urn:seckill-lab:problem:reservation-expired" });
        410
    });
    broken.assert_found_of("pg-reserve", "a payer who was told that it is too late", |trial| {
        (&trial["audit"]["confirmations_wrong"], &trial["answers"]["unpaid"]) == (&1.into(), &1.into())
    });
    broken.falsify(|_, status, _| status);
    broken.execute(
        "create function forget_payment() returns trigger language plpgsql as $$ begin
             update goods set on_hand = on_hand + new.quantity where goods.goods_no = new.goods_no; return null;
         end $$;
         create trigger forget_payment after update on reservations
         for each row when (new.state = 'confirmed') execute function forget_payment();",
    );
    broken.assert_found_of("pg-reserve", "units that are paid and free", |trial| {
        trial["audit"]["lost_updates"].as_i64() < Some(0)
    });
    broken.execute("drop trigger forget_payment on reservations");
    broken.assert_audit_tells(
        "update reservations set quantity = 2 where reservation_id = (
             select min(reservation_id) from reservations where state = 'confirmed')",
        "2 units of confirmed reservations without an order of the same size",
    );
    broken.stop();
}
