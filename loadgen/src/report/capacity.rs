//! What a search for a capacity has found, as JSON, as Markdown and for a terminal.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use stats::figures::{count, figure, percent};

use crate::judge::capacity::SubjectCapacity;
use crate::lab::environment::Environment;

/// Name of the format.
pub(crate) const SCHEMA: &str = "seckill-capacity/1";

/// What a search for a capacity has found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct CapacityReport {
    /// `seckill-capacity/1`. The name stays if fields are added, and changes if a field is removed or changes its meaning.
    pub(crate) schema: String,
    /// When the search ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// Exit code of the program.
    pub(crate) exit_code: u8,
    /// The reasons of the exit code, the gravest first.
    pub(crate) reasons: Vec<String>,
    /// The machine and the servers.
    pub(crate) environment: Environment,
    /// Users at most in flight.
    pub(crate) users: u32,
    /// One entry for each strategy or shop.
    pub(crate) results: Vec<SubjectCapacity>,
}

impl CapacityReport {
    /// Writes the results for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for result in &self.results {
            let _ = writeln!(text, "{} ({})", result.name, result.counted());
            for rule in &result.rules {
                let _ = writeln!(text, "  {}", rule.describe());
            }
            for line in result.caveat().iter().chain(&result.ended) {
                let _ = writeln!(text, "  {line}");
            }
        }
        for reason in &self.reasons {
            let _ = writeln!(text, "verdict: {reason}");
        }
        text
    }

    /// Writes the results and every trial as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = "# seckill lab: capacity\n\n".to_owned();
        for reason in &self.reasons {
            let _ = writeln!(text, "**Verdict: {reason}.**\n");
        }
        for result in &self.results {
            let _ = writeln!(text, "## {}\n", result.name);
            for rule in &result.rules {
                let _ = writeln!(text, "- {}", rule.describe());
            }
            for line in result.caveat().iter().chain(&result.ended) {
                let _ = writeln!(text, "- {line}");
            }
            let lost = result.rules.iter().map(|rule| format!(" lost by {} |", rule.rule)).collect::<String>();
            let rules = "--:|".repeat(result.rules.len());
            let _ = writeln!(text, "\n| per second | s | due |{lost} sold | |\n|--:|--:|--:|{rules}--:|---|");
            for trial in &result.trials {
                let of =
                    |lost: &u64| format!(" {} |", percent(stats::as_f64(*lost) / stats::as_f64(trial.offered.max(1))));
                let lost: String = trial.lost.iter().map(of).collect();
                let note = match (trial.is_bad, trial.client_limited) {
                    (true, _) => "sold wrongly",
                    (false, true) => "client-limited",
                    _ => "",
                };
                let _ = writeln!(
                    text,
                    "| {} | {} | {} |{lost} {} | {note} |",
                    figure(trial.rate),
                    figure(trial.seconds),
                    count(trial.offered),
                    trial.sold
                );
            }
            text.push('\n');
        }
        text
    }
}
