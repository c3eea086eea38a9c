//! The load generators: wrk, ours, and [`pgbench`].

pub(crate) mod pgbench;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::Error;
use loadgen::report::json::read;
use loadgen::report::{Report, Trial};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use program::FromSystem as _;
use stats::times::Times;
use stats::{as_f64, as_ms};
use tokio::process::Command;

/// The counts of a load generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    /// Answers, or transactions, per second.
    pub(crate) per_s: f64,
    /// All of them.
    pub(crate) total: i64,
    /// The median and the 99th percentile of the times, in milliseconds. Absent if they were not asked for, or if there
    /// are too few times.
    pub(crate) quantiles_ms: [Option<f64>; 2],
    /// Processor time of the generator per answer, in milliseconds. Absent if it was not measured.
    pub(crate) cpu_ms: Option<f64>,
}

/// Time limit of wrk for an answer. No deadline of the service exceeds it.
const ANSWERED_WITHIN: &str = "--timeout=30s";

/// The kind of answer that every request of wrk must get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExpectedAnswers {
    /// Successes.
    Successes,
    /// Refusals, as once everything is sold.
    Refusals,
}

/// Loads a URL over `connections` connections.
pub(crate) async fn wrk(
    url: &str,
    connections: u16,
    seconds: u16,
    expected: ExpectedAnswers,
) -> Result<Counted, Error> {
    let load = [format!("-c{connections}"), format!("-d{seconds}s")];
    let arguments = ["-t1", "--latency", ANSWERED_WITHIN, &load[0], &load[1], url];
    let cpu_before = cpu_of_children();
    let said = output_of("wrk", Path::new("wrk"), &arguments, "install it with `make deps-bench`").await?;
    let cpu_ms = as_ms(cpu_of_children().saturating_sub(cpu_before));
    let Some(counted) = counted_by_wrk(&said) else {
        return Err(failed("wrk", "counted nothing", &said));
    };
    let refused = said.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "));
    let refused: i64 = refused.and_then(|count| count.parse().ok()).unwrap_or_default();
    let expected_refusals = if expected == ExpectedAnswers::Refusals { counted.total } else { 0 };
    if said.contains("Socket errors") || refused != expected_refusals {
        return Err(failed("wrk", "was answered otherwise than it should be", &said));
    }
    Ok(Counted { cpu_ms: Some(cpu_ms / as_f64(counted.total)), ..counted })
}

/// Returns the processor time of the children that have ended.
fn cpu_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let time = |value: TimeVal| Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or_default());
    time(usage.user_time()) + time(usage.system_time())
}

fn counted_by_wrk(said: &str) -> Option<Counted> {
    let total = said.lines().find_map(|line| line.split_once(" requests in "))?.0.trim().parse::<u32>().ok()?.into();
    let per_s = figure(said.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?.trim())?;
    let quantile = |share: &str| milliseconds(said.lines().find_map(|line| line.trim().strip_prefix(share))?.trim());
    Some(Counted { per_s, total, quantiles_ms: ["50%", "99%"].map(quantile), cpu_ms: None })
}

/// Reads a time as wrk writes it.
fn milliseconds(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        _ => return None,
    };
    Some(figure(number)? * factor)
}

/// Reads a figure, which is finite and not negative.
fn figure(text: &str) -> Option<f64> {
    text.parse().ok().filter(|figure: &f64| figure.is_finite() && *figure >= 0.0)
}

/// The shop that our load generator buys from.
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

/// Buys by our own load generator, with these flags and those that say where. Returns its report.
pub(crate) async fn loadgen(target: &Target, flags: &[String]) -> Result<Report, Error> {
    let folder = tempfile::tempdir().map_err(Error::system("make a folder for a report"))?;
    let goods_no = target.goods_no.to_string();
    let fixed = ["run", "pg-conditional", "--trials", "1", "--no-warm-up", "--quiet", "--target", &target.url];
    let mut command = Command::new(&target.loadgen);
    command.args(fixed).args(["--goods-no", &goods_no]).args(flags).arg("--out").arg(folder.path());
    command.env("DATABASE_URL", &target.database_url).env("ZOOKEEPER_CONNECT", &target.zookeeper);
    command.env("ADMIN_TOKEN", target.admin_token);
    // Status 4: the figures show that loadgen was the bottleneck. Status 1: no buyer waited for another one, which is
    // intended where nearly all are refused.
    output_of_command("loadgen", &target.loadgen, command, "run `cargo build --release`", &[0, 1, 4]).await?;
    read(&folder.path().join("report.json")).map_err(Error::refused("read the report of loadgen"))
}

/// Returns the counts of our load generator in a closed loop of this many users. `None` if it sent no request.
pub(crate) fn counted_by_loadgen(trial: &Trial, users: u16) -> Option<Counted> {
    let requests = trial.generator.requests;
    let duration = Duration::try_from_secs_f64(trial.duration_ms / 1e3).ok()?;
    let quantiles_ms = quantiles_as_of_wrk(&trial.latency.service.sold, requests, duration, users);
    Some(Counted {
        per_s: as_f64(requests) / duration.as_secs_f64(),
        total: i64::try_from(requests).ok().filter(|total| *total > 0)?,
        quantiles_ms,
        cpu_ms: trial.generator.cpu_us_per_request.map(|us| us / 1e3),
    })
}

/// Returns the median and the 99th percentile of times, corrected as wrk corrects its own. For an answer that took more
/// than twice the mean, wrk adds the requests that a user would have made meanwhile, one per mean ([wrk,
/// `stats_correct`](https://github.com/wg/wrk/blob/4.1.0/src/stats.c)).
fn quantiles_as_of_wrk(times: &Times, requests: u64, duration: Duration, users: u16) -> [Option<f64>; 2] {
    let mean = duration.mul_f64(f64::from(users) / as_f64(requests.max(1)));
    let times = times.corrected(mean);
    [500, 990].map(|permille| times.quantile_ms(permille))
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
        ErrorKind::NotFound => {
            let action = format!("run {}", program.display());
            Error::Setup { action, source: source.into(), remedy: remedy.to_owned() }
        }
        _ => Error::system("run a load generator")(source),
    })?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let is_good = output.status.code().is_some_and(|code| good.contains(&code));
    if is_good { Ok(said) } else { Err(failed(name, "failed", &said)) }
}

/// Makes the error of a load generator that did not do its part. `said` is what it printed.
pub(crate) fn failed(program: &str, what: &str, said: &str) -> Error {
    Error::Failed(format!("{program} {what}:\n{said}"))
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_wrk_is_understood() {
        let said = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 2 connections\n  Thread Stats   Avg      Stdev\n    \
                    Latency    31.37us\n  52421 requests in 1.10s, 9.95MB read\nRequests/sec:  47668.03\nTransfer/sec:      9.05MB\n";
        let counted = Counted { per_s: 47_668.03, total: 52_421, quantiles_ms: [None; 2], cpu_ms: None };
        assert_eq!(counted_by_wrk(said), Some(counted));
        let detailed =
            said.replace("  52421", "  Latency Distribution\n     50%  812.00us\n     99%    1.25s \n  52421");
        let quantiles_ms = [Some(0.812), Some(1250.0)];
        assert_eq!(counted_by_wrk(&detailed), Some(Counted { quantiles_ms, ..counted }));
        assert_eq!(counted_by_wrk("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }

    #[test]
    fn the_times_of_our_generator_are_corrected_as_wrk_does() {
        // Two users, each of which should have asked every 14 ms, got 990 answers after a millisecond and ten after 56.
        let mut times = Times::new();
        times.record_n(Duration::from_millis(1), 990);
        times.record_n(Duration::from_millis(56), 10);
        let [p50, p99] = quantiles_as_of_wrk(&times, 1000, Duration::from_secs(7), 2).map(Option::unwrap);
        // What was not asked meanwhile would have taken 42, 28 and 14 ms. The 1020th of 1030 is the last of 42 ms.
        assert!((p50 - 1.0).abs() < 0.01 && (p99 - 42.0).abs() < 0.1, "{p50} {p99}");
        assert_eq!(quantiles_as_of_wrk(&Times::new(), 0, Duration::from_secs(7), 2), [None; 2]);
    }
}
