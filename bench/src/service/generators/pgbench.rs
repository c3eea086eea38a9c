//! pgbench, and the scripts that it sends. A test holds each script against the statements of the service.

use std::path::{Path, PathBuf};

use bench::Error;
use testbed::postgres_bin;

use super::{Counted, failed, output_of};

/// The time limit for the wait for a key in a batch, as the service sets it.
const KEY_WAIT_MS: u32 = 10;
/// The time limit for the wait for the row: `--lock-wait`.
const ROW_WAIT_MS: u32 = 5000;

/// The time limit for the pause between a written batch and its commit, as the service sets it.
const IDLE_MS: u32 = 1000;

/// Units left after the first purchase of a batch.
const LEFT: u32 = 999_999_999;

/// A transaction that pgbench sends again and again. Each purchase buys one unit.
pub(crate) struct Script {
    file: &'static str,
    /// The purchases of one transaction.
    purchases: u16,
    variables: Vec<String>,
}

impl Script {
    /// Makes a script of one purchase, with the statements of `pg-conditional`.
    pub(crate) fn purchase((goods_no, sale): (i64, i64)) -> Self {
        let variables = vec![format!("goods_no={goods_no}"), format!("sale={sale}")];
        Self { file: "src/service/purchase.sql", purchases: 1, variables }
    }

    /// Makes a script of a batch of purchases, with the statements of `pg-merge`.
    pub(crate) fn batch((goods_no, sale): (i64, i64), purchases: u16) -> Self {
        let array = |value: &dyn Fn(u32) -> String| {
            let values: Vec<_> = (0..u32::from(purchases)).map(value).collect();
            format!("{{{}}}", values.join(","))
        };
        let units = array(&|_| "1".to_owned());
        let nothing = array(&|_| "NULL".to_owned());
        let remaining = array(&|position| (LEFT - position).to_string());
        let mut variables = Self::purchase((goods_no, sale)).variables;
        variables.extend([format!("quantities={units}"), format!("remaining={remaining}")]);
        variables.extend(["keys", "carts", "buyers"].map(|column| format!("{column}={nothing}")));
        variables.extend([format!("row_wait_ms={ROW_WAIT_MS}"), format!("key_wait_ms={KEY_WAIT_MS}")]);
        variables.extend([format!("idle_ms={IDLE_MS}"), format!("left={}", LEFT + 1 - u32::from(purchases))]);
        Self { file: "src/service/batch.sql", purchases, variables }
    }

    /// Returns the arguments of pgbench, without the database.
    fn arguments(&self, connections: u16, seconds: u16) -> Vec<PathBuf> {
        // Each connection parses and plans a statement once, as those of the service do.
        let mut arguments: Vec<PathBuf> = ["--no-vacuum", "--protocol=prepared", "--jobs=1"].map(PathBuf::from).into();
        arguments.extend([format!("--client={connections}"), format!("--time={seconds}")].map(PathBuf::from));
        arguments.extend(self.variables.iter().map(|variable| format!("--define={variable}").into()));
        arguments.extend(["--file".into(), Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file)]);
        arguments
    }
}

/// Sends a script again and again, over `connections` connections to Postgres, and counts the purchases. Every
/// transaction must succeed.
pub(crate) async fn pgbench(
    database_url: &str,
    script: &Script,
    connections: u16,
    seconds: u16,
) -> Result<Counted, Error> {
    let mut arguments = script.arguments(connections, seconds);
    arguments.push(database_url.into());
    let remedy = "install it: it comes with the Postgres server, in some systems in a package postgresql-contrib";
    let beside_server = postgres_bin()?.join("pgbench");
    let program = if beside_server.is_file() { beside_server } else { "pgbench".into() };
    let said = output_of("pgbench", &program, &arguments, remedy).await?;
    let counted = counted_by_pgbench(&said).ok_or_else(|| failed("pgbench", "counted nothing, or failures", &said))?;
    let per_s = counted.per_s * f64::from(script.purchases);
    Ok(Counted { per_s, total: counted.total * i64::from(script.purchases), ..counted })
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
        quantiles_ms: [None; 2],
        cpu_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn the_report_of_pgbench_is_understood() {
        let said = |failed: &str| {
            format!(
                "transaction type: purchase.sql\nnumber of transactions actually processed: 4467\n{failed}\
                 latency average = 0.671 ms\ntps = 1489.908039 (without initial connection time)\n"
            )
        };
        let counted = Some(Counted { per_s: 1_489.908_039, total: 4467, quantiles_ms: [None; 2], cpu_ms: None });
        assert_eq!(counted_by_pgbench(&said("")), counted);
        assert_eq!(counted_by_pgbench(&said("number of failed transactions: 0 (0.000%)\n")), counted);
        assert_eq!(counted_by_pgbench(&said("number of failed transactions: 1 (0.022%)\n")), None);
    }

    /// Returns the words of a statement, without its values, the names of its parameters, and types.
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
        let statements = |script: &str, beginnings: [&str; 2]| {
            let beginning = |part: &str| beginnings.iter().find_map(|words| part.find(words));
            let parts = script.split("\\gset").flat_map(|part| part.split(";\n"));
            parts.filter_map(|part| Some(words(&part[beginning(part)?..]))).collect::<Vec<_>>()
        };
        let purchase = statements(include_str!("../purchase.sql"), ["update goods", "with header"]);
        let batch = statements(include_str!("../batch.sql"), ["select sale", "with bounded"]);
        let statements = [purchase, batch].concat();
        assert_eq!(statements.len(), 4);
        for statement in statements {
            assert!(recorded.contains(&statement), "{statement:?} is none of the service's");
        }
    }

    #[test]
    fn a_batch_has_a_value_of_each_column_for_each_purchase() {
        let variables = Script::batch((7, 2), 3).variables;
        let expected = [
            "goods_no=7",
            "sale=2",
            "quantities={1,1,1}",
            "remaining={999999999,999999998,999999997}",
            "keys={NULL,NULL,NULL}",
            "carts={NULL,NULL,NULL}",
            "buyers={NULL,NULL,NULL}",
            "row_wait_ms=5000",
            "key_wait_ms=10",
            "idle_ms=1000",
            "left=999999997",
        ];
        assert_eq!(variables, expected);
    }
}
