//! What a torture run has found, as JSON and for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use stats::figures::{count, ms, things};

use crate::error::Exit;
use crate::trial::round::Round;
use weather::{Fault, written};

/// Name of the format.
pub(crate) const SCHEMA: &str = "seckill-torture/1";
/// Name of the format of a kept round.
pub(crate) const ROUND_SCHEMA: &str = "seckill-torture-round/1";

/// What a torture run has found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TortureReport {
    /// `seckill-torture/1`. The name stays if fields are added, and changes if a field is removed or changes its meaning.
    pub(crate) schema: String,
    /// When the run ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// Version and commit of the program.
    pub(crate) version: String,
    /// Arguments that every round had, for `loadgen torture`.
    pub(crate) arguments: String,
    /// The rounds.
    pub(crate) rounds: Vec<Round>,
    /// Why the run ended before its last round, if it did.
    pub(crate) ended_early: Option<String>,
}

/// What all rounds say of one fault.
#[derive(Debug, Default)]
struct FaultRow {
    struck: u64,
    failed: u64,
    /// The longest time from its end to the next order, where it struck alone: of any instance, and of the struck one.
    next_sale_ms: f64,
    there_ms: f64,
    /// How often no order came although units were left.
    without_sale: u64,
}

/// What all rounds say of one strategy.
#[derive(Debug, Default)]
struct StrategyRow {
    rounds: u64,
    requests: u64,
    sold: i64,
    refused: u64,
    unknown: u64,
    broken: u64,
    hazards: u64,
}

impl TortureReport {
    /// Returns the exit that the rounds mean.
    pub(crate) fn exit(&self) -> Exit {
        let is_whole = |round: &Round| {
            round.seen.unchecked.is_empty() && round.seen.faults.iter().all(|fault| fault.failed.is_none())
        };
        if self.rounds.iter().any(|round| !round.broken.is_empty()) {
            Exit::PromiseBroken
        } else if self.ended_early.is_some() || !self.rounds.iter().all(is_whole) {
            Exit::Setup
        } else {
            Exit::Passed
        }
    }

    /// Returns the command that makes the choices of a round again.
    pub(crate) fn replay(&self, round: &Round) -> String {
        let Round { strategy, seed, .. } = round;
        let seed = written(*seed);
        format!("loadgen torture --strategies {strategy} --seed {seed} --rounds 1{}", self.arguments)
    }

    /// Writes the run for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut strategies: BTreeMap<&str, StrategyRow> = BTreeMap::new();
        let mut faults: BTreeMap<Fault, FaultRow> = BTreeMap::new();
        for round in &self.rounds {
            let of = strategies.entry(&round.strategy).or_default();
            let answers = &round.seen.answers;
            of.rounds += 1;
            of.requests += answers.total();
            of.sold += round.seen.audit.sold;
            of.refused += answers.refused;
            of.unknown += answers.failed();
            of.broken += u64::from(!round.broken.is_empty());
            of.hazards += u64::from(!round.hazards.is_empty());
            for fault in &round.seen.faults {
                let of = faults.entry(fault.fault).or_default();
                of.struck += u64::from(fault.failed.is_none());
                of.failed += u64::from(fault.failed.is_some());
                of.without_sale += u64::from(fault.had_units && fault.next_sale_ms.is_none());
                if fault.is_alone {
                    of.next_sale_ms = of.next_sale_ms.max(fault.next_sale_ms.unwrap_or(0.0));
                    of.there_ms = of.there_ms.max(fault.next_sale_there_ms.unwrap_or(0.0));
                }
            }
        }
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<24}{:>7}{:>10}{:>9}{:>9}{:>9}{:>8}{:>9}",
            "strategy", "rounds", "requests", "sold", "refused", "unknown", "broken", "hazards"
        );
        for (name, of) in &strategies {
            let StrategyRow { rounds, requests, sold, refused, unknown, broken, hazards } = of;
            let _ = writeln!(
                text,
                "{name:<24}{rounds:>7}{:>10}{:>9}{:>9}{:>9}{broken:>8}{hazards:>9}",
                count(*requests),
                count(sold.unsigned_abs()),
                count(*refused),
                count(*unknown)
            );
        }
        let [any, there, never] = ["next sale, at worst", "of that instance", "no sale"];
        let _ = writeln!(text, "\n{:<36}{:>8}{:>10}{any:>21}{there:>18}{never:>9}", "fault", "struck", "not made");
        for (fault, FaultRow { struck, failed, next_sale_ms, there_ms, without_sale: never }) in &faults {
            let there = if fault.site.is_of_process() { ms(*there_ms) } else { String::new() };
            let any = ms(*next_sale_ms);
            let fault = fault.to_string();
            let _ = writeln!(text, "{fault:<36}{struck:>8}{failed:>10}{any:>21}{there:>18}{never:>9}");
        }
        text.push('\n');
        for (number, round) in self.rounds.iter().enumerate() {
            self.write_round(&mut text, number, round);
        }
        if let Some(reason) = &self.ended_early {
            let _ = writeln!(text, "ended early: {reason}");
        }
        let verdict = match self.exit() {
            Exit::PromiseBroken => "a promise was broken",
            Exit::Passed => "no promise was broken",
            _ => "no promise was broken, but not everything was checked",
        };
        let _ = writeln!(text, "verdict: {verdict} in {}", things(self.rounds.len(), "round"));
        text
    }

    /// Writes what a round found, if it found anything.
    fn write_round(&self, text: &mut String, number: usize, round: &Round) {
        let failed = round.seen.faults.iter().filter_map(|fault| Some((fault.fault, fault.failed.as_ref()?)));
        let failed = failed.map(|(fault, why)| format!("not made: {fault}: {why}"));
        let of = |what: &'static str, lines: &[String]| {
            lines.iter().map(move |line| format!("{what}: {line}")).collect::<Vec<_>>()
        };
        let mut lines = of("BROKEN", &round.broken);
        lines.extend(of("hazard", &round.hazards));
        lines.extend(of("not checked", &round.seen.unchecked));
        lines.extend(failed);
        for line in &lines {
            let _ = writeln!(text, "round {}, {}: {line}", number + 1, round.strategy);
        }
        if !round.broken.is_empty() {
            let _ = writeln!(text, "  the same choices again: {}", self.replay(round));
        }
    }
}
