//! The load as a k6 script.
//!
//! How to run it, and what differs from a trial of this program, is in the comment at its beginning.

mod comment;
mod rules;

use std::fmt::Write as _;
use std::time::Duration;

use crate::error::Error;
use crate::export::load::Load;
use crate::load::answer::{NOTHING_WRITTEN, PROBLEM_TYPE};
use crate::load::model::LoadModel;

/// What every script does for one request.
const BUY: &str = include_str!("k6/buy.js");

/// What is added to the longest that a user may take, for starting and ending.
const GRACE: Duration = Duration::from_secs(30);

/// How long all users may take to be there before they buy at the same instant, unless LEAD_MS says otherwise.
const LEAD_MS: u64 = 3000;

/// k6 has rates in whole iterations, so they are written for so many seconds.
const RATE_UNIT_S: f64 = 1000.0;

/// The script.
///
/// # Errors
///
/// [`Error::Usage`] for what k6 cannot do.
pub(super) fn render(load: &Load<'_>) -> Result<String, Error> {
    let shape = Shape::of(load)?;
    let mut script = comment::comment(load);
    script += "\nimport { check, sleep } from 'k6';\nimport exec from 'k6/execution';\nimport http from 'k6/http';\n";
    script += "import { Counter, Rate, Trend } from 'k6/metrics';\n\n";
    script += &settings(load);
    script += &shape.settings;
    script += "\n// As the buyers were told. Times count from the instant at which a buyer wanted to buy.\n";
    script += "const sold = new Counter('sold');\nconst soldOut = new Counter('sold_out');\n";
    script += "const refused = new Rate('refused');\nconst errors = new Rate('errors');\n";
    script += "const soldTime = new Trend('sold_ms', true);\n\n";
    script += &rules::rules(load);
    let _ = write!(
        script,
        "\n/** @type {{import('k6/options').Options}} */\n\
         export const options = {{\n  scenarios: {{\n    sale: {{\n{}    }},\n  }},\n  thresholds: thresholds(),\n  \
         summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max', 'count'],\n}};\n\n{}\n{BUY}",
        shape.executor, shape.functions
    );
    Ok(script)
}

/// What depends on the load model.
struct Shape {
    /// Constants that it needs.
    settings: String,
    /// The properties of the scenario.
    executor: String,
    /// `setup`, if there is one, and what every user does.
    functions: String,
}

impl Shape {
    fn of(load: &Load<'_>) -> Result<Shape, Error> {
        match load.settings.model {
            LoadModel::Burst => Ok(one_shot(load, None)),
            LoadModel::Ramp { ramp_up_ms } => Ok(one_shot(load, Some(ramp_up_ms))),
            LoadModel::Loop { duration_ms, ramp_up_ms } => Ok(looping(duration_ms, ramp_up_ms)),
            LoadModel::Open { rate_per_s, duration_ms, .. } => open(rate_per_s, duration_ms),
        }
    }
}

/// Every user waits for its own instant, which counts from one that they share.
fn one_shot(load: &Load<'_>, ramp_up_ms: Option<u64>) -> Shape {
    let longest = load.answer_within() + GRACE;
    let mut settings = format!(
        "// When the first buyer buys: so long after all users are there, or at an instant of the clock, in milliseconds\n\
         // since 1970, that several k6 share.\n\
         const LEAD_MS = Number(__ENV.LEAD_MS || {LEAD_MS});\nconst START_AT = Number(__ENV.START_AT || 0);\n"
    );
    let mut intended = "data.start".to_owned();
    let mut last = "Math.max(LEAD_MS, START_AT - Date.now())".to_owned();
    if let Some(ramp_up_ms) = ramp_up_ms {
        let _ = write!(
            settings,
            "// From the first buyer to the last one.\nconst RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {ramp_up_ms});\n"
        );
        intended += " + (RAMP_UP_MS * number) / Math.max(USERS - 1, 1)";
        last += " + RAMP_UP_MS";
    }
    Shape {
        settings,
        executor: executor(&[
            ("executor", "'per-vu-iterations'"),
            ("vus", "USERS"),
            ("iterations", "1"),
            ("maxDuration", &format!("`${{{last} + {}}}ms`", longest.as_millis())),
        ]),
        functions: format!(
            "export function setup() {{\n  return {{ start: START_AT || Date.now() + LEAD_MS }};\n}}\n\n\
             /** @param {{{{ start: number }}}} data */\n\
             export default function (data) {{\n  const number = exec.vu.idInTest - 1;\n  const intended = {intended};\n  \
             sleep(Math.max(intended - Date.now(), 0) / 1000);\n  buy(number, intended);\n}}\n"
        ),
    }
}

fn looping(duration_ms: u64, ramp_up_ms: u64) -> Shape {
    let mut settings = format!("const DURATION_MS = Number(__ENV.DURATION_MS || {duration_ms});\n");
    let executor = if ramp_up_ms == 0 {
        executor(&[
            ("executor", "'constant-vus'"),
            ("vus", "USERS"),
            ("duration", "`${DURATION_MS}ms`"),
            ("gracefulStop", "ANSWER_WITHIN"),
        ])
    } else {
        let _ = writeln!(settings, "const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {ramp_up_ms});");
        let stages = "[\n        { duration: `${RAMP_UP_MS}ms`, target: USERS },\n        \
             { duration: `${DURATION_MS - RAMP_UP_MS}ms`, target: USERS },\n      ]";
        executor(&[
            ("executor", "'ramping-vus'"),
            ("startVUs", "0"),
            ("stages", stages),
            ("gracefulStop", "ANSWER_WITHIN"),
        ])
    };
    let functions = "export default function () {\n  \
         buy(exec.vu.idInTest - 1 + USERS * exec.vu.iterationInScenario, Date.now());\n}\n";
    Shape { settings, executor, functions: functions.to_owned() }
}

fn open(rate_per_s: f64, duration_ms: u64) -> Result<Shape, Error> {
    let written = (rate_per_s * RATE_UNIT_S).round();
    if (written - rate_per_s * RATE_UNIT_S).abs() > 1e-3 * rate_per_s * RATE_UNIT_S {
        return Err(Error::Usage(format!(
            "k6 has rates in whole thousandths a second; write --rate {} instead of {rate_per_s}",
            written.max(1.0) / RATE_UNIT_S
        )));
    }
    Ok(Shape {
        settings: format!(
            "const RATE = Number(__ENV.RATE || {rate_per_s});\n\
             const DURATION_MS = Number(__ENV.DURATION_MS || {duration_ms});\n"
        ),
        executor: executor(&[
            ("executor", "'constant-arrival-rate'"),
            ("rate", "Math.round(1000 * RATE)"),
            ("timeUnit", "'1000s'"),
            ("duration", "`${DURATION_MS}ms`"),
            ("preAllocatedVUs", "USERS"),
            ("maxVUs", "USERS"),
            ("gracefulStop", "ANSWER_WITHIN"),
        ]),
        functions: "export default function () {\n  buy(exec.scenario.iterationInTest, Date.now());\n}\n".to_owned(),
    })
}

fn executor(properties: &[(&str, &str)]) -> String {
    properties.iter().map(|(name, value)| format!("      {name}: {value},\n")).collect()
}

/// What every load has, each of it to be changed by the environment.
fn settings(load: &Load<'_>) -> String {
    let run = load.first_run();
    let urls = load.instances.iter().map(|at| format!("http://{}:{}{}", at.host, at.port, at.prefix));
    let first = load.settings.goods_no;
    let goods = (first..first + i64::from(load.settings.goods)).map(|goods_no| goods_no.to_string());
    let types = NOTHING_WRITTEN.iter().map(|slug| format!("  '{PROBLEM_TYPE}{slug}',\n"));
    format!(
        "const USERS = Number(__ENV.USERS || {});\n\
         const STRATEGY = __ENV.STRATEGY ?? {};\n\
         const TARGETS = (__ENV.TARGETS || {}).split(',');\n\
         const GOODS = (__ENV.GOODS || {}).split(',');\n\
         const ANSWER_WITHIN = '{}ms';\n\
         const ANSWERS = http.expectedStatuses(200, 409);\n\
         const REFUSALS = [\n{}];\n",
        run.users,
        quoted(run.strategy.as_deref().unwrap_or_default()),
        quoted(&urls.collect::<Vec<_>>().join(",")),
        quoted(&goods.collect::<Vec<_>>().join(",")),
        load.answer_within().as_millis(),
        types.collect::<String>(),
    )
}

/// A text as JavaScript has it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use crate::export::tests::{exported, exported_with, refusal};

    /// What is between the braces of the scenario, a property a line.
    fn scenario(script: &str) -> Vec<&str> {
        let (_, rest) = script.split_once("    sale: {\n").unwrap();
        rest.split_once("\n    },\n").unwrap().0.lines().map(str::trim).collect()
    }

    #[test]
    fn the_script_of_a_burst() {
        let rules = ["zk-* p99<250ms", "zk-mutex@300 oversold==0", "zk-* overlaps==0"];
        insta::assert_snapshot!(exported_with("k6 --strategies zk-mutex,zk-naive", &rules));
    }

    #[test]
    fn every_buyer_of_a_ramp_has_an_instant_of_its_own() {
        let script = exported("k6 --users 40 --ramp-up 1500ms");
        assert_eq!(scenario(&script)[..3], ["executor: 'per-vu-iterations',", "vus: USERS,", "iterations: 1,"]);
        assert!(script.contains("const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || 1500);\n"));
        let intended = "const intended = data.start + (RAMP_UP_MS * number) / Math.max(USERS - 1, 1);";
        assert!(script.contains(intended), "{script}");
        let longest = "maxDuration: `${Math.max(LEAD_MS, START_AT - Date.now()) + RAMP_UP_MS + 110000}ms`,";
        assert_eq!(scenario(&script)[3], longest);
    }

    #[test]
    fn the_users_of_a_loop_go_on_until_the_duration_ends() {
        let script = exported("k6 --users 40 --duration 2500ms");
        let expected = [
            "executor: 'constant-vus',",
            "vus: USERS,",
            "duration: `${DURATION_MS}ms`,",
            "gracefulStop: ANSWER_WITHIN,",
        ];
        assert_eq!(scenario(&script), expected);
        let script = exported("k6 --users 40 --duration 5s --ramp-up 1s");
        assert_eq!(scenario(&script)[..2], ["executor: 'ramping-vus',", "startVUs: 0,"]);
        assert!(script.contains("{ duration: `${DURATION_MS - RAMP_UP_MS}ms`, target: USERS },"), "{script}");
    }

    #[test]
    fn arrivals_have_the_rate_whatever_became_of_those_before() {
        let script = exported("k6 --users 40 --rate 50.5 --target http://a:1,http://b/shop/ --goods 2 --goods-no 9");
        let scenario = scenario(&script);
        assert_eq!(scenario[..2], ["executor: 'constant-arrival-rate',", "rate: Math.round(1000 * RATE),"]);
        assert_eq!(scenario[4..6], ["preAllocatedVUs: USERS,", "maxVUs: USERS,"]);
        for expected in [
            "const RATE = Number(__ENV.RATE || 50.5);",
            "const TARGETS = (__ENV.TARGETS || 'http://a:1,http://b:80/shop').split(',');",
            "const GOODS = (__ENV.GOODS || '9,10').split(',');",
            "// - Arrivals are evenly spaced: k6 has no Poisson process.",
        ] {
            assert!(script.lines().any(|line| line == expected), "{script}");
        }
    }

    #[test]
    fn a_rule_about_none_of_the_runs_is_said_to_wait_for_one() {
        let rules = ["zk-* p99<250ms", "* errors==0", "*@10 errors==0", "zk-* overlaps==0"];
        let script = exported_with("k6", &rules);
        let expected =
            "// - Checked only with -e STRATEGY=… or -e USERS=… that they name: zk-* p99<250ms; *@10 errors==0.";
        assert!(script.lines().any(|line| line == expected), "{script}");
        let script = exported_with("k6 --strategies zk-mutex --users 10,20", &rules);
        assert!(!script.contains("Checked only"), "{script}");
    }

    #[test]
    fn a_rate_that_k6_cannot_have_is_refused_with_one_that_it_can() {
        assert!(refusal("k6 --rate 0.0123").ends_with("write --rate 0.012 instead of 0.0123"));
        assert!(refusal("k6 --rate 0.0001").ends_with("write --rate 0.001 instead of 0.0001"));
        assert!(exported("k6 --rate 33.3333").contains("33.3333"), "it is off by less than a thousandth");
    }
}
