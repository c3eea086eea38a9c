//! The load generators: wrk, pgbench, and ours.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::Value;
use testbed::postgres_bin;
use tokio::process::Command;

use crate::error::Error;

/// What a load generator has counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    /// Answers, or transactions, a second.
    pub(crate) per_s: f64,
    /// All of them.
    pub(crate) total: i64,
    /// How long half of them took at most, and how long 99 of 100, in milliseconds; where it was asked.
    pub(crate) quantiles_ms: Option<[f64; 2]>,
    /// Processor time that the generator itself used for each, in microseconds; where it was asked.
    pub(crate) cpu_us: Option<f64>,
}

/// What all answers to wrk must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answers {
    /// Successes.
    Successes,
    /// Refusals, as once everything is sold.
    Refusals,
}

/// Loads a URL over so many connections.
///
/// # Errors
///
/// [`Error::GeneratorMissing`], [`Error::Generator`].
///
/// # Cancel safety
///
/// Dropped, it is killed.
pub(crate) async fn wrk(url: &str, connections: u16, seconds: u16, expected: Answers) -> Result<Counted, Error> {
    let (connections, duration) = (format!("-c{connections}"), format!("-d{seconds}s"));
    let arguments = ["-t1", "--latency", &connections, &duration, url];
    let cpu_before = cpu_of_children();
    let said = output_of("wrk", Path::new("wrk"), &arguments, "install it with `make deps-bench`").await?;
    let cpu_us = micros(cpu_of_children().saturating_sub(cpu_before));
    let Some(counted) = counted_by_wrk(&said) else {
        return Err(Error::Generator { program: "wrk", what: "counted nothing", said });
    };
    let refused = said.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "));
    let refused: i64 = refused.and_then(|count| count.parse().ok()).unwrap_or_default();
    let expected_refusals = if expected == Answers::Refusals { counted.total } else { 0 };
    if said.contains("Socket errors") || refused != expected_refusals {
        return Err(Error::Generator { program: "wrk", what: "was answered otherwise than it should be", said });
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let per_answer = cpu_us / counted.total as f64;
    Ok(Counted { cpu_us: Some(per_answer), ..counted })
}

/// Processor time of the children that have ended.
fn cpu_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let time = |value: TimeVal| Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or_default());
    time(usage.user_time()) + time(usage.system_time())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn counted_by_wrk(said: &str) -> Option<Counted> {
    let total = said.lines().find_map(|line| line.split_once(" requests in "))?.0.trim().parse().ok()?;
    let per_s = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?.trim().parse().ok()?;
    let quantile = |share: &str| milliseconds(said.lines().find_map(|line| line.trim().strip_prefix(share))?.trim());
    Some(Counted { per_s, total, quantiles_ms: quantile("50%").zip(quantile("99%")).map(Into::into), cpu_us: None })
}

/// A time as wrk writes it.
fn milliseconds(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Where our load generator is to buy.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The program.
    pub(crate) loadgen: PathBuf,
    /// The instance.
    pub(crate) url: String,
    pub(crate) database_url: String,
    pub(crate) zookeeper: String,
    pub(crate) admin_token: &'static str,
    pub(crate) goods_no: i64,
}

/// Buys by our own load generator, with these flags beside those that say where; returns its report.
///
/// # Errors
///
/// [`Error::GeneratorMissing`], [`Error::Generator`], [`Error::System`] when there is no folder for the report.
///
/// # Cancel safety
///
/// Dropped, it is killed.
pub(crate) async fn loadgen(target: &Target, flags: &[String]) -> Result<Value, Error> {
    let folder = tempfile::tempdir().map_err(Error::system("make a folder for a report"))?;
    let goods_no = target.goods_no.to_string();
    let fixed = ["run", "pg-conditional", "--trials", "1", "--no-warm-up", "--quiet", "--target", &target.url];
    let mut command = Command::new(&target.loadgen);
    command.args(fixed).args(["--goods-no", &goods_no]).args(flags).arg("--report").arg(folder.path());
    command.env("DATABASE_URL", &target.database_url).env("ZOOKEEPER_CONNECT", &target.zookeeper);
    command.env("ADMIN_TOKEN", target.admin_token);
    // That it was the bottleneck is for the figures to tell.
    output_of_command("loadgen", &target.loadgen, command, "run `cargo build --release`", &[0, 4]).await?;
    let report = std::fs::read(folder.path().join("report.json")).map_err(Error::system("read a report"))?;
    let wrong = |error: serde_json::Error| Error::Generator {
        program: "loadgen",
        what: "wrote a report that cannot be read",
        said: error.to_string(),
    };
    serde_json::from_slice(&report).map_err(wrong)
}

/// What our load generator counted in a closed loop of so many users.
///
/// The times are corrected for coordinated omission as those of wrk are, which adds the requests that a user would have made
/// during an answer of more than twice the mean, one in every mean ([wrk, `stats_correct`](https://github.com/wg/wrk/blob/4.1.0/src/stats.c)).
pub(crate) fn counted_by_loadgen(report: &Value, users: u16) -> Option<Counted> {
    let trial = &report["trials"][0];
    let total = trial["generator"]["requests"].as_u64().filter(|total| *total > 0)?;
    let duration_ms = trial["duration_ms"].as_f64()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let total_f64 = total as f64;
    let quantiles_ms = match trial["latency"]["service"]["sold"]["hdr"].as_str() {
        Some(hdr) => {
            let times: Histogram<u64> =
                Deserializer::new().deserialize(&mut BASE64_STANDARD.decode(hdr).ok()?.as_slice()).ok()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in whole microseconds")]
            let mean_us = (duration_ms * 1e3 * f64::from(users) / total_f64) as u64;
            let times = times.clone_correct(mean_us);
            let quantile = |share| Duration::from_micros(times.value_at_quantile(share)).as_secs_f64() * 1e3;
            Some([quantile(0.5), quantile(0.99)])
        }
        None => None,
    };
    let cpu_us = trial["generator"]["cpu_us_per_request"].as_f64();
    Some(Counted { per_s: total_f64 / (duration_ms / 1e3), total: total.try_into().ok()?, quantiles_ms, cpu_us })
}

/// Buys one unit of a SKU after the other, over so many connections to Postgres. Every transaction must succeed.
///
/// # Errors
///
/// [`Error::GeneratorMissing`], [`Error::Generator`], [`Error::Testbed`] when there is no Postgres.
///
/// # Cancel safety
///
/// Dropped, it is killed.
pub(crate) async fn pgbench(
    database_url: &str,
    (goods_no, sale): (i64, i64),
    connections: u16,
    seconds: u16,
) -> Result<Counted, Error> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("service/purchase.sql");
    // Parsed and planned once a connection, as the service's statements are.
    let mut arguments: Vec<PathBuf> = ["--no-vacuum", "--protocol=prepared", "--jobs=1"].map(PathBuf::from).into();
    arguments.extend([format!("--client={connections}"), format!("--time={seconds}")].map(PathBuf::from));
    arguments.extend([format!("--define=goods_no={goods_no}"), format!("--define=sale={sale}")].map(PathBuf::from));
    arguments.extend(["--file".into(), script, database_url.into()]);
    let remedy = "it comes with the Postgres server, in some systems in a package postgresql-contrib";
    let beside_server = postgres_bin()?.join("pgbench");
    let program = if beside_server.is_file() { beside_server } else { "pgbench".into() };
    let said = output_of("pgbench", &program, &arguments, remedy).await?;
    let counted = counted_by_pgbench(&said);
    counted.ok_or(Error::Generator { program: "pgbench", what: "counted nothing, or failures", said })
}

fn counted_by_pgbench(said: &str) -> Option<Counted> {
    let after = |beginning: &str| said.lines().find_map(|line| line.strip_prefix(beginning));
    let total = after("number of transactions actually processed: ")?.trim().parse().ok()?;
    let per_s = after("tps = ")?.split(' ').next()?.parse().ok()?;
    // Before version 15 there is no such line: the first failure ends a client with an error.
    let failed = after("number of failed transactions: ");
    failed.is_none_or(|failed| failed.starts_with("0 ")).then_some(Counted {
        per_s,
        total,
        quantiles_ms: None,
        cpu_us: None,
    })
}

async fn output_of(
    name: &'static str,
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    remedy: &'static str,
) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(arguments);
    output_of_command(name, program, command, remedy, &[0]).await
}

async fn output_of_command(
    name: &'static str,
    program: &Path,
    mut command: Command,
    remedy: &'static str,
    good: &[i32],
) -> Result<String, Error> {
    let output = command.kill_on_drop(true).output().await;
    let output = output.map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::GeneratorMissing { program: program.to_owned(), remedy, source },
        _ => Error::System { action: "run a load generator", source },
    })?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let is_good = output.status.code().is_some_and(|code| good.contains(&code));
    if is_good { Ok(said) } else { Err(Error::Generator { program: name, what: "failed", said }) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

    use super::*;

    #[test]
    fn the_report_of_wrk_is_understood() {
        let said = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 2 connections\n  Thread Stats   Avg      Stdev\n    \
                    Latency    31.37us\n  52421 requests in 1.10s, 9.95MB read\nRequests/sec:  47668.03\nTransfer/sec:      9.05MB\n";
        let counted = Counted { per_s: 47_668.03, total: 52_421, quantiles_ms: None, cpu_us: None };
        assert_eq!(counted_by_wrk(said), Some(counted));
        let detailed =
            said.replace("  52421", "  Latency Distribution\n     50%  812.00us\n     99%    1.25s \n  52421");
        let quantiles_ms = Some([0.812, 1250.0]);
        assert_eq!(counted_by_wrk(&detailed), Some(Counted { quantiles_ms, ..counted }));
        assert_eq!(counted_by_wrk("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }

    #[test]
    fn the_report_of_our_generator_is_understood_and_corrected_as_wrk_does() {
        // Two users, each of which should have asked every 14 ms, got 99 answers after a millisecond and one after 56.
        let mut times = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        times.record_n(1000, 99).unwrap();
        times.record(56_000).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&times, &mut bytes).unwrap();
        let report = serde_json::json!({"trials": [{
            "generator": {"requests": 100, "cpu_us_per_request": 50.5}, "duration_ms": 700.0,
            "latency": {"service": {"sold": {"hdr": BASE64_STANDARD.encode(bytes)}}},
        }]});
        let counted = counted_by_loadgen(&report, 2).unwrap();
        assert_eq!((counted.total, counted.cpu_us), (100, Some(50.5)));
        assert!((counted.per_s - 100.0 / 0.7).abs() < 1e-9);
        // What was not asked meanwhile would have taken 42, 28 and 14 ms, and the 102nd of 103 is the first of these.
        let [p50, p99] = counted.quantiles_ms.unwrap();
        assert!((p50 - 1.0).abs() < 0.01 && (p99 - 42.0).abs() < 0.1, "{p50} {p99}");
        assert_eq!(counted_by_loadgen(&Value::Null, 2), None);
    }

    #[test]
    fn the_report_of_pgbench_is_understood() {
        let said = |failed: &str| {
            format!(
                "transaction type: purchase.sql\nnumber of transactions actually processed: 4467\n{failed}\
                 latency average = 0.671 ms\ntps = 1489.908039 (without initial connection time)\n"
            )
        };
        let counted = Some(Counted { per_s: 1_489.908_039, total: 4467, quantiles_ms: None, cpu_us: None });
        assert_eq!(counted_by_pgbench(&said("")), counted);
        assert_eq!(counted_by_pgbench(&said("number of failed transactions: 0 (0.000%)\n")), counted);
        assert_eq!(counted_by_pgbench(&said("number of failed transactions: 1 (0.022%)\n")), None);
    }

    /// The words of a statement, without its values, the names of its parameters, and types.
    fn words(statement: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = statement;
        while let Some(c) = rest.chars().next() {
            let word = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
            let taken = match c {
                '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
                ':' | '$' => {
                    let colons = rest.len() - rest.trim_start_matches([':', '$']).len();
                    colons + word(&rest[colons..])
                }
                c if c.is_alphabetic() => {
                    words.push(rest[..word(rest)].to_owned());
                    word(rest)
                }
                c if c.is_ascii_digit() => word(rest),
                c => c.len_utf8(),
            };
            rest = &rest[taken..];
        }
        words.retain(|word| !["array", "null"].contains(&word.as_str()));
        words
    }

    #[test]
    fn pgbench_sends_what_the_service_sends() {
        let recorded = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(".sqlx")).unwrap();
        let recorded: BTreeSet<_> = recorded
            .map(|entry| {
                let query: serde_json::Value =
                    serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
                words(query["query"].as_str().unwrap())
            })
            .collect();
        let script = include_str!("purchase.sql");
        let statements = script.split("\\gset").filter_map(|part| {
            let begin = ["update goods", "with header"].iter().find_map(|words| part.find(words))?;
            Some(words(&part[begin..]))
        });
        let statements: Vec<_> = statements.collect();
        assert_eq!(statements.len(), 2);
        for statement in statements {
            assert!(recorded.contains(&statement), "{statement:?} is none of the service's");
        }
    }
}
