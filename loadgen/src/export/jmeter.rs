//! The load as a JMeter test plan. JMeter 2.13 and 5.6 read the same plan: 5.6 converts the older format of 2.13.
//!
//! `jmeter/plan.jmx` is the template of the plan. The comment of the plan, which JMeter shows, explains how to run it and
//! how it differs from `loadgen`.

mod pace;

use askama::Template;

use self::pace::Pace;
use crate::error::Error;
use crate::export::load::{Load, Place, Run};
use crate::load::model::{Arrivals, LoadModel};

/// The values in the template of the plan.
#[derive(Template)]
#[template(path = "jmeter/plan.jmx", whitespace = "preserve")]
struct Plan<'a> {
    load: &'a Load<'a>,
    model: LoadModel,
    /// The load model in words.
    described: String,
    places: Vec<Place<'a>>,
    /// The run without any `-J`.
    first: Run,
    pace: Pace,
    /// All runs, each with its pace.
    runs: Vec<(&'a Run, Pace)>,
}

/// Writes the plan.
///
/// # Errors
///
/// [`Error::Usage`] for times that JMeter cannot keep.
pub(super) fn render(load: &Load<'_>) -> Result<String, Error> {
    let (model, first) = (load.settings.model, load.first_run());
    let runs = load.runs.iter().map(|run| Ok((run, Pace::of(model, run.users)?)));
    let plan = Plan {
        load,
        model,
        described: model.describe(first.users),
        places: load.places(),
        pace: Pace::of(model, first.users)?,
        first,
        runs: runs.collect::<Result<_, Error>>()?,
    };
    let text = plan.render().map_err(|error| Error::Generator(format!("the plan cannot be written: {error}")))?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use crate::export::tests::{exported, exported_with, refusal};

    #[test]
    fn the_plan_of_the_repository_is_the_exported_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("jmeter/seckill.jmx");
        let (kept, exported) = (fs::read_to_string(path).unwrap(), exported("jmeter --preset jmeter"));
        let differs = kept.lines().zip(exported.lines()).find(|(kept, exported)| kept != exported);
        let remedy = "write it anew: loadgen export jmeter --preset jmeter --out jmeter/seckill.jmx";
        assert!(kept == exported, "{remedy}; the first lines that differ: {differs:#?}");
    }

    /// The lines of the plan that begin like this, without their indentation.
    fn lines(plan: &str, beginning: &str) -> Vec<String> {
        plan.lines().map(str::trim).filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    /// The values of the properties of this name, in order.
    fn values(plan: &str, name: &str) -> Vec<String> {
        let value = |line: &str| Some(line.split_once(&format!(" name=\"{name}\">"))?.1.split('<').next()?.to_owned());
        plan.lines().filter_map(value).collect()
    }

    #[test]
    fn every_buyer_of_a_ramp_is_a_thread_that_asks_once() {
        let plan = exported("jmeter --users 40 --ramp-up 4s --goods-no 7 --strategies zk-mutex");
        assert_eq!(values(&plan, "ThreadGroup.num_threads"), ["${__P(threads,40)}"]);
        assert_eq!(values(&plan, "ThreadGroup.ramp_time"), ["${__P(rampup,4)}"]);
        assert_eq!(values(&plan, "LoopController.loops"), ["${__P(loops,1)}"]);
        assert_eq!(values(&plan, "ThreadGroup.scheduler"), ["false"]);
        let path = "/goods-stock/${__P(goodsNo,7)}?strategy=${__P(strategy,zk-mutex)}";
        assert_eq!(values(&plan, "HTTPSampler.path"), [path]);
        assert!(!plan.contains("Timer"), "they neither meet nor wait");
    }

    #[test]
    fn the_threads_of_a_loop_go_on_until_the_duration_ends() {
        let plan = exported("jmeter --users 4 --duration 1m --lock-wait 5s");
        assert_eq!(values(&plan, "LoopController.loops"), ["${__P(loops,-1)}"]);
        assert_eq!(values(&plan, "ThreadGroup.scheduler"), ["true"]);
        assert_eq!(values(&plan, "ThreadGroup.duration"), ["${__P(duration,60)}"]);
        assert_eq!(values(&plan, "HTTPSampler.response_timeout"), ["25000"]);
        assert!(!plan.contains("Timer"));
    }

    #[test]
    fn a_rate_is_divided_among_the_threads() {
        let plan = exported("jmeter --users 20 --rate 40 --duration 5s");
        assert_eq!(values(&plan, "throughput"), ["${__P(throughput,120)}"], "twenty of 120 a minute are 40 a second");
        assert_eq!(values(&plan, "ThreadGroup.ramp_time"), ["${__P(rampup,1)}"]);
        assert_eq!(values(&plan, "LoopController.loops"), ["${__P(loops,10)}"]);
        assert_eq!(values(&plan, "calcMode"), ["0"]);
    }

    #[test]
    fn where_there_are_several_places_every_request_takes_the_next_one() {
        let plan = exported("jmeter --target http://a:1,http://b/shop --goods 2");
        let arguments = lines(&plan, "<stringProp name=\"Argument.value\">");
        let value = |line: &String| line.split(['>', '<']).nth(2).unwrap().to_owned();
        let places: Vec<String> = arguments.iter().map(value).collect();
        let (a, b) = (["${__P(host1,a)}", "${__P(port1,1)}"], ["${__P(host2,b)}", "${__P(port2,80)}"]);
        let expected = [
            [a[0], a[1], "/goods-stock/1"],
            [b[0], b[1], "/shop/goods-stock/1"],
            [a[0], a[1], "/goods-stock/2"],
            [b[0], b[1], "/shop/goods-stock/2"],
        ];
        assert_eq!(places, expected.concat());
        assert_eq!(values(&plan, "CounterConfig.end"), ["3"]);
        assert_eq!(values(&plan, "HTTPSampler.domain"), ["${__V(host_${turn})}"]);
        assert_eq!(values(&plan, "HTTPSampler.path"), ["${__V(path_${turn})}?strategy=${__P(strategy,)}"]);
    }

    #[test]
    fn one_instance_can_be_named_anew_whatever_it_sells() {
        let plan = exported("jmeter --goods 2");
        assert_eq!(values(&plan, "HTTPSampler.domain"), ["${__P(host,127.0.0.1)}"]);
        assert_eq!(values(&plan, "HTTPSampler.path"), ["${__V(path_${turn})}?strategy=${__P(strategy,)}"]);
    }

    #[test]
    fn what_jmeter_cannot_do_is_refused_or_said() {
        for (args, expected) in [
            (
                "--ramp-up 1500ms",
                "JMeter counts in whole seconds, so it cannot have a --ramp-up of 1500ms; 2s would do",
            ),
            ("--duration 300ms", "cannot have a --duration of 300ms; 1s would do"),
            ("--rate 5 --duration 2500ms", "cannot have a --duration of 2500ms; 3s would do"),
        ] {
            let refused = refusal(&format!("jmeter {args}"));
            assert!(refused.ends_with(expected), "{refused}");
        }
        for (args, expected) in [
            ("--rate 5", "- This is a closed model with a cap: JMeter 2.13 has no open one. Each of the 50 threads"),
            ("--rate 200", "Each of the 200 threads asks once in 1 s, and"),
            ("--preset herd --users 10,30", "  -Jthreads=30 -Jstrategy=zk-handoff\n"),
            (
                "--strategies a,b --users 10 --rate 20",
                "  -Jthreads=10 -Jrampup=1 -Jloops=20 -Jthroughput=120 -Jstrategy=b\n",
            ),
        ] {
            let plan = exported(&format!("jmeter {args}"));
            assert!(plan.contains(expected), "{plan}");
        }
        let uneven = "- JMeter starts threads over whole seconds: with fewer users than requests a second, several ask \
                      at the same instant.";
        for (args, expected, is_even) in [
            ("--rate 5", "in all: evenly, and not as Poisson arrivals do.\n", true),
            ("--rate 5 --arrivals constant", "in all: evenly.\n", true),
            ("--rate 33.3 --users 34 --arrivals constant", "in all: evenly.\n", true),
            ("--rate 20 --users 10", "in all, and not as Poisson arrivals do.\n", false),
            ("--rate 20 --users 10 --arrivals constant", "in all.\n", false),
        ] {
            let plan = exported(&format!("jmeter {args}"));
            assert!(plan.contains(expected) && plan.contains(uneven) != is_even, "{plan}");
        }
        assert!(exported("jmeter").contains("goodsNo, strategy (the sale's own if empty), threads"));
        assert!(exported("jmeter --strategies a").contains("goodsNo, strategy, threads"));
        let plan = exported_with("jmeter", &["zk-* p99<1s"]);
        assert!(plan.contains("- JMeter has no thresholds, so these are not checked: zk-* p99&#60;1s.\n"), "{plan}");
    }
}
