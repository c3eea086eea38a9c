//! What is exported for JMeter, run by the real JMeter, on one machine and on two that a third one tells what to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{Lab, PATIENCE, Running, demo_service, eventually, exports, finish, free_port};

const USERS: usize = 120;
const STOCK: usize = 60;

/// JMeter, in a folder of its own, in which it may leave what it likes.
fn jmeter(folder: &Path) -> Command {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("jmeter/JMeter.java");
    let mut jmeter = testbed::jmeter(&shim).unwrap_or_else(|error| panic!("{error}"));
    fs::create_dir_all(folder).unwrap();
    jmeter.current_dir(folder).arg("-j").arg(folder.join("jmeter.log"));
    jmeter
}

/// A plan for a service that is up, whose stock is less than its buyers want.
struct Sale {
    lab: Lab,
    service: Running,
    variables: BTreeMap<String, String>,
    plan: PathBuf,
}

impl Sale {
    fn open() -> Sale {
        let lab = Lab::new();
        let stock = STOCK.to_string();
        let up = ["up", "--instances", "2", "--zk-sessions", "60", "--lock-wait", "60s", "--stock", &stock];
        let service = Running::start(lab.loadgen_throwaway(up).arg("--demo-service").arg(demo_service()));
        let variables = exports(&service.until_stdout("# what was sold"));
        let plan = lab.path("seckill.jmx");
        let users = USERS.to_string();
        let export = ["export", "jmeter", "--users", &users, "--strategies", "zk-mutex", "--lock-wait", "60s"];
        let mut export = lab.loadgen(export);
        let exported = finish(export.args(["--target", &variables["SECKILL_URLS"]]).arg("--out").arg(&plan));
        assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
        Sale { lab, service, variables, plan }
    }

    /// Runs the plan, and gives what is in its log of results: a sample each, by the names of the columns.
    fn run(&self, args: &[String]) -> Vec<BTreeMap<String, String>> {
        let results = self.lab.path("result.jtl");
        let mut jmeter = jmeter(&self.lab.path("jmeter"));
        jmeter.arg("-n").arg("-t").arg(&self.plan).arg("-l").arg(&results);
        // 2.13 writes neither by itself.
        for column in ["print_field_names", "url"] {
            jmeter.arg(format!("-Jjmeter.save.saveservice.{column}=true"));
        }
        let (status, stdout) = Running::start(jmeter.args(args)).wait();
        assert!(status.success(), "{stdout}");
        let mut reader = csv::Reader::from_path(results).unwrap_or_else(|error| panic!("{error}: {stdout}"));
        reader.deserialize().collect::<Result<_, _>>().unwrap()
    }

    /// Sees that exactly the stock was sold, as JMeter was told and as the database has it.
    fn assert_sold_exactly_the_stock(&self, samples: &[BTreeMap<String, String>]) {
        let count = |column: &str, value: &str| samples.iter().filter(|sample| sample[column] == value).count();
        assert_eq!(samples.len(), USERS);
        assert_eq!(
            (count("responseCode", "200"), count("responseCode", "409")),
            (STOCK, USERS - STOCK),
            "{samples:#?}"
        );
        assert_eq!(count("success", "true"), USERS, "whoever is told that everything is sold has an answer");
        let ordered = "select coalesce(sum(quantity), 0)::bigint from order_lines";
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let ordered: i64 = runtime.block_on(async {
            let pool = sqlx::PgPool::connect(&self.variables["DATABASE_URL"]).await.unwrap();
            sqlx::query_scalar(ordered).fetch_one(&pool).await.unwrap()
        });
        assert_eq!(ordered, i64::try_from(STOCK).unwrap());
    }

    fn close(self) {
        self.service.signal(Signal::SIGINT);
        assert_eq!(self.service.wait().0.code(), Some(0));
    }
}

/// How many samples went where.
fn asked(samples: &[BTreeMap<String, String>], url: &str) -> usize {
    samples.iter().filter(|sample| sample["URL"] == format!("{url}/goods-stock/1?strategy=zk-mutex")).count()
}

#[test]
fn an_exported_plan_lets_jmeter_sell_exactly_the_stock_of_all_instances() {
    let sale = Sale::open();
    let samples = sale.run(&[]);
    sale.assert_sold_exactly_the_stock(&samples);
    for url in sale.variables["SECKILL_URLS"].split(',') {
        assert_eq!(asked(&samples, url), USERS / 2, "buyers take turns in the instances");
    }
    assert!(samples.iter().all(|sample| sample["threadName"].starts_with("buyers 1-")), "{samples:#?}");
    sale.close();
}

#[test]
fn two_workers_of_a_remote_jmeter_sell_exactly_the_stock_together() {
    let sale = Sale::open();
    let workers: Vec<(u16, Running)> = (0..2)
        .map(|_| {
            let port = free_port();
            let folder = sale.lab.path(&format!("worker-{port}"));
            let mut worker = jmeter(&folder);
            worker.arg("-s").arg(format!("-Jserver_port={port}"));
            let worker = Running::start(worker.arg(format!("-Jserver.rmi.localport={}", free_port())));
            // Only its log tells when it can be reached.
            let is_bound = |log: &str| log.contains(&format!("Bound to registry on port {port}"));
            let log = folder.join("jmeter.log");
            eventually("a worker can be reached", PATIENCE, || {
                fs::read_to_string(&log).is_ok_and(|log| is_bound(&log))
            });
            (port, worker)
        })
        .collect();
    let remote = workers.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let samples = sale.run(&["-R".to_owned(), remote, format!("-Gthreads={}", USERS / workers.len())]);
    sale.assert_sold_exactly_the_stock(&samples);
    for (port, worker) in workers {
        worker.until_stdout(&format!("Finished the test on host 127.0.0.1:{port}"));
        worker.signal(Signal::SIGTERM);
        worker.wait();
    }
    sale.close();
}
