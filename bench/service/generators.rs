//! The load generators: wrk, and pgbench.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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
}

/// Loads a URL over so many connections. Every answer must be a success.
///
/// # Errors
///
/// [`Error::GeneratorMissing`], [`Error::Generator`].
///
/// # Cancel safety
///
/// Dropped, it is killed.
pub(crate) async fn wrk(url: &str, connections: u16, seconds: u16) -> Result<Counted, Error> {
    let arguments = ["-t1".to_owned(), format!("-c{connections}"), format!("-d{seconds}s"), url.to_owned()];
    let said = output_of("wrk", Path::new("wrk"), &arguments, "install it with `make deps-bench`").await?;
    if ["Socket errors", "Non-2xx"].iter().any(|failures| said.contains(failures)) {
        return Err(Error::Generator { program: "wrk", what: "was refused", said });
    }
    counted_by_wrk(&said).ok_or(Error::Generator { program: "wrk", what: "counted nothing", said })
}

fn counted_by_wrk(said: &str) -> Option<Counted> {
    let total = said.lines().find_map(|line| line.split_once(" requests in "))?.0.trim().parse().ok()?;
    let per_s = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?.trim().parse().ok()?;
    Some(Counted { per_s, total })
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
    goods_no: i64,
    connections: u16,
    seconds: u16,
) -> Result<Counted, Error> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("service/purchase.sql");
    // Parsed and planned once a connection, as the service's statements are.
    let mut arguments: Vec<PathBuf> = ["--no-vacuum", "--protocol=prepared", "--jobs=1"].map(PathBuf::from).into();
    arguments.extend([format!("--client={connections}"), format!("--time={seconds}")].map(PathBuf::from));
    arguments.extend([format!("--define=goods_no={goods_no}").into(), "--file".into(), script, database_url.into()]);
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
    failed.is_none_or(|failed| failed.starts_with("0 ")).then_some(Counted { per_s, total })
}

async fn output_of(
    name: &'static str,
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    remedy: &'static str,
) -> Result<String, Error> {
    let output = Command::new(program).args(arguments).kill_on_drop(true).output().await;
    let output = output.map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::GeneratorMissing { program: program.to_owned(), remedy, source },
        _ => Error::System { action: "run a load generator", source },
    })?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(Error::Generator { program: name, what: "failed", said }) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn the_report_of_wrk_is_understood() {
        let said = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 2 connections\n  Thread Stats   Avg      Stdev\n    \
                    Latency    31.37us\n  52421 requests in 1.10s, 9.95MB read\nRequests/sec:  47668.03\nTransfer/sec:      9.05MB\n";
        assert_eq!(counted_by_wrk(said), Some(Counted { per_s: 47_668.03, total: 52_421 }));
        assert_eq!(counted_by_wrk("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }

    #[test]
    fn the_report_of_pgbench_is_understood() {
        let said = |failed: &str| {
            format!(
                "transaction type: purchase.sql\nnumber of transactions actually processed: 4467\n{failed}\
                 latency average = 0.671 ms\ntps = 1489.908039 (without initial connection time)\n"
            )
        };
        let counted = Some(Counted { per_s: 1_489.908_039, total: 4467 });
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
            let begin = ["select sale", "update goods", "with header"].iter().find_map(|words| part.find(words))?;
            Some(words(&part[begin..]))
        });
        let statements: Vec<_> = statements.collect();
        assert_eq!(statements.len(), 3);
        for statement in statements {
            assert!(recorded.contains(&statement), "{statement:?} is none of the service's");
        }
    }
}
