//! The load as a JMeter test plan, in the format of JMeter 2.13, with which the tests run it. JMeter 5.6 converts this older format,
//! according to its source.
//!
//! `jmeter/plan.jmx` is the template of the plan. The comment of the plan, which JMeter shows, explains how to run it
//! and how it differs from `loadgen`.

mod pace;

use askama::Template;
use buyers::answer::{PROBLEM_TYPE, SOLD_OUT};
use buyers::model::{Arrivals, LoadModel};

use self::pace::Pace;
use crate::error::Error;
use crate::export::load::{ExportedLoad, ExportedRun, PurchaseTarget};

/// The values in the template of the plan.
#[derive(Template)]
#[template(path = "jmeter/plan.jmx", whitespace = "preserve")]
struct TestPlan<'a> {
    load: &'a ExportedLoad<'a>,
    /// The name of the file.
    file: &'a str,
    model: LoadModel,
    /// The load model in words.
    described: String,
    targets: Vec<PurchaseTarget<'a>>,
    pace: Pace,
    /// All runs, each with its pace.
    runs: Vec<(&'a ExportedRun, Pace)>,
    /// URL at which a thread buys.
    purchase: At,
    /// URL at which it asks for the ticket of a purchase.
    ticket: At,
    /// URL of a request that buys nothing. In a burst, it is at the instance where the thread buys.
    warm_up: At,
}

/// The target of a request, in expressions of JMeter.
struct At {
    host: String,
    port: String,
    path: String,
}

/// Writes the plan.
pub(super) fn render(load: &ExportedLoad<'_>, file: &str) -> Result<String, Error> {
    let model = load.settings.model;
    let first = load.first_run();
    let runs = load.runs.iter().map(|run| Ok((run, Pace::of(model, run.users)?)));
    let targets = load.targets();
    let (purchase, ticket, warm_up) = at(load, &targets, &first);
    let plan = TestPlan {
        load,
        file,
        model,
        described: model.describe(first.users),
        targets,
        purchase,
        ticket,
        warm_up,
        pace: Pace::of(model, first.users)?,
        runs: runs.collect::<Result<_, Error>>()?,
    };
    let text = plan.render().map_err(|error| Error::Generator(format!("the plan cannot be written: {error}")))?;
    Ok(text + "\n")
}

/// Returns where a thread buys, where it asks for its ticket, and where a request goes that buys nothing.
fn at(load: &ExportedLoad<'_>, targets: &[PurchaseTarget<'_>], run: &ExportedRun) -> (At, At, At) {
    let PurchaseTarget { instance, goods_no, .. } = targets[0];
    let of_turn = |name: &str| format!("${{__V({name}_${{turn}})}}");
    let is_one = load.instances.len() == 1;
    let number = if is_one { "" } else { "1" };
    let first = At {
        host: format!("${{__P(host{number},{})}}", instance.host),
        port: format!("${{__P(port{number},{})}}", instance.port),
        path: format!("{}/healthz", instance.prefix),
    };
    let own = |path: String| At {
        host: if is_one { first.host.clone() } else { of_turn("host") },
        port: if is_one { first.port.clone() } else { of_turn("port") },
        path,
    };
    let goods = match targets {
        [_] => format!("{}/goods-stock/${{__P(goodsNo,{goods_no})}}", instance.prefix),
        _ => of_turn("path"),
    };
    let purchase = own(format!("{goods}?strategy=${{__P(strategy,{})}}", run.strategy));
    let is_shared = is_one || !load.settings.model.is_burst();
    // Every instance knows every ticket, so the first one is asked if the paths of the others begin differently.
    let path = format!("{}/tickets/${{ticket}}", instance.prefix);
    let is_one_prefix = load.instances.iter().all(|other| other.prefix == instance.prefix);
    let ticket =
        if is_one_prefix { own(path) } else { At { path, host: first.host.clone(), port: first.port.clone() } };
    let warm_up = if is_shared { first } else { own(of_turn("health")) };
    (purchase, ticket, warm_up)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use crate::export::tests::{exported, exported_with, refusal};

    #[test]
    fn the_plan_of_the_repository_is_the_exported_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("jmeter/seckill.jmx");
        let kept = fs::read_to_string(path).unwrap();
        let exported = exported("jmeter --preset jmeter --strategies zk-mutex");
        let differs = kept.lines().zip(exported.lines()).find(|(kept, exported)| kept != exported);
        let remedy = "write the plan again: loadgen export jmeter --preset jmeter --strategies zk-mutex --out jmeter/seckill.jmx";
        assert!(kept == exported, "{remedy}; the first lines that differ: {differs:#?}");
    }

    /// Returns the lines of the plan with this beginning, without their indentation.
    fn lines(plan: &str, beginning: &str) -> Vec<String> {
        plan.lines().map(str::trim).filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    /// Returns the values of the properties with this name, in order.
    fn values(plan: &str, name: &str) -> Vec<String> {
        let value = |line: &str| Some(line.split_once(&format!(" name=\"{name}\">"))?.1.split('<').next()?.to_owned());
        plan.lines().filter_map(value).collect()
    }

    #[test]
    fn every_buyer_of_a_ramp_is_a_thread_that_asks_once() {
        let plan = exported("jmeter --users 40 --ramp-up 4s --goods-no 7 --strategies zk-mutex");
        assert_eq!(values(&plan, "ThreadGroup.num_threads"), ["1", "${__P(threads,40)}"]);
        assert_eq!(values(&plan, "ThreadGroup.ramp_time"), ["0", "${__P(rampup,4)}"]);
        assert_eq!(values(&plan, "LoopController.loops"), ["1", "${__P(loops,1)}"]);
        assert_eq!(values(&plan, "ThreadGroup.scheduler"), ["false"; 2]);
        let path = "/goods-stock/${__P(goodsNo,7)}?strategy=${__P(strategy,zk-mutex)}";
        assert_eq!(values(&plan, "HTTPSampler.path"), ["/healthz", path, "/tickets/${ticket}"]);
        assert!(!plan.contains("SyncTimer") && !plan.contains("Throughput"), "threads neither meet nor wait");
    }

    #[test]
    fn threads_of_a_loop_ask_until_the_duration_ends() {
        let plan = exported("jmeter --users 4 --duration 1m --lock-wait 5s");
        assert_eq!(values(&plan, "LoopController.loops"), ["${__P(loops,-1)}"]);
        assert_eq!(values(&plan, "ThreadGroup.scheduler"), ["true"]);
        assert_eq!(values(&plan, "ThreadGroup.duration"), ["${__P(duration,60)}"]);
        assert_eq!(values(&plan, "HTTPSampler.response_timeout"), ["25000"; 2]);
        assert!(!plan.contains("SyncTimer") && !plan.contains("Throughput"));
    }

    #[test]
    fn a_rate_is_divided_among_the_threads() {
        let plan = exported("jmeter --users 20 --rate 40 --duration 5s");
        assert_eq!(
            values(&plan, "throughput"),
            ["${__P(throughput,120)}"],
            "20 threads with 120 requests per minute make 40 per second"
        );
        assert_eq!(values(&plan, "ThreadGroup.ramp_time"), ["0", "${__P(rampup,1)}"]);
        assert_eq!(values(&plan, "LoopController.loops"), ["1", "${__P(loops,10)}"]);
        assert_eq!(values(&plan, "calcMode"), ["0"]);
    }

    #[test]
    fn every_request_takes_the_next_of_several_targets() {
        let plan = exported("jmeter --target http://a:1,http://b/shop --goods 2");
        let arguments = lines(&plan, "<stringProp name=\"Argument.value\">");
        let value = |line: &String| line.split(['>', '<']).nth(2).unwrap().to_owned();
        let targets: Vec<String> = arguments.iter().map(value).collect();
        let a = ["${__P(host1,a)}", "${__P(port1,1)}"];
        let b = ["${__P(host2,b)}", "${__P(port2,80)}"];
        let expected = [
            [a[0], a[1], "/healthz", "/goods-stock/1"],
            [b[0], b[1], "/shop/healthz", "/shop/goods-stock/1"],
            [a[0], a[1], "/healthz", "/goods-stock/2"],
            [b[0], b[1], "/shop/healthz", "/shop/goods-stock/2"],
        ];
        assert_eq!(targets, expected.concat());
        assert_eq!(values(&plan, "CounterConfig.end"), ["3"]);
        assert_eq!(
            values(&plan, "HTTPSampler.domain"),
            ["${__V(host_${turn})}", "${__V(host_${turn})}", "${__P(host1,a)}"]
        );
        let path = "${__V(path_${turn})}?strategy=${__P(strategy,zk-mutex)}";
        assert_eq!(values(&plan, "HTTPSampler.path"), ["${__V(health_${turn})}", path, "/tickets/${ticket}"]);
        let plan = exported("jmeter --target http://a:1,http://b/shop --goods 2 --ramp-up 1s");
        assert_eq!(values(&plan, "HTTPSampler.domain"), ["${__P(host1,a)}", "${__V(host_${turn})}", "${__P(host1,a)}"]);
        assert_eq!(values(&plan, "HTTPSampler.path"), ["/healthz", path, "/tickets/${ticket}"]);
    }

    #[test]
    fn a_property_changes_the_only_instance() {
        let plan = exported("jmeter --goods 2");
        assert_eq!(values(&plan, "HTTPSampler.domain"), ["${__P(host,127.0.0.1)}"; 3]);
        let path = "${__V(path_${turn})}?strategy=${__P(strategy,zk-mutex)}";
        assert_eq!(values(&plan, "HTTPSampler.path"), ["/healthz", path, "/tickets/${ticket}"]);
    }

    #[test]
    fn times_that_are_not_in_whole_seconds_are_refused() {
        for (args, expected) in [
            ("--ramp-up 1500ms", "JMeter counts in whole seconds; write --ramp-up 2s instead of 1500ms"),
            ("--duration 300ms", "write --duration 1s instead of 300ms"),
            ("--rate 5 --duration 2500ms", "write --duration 3s instead of 2500ms"),
        ] {
            let refused = refusal(&format!("jmeter {args}"));
            assert!(refused.ends_with(expected), "{refused}");
        }
    }

    #[test]
    fn every_run_has_its_properties() {
        for (args, expected) in [
            ("--preset herd --users 10,30", "  -Jthreads=30 -Jstrategy=zk-handoff\n"),
            (
                "--strategies a,b --users 10 --rate 20",
                "  -Jthreads=10 -Jrampup=1 -Jloops=20 -Jthroughput=120 -Jstrategy=b\n",
            ),
        ] {
            let plan = exported(&format!("jmeter {args}"));
            assert!(plan.contains(expected), "{plan}");
        }
    }

    #[test]
    fn the_comment_lists_the_properties_of_the_plan() {
        let plan = exported("jmeter");
        assert!(plan.contains("\n  strategy    name of the strategy; empty: the strategy of the sale\n"), "{plan}");
        assert!(plan.contains("\n  goodsNo     SKU\n") && !plan.contains("\n  duration "), "{plan}");
        let plan = exported("jmeter --strategies a --rate 5 --goods 2");
        assert!(plan.contains("\n  throughput  ") && !plan.contains("\n  goodsNo "), "{plan}");
    }

    #[test]
    fn the_comment_explains_how_arrivals_differ() {
        let uneven = "- The ramp-up of JMeter is in whole seconds.";
        let poisson = "They are not Poisson arrivals.";
        for (args, expected, is_even, is_poisson) in [
            ("--rate 5", "Each of the 50 threads sends a request every 10 s, and", true, true),
            ("--rate 200", "Each of the 200 threads sends a request every 1 s, and", true, true),
            ("--rate 5 --arrivals constant", "send 5 requests per second, evenly spaced.", true, false),
            ("--rate 33.3 --users 34 --arrivals constant", "33.3 requests per second, evenly spaced.", true, false),
            ("--rate 20 --users 10", "send 20 requests per second.", false, true),
        ] {
            let plan = exported(&format!("jmeter {args}"));
            assert!(plan.contains(expected), "{plan}");
            assert_eq!((!plan.contains(uneven), plan.contains(poisson)), (is_even, is_poisson), "{plan}");
        }
    }

    #[test]
    fn the_comment_lists_the_thresholds() {
        let plan = exported_with("jmeter", &["zk-* p99<1s"]);
        assert!(plan.contains("- JMeter has no thresholds. These are not checked: zk-* p99&#60;1s.\n"), "{plan}");
    }
}
