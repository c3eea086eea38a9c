//! A pooler between the service and Postgres.

use program::Exit;
use testbed::{PgBouncer, StopSignal};

use crate::command::refusal;
use crate::lab::{Lab, wait_until};
use crate::program::Program;

/// What people write so that drivers can connect whose startup parameters the pooler does not know.
const IGNORE: &str = "ignore_startup_parameters = extra_float_digits,options";

/// Makes a lab whose service reaches Postgres through a pooler.
async fn behind_pooler(settings: &str) -> (Lab, PgBouncer) {
    let mut lab = Lab::new().await;
    let pooler = PgBouncer::start(&lab.database_url, settings).await.unwrap();
    lab.service_database_url = pooler.url();
    (lab, pooler)
}

/// Goal: a pooler changes no time limit of the service. Method: an instance freezes while it has the lock of a row, and another
/// buyer gets the row after `--db-timeout`.
// S87
#[tokio::test(flavor = "multi_thread")]
async fn a_session_pooler_keeps_the_settings_of_the_service() {
    for settings in ["pool_mode = session".to_owned(), format!("pool_mode = session\n{IGNORE}")] {
        let (lab, _pooler) = behind_pooler(&settings).await;
        let times = ["--lock-wait", "1s", "--db-timeout", "3s", "--http-timeout", "4s", "--business-time", "1s"];
        let program = Program::start(&lab, StopSignal::Terminate, &times, &[]).await;
        program.put_on_sale(1, 5, "pg-row-lock").await.assert_ok();
        let frozen = program.spawn_buy(1, "pg-row-lock");
        lab.wait_for_statement("idle in transaction", "select sale, on_hand, version, guard, per_buyer from goods")
            .await;
        program.pause().await;
        wait_until(async || lab.idle_transactions().await == 0).await;
        program.go_on();
        frozen.abort();
    }
}

// S88
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_is_refused_by_name() {
    for settings in
        ["pool_mode = transaction", "pool_mode = statement", "pool_mode = transaction\nserver_round_robin = 1"]
    {
        let (lab, _pooler) = behind_pooler(&format!("{settings}\n{IGNORE}")).await;
        let complaint = refusal(Exit::Usage, &lab.service_database_url, &lab.zookeeper, &[]);
        for part in ["pooler", "pool_mode = session", "--database-url"] {
            assert!(complaint.contains(part), "{settings}: {complaint}");
        }
    }
}
