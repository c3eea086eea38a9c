//! A failed observer does not end a trial.

// C24

use serde_json::Value;

use crate::broken::Broken;

/// Lets an account read the books, but not the state of the server.
const AUDITOR: &str = "create role auditor login;
    grant select on all tables in schema public to auditor;
    revoke select on pg_stat_activity from public;
    revoke execute on function pg_current_wal_insert_lsn() from public;";

#[test]
fn a_trial_goes_on_without_its_observers() {
    let mut broken = Broken::start();
    broken.execute(AUDITOR);
    let url = broken.variables["DATABASE_URL"].replace("//postgres@", "//auditor@");
    broken.variables.insert("DATABASE_URL".to_owned(), url);
    let (code, report) = broken.compare("pg-conditional");
    assert!([Some(0), Some(4)].contains(&code), "{report:#}");
    let trial = &report["trials"][0];
    let result = &report["results"][0];
    assert_eq!((&result["kept"], &trial["audit"]["sold"]), (&true.into(), &6.into()), "{result:#}");
    for figure in ["commits", "wal_bytes", "lock_wait_ms", "lock_waiting_max"] {
        assert_eq!(trial["postgres"][figure], Value::Null, "{figure}");
    }
    assert!(trial["postgres"]["batch_mean"].as_f64().is_some(), "what can be observed is: {trial:#}");
    let mut caveats = report["caveats"].as_array().unwrap().iter().map(|caveat| caveat.as_str().unwrap());
    let told = caveats.find(|caveat| caveat.starts_with("left out of 1 trial: ")).unwrap();
    for reason in [
        "transactions and log of Postgres: could not read the counters in postgres: ",
        "waits for locks of Postgres: could not look who waits in postgres: ",
        "permission denied for view pg_stat_activity",
    ] {
        assert!(told.contains(reason), "{told}");
    }
    broken.stop();
}

#[test]
fn a_history_that_cannot_be_read_leaves_a_lock_unchecked() {
    let broken = Broken::start();
    let mut has_sold = false;
    broken.falsify(move |path, status, _| {
        has_sold |= path.starts_with("/goods-stock/");
        if has_sold && path == "/admin/history" { 500 } else { status }
    });
    let (code, report) = broken.compare("zk-mutex");
    assert_eq!(code, Some(3), "{report:#}");
    assert_eq!(report["results"][0]["finding"], "unchecked");
    let told = report["verdict"]["reasons"][0].as_str().unwrap();
    assert!(told.contains("instances whose history could not be read: 1"), "{told}");
    broken.stop();
}
