//! Purchases that are answered with a ticket: what their buyers are told in the end, and when their orders are committed.

use crate::broken::Broken;

// C53
#[test]
fn an_order_that_is_committed_late_is_confirmed_late() {
    let broken = Broken::start();
    let compare = || {
        let (code, report) = broken.compare("pg-queue");
        assert!([Some(0), Some(4)].contains(&code), "{report:#}");
        let trial = &report["trials"][0];
        assert_eq!((&trial["audit"]["overtaken_in_batch"], &trial["settled"]), (&0.into(), &true.into()), "{trial:#}");
        ["goodput_per_s", "confirmed_per_s", "backlog", "backlog_ms"].map(|figure| trial[figure].as_f64().unwrap())
    };
    compare();
    let audited = broken.audit(&[]);
    assert_eq!(audited.code, Some(0), "{}", audited.stdout);
    broken.execute(
        "create function sleep() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return null; end $$;
         create trigger sleep after insert on orders for each statement execute function sleep();",
    );
    let [answered, confirmed, backlog, backlog_ms] = compare();
    assert!(confirmed < 6.1 && confirmed < answered, "{confirmed} confirmed and {answered} answered units/s");
    assert!(backlog > 0.0 && backlog_ms > 0.0, "{backlog} orders, {backlog_ms} ms");
    broken.stop();
}

// C53
#[test]
fn a_ticket_that_denies_its_order_is_found_out() {
    let broken = Broken::start();
    broken.execute(
        "create function deny() returns trigger language plpgsql as $$ begin
             new.outcome := 'sold-out'; new.order_id := null; return new;
         end $$;
         create trigger deny before update on tickets for each row execute function deny();",
    );
    broken.assert_found_of("pg-queue", "six orders of buyers that were told that all is sold", |trial| {
        (&trial["audit"]["orders_unexplained"], &trial["audit"]["sold"]) == (&6.into(), &6.into())
    });
    broken.stop();
}
