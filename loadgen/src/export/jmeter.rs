//! The load as a JMeter test plan, in the dialect that 2.13 and 5.6 both read: 5.6 converts what is old, 2.13 knows nothing
//! newer.
//!
//! How to run it, and what differs from a trial of this program, is in the comment of the plan, which JMeter shows.

mod comment;
mod xml;

use std::fmt::Display;

use self::xml::Plan;
use crate::error::Error;
use crate::export::load::{Load, Run};
use crate::load::model::LoadModel;

/// How long the first threads wait for the last one, after which they go without it.
const RENDEZVOUS_WITHIN_MS: u64 = 30_000;
const CONNECT_WITHIN_MS: u64 = 10_000;

/// The plan.
///
/// # Errors
///
/// [`Error::Usage`] for times that JMeter cannot keep.
pub(super) fn render(load: &Load<'_>) -> Result<String, Error> {
    let run = load.first_run();
    let pace = Pace::of(load.settings.model, run.users)?;
    let comment = comment::comment(load, &pace)?;
    let mut plan = Plan::default();
    plan.line("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    plan.line("<!-- Written by `loadgen export jmeter`. The comment of the test plan says how to run it. -->");
    plan.within("jmeterTestPlan", " version=\"1.2\" properties=\"2.8\" jmeter=\"2.13\"", |plan| {
        plan.tree(|plan| {
            plan.element("TestPlan", "TestPlanGui", "seckill", |plan| {
                plan.string("TestPlan.comments", &comment);
                plan.boolean("TestPlan.functional_mode", false);
                plan.boolean("TestPlan.serialize_threadgroups", false);
                plan.variables("TestPlan.user_defined_variables", &[]);
                plan.string("TestPlan.user_define_classpath", "");
            });
            plan.tree(|plan| {
                places(plan, load);
                threads(plan, &pace);
                plan.tree(|plan| {
                    turn(plan, load);
                    request(plan, load, &run);
                    plan.tree(|plan| {
                        assertion(plan);
                        timer(plan, load.settings.model.is_burst(), &pace);
                    });
                });
            });
        });
    });
    Ok(plan.finish())
}

/// How the threads of one run are started and paced.
#[derive(Debug, Clone, PartialEq)]
struct Pace {
    threads: u32,
    /// Requests of each thread; without it as many as fit into the duration.
    loops: Option<u64>,
    /// From the start of the first thread to that of the last one.
    rampup_s: u64,
    /// For how long threads start requests, in seconds, unless each starts but one.
    duration_s: Option<u64>,
    /// Requests a minute of one thread, if they are paced.
    throughput: Option<f64>,
}

impl Pace {
    fn of(model: LoadModel, users: u32) -> Result<Pace, Error> {
        let pace = Pace { threads: users, loops: Some(1), rampup_s: 0, duration_s: None, throughput: None };
        match model {
            // They meet before they buy; the second keeps JMeter from making all of them at once.
            LoadModel::Burst => Ok(Pace { rampup_s: 1, ..pace }),
            LoadModel::Ramp { ramp_up_ms } => Ok(Pace { rampup_s: seconds("--ramp-up", ramp_up_ms)?, ..pace }),
            LoadModel::Loop { duration_ms, ramp_up_ms } => {
                let duration_s = Some(seconds("--duration", duration_ms)?);
                let rampup_s = seconds("--ramp-up", ramp_up_ms)?;
                Ok(Pace { loops: None, rampup_s, duration_s, ..pace })
            }
            LoadModel::Open { rate_per_s, duration_ms, .. } => {
                let duration_s = seconds("--duration", duration_ms)?;
                Ok(paced(rate_per_s, duration_s, users))
            }
        }
    }
}

/// Threads that together ask at this rate: each has the same pace, and they begin one after another within one round.
///
/// JMeter could also pace all of them as one, but not the first request of each: as many of them as there are would all
/// be sent at the beginning.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "both lie far within the bounds: a rate is at most a million, a duration is one of a load"
)]
fn paced(rate_per_s: f64, duration_s: u64, users: u32) -> Pace {
    let arrivals = (rate_per_s * duration_s as f64).ceil().max(1.0);
    // More threads than arrivals would never have anything to do.
    let most = users.min(arrivals as u32);
    // They begin within whole seconds, so their requests are evenly spaced only if a round takes as many.
    let whole_s = (f64::from(most) / rate_per_s).floor();
    let threads = if whole_s < 1.0 { most } else { (rate_per_s * whole_s).round() as u32 };
    let round_s = f64::from(threads) / rate_per_s;
    Pace {
        threads,
        // A thread of 2.13 that waits for its next turn does not notice that the time is over.
        loops: Some((arrivals / f64::from(threads)).ceil() as u64),
        rampup_s: round_s.round().max(1.0) as u64,
        duration_s: Some(duration_s),
        throughput: Some(60.0 / round_s),
    }
}

/// A time as JMeter counts it.
fn seconds(flag: &str, ms: u64) -> Result<u64, Error> {
    if ms.is_multiple_of(1000) {
        return Ok(ms / 1000);
    }
    Err(Error::Usage(format!(
        "JMeter counts in whole seconds, so it cannot have a {flag} of {ms}ms; {}s would do",
        ms.div_ceil(1000)
    )))
}

/// A property of JMeter with its default, which -J and -G change.
fn property(name: &str, default: impl Display) -> String {
    format!("${{__P({name},{default})}}")
}

/// A number for people, without a tail of digits that means nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Where to buy what, where there are several places: variables with the number of the turn at their ends.
fn places(plan: &mut Plan, load: &Load<'_>) {
    let mut variables = Vec::new();
    for (turn, (number, goods_no)) in load.places().into_iter().enumerate() {
        let Some(instance) = load.instances.get(number) else { continue };
        if load.instances.len() > 1 {
            variables.push((format!("host_{turn}"), property(&format!("host{}", number + 1), &instance.host)));
            variables.push((format!("port_{turn}"), property(&format!("port{}", number + 1), instance.port)));
        }
        let goods = if load.settings.goods == 1 { property("goodsNo", goods_no) } else { goods_no.to_string() };
        variables.push((format!("path_{turn}"), format!("{}/goods-stock/{goods}", instance.prefix)));
    }
    if variables.len() > 1 {
        plan.leaf("Arguments", "ArgumentsPanel", "where to buy what", |plan| plan.arguments(&variables));
    }
}

/// Whose turn it is: every request takes the next place, and after the last one the first.
fn turn(plan: &mut Plan, load: &Load<'_>) {
    let places = load.places().len();
    if places < 2 {
        return;
    }
    plan.leaf("CounterConfig", "CounterConfigGui", "turn", |plan| {
        plan.string("CounterConfig.start", "0");
        plan.string("CounterConfig.end", &(places - 1).to_string());
        plan.string("CounterConfig.incr", "1");
        plan.string("CounterConfig.name", "turn");
        plan.string("CounterConfig.format", "");
        plan.boolean("CounterConfig.per_user", false);
    });
}

fn threads(plan: &mut Plan, pace: &Pace) {
    plan.element("ThreadGroup", "ThreadGroupGui", "buyers", |plan| {
        plan.string("ThreadGroup.on_sample_error", "continue");
        let attributes = " name=\"ThreadGroup.main_controller\" elementType=\"LoopController\" \
             guiclass=\"LoopControlPanel\" testclass=\"LoopController\" testname=\"Loop Controller\" enabled=\"true\"";
        plan.within("elementProp", attributes, |plan| {
            plan.boolean("LoopController.continue_forever", false);
            // -1 is for ever, until the duration ends it.
            let loops = pace.loops.map_or_else(|| "-1".to_owned(), |loops| loops.to_string());
            plan.string("LoopController.loops", &property("loops", loops));
        });
        plan.string("ThreadGroup.num_threads", &property("threads", pace.threads));
        plan.string("ThreadGroup.ramp_time", &property("rampup", pace.rampup_s));
        plan.boolean("ThreadGroup.scheduler", pace.duration_s.is_some());
        let duration = pace.duration_s.map(|duration_s| property("duration", duration_s));
        plan.string("ThreadGroup.duration", &duration.unwrap_or_default());
        plan.string("ThreadGroup.delay", "");
    });
}

fn request(plan: &mut Plan, load: &Load<'_>, run: &Run) {
    let goods_no = load.settings.goods_no;
    let (host, port, path) = match load.instances.as_slice() {
        [one] if load.settings.goods == 1 => {
            let path = format!("{}/goods-stock/{}", one.prefix, property("goodsNo", goods_no));
            (property("host", &one.host), property("port", one.port), path)
        }
        [one] => (property("host", &one.host), property("port", one.port), variable("path")),
        _ => (variable("host"), variable("port"), variable("path")),
    };
    plan.element("HTTPSamplerProxy", "HttpTestSampleGui", "GET /goods-stock/{goodsNo}", |plan| {
        plan.variables("HTTPsampler.Arguments", &[]);
        plan.string("HTTPSampler.domain", &host);
        plan.string("HTTPSampler.port", &port);
        plan.string("HTTPSampler.connect_timeout", &CONNECT_WITHIN_MS.to_string());
        plan.string("HTTPSampler.response_timeout", &load.answer_within().as_millis().to_string());
        plan.string("HTTPSampler.protocol", "http");
        let strategy = property("strategy", run.strategy.as_deref().unwrap_or_default());
        plan.string("HTTPSampler.path", &format!("{path}?strategy={strategy}"));
        plan.string("HTTPSampler.method", "GET");
        plan.boolean("HTTPSampler.follow_redirects", true);
        plan.boolean("HTTPSampler.auto_redirects", false);
        plan.boolean("HTTPSampler.use_keepalive", true);
        plan.boolean("HTTPSampler.DO_MULTIPART_POST", false);
        plan.string("HTTPSampler.implementation", "HttpClient4");
    });
}

/// The variable of a place whose turn it is.
fn variable(name: &str) -> String {
    format!("${{__V({name}_${{turn}})}}")
}

/// By itself JMeter takes a 409 for an error, but whoever is told that everything is sold has an answer.
fn assertion(plan: &mut Plan) {
    plan.leaf("ResponseAssertion", "AssertionGui", "sold or sold out", |plan| {
        // The name lacks a letter in every version of JMeter.
        plan.within("collectionProp", " name=\"Asserion.test_strings\"", |plan| plan.string("0", "200|409"));
        plan.string("Assertion.test_field", "Assertion.response_code");
        plan.boolean("Assertion.assume_success", true);
        // The whole text matches.
        plan.int("Assertion.test_type", 1);
    });
}

fn timer(plan: &mut Plan, is_burst: bool, pace: &Pace) {
    if let Some(throughput) = pace.throughput {
        plan.leaf("ConstantThroughputTimer", "TestBeanGUI", "pace of a thread", |plan| {
            // Each thread for itself.
            plan.int("calcMode", 0);
            plan.string("throughput", &property("throughput", number(throughput)));
        });
    }
    if is_burst {
        plan.leaf("SyncTimer", "TestBeanGUI", "rendezvous of all buyers", |plan| {
            // As many as the group has threads.
            plan.int("groupSize", 0);
            plan.long("timeoutInMs", RENDEZVOUS_WITHIN_MS);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::export::tests::{exported, exported_with, refusal};
    use crate::load::model::Arrivals;

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

    fn open(rate_per_s: f64, duration_ms: u64, users: u32) -> Pace {
        Pace::of(LoadModel::Open { rate_per_s, arrivals: Arrivals::Poisson, duration_ms }, users).unwrap()
    }

    #[test]
    fn a_rate_has_as_many_threads_as_make_a_round_of_whole_seconds() {
        let pace = open(200.0, 10_000, 300);
        assert_eq!((pace.threads, pace.loops, pace.rampup_s, pace.throughput), (200, Some(10), 1, Some(60.0)));
        let pace = open(100.0, 10_000, 300);
        assert_eq!((pace.threads, pace.loops, pace.rampup_s, pace.throughput), (300, Some(4), 3, Some(20.0)));
        // Threads are whole, so such a round is a little longer or shorter than its seconds.
        let pace = open(0.3, 60_000, 5);
        assert_eq!((pace.threads, pace.loops, pace.rampup_s), (5, Some(4), 17));
    }

    #[test]
    fn a_rate_has_no_more_threads_than_arrivals() {
        let pace = open(0.5, 10_000, 300);
        assert_eq!((pace.threads, pace.loops, pace.rampup_s, pace.throughput), (5, Some(1), 10, Some(6.0)));
        let pace = open(1000.0, 10_000, 300);
        assert_eq!((pace.threads, pace.loops, pace.rampup_s, pace.duration_s), (300, Some(34), 1, Some(10)));
        assert!((pace.throughput.unwrap() - 200.0).abs() < 1e-9);
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
        assert!(plan.contains("- JMeter has no thresholds, so these are not checked: zk-* p99&lt;1s.\n"), "{plan}");
    }
}
