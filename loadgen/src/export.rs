//! The load of a comparison for other engines.
//!
//! | file | holds |
//! |---|---|
//! | `load.rs` | the load that every engine gets |
//! | `literal.rs` | the escaping of values in scripts |
//! | `shared.txt` | template text that all exported files share |
//! | `k6.rs`, `k6/script.js` | the values and the template of a k6 script |
//! | `jmeter.rs`, `jmeter/plan.jmx` | the values and the template of a JMeter plan |
//! | `shop.rs`, `shop/` | the purchases at any shop, for JMeter, k6 and Locust |
//!
//! JMeter and k6 can send the load from several machines, and `loadgen` cannot. Neither resets the stock, repeats
//! trials, compares strategies or audits. If an engine cannot do something, `render` refuses it, or the exported file
//! says so. All of this is pure: the caller writes the file.

mod jmeter;
mod k6;
mod literal;
mod load;
pub(crate) mod shop;

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

use crate::config::settings::ExportSettings;
use crate::error::Error;
use crate::export::load::ExportedLoad;

/// The engine that runs the exported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Apache JMeter, 2.13 and 5.6 alike: a test plan (.jmx)
    Jmeter,
    /// Grafana k6: a script (.js)
    K6,
    /// Locust: a file of Python (.py), only with --shop
    Locust,
}

impl Engine {
    /// Returns the name of the exported file, which its comments repeat. A name that a shell or a comment might misread is
    /// not repeated.
    fn file(self, out: Option<&Path>) -> &str {
        let is_plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        out.and_then(Path::file_name).and_then(OsStr::to_str).filter(is_plain).unwrap_or(match self {
            Engine::Jmeter => "seckill.jmx",
            Engine::K6 => "seckill.js",
            Engine::Locust => "locustfile.py",
        })
    }
}

/// Writes a load for an engine. `out` is where the caller writes it.
pub(crate) fn render(engine: Engine, settings: &ExportSettings, out: Option<&Path>) -> Result<String, Error> {
    let load = ExportedLoad::of(settings)?;
    match engine {
        Engine::Jmeter => jmeter::render(&load, engine.file(out)),
        Engine::K6 => k6::render(&load, engine.file(out)),
        Engine::Locust => Err(Error::Usage(
            "only the purchases at a shop are written for Locust; name a shop file with --shop, or export for jmeter or k6"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use program::ProgramError as _;

    use super::*;
    use crate::commands::{Cli, Command};

    /// Returns the settings of these arguments, with a strategy if they name none.
    fn settings(args: &str, rules: &[&str]) -> (Engine, ExportSettings) {
        let named = ["--strategies", "--preset"].iter().any(|flag| args.contains(flag));
        let args = if named { args.to_owned() } else { format!("{args} --strategies zk-mutex") };
        let rules = rules.iter().flat_map(|rule| ["--threshold", rule]);
        let cli = Cli::try_parse_from(["loadgen", "export"].into_iter().chain(args.split(' ')).chain(rules)).unwrap();
        let Command::Export(args) = cli.command else { unreachable!("the subcommand is export") };
        let export = args.resolve().unwrap();
        (export.engine, export.settings)
    }

    /// Returns the exported file.
    pub(super) fn exported(args: &str) -> String {
        exported_with(args, &[])
    }

    /// Returns the exported file with these thresholds.
    pub(super) fn exported_with(args: &str, rules: &[&str]) -> String {
        let (engine, settings) = settings(args, rules);
        render(engine, &settings, None).unwrap()
    }

    pub(super) fn refusal(args: &str) -> String {
        let (engine, settings) = settings(args, &[]);
        let error = render(engine, &settings, None).unwrap_err();
        assert_eq!(error.exit().code(), 64);
        error.to_string()
    }

    #[test]
    fn locust_gets_only_the_load_of_a_shop() {
        assert!(refusal("locust").ends_with("name a shop file with --shop, or export for jmeter or k6"));
    }

    #[test]
    fn a_target_needs_no_database_and_no_token() {
        assert!(exported("jmeter --target http://shop.example").contains("shop.example"));
    }

    /// Returns the exported file with this plan file.
    fn exported_by_plan(args: &str, plan: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, plan).unwrap();
        exported(&format!("{args} --plan {}", path.display()))
    }

    #[test]
    fn the_command_of_the_service_has_all_users_and_no_blanks() {
        let plan = "lock-wait = \"1m 30s\"\n[service]\nbusiness-time = \"1s 500ms .. 2s\"";
        let command = "--business-time 1s500ms..2s --lock-wait 1m30s --goods-no 1 --stock 100";
        for (users, flag) in [("10,2048", ""), ("10,3000", " --users 3000")] {
            let text = exported_by_plan(&format!("k6 --users {users}"), plan);
            assert!(text.lines().any(|line| line.ends_with(&format!("{command}{flag}"))), "{text}");
        }
    }

    #[test]
    fn the_comment_names_the_file_if_its_name_is_plain() {
        for (out, name) in [("sale.js", "sale.js"), ("plans/sale.js", "sale.js"), ("a b.js", "seckill.js")] {
            let (engine, settings) = settings("k6", &[]);
            let text = render(engine, &settings, Some(Path::new(out))).unwrap();
            assert!(text.contains(&format!("//   k6 run {name}\n")), "{text}");
        }
    }

    #[test]
    fn arguments_of_the_service_that_up_does_not_have_are_listed() {
        for engine in ["jmeter", "k6"] {
            let text = exported_by_plan(engine, "[service]\nargs = [\"--permits\", \"8\"]");
            assert!(text.contains("which `loadgen up` does not have: --permits 8\n"), "{text}");
        }
    }

    #[test]
    fn arguments_of_the_service_stay_inside_their_comment() {
        let plan = r#"service.args = ["a\nb()\rc()\u2028d()", "</stringProp>", "&e"]"#;
        let script = exported_by_plan("k6", plan);
        assert!(script.lines().any(|line| line.starts_with("// ") && line.contains("a b() c() d() <")), "{script}");
        let text = exported_by_plan("jmeter", plan);
        assert!(text.contains("a b() c() d() &#60;/stringProp&#62; &#38;e"), "{text}");
    }

    #[test]
    fn the_path_of_a_target_cannot_end_a_string() {
        let target = "--target http://a/it's$(x)&</x>";
        let script = exported(&format!("k6 {target}"));
        assert!(script.contains("|| 'http://a:80/it%27s%24(x)&%3C/x%3E').split"), "{script}");
        let plan = exported(&format!("jmeter {target}"));
        assert!(plan.contains(">/it%27s%24(x)&#38;%3C/x%3E/goods-stock/"), "{plan}");
    }

    #[test]
    fn every_strategy_has_its_command_that_puts_the_stock_on_sale() {
        for (engine, setting) in [("jmeter", "-Jstrategy"), ("k6", "-e STRATEGY")] {
            for (args, bodies) in [
                ("--stock 7 --strategies zk-mutex", &[r#"-d '{"stock":7,"strategy":"zk-mutex"}' "http"#][..]),
                (
                    "--stock 7 --strategies zk-mutex,pg-advisory --users 10,20",
                    &[
                        r#"-d '{"stock":7,"strategy":"zk-mutex"}' "http"#,
                        r#"-d '{"stock":7,"strategy":"pg-advisory"}' "http"#,
                    ][..],
                ),
            ] {
                let text = exported(&format!("{engine} {args}"));
                let puts: Vec<&str> = text.lines().filter(|line| line.contains("curl -X PUT")).collect();
                assert_eq!(puts.len(), bodies.len(), "{text}");
                assert!(puts.iter().zip(bodies).all(|(put, body)| put.contains(body)), "{puts:#?}");
                let needed = format!(r#"A run with {setting}=NAME needs -d '{{"stock":7,"strategy":"NAME"}}'."#);
                assert!(text.contains(&needed), "{text}");
            }
        }
    }

    #[test]
    fn requests_go_to_all_instances_and_then_to_the_next_sku() {
        let (_, settings) = settings("jmeter --target http://a:1,http://b:2/shop/ --goods 2 --goods-no 7", &[]);
        let load = ExportedLoad::of(&settings).unwrap();
        let targets = load.targets();
        let targets: Vec<_> =
            targets.iter().map(|at| format!("{} {} {}", at.number, at.instance, at.goods_no)).collect();
        let expected = ["1 http://a:1 7", "2 http://b:2/shop 7", "1 http://a:1 8", "2 http://b:2/shop 8"];
        assert_eq!(targets, expected);
    }

    #[test]
    fn loads_that_no_engine_could_run_are_refused() {
        for (args, expected) in [
            (
                "--target http://me:secret@a:1",
                "a target on a has credentials, which must not be written to a file; write http://HOST:PORT",
            ),
            (
                "--target http://a:1,http://b:1 --goods 501",
                "1002 pairs of an instance and a SKU are more than the upper bound of 1000",
            ),
            ("--target http://a$(x)", "a target has \"a$(x)\" as its host, which is not a host name"),
            ("--strategies zk-mutex,a&b", "the strategy \"a&b\" has a character"),
            ("--preset jmeter", "a run sells by one strategy, and none is named; write --strategies zk-mutex"),
            (
                "--preset scale --strategies zk-naive --users 1500",
                "users-max excludes every strategy with these --users",
            ),
        ] {
            for engine in ["jmeter", "k6"] {
                let refused = refusal(&format!("{engine} {args}"));
                assert!(refused.starts_with(expected), "{refused}");
            }
        }
    }
}
