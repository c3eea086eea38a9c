//! What a torture run has found, as JSON and for a terminal.

mod cells;
mod cost;
pub(crate) mod results;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use stats::figures::{count, ms, things};
use weather::Fault;

use self::cost::RunCost;
use crate::error::Exit;
use crate::judge::round::RoundFindings;
use crate::lab::environment::Environment;
use crate::lab::leaks::Leaks;
use crate::trial::round::{FaultRecord, Round, TortureSettings};

/// Name of the format.
pub(crate) const SCHEMA: &str = "seckill-torture/2";
/// Name of the format of a kept round.
pub(crate) const ROUND_SCHEMA: &str = "seckill-torture-round/2";

/// What a torture run has found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TortureReport {
    /// `seckill-torture/2`. The name stays if fields are added, and changes if a field is removed or changes its meaning.
    pub(crate) schema: String,
    /// When the run ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// The machine, the servers and the commit of the service.
    pub(crate) environment: Environment,
    /// Version of the draws, without which a seed draws other faults.
    pub(crate) draws: u32,
    /// What bounds how soon the instances can sell again.
    pub(crate) settings: TortureSettings,
    /// Arguments that every round had, for `loadgen torture`.
    pub(crate) arguments: String,
    /// The rounds.
    pub(crate) rounds: Vec<Round>,
    /// What the instances had left behind when they had ended. Absent if nobody could look.
    #[serde(default)]
    pub(crate) leaks: Option<Leaks>,
    /// What the run should have reached and did not, if it was asked to reach all.
    #[serde(default)]
    pub(crate) unreached: Vec<String>,
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
    sold_out: u64,
    refused: u64,
    unknown: u64,
    broken: u64,
    hazards: u64,
}

impl FaultRow {
    fn add(&mut self, fault: &FaultRecord) {
        self.struck += u64::from(fault.failed.is_none());
        self.failed += u64::from(fault.failed.is_some());
        self.without_sale += u64::from(fault.had_units && fault.next_sale_ms.is_none());
        if fault.is_alone {
            self.next_sale_ms = self.next_sale_ms.max(fault.next_sale_ms.unwrap_or(0.0));
            self.there_ms = self.there_ms.max(fault.next_sale_there_ms.unwrap_or(0.0));
        }
    }
}

impl StrategyRow {
    fn add(&mut self, round: &Round) {
        let answers = &round.seen.answers;
        self.rounds += 1;
        self.requests += answers.total();
        self.sold += round.seen.audit.sold;
        self.sold_out += answers.sold_out;
        self.refused += answers.refused;
        self.unknown += answers.failed();
        self.broken += u64::from(!round.broken.is_empty());
        self.hazards += u64::from(!round.hazards.is_empty());
    }
}

impl TortureReport {
    /// Returns the exit that the rounds mean.
    pub(crate) fn exit(&self) -> Exit {
        let is_whole =
            |round: &Round| round.unchecked.is_empty() && round.seen.faults.iter().all(|fault| fault.failed.is_none());
        let has_leaks = self.leaks.as_ref().is_some_and(|leaks| !leaks.lines().is_empty());
        if has_leaks || self.rounds.iter().any(|round| !round.broken.is_empty()) {
            Exit::PromiseBroken
        } else if self.ended_early.is_some() || !self.unreached.is_empty() || !self.rounds.iter().all(is_whole) {
            Exit::Setup
        } else {
            Exit::Passed
        }
    }

    /// Writes the seed of a round with the version of its draws, as `--seed` takes it.
    pub(crate) fn seed_of(&self, round: &Round) -> String {
        format!("v{}-{}", self.draws, round.seed)
    }

    /// Returns the command that makes the choices of a round again.
    pub(crate) fn replay(&self, round: &Round) -> String {
        let Round { strategy, .. } = round;
        let seed = self.seed_of(round);
        format!("loadgen torture --strategies {strategy} --seed {seed} --rounds 1{}", self.arguments)
    }

    /// Writes the run for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut strategies: BTreeMap<&str, StrategyRow> = BTreeMap::new();
        let mut faults: BTreeMap<Fault, FaultRow> = BTreeMap::new();
        for round in &self.rounds {
            strategies.entry(&round.strategy).or_default().add(round);
            for fault in &round.seen.faults {
                faults.entry(fault.fault).or_default().add(fault);
            }
        }
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<24}{:>7}{:>10}{:>9}{:>10}{:>9}{:>9}{:>8}{:>9}",
            "strategy", "rounds", "requests", "sold", "sold out", "refused", "unknown", "broken", "hazards"
        );
        for (name, of) in &strategies {
            let StrategyRow { rounds, requests, sold, sold_out, refused, unknown, broken, hazards } = of;
            let _ = writeln!(
                text,
                "{name:<24}{rounds:>7}{:>10}{:>9}{:>10}{:>9}{:>9}{broken:>8}{hazards:>9}",
                count(*requests),
                count(sold.unsigned_abs()),
                count(*sold_out),
                count(*refused),
                count(*unknown)
            );
        }
        let [any, there, never] = ["next sale, at worst", "of that instance", "no sale"];
        let _ = writeln!(text, "\n{:<36}{:>8}{:>10}{any:>21}{there:>18}{never:>9}", "fault", "struck", "failed");
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
        for line in self.leaks.iter().flat_map(Leaks::lines) {
            let _ = writeln!(text, "BROKEN: {line}");
        }
        for line in &self.unreached {
            let _ = writeln!(text, "not reached: {line}");
        }
        let _ = writeln!(text, "{}", RunCost::of(&self.rounds).line());
        if let Some(reason) = &self.ended_early {
            let _ = writeln!(text, "ended early: {reason}");
        }
        let verdict = match self.exit() {
            Exit::PromiseBroken => "a promise was broken",
            Exit::Passed => "no promise was broken",
            _ => {
                "no promise was broken, but not everything was checked or reached, or a fault was not made or not ended"
            }
        };
        let _ = writeln!(text, "verdict: {verdict} in {}", things(self.rounds.len(), "round"));
        text
    }

    /// Writes what a round found, if it found anything.
    fn write_round(&self, text: &mut String, number: usize, round: &Round) {
        let failed = round.seen.faults.iter().filter_map(|fault| Some((fault.fault, fault.failed.as_ref()?)));
        let failed = failed.map(|(fault, why)| format!("not made or not ended: {fault}: {why}"));
        for line in RoundFindings::then(round).lines().chain(failed) {
            let _ = writeln!(text, "round {}, {}, seed {}: {line}", number + 1, round.strategy, self.seed_of(round));
        }
        if !round.broken.is_empty() {
            let _ = writeln!(text, "  the same choices again: {}", self.replay(round));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use weather::VERSION;

    use super::*;
    use crate::audit::trial::Audit;
    use crate::lab::strategy::Promise;
    use crate::lab::technique::Technique;
    use crate::trial::round::RoundSeen;

    /// Returns the report of a run of these rounds.
    pub(crate) fn report(rounds: Vec<Round>) -> TortureReport {
        TortureReport {
            schema: SCHEMA.to_owned(),
            generated_at: "2026-01-02T03:04:05Z".to_owned(),
            environment: Environment::of_shops(&[]),
            draws: VERSION,
            settings: TortureSettings {
                rate_per_s: 100.0,
                instances: 2,
                session_timeout_ms: 3000.0,
                tick_ms: 2000.0,
                db_timeout_ms: 7000.0,
                redis_lock_ttl_ms: 30_000.0,
            },
            arguments: String::new(),
            rounds,
            leaks: None,
            unreached: Vec::new(),
            ended_early: None,
        }
    }

    /// Returns a round that sold 40 of its 100 units, without faults.
    pub(crate) fn round(strategy: &str, seed: u64) -> Round {
        Round {
            strategy: strategy.to_owned(),
            promise: Promise::NeverOversells,
            kind: Technique::Postgres,
            seed,
            seen: RoundSeen::example(Vec::new(), Audit { sold: 40, ..Audit::default() }),
            broken: Vec::new(),
            hazards: Vec::new(),
            unchecked: Vec::new(),
        }
    }

    #[test]
    fn a_run_passes_only_if_everything_was_made_and_checked() {
        let exit = |round: Round| report(vec![round]).exit();
        assert_eq!(exit(round("pg-merge", 7)), Exit::Passed);
        let unchecked = vec!["a gap".to_owned()];
        assert_eq!(exit(Round { unchecked: unchecked.clone(), ..round("pg-merge", 7) }), Exit::Setup);
        let failed = FaultRecord { failed: Some("no".to_owned()), ..FaultRecord::example(1.0) };
        let seen = RoundSeen::example(vec![failed], Audit::default());
        assert_eq!(exit(Round { seen, ..round("pg-merge", 7) }), Exit::Setup);
        let broken = vec!["units sold twice: 1".to_owned()];
        assert_eq!(exit(Round { broken, unchecked, ..round("pg-merge", 7) }), Exit::PromiseBroken);
        let unreached = vec!["a hold that was lost".to_owned()];
        assert_eq!(TortureReport { unreached, ..report(vec![round("pg-merge", 7)]) }.exit(), Exit::Setup);
        let leaks = Some(Leaks { watches: 1, ..Leaks::default() });
        assert_eq!(TortureReport { leaks, ..report(Vec::new()) }.exit(), Exit::PromiseBroken);
    }

    #[test]
    fn each_finding_names_its_round_and_its_seed() {
        let round = Round { hazards: vec!["units sold twice: 1".to_owned()], ..round("zk-mutex", 7) };
        let text = report(vec![round]).text();
        let line = format!("round 1, zk-mutex, seed v{VERSION}-7: hazard: units sold twice: 1");
        assert!(text.contains(&line), "{text}");
    }
}
