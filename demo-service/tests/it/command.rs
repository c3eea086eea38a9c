//! The program: exit status, the one line that says why, the one line that says where.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use program::Exit;
use sqlx::{Connection, Executor, PgConnection};
use testbed::{Postgres, PostgresConfig, Process, ProcessConfig, Stdout};

use crate::lab::Lab;
use crate::program::PROGRAM;

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).env_remove("RUST_LOG").output().unwrap()
}

/// Runs the service where it cannot start, with this exit, and returns what it says.
#[track_caller]
pub(crate) fn refusal(exit: Exit, database_url: &str, zookeeper: &str, more: &[&str]) -> String {
    let servers = ["--listen", "127.0.0.1:0", "--database-url", database_url, "--zookeeper", zookeeper];
    let output = run(&[&servers, more].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit.code().into()), "{stderr}");
    assert_eq!(output.stdout, b"", "it is not ready and must not say so");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.strip_prefix("demo-service: ").expect("it says who complains").to_owned()
}

#[test]
fn help_and_version_are_no_errors() {
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8(help.stdout).unwrap();
    for expected in ["--strategy", "pg-conditional", "ADMIN_TOKEN", "[env: ZOOKEEPER_CONNECT"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let version = run(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("demo-service "));
}

#[test]
fn a_wrong_command_line_is_refused_before_anything_is_reached() {
    let servers = ["--database-url", "postgres://localhost/lab", "--zookeeper", "localhost"];
    let former = Command::new(PROGRAM).args(servers).env("HOLD", "2ms").output().unwrap();
    assert_eq!(former.status.code(), Some(64));
    assert!(String::from_utf8(former.stderr).unwrap().contains("use --business-time (BUSINESS_TIME)"));
    for wrong in [&["--strategy", "hope"][..], &["--business-time", "5"], &["--lock-wait", "1h"], &["--no-such-flag"]] {
        let output = run(&[&servers, wrong].concat());
        assert_eq!(output.status.code(), Some(64), "{wrong:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_there_are_named() {
    let lab = Lab::new().await;
    // A port that was free a moment ago and that nobody listens on.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let database = refusal(Exit::Setup, &format!("postgres://user:secret@{nobody}/lab"), &lab.zookeeper, &[]);
    assert!(database.contains(&format!("{nobody}/lab")) && database.contains("--database-url"), "{database}");
    assert!(!database.contains("secret"), "{database}");
    for malformed in ["mysql://localhost/lab", "postgres://localhost:port/lab", "localhost"] {
        let complaint = refusal(Exit::Usage, malformed, &lab.zookeeper, &[]);
        assert!(complaint.contains("postgres://USER@HOST"), "{complaint}");
    }
    let zookeeper = refusal(Exit::Setup, &lab.database_url, &nobody.to_string(), &["--zk-session-timeout", "1s"]);
    assert!(zookeeper.contains(&nobody.to_string()) && zookeeper.contains("--zookeeper"), "{zookeeper}");
}

/// Goal: a supervisor can tell a server that is away from a setting that somebody must correct.
// S91
#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_the_database_refuses_is_a_wrong_setting() {
    let lab = Lab::new().await;
    let (server, _) = lab.database_url.rsplit_once('/').unwrap();
    let (_, address) = server.rsplit_once('@').unwrap();
    for url in [format!("{server}/nowhere"), format!("postgres://nobody@{address}/postgres")] {
        let complaint = refusal(Exit::Usage, &url, &lab.zookeeper, &[]);
        assert!(complaint.contains("check --database-url (DATABASE_URL)"), "{complaint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_named() {
    let lab = Lab::new().await;
    let complaint = refusal(Exit::Setup, &lab.database_url, &format!("{}/nowhere", lab.zookeeper), &[]);
    for part in ["check --zookeeper", "/nowhere", "create the chroot first"] {
        assert!(complaint.contains(part), "{complaint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let lab = Lab::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let servers = ["--database-url", &lab.database_url, "--zookeeper", &lab.zookeeper];
    let output = run(&[&servers[..], &["--listen", &address]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(&address) && stderr.contains("--listen"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_later_version_is_refused() {
    let lab = Lab::new().await;
    lab.start(&[]).await.request_stop().await.unwrap();
    let later = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
                 values (9001, 'from the future', true, '', 0)";
    lab.connect().await.execute(later).await.unwrap();
    let complaint = refusal(Exit::Usage, &lab.database_url, &lab.zookeeper, &[]);
    assert!(complaint.contains("migration 9001") && complaint.contains("newer demo-service"), "{complaint}");

    let other = "delete from _sqlx_migrations where version = 9001";
    lab.connect().await.execute(other).await.unwrap();
    lab.connect().await.execute("update _sqlx_migrations set checksum = ''").await.unwrap();
    let complaint = refusal(Exit::Usage, &lab.database_url, &lab.zookeeper, &[]);
    assert!(complaint.contains("migration 10 ") && complaint.contains("other contents"), "{complaint}");
}

// S91
#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_an_earlier_revision_is_refused() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let owner = postgres.url("postgres");
    let mut connection = PgConnection::connect(&owner).await.unwrap();
    connection.execute("create role seckill_service login").await.unwrap();
    let lab = Lab::on_postgres(owner.clone()).await;
    lab.start(&[]).await.request_stop().await.unwrap();
    let earlier = "delete from _sqlx_migrations;
                   insert into _sqlx_migrations (version, description, success, checksum, execution_time)
                   select version, 'earlier', true, '', 0 from generate_series(1, 9) as version;
                   grant select on _sqlx_migrations to seckill_service";
    connection.execute(earlier).await.unwrap();
    for role in ["postgres", "seckill_service"] {
        let url = owner.replace("//postgres@", &format!("//{role}@"));
        let complaint = refusal(Exit::Usage, &url, &lab.zookeeper, &[]);
        for part in ["migration 1 ", "before the first release", "empty database", "--database-url"] {
            assert!(complaint.contains(part), "{role}: {complaint}");
        }
    }
}

// S91
#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_program_is_refused() {
    let lab = Lab::new().await;
    lab.connect().await.execute("create table orders (id int)").await.unwrap();
    let complaint = refusal(Exit::Usage, &lab.database_url, &lab.zookeeper, &[]);
    for part in ["orders", "another program", "empty database"] {
        assert!(complaint.contains(part), "{complaint}");
    }
}

// S91
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let lab = Lab::new().await;
    lab.connect().await.execute("create database latin encoding latin1 locale 'C' template template0").await.unwrap();
    let (server, _) = lab.database_url.rsplit_once('/').unwrap();
    let complaint = refusal(Exit::Usage, &format!("{server}/latin"), &lab.zookeeper, &["--instance", "店"]);
    for part in ["LATIN1", "encoding 'UTF8'"] {
        assert!(complaint.contains(part), "{complaint}");
    }
}

// S91
#[test]
fn several_hosts_in_the_database_url_are_refused() {
    for (url, what) in [
        ("postgres://u@a.example,b.example/lab", "several hosts"),
        ("postgres://u@a.example:5432,b.example:5432/lab", "several hosts"),
        ("postgres:///lab?host=a.example,b.example", "several hosts"),
        ("postgres://u@a.example/lab?target_session_attrs=read-write", "target_session_attrs"),
    ] {
        let complaint = refusal(Exit::Usage, url, "localhost", &[]);
        assert!(complaint.contains(what) && complaint.contains("primary"), "{complaint}");
    }
}

/// Starts the service in a process of its own. Returns it with the line that says where it listens.
async fn serving(lab: &Lab, program: &str, arguments: &[&str]) -> (Process, String) {
    let mut service = Process::spawn(ProcessConfig {
        stdout: Stdout::Lines,
        ..ProcessConfig::new(program)
            .args(arguments.iter().copied().chain(["--listen", "127.0.0.1:0"]))
            .env("DATABASE_URL", &lab.database_url)
            .env("ZOOKEEPER_CONNECT", &lab.zookeeper)
            .env("LOG_FORMAT", "json")
    })
    .unwrap();
    let line = service.line(Duration::from_secs(30)).await.unwrap().unwrap();
    (service, line)
}

async fn is_ready(line: &str) -> bool {
    let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
    reqwest::get(format!("{url}/readyz")).await.unwrap().status().is_success()
}

#[tokio::test]
async fn the_service_says_where_it_listens_and_stops_at_a_signal() {
    let lab = Lab::new().await;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut service, line) = serving(&lab, PROGRAM, &[]).await;
        assert!(is_ready(&line).await);
        kill(Pid::from_raw(service.pid()), signal).unwrap();
        assert_eq!(service.wait().await.unwrap().code(), Some(0), "{signal}: {}", service.log_tail());
        assert_eq!(service.line(Duration::from_secs(30)).await.unwrap(), None, "one line only");
        assert!(service.log_tail().lines().all(|line| line.starts_with('{')), "{}", service.log_tail());
    }
}

#[tokio::test]
async fn the_service_under_nohup_outlives_its_terminal() {
    let lab = Lab::new().await;
    let (mut service, line) = serving(&lab, "nohup", &[PROGRAM]).await;
    kill(Pid::from_raw(service.pid()), Signal::SIGHUP).unwrap();
    assert!(is_ready(&line).await);
    service.request_stop();
    assert_eq!(service.wait().await.unwrap().code(), Some(0), "{}", service.log_tail());
}
