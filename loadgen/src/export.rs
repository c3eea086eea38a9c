//! The load of a comparison for other engines: a plan for JMeter, a script for k6.
//!
//! Both can drive it from several machines, which this program does not. Neither resets the stock, repeats, compares or
//! audits, and what an engine cannot say is refused, or said in what is written. All of this is pure, but for the file.

mod jmeter;
mod k6;
mod load;

use clap::ValueEnum;

use crate::config::settings::CompareSettings;
use crate::error::Error;
use crate::export::load::Load;

/// What the load is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Apache JMeter, 2.13 and 5.6 alike: a test plan (.jmx)
    Jmeter,
    /// Grafana k6: a script (.js)
    K6,
}

/// Writes the load of a comparison for an engine.
///
/// # Errors
///
/// [`Error::Usage`] when the engine cannot do what is asked for.
pub(crate) fn render(engine: Engine, settings: &CompareSettings) -> Result<String, Error> {
    let load = Load::of(settings)?;
    match engine {
        Engine::Jmeter => jmeter::render(&load),
        Engine::K6 => k6::render(&load),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use program::ProgramError as _;

    use super::*;
    use crate::commands::{Cli, Command};
    use crate::export::load::Instance;

    fn settings(args: &str, rules: &[&str]) -> (Engine, CompareSettings) {
        let rules = rules.iter().flat_map(|rule| ["--threshold", rule]);
        let cli = Cli::try_parse_from(["loadgen", "export"].into_iter().chain(args.split(' ')).chain(rules)).unwrap();
        let Command::Export(args) = cli.command else { unreachable!("the subcommand is export") };
        args.resolve().unwrap()
    }

    fn written((engine, settings): (Engine, CompareSettings)) -> Result<String, Error> {
        render(engine, &settings)
    }

    /// What the command writes.
    pub(super) fn exported(args: &str) -> String {
        exported_with(args, &[])
    }

    /// The same with these thresholds.
    pub(super) fn exported_with(args: &str, rules: &[&str]) -> String {
        written(settings(args, rules)).unwrap()
    }

    pub(super) fn refusal(args: &str) -> String {
        let error = written(settings(args, &[])).unwrap_err();
        assert_eq!(error.exit().code(), 64);
        error.to_string()
    }

    #[test]
    fn a_target_needs_neither_its_database_nor_its_administration() {
        assert!(exported("jmeter --target http://shop.example").contains("shop.example"));
    }

    #[test]
    fn the_command_that_starts_the_service_has_room_for_all_users_and_no_blanks_in_its_values() {
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("plan.toml");
        fs::write(&plan, "lock-wait = \"1m 30s\"\n[service]\nhold = \"1s 500ms .. 2s\"").unwrap();
        let command = "--hold 1s500ms..2s --lock-wait 1m30s --goods-no 1 --stock 100";
        for (users, flag) in [("10,2048", ""), ("10,3000", " --users 3000")] {
            let text = exported(&format!("k6 --users {users} --plan {}", plan.display()));
            assert!(text.lines().any(|line| line.ends_with(&format!("{command}{flag}"))), "{text}");
        }
    }

    #[test]
    fn arguments_of_the_service_that_up_does_not_take_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("plan.toml");
        fs::write(&plan, "[service]\nargs = [\"--permits\", \"8\"]").unwrap();
        for engine in ["jmeter", "k6"] {
            let text = exported(&format!("{engine} --plan {}", plan.display()));
            assert!(text.contains("these are to be given by hand: --permits 8."), "{text}");
        }
    }

    #[test]
    fn the_stock_is_put_on_sale_for_the_strategies_that_are_run() {
        for (engine, setting) in [("jmeter", "-Jstrategy"), ("k6", "-e STRATEGY")] {
            for (args, bodies) in [
                ("--stock 7", &[r#"-d '{"stock":7}' "http"#][..]),
                ("--stock 7 --strategies zk-mutex", &[r#"-d '{"stock":7,"strategy":"zk-mutex"}' "http"#][..]),
                (
                    "--stock 7 --strategies zk-mutex,pg-advisory --users 10,20",
                    &[
                        r#"-d '{"stock":7,"strategy":"zk-mutex"}' "http"#,
                        r#"-d '{"stock":7,"strategy":"pg-advisory"}' "http"#,
                    ][..],
                ),
            ] {
                let text = exported(&format!("{engine} {args}")).replace("&quot;", "\"");
                let puts: Vec<&str> = text.lines().filter(|line| line.contains("curl -X PUT")).collect();
                assert_eq!(puts.len(), bodies.len(), "{text}");
                assert!(puts.iter().zip(bodies).all(|(put, body)| put.contains(body)), "{puts:#?}");
                let needed = format!(r#"a run with {setting}=NAME needs -d '{{"stock":7,"strategy":"NAME"}}'."#);
                assert!(text.contains(&needed), "{text}");
            }
        }
    }

    #[test]
    fn buyers_take_turns_in_the_instances_and_rounds_of_them_in_the_goods() {
        let (_, settings) = settings("jmeter --target http://a:1,http://b:2/shop/ --goods 2 --goods-no 7", &[]);
        let load = Load::of(&settings).unwrap();
        assert_eq!(load.places(), [(0, 7), (1, 7), (0, 8), (1, 8)]);
        assert_eq!(load.instances[1], Instance { host: "b".to_owned(), port: 2, prefix: "/shop".to_owned() });
    }

    #[test]
    fn what_no_engine_could_run_is_refused() {
        for (args, expected) in [
            (
                "--target http://me:secret@a:1",
                "a target on a has credentials, which are not to be written into files; write http://HOST:PORT",
            ),
            ("--target http://a:1,http://b:1 --goods 501", "1002 pairs of an instance and a SKU are too many"),
            ("--strategies zk-mutex,a&b", "no strategy is named \"a&b\""),
            (
                "--preset scale --strategies zk-naive --users 1500",
                "users-max leaves no strategy to be tried with these --users",
            ),
        ] {
            for engine in ["jmeter", "k6"] {
                let refused = refusal(&format!("{engine} {args}"));
                assert!(refused.starts_with(expected), "{refused}");
            }
        }
    }
}
