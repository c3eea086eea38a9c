//! What a script says of itself: how to run it, and what differs from a trial of this program.

use std::fmt::Write as _;

use super::rules::{idle, unsaid};
use crate::export::load::{Load, Run};
use crate::load::model::{Arrivals, LoadModel};

/// The comment at the beginning of a script.
pub(super) fn comment(load: &Load<'_>) -> String {
    let model = load.settings.model;
    let mut lines = vec![
        format!("A flash sale: {}. The load: {}.", load.goods(), model.describe(load.first_run().users)),
        "Written by `loadgen export k6`.".to_owned(),
        String::new(),
        "  k6 run seckill.js".to_owned(),
        String::new(),
    ];
    if load.runs.len() > 1 {
        lines.push("Once with each of these lines:".to_owned());
        lines.extend(load.runs.iter().map(run));
        lines.push(String::new());
    }
    lines.push(format!("What -e NAME=value changes: {}.", variables(model)));
    if let Some(start) = load.start() {
        lines.extend([String::new(), "The service for it:".to_owned(), format!("  {start}")]);
    }
    lines.extend([String::new(), "Before every run the stock is to be put on sale again:".to_owned()]);
    lines.extend(load.resets().iter().map(|reset| format!("  {reset}")));
    lines.extend([load.reset_for("-e STRATEGY"), String::new()]);
    lines.push(
        "As in loadgen compare: who buys what and where, when, and how long a buyer waits for an answer.".to_owned(),
    );
    lines.push("Not as there:".to_owned());
    lines.extend(differences(load).iter().map(|difference| format!("- {difference}")));
    lines.push(String::new());
    lines.extend(several_machines(model));

    let mut text = String::new();
    for line in lines.iter().flat_map(|line| line.split('\n')) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", format!("// {line}").trim_end());
    }
    text
}

/// What to set for a run.
fn run(run: &Run) -> String {
    let strategy = run.strategy.as_ref().map(|strategy| format!(" -e STRATEGY={strategy}"));
    format!("  -e USERS={}{}", run.users, strategy.unwrap_or_default())
}

fn variables(model: LoadModel) -> String {
    let own = match model {
        LoadModel::Burst => "LEAD_MS, START_AT",
        LoadModel::Ramp { .. } => "RAMP_UP_MS, LEAD_MS, START_AT",
        LoadModel::Loop { ramp_up_ms: 0, .. } => "DURATION_MS",
        LoadModel::Loop { .. } => "DURATION_MS, RAMP_UP_MS",
        LoadModel::Open { .. } => "RATE (a second), DURATION_MS",
    };
    format!("USERS, STRATEGY (the sale's own if empty), TARGETS and GOODS (separated by commas), {own}")
}

fn differences(load: &Load<'_>) -> Vec<String> {
    let mut differences = match load.settings.model {
        LoadModel::Burst => vec![
            "Nobody waits for the last user: whoever is not there LEAD_MS after the beginning comes late, and its time \
             counts from when the others began."
                .to_owned(),
        ],
        LoadModel::Ramp { .. } => Vec::new(),
        LoadModel::Loop { ramp_up_ms: 0, .. } => {
            vec!["There is no rendezvous: users begin as soon as k6 has started them.".to_owned()]
        }
        LoadModel::Loop { .. } => Vec::new(),
        LoadModel::Open { arrivals, .. } => [
            (arrivals == Arrivals::Poisson).then_some("Arrivals are evenly spaced: k6 has no Poisson process."),
            Some("Times count from when a request was sent. What found no free user is counted as dropped_iterations, and its \
             time is missing: as long as there are any, the quantiles flatter."),
        ]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect(),
    };
    differences.push("Times are in whole milliseconds.".to_owned());
    differences.extend(load.not_done());
    let idle = idle(load);
    if !idle.is_empty() {
        let rules = idle.join("; ");
        differences.push(format!("Checked only with -e STRATEGY=… or -e USERS=… that they name: {rules}."));
    }
    let unsaid = unsaid(load);
    if !unsaid.is_empty() {
        differences.push(format!("What k6 cannot know is not checked: {}.", unsaid.join("; ")));
    }
    differences
}

fn several_machines(model: LoadModel) -> Vec<String> {
    let mut lines = vec![
        "Several machines divide one script among them by --execution-segment (or k6's operator does):".to_owned(),
        "  k6 run --execution-segment 0:1/2 --execution-segment-sequence 0,1/2,1 seckill.js".to_owned(),
        "  k6 run --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1 seckill.js".to_owned(),
        "USERS and the rate are those of all of them; each checks the thresholds by what it has seen itself."
            .to_owned(),
    ];
    if model.is_one_shot() {
        lines.push(
            "They begin together if all get the same instant, and their clocks agree: \
             -e START_AT=$(( $(date +%s000) + 10000 ))"
                .to_owned(),
        );
    }
    lines
}
