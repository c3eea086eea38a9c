//! `up`, and the commands for a running service.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{TestChroot, TestDatabase};

use crate::support::{Running, TestFolder, demo_service, exports, finish, free_port};

// C26
#[test]
fn a_service_that_is_up_can_be_listed_compared_and_stopped() {
    let folder = TestFolder::new();
    let client = TestFolder::new();
    let port = free_port();
    let up = ["up", "--instances", "1", "--stock", "50", "--env", "lab.env", "--port", &port.to_string()];
    let running = Running::start(&mut folder.throwaway_lab(up));
    let told = running.until_stdout("# what was sold");
    let variables = exports(&told);
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(variables["SECKILL_URLS"], url);
    assert_every_strategy_has_a_sku(&told, &url);
    assert!(told.contains(&format!("#   {url}/docs/")), "{told:#?}");
    let file = fs::read_to_string(folder.path("lab.env")).unwrap();
    assert!(file.starts_with(&(told.join("\n") + "\n")), "{file}");
    assert_eq!(fs::metadata(folder.path("lab.env")).unwrap().permissions().mode() & 0o777, 0o600);

    let listed = finish(&mut client.loadgen(["strategies", "--target", &url]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("zk-mutex") && listed.stdout.contains("never-oversells"), "{}", listed.stdout);

    let args =
        ["compare", "--users", "20", "--stock", "10", "--trials", "1", "--strategies", "zk-mutex,pg-conditional"];
    let compared = finish(client.loadgen(args).args(["--target", &url]).envs(&variables));
    compared.assert_kept();
    let report = client.report();
    assert_eq!(report["environment"]["servers_throwaway"], false);
    assert_eq!(report["environment"]["generator_shares_host"], true);
    assert!(report["plan"]["lock_wait_ms"].is_null(), "the service's own is unknown");
    // `up` opens few sessions; the service itself reports their number.
    assert_eq!(report["plan"]["zk_sessions_total"], 32);
    assert!(report["results"].as_array().unwrap().iter().all(|result| result["kept"] == true), "{report:#}");

    let audited = finish(client.loadgen(["audit", "--goods-no", "1", "--target", &url]).envs(&variables));
    assert_eq!(audited.code, Some(0), "{}{}", audited.stdout, audited.stderr);
    // The first sale, of `up` itself, and those of two strategies with a warm-up each.
    assert!(audited.stdout.contains("verdict: nothing wrong in 5 sales"), "{}", audited.stdout);
    assert!(
        audited.stdout.contains("history of zk-mutex: 40 sections, overlaps 0, at most 1 inside"),
        "{}",
        audited.stdout
    );

    #[cfg(target_os = "linux")]
    for args in [&["audit"][..], &["audit", "--json"], &["strategies", "--target", &url]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let status = client.loadgen(args).envs(&variables).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(3), "{args:?}");
    }

    let wrong = variables.iter().map(|(name, value)| (name, if name == "ADMIN_TOKEN" { "guess" } else { value }));
    let refused = finish(client.loadgen(args).args(["--target", &url]).envs(wrong));
    refused.assert_error(3, "answered 401");

    running.signal(Signal::SIGINT);
    let (status, _) = running.wait();
    assert_eq!(status.code(), Some(0));
    TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(!folder.path("lab.env").exists(), "it outlives the lab");
    assert!(folder.is_clean(), "something is left");
}

// C4
#[test]
fn a_target_with_a_user_of_zookeeper_needs_that_user() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let servers = async { (TestDatabase::create().await.unwrap(), TestChroot::create().await.unwrap()) };
    let (database, chroot) = runtime.block_on(servers);
    let variables = [
        ("DATABASE_URL", database.url()),
        ("ZOOKEEPER_CONNECT", chroot.connect_string()),
        ("ADMIN_TOKEN", "0123456789abcdef0123456789abcdef"),
    ];
    let mut service = testbed::with_default_signals(demo_service());
    service.args(["--listen", "127.0.0.1:0"]).envs(variables).env("ZOOKEEPER_AUTH", "shop:sesame");
    let running = Running::start(&mut service);
    let told = running.until_stdout("listening on ");
    let url = told.last().unwrap().strip_prefix("listening on ").unwrap();

    let folder = TestFolder::new();
    let args = "run zk-mutex --users 12 --stock 6 --trials 1 --no-warm-up --target".split(' ').chain([url]);
    let run = |user: &str| finish(folder.loadgen(args.clone()).envs(variables).env("ZOOKEEPER_AUTH", user));
    for wrong in ["", "shop:guess", "shop"] {
        run(wrong).assert_error(64, "belongs to another user of ZooKeeper; set ZOOKEEPER_AUTH as for the service");
    }
    run("shop:sesame").assert_kept();
    running.signal(Signal::SIGTERM);
    running.wait();
}

/// Checks the commands for buying that `up` prints: one SKU for each strategy, in the service's order.
fn assert_every_strategy_has_a_sku(told: &[String], url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = |path: &str| -> Value {
        let request = client.get(format!("{url}{path}"));
        runtime.block_on(async { request.send().await.unwrap().json().await.unwrap() })
    };
    let beginning = format!("#   curl -s {url}/goods-stock/");
    let commands = told.iter().filter_map(|line| line.strip_prefix(&beginning)?.split_once("  # "));
    let commands: Vec<(&str, &str)> = commands.collect();
    let listed = get("/strategies");
    let listed: Vec<&str> =
        listed["strategies"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(commands.iter().map(|(_, strategy)| *strategy).collect::<Vec<_>>(), listed, "{told:#?}");
    for (number, (goods_no, strategy)) in (1..).zip(commands) {
        assert_eq!(goods_no, number.to_string());
        let goods = get(&format!("/goods/{goods_no}"));
        assert_eq!((&goods["strategy"], &goods["on_hand"]), (&strategy.into(), &50.into()), "{goods:#}");
    }
}

#[test]
fn the_strategies_are_listed_without_a_running_service() {
    let folder = TestFolder::new();
    let listed = finish(&mut folder.lab(["strategies"]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("unguarded") && listed.stdout.contains("pg-conditional"), "{}", listed.stdout);
    assert!(folder.is_clean(), "something is left");
}
