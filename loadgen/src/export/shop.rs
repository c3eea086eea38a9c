//! The purchases at a shop that a file describes, for other engines.
//!
//! | file | holds |
//! |---|---|
//! | `portable.rs` | what a buyer does, as JSON that each engine reads |
//! | `pace.rs` | when each buyer buys |
//! | `k6.rs`, `script.js`, `script/`, `testrun.yaml` | the script for k6, and the manifest for its operator |
//! | `jmeter.rs`, `plan.jmx`, `buyer.bsh`, `buyer/` | the plan for JMeter, and the script in it |
//! | `locust.rs`, `locustfile.py`, `locustfile/` | the file for Locust |
//!
//! All engines follow one rule: a buyer signs up, waits for the common start, and buys when its schedule says so. The start is an
//! instant of the wall clock, so that machines need no other connection. Each purchase is one line of the results.

mod jmeter;
mod k6;
mod locust;
mod pace;
mod portable;

use std::path::Path;

use buyers::model::LoadModel;

use self::pace::ShopPace;
use super::Engine;
use crate::error::Error;
use crate::shop::Shop;

/// The time that an engine waits for an answer, unless the shop file has another one. `loadgen` waits as long.
const ANSWER_WITHIN_MS: u64 = 30_000;

/// The purchases at a shop, and when they start.
pub(crate) struct ShopLoad {
    pub(crate) shop: Shop,
    pub(crate) users: u32,
    pub(crate) model: LoadModel,
    /// The common start, as RFC 3339 writes it. `None`: each run names it.
    pub(crate) start_at: Option<String>,
}

/// The files of a load.
#[derive(Debug)]
pub(crate) struct ShopFiles {
    /// The file that the engine runs.
    pub(crate) script: String,
    /// The manifest for k6's operator.
    pub(crate) manifest: Option<String>,
}

/// Writes the purchases at a shop for an engine. `out` is where the caller writes them.
///
/// # Errors
///
/// [`Error::Usage`] when the engine cannot send a request, when a secret is written out in the shop file, and when the shop has too
/// few buyers.
pub(crate) fn render(engine: Engine, load: &ShopLoad, out: Option<&Path>) -> Result<ShopFiles, Error> {
    let users = usize::try_from(load.users).unwrap_or(usize::MAX);
    if let Some(people) = &load.shop.people {
        people.ensure(users)?;
    }
    portable::ensure_open(&load.shop)?;
    let file = engine.file(out);
    match engine {
        Engine::Jmeter => Ok(ShopFiles { script: jmeter::render(load, file)?, manifest: None }),
        Engine::Locust => Ok(ShopFiles { script: locust::render(load, file)?, manifest: None }),
        Engine::K6 => Ok(ShopFiles { script: k6::render(load, file)?, manifest: Some(k6::manifest(load, file)?) }),
    }
}

/// What the head of every exported file says.
struct Head {
    /// The load in words.
    described: String,
    /// The name of the shop, in one line.
    shop: String,
    pace: ShopPace,
    /// The variables of the environment that the requests use.
    variables: Vec<String>,
    /// The name of the file of the buyers. Empty if a buyer is a number.
    csv: String,
    /// Whether the shop has a certificate of its own.
    has_certificate: bool,
    /// The start in the file. Empty if there is none.
    start_at: String,
    users: u32,
}

impl Head {
    fn of(load: &ShopLoad) -> Head {
        let people = load.shop.people.as_ref();
        let name = |people: &crate::shop::People| {
            let path = Path::new(people.file());
            in_one_line(&path.file_name().unwrap_or_default().to_string_lossy())
        };
        Head {
            described: load.model.describe(load.users),
            shop: in_one_line(&load.shop.name),
            pace: ShopPace::of(load.model),
            variables: portable::variables(&load.shop),
            csv: people.map(name).unwrap_or_default(),
            has_certificate: load.shop.certificate.is_some(),
            start_at: load.start_at.clone().unwrap_or_default(),
            users: load.users,
        }
    }

    /// Returns the users of the first of two machines.
    fn half(&self) -> u32 {
        self.users.div_ceil(2)
    }
}

/// Returns a text that cannot end a comment of one line.
fn in_one_line(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use program::ProgramError as _;
    use tempfile::TempDir;

    use super::*;

    /// A folder with the file of a shop.
    struct ShopFolder {
        folder: TempDir,
        file: PathBuf,
    }

    /// Writes a shop file with these tables after `[sale]`.
    fn shop(tables: &str) -> ShopFolder {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.toml");
        let text = format!(
            r#"
    [shop]
    name = "it's </a> shop"
    urls = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    stock = 10
    [sale]
    requests = ["curl -X POST {{{{url}}}}/reset -H 'Authorization: of-the-admin'"]
    {tables}
    "#
        );
        fs::write(&file, text).unwrap();
        ShopFolder { folder, file }
    }

    impl ShopFolder {
        fn load(&self) -> ShopLoad {
            let shop = crate::shop::read(&self.file).unwrap();
            ShopLoad { shop, users: 3, model: LoadModel::BURST, start_at: None }
        }

        fn refusal(&self, engine: Engine) -> String {
            let error = render(engine, &self.load(), None).unwrap_err();
            assert_eq!(error.exit().code(), 64);
            error.to_string()
        }
    }

    const ENGINES: [Engine; 3] = [Engine::Jmeter, Engine::K6, Engine::Locust];

    #[test]
    fn a_variable_is_named_and_its_value_is_not_written() {
        // Every process has this variable.
        let value = std::env::var("PATH").unwrap();
        let shop = shop(
            r#"[buy]
    requests = ["curl {{url}}/buy -H 'x-key: {{env.PATH}}'"]
    sold = [{ status = 201 }]"#,
        );
        for engine in ENGINES {
            let files = render(engine, &shop.load(), None).unwrap();
            let manifest = files.manifest.unwrap_or_default();
            assert!(files.script.contains("PATH"), "{}", files.script);
            assert!(!files.script.contains(&value) && !manifest.contains(&value));
            assert!(!files.script.contains("of-the-admin"), "the sale is not exported");
        }
    }

    #[test]
    fn a_secret_that_is_written_out_is_refused() {
        for request in [
            "curl {{url}}/buy -H 'authorization: Bearer t0k3n-of-shop'",
            "curl {{url}}/buy -u 'me:t0k3n-of-shop'",
            "curl {{url}}/buy -u 'me:{{env.PATH}}'",
            "curl {{url}}/buy -b 'session=t0k3n-of-shop'",
        ] {
            let shop = shop(&format!(
                r#"[buy]
    requests = ["{request}"]
    sold = [{{ status = 201 }}]"#
            ));
            for engine in ENGINES {
                let refused = shop.refusal(engine);
                assert!(refused.contains("shop.toml:9: the request has a secret in it"), "{refused}");
                assert!(!refused.contains("t0k3n"), "{refused}");
            }
        }
    }

    #[test]
    fn what_jmeter_cannot_send_is_refused_by_name() {
        for (options, expected) in [
            ("-L", "JMeter 2.13 would follow a redirect to any host; leave out --location"),
            ("-X LOCK", "JMeter 2.13 cannot send the method LOCK"),
            ("-X DELETE -d a=b", "JMeter 2.13 sends no body with DELETE"),
            ("-b 'session={{number}}'", "JMeter 2.13 writes the header `cookie` itself"),
        ] {
            let shop = shop(&format!(
                r#"[buy]
    requests = ["curl {{{{url}}}}/buy {options}"]
    sold = [{{ status = 201 }}]"#
            ));
            let refused = shop.refusal(Engine::Jmeter);
            assert!(refused.contains(&format!("shop.toml:9: {expected}")), "{refused}");
            render(Engine::K6, &shop.load(), None).unwrap();
            render(Engine::Locust, &shop.load(), None).unwrap();
        }
    }

    #[test]
    fn a_load_of_more_users_than_buyers_is_refused() {
        let shop = shop(
            r#"[buyers]
    csv = "people.csv"
    [buy]
    requests = ["curl {{url}}/buy -d 'phone={{phone}}'"]
    sold = [{ status = 201 }]"#,
        );
        fs::write(shop.folder.path().join("people.csv"), "phone\n17\n18\n").unwrap();
        for engine in ENGINES {
            let refused = shop.refusal(engine);
            assert!(
                refused.ends_with("has 2 buyers, and the load needs 3; add lines to it, or give fewer users"),
                "{refused}"
            );
            let load = ShopLoad { users: 2, ..shop.load() };
            let script = render(engine, &load, None).unwrap().script;
            assert!(script.contains("people.csv") && !script.contains("18\n"), "the file stays apart: {script}");
        }
    }

    #[test]
    fn the_name_of_a_shop_stays_in_its_comment() {
        let shop = shop(
            r#"[buy]
    requests = ["curl {{url}}/buy"]
    sold = [{ status = 201 }]"#,
        );
        let mut load = shop.load();
        load.shop.name = "a\nb()\u{2028}c()".to_owned();
        for (engine, expected) in [
            (Engine::K6, "// Purchases at a shop: a b()\\u2028c(). The load"),
            (Engine::Locust, "# Purchases at a shop: a b()\\u2028c(). The load"),
            (Engine::Jmeter, ">Purchases at a shop: a b()\u{2028}c(). The load"),
        ] {
            let script = render(engine, &load, None).unwrap().script;
            assert!(script.lines().any(|line| line.contains(expected)), "{script}");
        }
    }

    #[test]
    fn the_plan_is_xml_without_foreign_expressions() {
        let shop = shop(
            r#"[buy]
    requests = ["curl {{url}}/buy -d '${a}</b>'"]
    sold = [{ status = 201 }]"#,
        );
        let plan = render(Engine::Jmeter, &shop.load(), None).unwrap().script;
        assert!(plan.contains("\\044{a}&#60;/b&#62;"), "{plan}");
        assert!(!plan.contains("${a}"));
    }

    #[test]
    fn each_model_has_its_pace_in_the_script() {
        let shop = shop(
            r#"[buy]
    requests = ["curl {{url}}/buy"]
    sold = [{ status = 201 }]"#,
        );
        let rate = LoadModel::Open { rate_per_s: 2.5, arrivals: buyers::model::Arrivals::Poisson, duration_ms: 4000 };
        for (model, ramp_up, duration, per_s) in [
            (LoadModel::BURST, 0, 0, "0"),
            (LoadModel::Ramp { ramp_up_ms: 1500, requests_per_buyer: 1 }, 1500, 0, "0"),
            (LoadModel::Loop { duration_ms: 4000, ramp_up_ms: 500 }, 500, 4000, "0"),
            (rate, 0, 4000, "2.5"),
        ] {
            let script = render(Engine::K6, &ShopLoad { model, ..shop.load() }, None).unwrap().script;
            for expected in [
                format!("const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {ramp_up});"),
                format!("const DURATION_MS = Number(__ENV.DURATION_MS || {duration});"),
                format!("const RATE = Number(__ENV.RATE || {per_s});"),
            ] {
                assert!(script.lines().any(|line| line == expected), "{expected}: {script}");
            }
        }
    }

    #[test]
    fn the_manifest_names_its_volume_and_its_secrets() {
        let shop = shop(
            r#"[buy]
    requests = ["curl {{url}}/buy -H 'x-key: {{env.PATH}}'"]
    sold = [{ status = 201 }]"#,
        );
        let load = ShopLoad { start_at: Some("2026-11-27T12:00:00Z".to_owned()), ..shop.load() };
        let manifest = render(Engine::K6, &load, Some(Path::new("My_sale.js"))).unwrap().manifest.unwrap();
        insta::assert_snapshot!(manifest);
    }
}
