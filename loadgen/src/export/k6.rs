//! The load as a k6 script.
//!
//! `k6/script.js` is the template of the script. The comment at its head explains how to run it and how it differs from
//! `loadgen`.

mod rules;

use askama::Template;
use buyers::answer::{NOTHING_WRITTEN, PROBLEM_TYPE, SALE_RESTARTED, SOLD_OUT};
use buyers::model::{Arrivals, LoadModel};

use self::rules::Rules;
use crate::error::Error;
use crate::export::load::{ExportedLoad, ExportedRun};

/// Time for the start and the end of a user, added to its longest purchase.
const GRACE_MS: u128 = 30_000;

/// k6 has rates in whole iterations, so the script states them per 1000 s.
const RATE_UNIT_S: f64 = 1000.0;

/// The values in the template of the script.
#[derive(Template)]
#[template(path = "k6/script.js", whitespace = "preserve")]
struct K6Script<'a> {
    load: &'a ExportedLoad<'a>,
    /// The name of the file.
    file: &'a str,
    model: LoadModel,
    /// The load model in words.
    described: String,
    /// The run without any `-e`.
    first: ExportedRun,
    rules: Rules<'a>,
    /// Upper bound of the time from the first request of a user to its end.
    longest_ms: u128,
}

/// Writes the script.
pub(super) fn render(load: &ExportedLoad<'_>, file: &str) -> Result<String, Error> {
    let model = load.settings.model;
    if let LoadModel::Open { rate_per_s, .. } = model {
        check_rate(rate_per_s)?;
    }
    let first = load.first_run();
    let script = K6Script {
        load,
        file,
        model,
        described: model.describe(first.users),
        first,
        rules: Rules::of(load),
        longest_ms: load.answer_within_ms() + GRACE_MS,
    };
    let text = script.render().map_err(|error| Error::Generator(format!("the script cannot be written: {error}")))?;
    Ok(text + "\n")
}

/// Refuses a rate that is not close to a whole number of thousandths per second.
fn check_rate(rate_per_s: f64) -> Result<(), Error> {
    let per_unit = rate_per_s * RATE_UNIT_S;
    if (per_unit.round() - per_unit).abs() <= 1e-3 * per_unit {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "k6 has rates in whole thousandths per second; write --rate {} instead of {rate_per_s}",
        per_unit.round().max(1.0) / RATE_UNIT_S
    )))
}

#[cfg(test)]
mod tests {
    use crate::export::tests::{exported, exported_with, refusal};

    /// Returns the lines between the braces of the scenario: one property each.
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
    fn every_user_of_a_ramp_has_its_own_instant() {
        let script = exported("k6 --users 40 --ramp-up 1500ms");
        assert_eq!(scenario(&script)[..3], ["executor: 'per-vu-iterations',", "vus: USERS,", "iterations: 1,"]);
        assert!(script.contains("const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || 1500);\n"));
        let intended = "const intended = data.start + (RAMP_UP_MS * number) / Math.max(USERS - 1, 1);";
        assert!(script.contains(intended), "{script}");
        let longest = "maxDuration: `${Math.max(LEAD_MS, START_AT - Date.now()) + RAMP_UP_MS + 110000}ms`,";
        assert_eq!(scenario(&script)[3], longest);
    }

    #[test]
    fn users_of_a_loop_ask_until_the_duration_ends() {
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
    fn arrivals_have_the_rate() {
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
    fn a_threshold_about_none_of_the_runs_is_listed() {
        let rules = ["zk-* p99<250ms", "* errors==0", "*@10 errors==0", "zk-* overlaps==0"];
        let script = exported_with("k6", &rules);
        let expected =
            "// - These thresholds are checked only with a matching -e STRATEGY=… or -e USERS=…: *@10 errors==0.";
        assert!(script.lines().any(|line| line == expected), "{script}");
        let script = exported_with("k6 --strategies zk-mutex --users 10,20", &rules);
        assert!(!script.contains("checked only"), "{script}");
    }

    #[test]
    fn a_rate_that_k6_cannot_keep_is_refused() {
        assert!(refusal("k6 --rate 0.0123").ends_with("write --rate 0.012 instead of 0.0123"));
        assert!(refusal("k6 --rate 0.0001").ends_with("write --rate 0.001 instead of 0.0001"));
        assert!(exported("k6 --rate 33.3333").contains("33.3333"), "the rate is off by less than a thousandth");
    }
}
