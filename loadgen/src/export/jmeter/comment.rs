//! What a plan says of itself: how to run it, and what differs from a trial of this program.

use std::fmt::Write as _;

use super::{Pace, number};
use crate::error::Error;
use crate::export::load::{Load, Run};
use crate::load::model::{Arrivals, LoadModel};

/// The comment of a plan.
///
/// # Errors
///
/// Those of [`Pace::of`].
pub(super) fn comment(load: &Load<'_>, pace: &Pace) -> Result<String, Error> {
    let settings = load.settings;
    let described = settings.model.describe(load.first_run().users);
    let mut text = format!("A flash sale: {}. The load: {described}.\n\n", load.goods());
    text += "Run it, with results that JMeter 5 makes a page of (jmeter -g result.jtl -o page):\n";
    text += "  jmeter -n -t seckill.jmx -l result.jtl\n";
    text += &several_runs(load)?;
    let _ = writeln!(text, "Properties, which -J changes: {}.", properties(load, pace).join(", "));
    if let Some(start) = load.start() {
        let _ = writeln!(text, "\nThe service for it:\n  {start}");
    }
    text += "\nBefore every run the stock is to be put on sale again:\n";
    for reset in load.resets() {
        let _ = writeln!(text, "  {reset}");
    }
    let _ = writeln!(text, "{}", load.reset_for("-Jstrategy"));

    text += "\nAs in loadgen compare: who buys what and where, and how long a buyer waits for an answer. Sold and sold out \
             are both an answer, so that only what is neither counts as an error; the response codes tell them apart.\n";
    text += "Not as there:\n";
    let mut differences = differences(settings.model, pace);
    differences.extend(load.not_done());
    if !settings.thresholds.is_empty() {
        let rules: Vec<&str> = settings.thresholds.iter().map(|threshold| threshold.rule()).collect();
        differences.push(format!("JMeter has no thresholds, so these are not checked: {}.", rules.join("; ")));
    }
    differences.push(
        "Elapsed times are in whole milliseconds and begin when a thread sends, not when its buyer wanted to buy."
            .to_owned(),
    );
    for difference in differences {
        let _ = writeln!(text, "- {difference}");
    }
    text += &format!("\n{}", remote(settings.model, pace));
    Ok(text)
}

/// What to set for each of several runs.
fn several_runs(load: &Load<'_>) -> Result<String, Error> {
    if load.runs.len() < 2 {
        return Ok(String::new());
    }
    let mut text = String::from("once with each of these lines:\n");
    for Run { users, strategy } in &load.runs {
        let pace = Pace::of(load.settings.model, *users)?;
        let _ = write!(text, "  -Jthreads={}", pace.threads);
        if let Some(throughput) = pace.throughput {
            let loops = pace.loops.unwrap_or(1);
            let _ = write!(text, " -Jrampup={} -Jloops={loops} -Jthroughput={}", pace.rampup_s, number(throughput));
        }
        if let Some(strategy) = strategy {
            let _ = write!(text, " -Jstrategy={strategy}");
        }
        text.push('\n');
    }
    Ok(text)
}

fn properties(load: &Load<'_>, pace: &Pace) -> Vec<String> {
    let mut properties = match load.instances.len() {
        1 => vec!["host, port".to_owned()],
        count => vec![format!("host1, port1 to host{count}, port{count}")],
    };
    if load.settings.goods == 1 {
        properties.push("goodsNo".to_owned());
    }
    // To JMeter, a property that is set to nothing is not set, so that the plan's own is asked for.
    let is_default = load.first_run().strategy.is_none();
    properties.push(if is_default { "strategy (the sale's own if empty)" } else { "strategy" }.to_owned());
    properties.push("threads".to_owned());
    properties.push("rampup (seconds)".to_owned());
    properties.push("loops (requests of each thread; -1: no end)".to_owned());
    if pace.duration_s.is_some() {
        properties.push("duration (seconds)".to_owned());
    }
    if pace.throughput.is_some() {
        properties.push("throughput (requests of one thread a minute)".to_owned());
    }
    properties
}

fn differences(model: LoadModel, pace: &Pace) -> Vec<String> {
    match model {
        LoadModel::Burst => vec![
            "The threads of one JMeter meet before they buy; if one is missing after 30 s, the others go without it."
                .to_owned(),
        ],
        LoadModel::Ramp { .. } => vec![ramp_difference()],
        LoadModel::Loop { ramp_up_ms: 0, .. } => {
            vec!["There is no rendezvous: threads begin as fast as JMeter can make them.".to_owned()]
        }
        LoadModel::Loop { .. } => vec![ramp_difference()],
        LoadModel::Open { rate_per_s, arrivals, .. } => open_differences(rate_per_s, arrivals, pace),
    }
}

fn ramp_difference() -> String {
    "Thread i of n begins after i/n of the ramp-up, so that the last one begins before its end and not at it."
        .to_owned()
}

fn open_differences(rate_per_s: f64, arrivals: Arrivals, pace: &Pace) -> Vec<String> {
    let unlike = match arrivals {
        Arrivals::Poisson => ", and not as Poisson arrivals do",
        Arrivals::Constant => "",
    };
    // Threads are whole and a rate need not be: at 33.3 requests a second, 33 of them are even enough.
    let is_even = f64::from(pace.threads) >= rate_per_s.round();
    let evenly = if is_even { ": evenly" } else { "" };
    let round_s = number(f64::from(pace.threads) / rate_per_s);
    let mut differences = vec![
        format!(
            "This is a closed model with a cap: JMeter 2.13 has no open one. Each of the {} threads asks once in \
             {round_s} s, and they begin one after another, so that they ask {} times a second in all{evenly}{unlike}.",
            pace.threads,
            number(rate_per_s)
        ),
        format!(
            "A thread whose answer takes longer than {round_s} s asks late and makes up for nothing, where loadgen counts \
             the arrival as dropped. The rate is then lower than asked for, and the times of those who would have waited \
             are missing (coordinated omission)."
        ),
        "The rate is threads x throughput / 60: change them together, and with them rampup to 60 / throughput, and loops.".to_owned(),
    ];
    if let Some(loops) = pace.loops {
        differences.push(format!(
            "Every thread asks {loops} times at most, {} times in all: a thread of 2.13 that waits for its turn does not \
             notice that the duration is over.",
            u64::from(pace.threads) * loops
        ));
    }
    if !is_even {
        differences.push(
            "JMeter starts threads over whole seconds: with fewer users than requests a second, several ask at the \
             same instant. For even spacing give at least as many --users as --rate. For the first second the rate \
             grows to what it is to be."
                .to_owned(),
        );
    }
    differences
}

fn remote(model: LoadModel, pace: &Pace) -> String {
    let half = pace.threads.div_ceil(2);
    let mut text = format!(
        "Several machines: start jmeter-server on each, and here, with the users divided among them:\n  \
         jmeter -n -t seckill.jmx -l result.jtl -R worker1,worker2 -Gthreads={half}\n\
         Every worker runs all threads of the plan, so threads is that of one worker; -G reaches the workers, and -J only \
         the JMeter that it is given to."
    );
    text += match model {
        LoadModel::Burst => {
            " The rendezvous is among the threads of one worker, and workers begin one after another: a burst of several \
             is as wide as their starts are apart, which the timeStamp of the results tells."
        }
        LoadModel::Ramp { .. } | LoadModel::Loop { .. } => "",
        LoadModel::Open { .. } => {
            " With fewer threads at the same throughput and rampup, a worker has its part of the rate."
        }
    };
    text
}
