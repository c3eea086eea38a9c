//! What many torture runs have found, as Markdown: which faults struck which strategies, and how soon these sold again.

mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use stats::figures::{count, figure, things};
use weather::Fault;

use crate::judge::recovery::Floor;
use crate::judge::round::{RoundFindings, judge, judge_kept};
use crate::lab::leaks::Leaks;
use crate::lab::storm::SITES;
use crate::lab::technique::Technique;
use crate::report::torture::TortureReport;
use crate::report::torture::cells::{Recovery, RecoveryCell, is_alone};
use crate::report::torture::cost::RunCost;
use crate::trial::round::{FaultRecord, KeptRound, Round, TortureSettings};

/// A run that was stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredRun {
    /// Name of its file.
    pub(crate) name: String,
    pub(crate) report: TortureReport,
}

/// What stored runs have found, judged by the checks of today.
#[derive(Debug)]
pub(crate) struct Results {
    runs: Vec<StoredRun>,
    /// Rounds whose books were audited again.
    audited: usize,
    /// Rounds that are judged otherwise than before, one line each.
    pub(crate) changed: Vec<String>,
}

impl Results {
    /// Judges runs again. A round that was kept with its evidence is judged by that.
    pub(crate) fn of(mut runs: Vec<StoredRun>, kept: &[KeptRound]) -> Results {
        let mut audited = 0;
        let mut changed = Vec::new();
        for StoredRun { name, report } in &mut runs {
            for index in 0..report.rounds.len() {
                let round = &report.rounds[index];
                let is_same = |kept: &&KeptRound| (kept.round.seed, &kept.round.seen) == (round.seed, &round.seen);
                let evidence = kept.iter().find(is_same);
                audited += usize::from(evidence.is_some());
                let now = evidence.map_or_else(|| judge(round.promise, &round.seen), judge_kept);
                if now != RoundFindings::then(round) {
                    let seed = report.seed_of(round);
                    let lines = now.lines().collect::<Vec<_>>().join("; ");
                    let lines = if lines.is_empty() { "nothing".to_owned() } else { lines };
                    changed.push(format!("{name}, {}, seed {seed}: {lines}", round.strategy));
                }
                let RoundFindings { broken, hazards, unchecked } = now;
                let round = &mut report.rounds[index];
                round.broken = broken;
                round.hazards = hazards;
                round.unchecked = unchecked;
            }
        }
        Results { runs, audited, changed }
    }

    /// Writes the document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = "# Results of torture\n\n".to_owned();
        text += "`loadgen torture --results` writes such a page from stored runs, and `make torture-results` the one in `docs/`. The page\n\
                 says what was tried, and what was seen. It does not say that what was not seen cannot happen.\n\n";
        self.write_runs(&mut text);
        self.write_strategies(&mut text);
        self.write_matrix(&mut text);
        self.write_each_strategy(&mut text);
        self.write_recovery(&mut text);
        text
    }

    fn rounds(&self) -> impl Iterator<Item = (&TortureSettings, &Round)> {
        self.runs.iter().flat_map(|run| run.report.rounds.iter().map(move |round| (&run.report.settings, round)))
    }

    fn write_runs(&self, text: &mut String) {
        *text += "## Runs\n\n| record | ended | service | servers | strategies | rounds | seeds | broken | hazards | unchecked |\n";
        *text += "|---|---|---|---|--:|--:|---|--:|--:|--:|\n";
        for StoredRun { name, report } in &self.runs {
            let rounds = &report.rounds;
            let count = |has: &dyn Fn(&Round) -> bool| rounds.iter().filter(|round| has(round)).count();
            let strategies: BTreeSet<&str> = rounds.iter().map(|round| &*round.strategy).collect();
            let seed = |round: Option<&Round>| round.map_or_else(String::new, |round| report.seed_of(round));
            let _ = writeln!(
                text,
                "| `{name}` | {} | {} | {} | {} | {} | `{}` to `{}` | {} | {} | {} |",
                report.generated_at,
                report.environment.code(),
                servers(report),
                strategies.len(),
                rounds.len(),
                seed(rounds.first()),
                seed(rounds.last()),
                count(&|round| !round.broken.is_empty()),
                count(&|round| !round.hazards.is_empty()),
                count(&|round| !round.unchecked.is_empty()),
            );
        }
        let figures = "--:|".repeat(RunCost::COLUMNS.split(" | ").count());
        let _ = writeln!(text, "\n| record | {} | left behind |\n|---|{}---|", RunCost::COLUMNS, figures);
        for StoredRun { name, report } in &self.runs {
            let left = report.leaks.as_ref().map_or_else(|| vec!["not looked".to_owned()], Leaks::lines).join("; ");
            let left = if left.is_empty() { "nothing" } else { &left };
            let _ = writeln!(text, "| `{name}` | {} | {left} |", RunCost::of(&report.rounds).row());
        }
        *text += "\nAn instance that is killed takes its counts of sessions, holds and late writes along, so these are at least that many. The next\n\
                  sale is the one after a fault that struck alone, at the struck instance if it is a fault of one. Left behind are nodes, watches\n\
                  and sessions of ZooKeeper and connections to Postgres, when the instances had ended.\n";
        self.write_struck(text);
        let _ = writeln!(
            text,
            "\n{} were judged again by the checks of this version, {} of them with their books. {}\n",
            things(self.rounds().count(), "round"),
            self.audited,
            if self.changed.is_empty() { "Each was judged as before." } else { "Judged otherwise than before:" },
        );
        self.changed.iter().for_each(|line| *text += &format!("* {line}\n"));
        if !self.changed.is_empty() {
            text.push('\n');
        }
        let of = |report: &TortureReport, round: &Round| {
            let findings = RoundFindings { unchecked: Vec::new(), ..RoundFindings::then(round) };
            let lines: Vec<String> = findings.lines().collect();
            let lines = lines.join("; ");
            (!lines.is_empty()).then(|| format!("| {} | `{}` | {lines} |\n", round.strategy, report.seed_of(round)))
        };
        let found: String = self
            .runs
            .iter()
            .flat_map(|run| run.report.rounds.iter().filter_map(move |round| of(&run.report, round)))
            .collect();
        if !found.is_empty() {
            *text += "| strategy | seed | what was seen |\n|---|---|---|\n";
            *text += &found;
            text.push('\n');
        }
    }

    fn write_strategies(&self, text: &mut String) {
        *text += "## Strategies\n\n\
                  How many rounds each strategy had, the faults that struck in them, the kinds among these that struck alone, and in how many\n\
                  rounds something was seen.\n\n\
                  | strategy | promise | rounds | requests | faults | kinds alone | broken | hazards | unchecked |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
        let mut strategies: BTreeMap<(Technique, &str), Vec<&Round>> = BTreeMap::new();
        for (_, round) in self.rounds() {
            strategies.entry((round.kind, &round.strategy)).or_default().push(round);
        }
        for ((_, strategy), rounds) in strategies {
            let faults = || rounds.iter().flat_map(|round| &round.seen.faults).filter(|fault| fault.failed.is_none());
            let alone: BTreeSet<Fault> = faults().filter(|fault| is_alone(fault)).map(|record| record.fault).collect();
            let number = |has: fn(&Round) -> bool| rounds.iter().filter(|round| has(round)).count();
            let _ = writeln!(
                text,
                "| `{strategy}` | {} | {} | {} | {} | {} | {} | {} | {} |",
                rounds[0].promise.as_str(),
                rounds.len(),
                count(rounds.iter().map(|round| round.seen.answers.total()).fold(0, u64::saturating_add)),
                faults().count(),
                alone.len(),
                number(|round| !round.broken.is_empty()),
                number(|round| !round.hazards.is_empty()),
                number(|round| !round.unchecked.is_empty()),
            );
        }
        text.push('\n');
    }

    fn write_recovery(&self, text: &mut String) {
        *text += "## Recovery\n\n\
                  The time from the end of a fault that struck alone to the next sale, in seconds: the median, and the worst after a dash. For a\n\
                  fault of an instance or of its links, the sale is one of that instance. `*`: no such sale is known, as another instance writes its\n\
                  orders, for example, so it is one of any instance. The floor is in brackets: the median of what the settings alone make the next sale\n\
                  wait for. **Bold**: the median is more than twice the floor and a quarter of a second for the purchase. `never`: units were left,\n\
                  and no order came before the buyers were gone. `cut short`: the next fault came before the next sale, at the latest after the\n\
                  time in brackets. Controls are left out, because they promise nothing.\n\n";
        self.write_floors(text);
        let kinds: Vec<Technique> = Technique::ALL.into_iter().filter(|kind| *kind != Technique::Control).collect();
        let names: Vec<String> = kinds.iter().map(Technique::to_string).collect();
        let _ = writeln!(text, "| fault | {} |\n|---|{}", names.join(" | "), "--:|".repeat(kinds.len()));
        for fault in Fault::at(&SITES) {
            let cells: Vec<String> = kinds
                .iter()
                .map(|kind| {
                    let is_nowhere = fault.site.needs_redis() && !kind.needs_redis();
                    if is_nowhere { String::new() } else { self.recoveries(fault, *kind).cell() }
                })
                .collect();
            let _ = writeln!(text, "| `{fault}` | {} |", cells.join(" | "));
        }
    }

    /// Writes the formula of each floor, with the values of the runs.
    fn write_floors(&self, text: &mut String) {
        *text += "| floor | where, and why |\n|---|---|\n";
        for floor in Floor::ALL {
            let _ = writeln!(text, "| {} | {} |", floor.formula(), floor.reason());
        }
        let of = |value: fn(&TortureSettings) -> f64| {
            let mut values: Vec<f64> = self.runs.iter().map(|run| value(&run.report.settings)).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            values.into_iter().map(figure).collect::<Vec<_>>().join(" or ")
        };
        let _ = writeln!(
            text,
            "\nIn these runs the session timeout is {} s, the tick {} s, the time to live of a lock in Redis {} s, and `--db-timeout` {} s. {} \
             buyers a second come to {} instances.\n",
            of(|settings| settings.session_timeout_ms / 1e3),
            of(|settings| settings.tick_ms / 1e3),
            of(|settings| settings.redis_lock_ttl_ms / 1e3),
            of(|settings| settings.db_timeout_ms / 1e3),
            of(|settings| settings.rate_per_s),
            of(|settings| f64::from(settings.instances)),
        );
        *text += "No floor has `--db-timeout`: what a fault of Postgres or of its links holds back arrives or is closed when the fault ends, so nobody\n\
                  has to wait for that deadline. A time close to it would show a wait that should not be. No floor has the time of the machine\n\
                  either: to start a process, to elect a leader, to recover a log. After `killed`, `stopped`, `moved` and `crashed`, that time is\n\
                  most of what stands above the floor.\n\n";
    }

    fn recoveries(&self, fault: Fault, kind: Technique) -> RecoveryCell {
        let mut recoveries = RecoveryCell::default();
        for (settings, round) in self.rounds().filter(|(_, round)| round.kind == kind) {
            let of_fault = |record: &&FaultRecord| record.fault == fault && is_alone(record) && record.had_units;
            for record in round.seen.faults.iter().filter(of_fault) {
                match Recovery::after(record, &round.seen) {
                    Recovery::Nothing => recoveries.without_sale += 1,
                    Recovery::CutShort(after_ms) => recoveries.cut_short.push(after_ms),
                    Recovery::Sale { after_ms, is_elsewhere } => {
                        recoveries.is_elsewhere |= is_elsewhere;
                        recoveries.times.push(after_ms);
                        recoveries.floors.push(Floor::of(kind, record, settings).ms(record, settings));
                    }
                }
            }
        }
        recoveries
    }
}

/// Names the servers of a run.
fn servers(report: &TortureReport) -> String {
    let environment = &report.environment;
    let versions = [
        ("Postgres", environment.postgres_version.as_deref()),
        ("ZooKeeper", environment.zookeeper_version.as_deref()),
        ("Redis", environment.redis_version.as_deref()),
    ];
    let named: Vec<String> =
        versions.into_iter().filter_map(|(server, version)| Some(format!("{server} {}", version?))).collect();
    named.join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::audit::trial::Audit;
    use crate::report::torture::cells::UNTRIED;
    use crate::report::torture::tests::{report, round};
    use crate::trial::round::RoundSeen;

    pub(super) fn struck(fault: &str, after_ms: f64) -> FaultRecord {
        let fault = Fault::matching(&SITES, &[fault.to_owned()]).unwrap()[0];
        FaultRecord { fault, next_sale_ms: Some(after_ms), ..FaultRecord::example(1000.0) }
    }

    /// Returns the results of one run of these rounds, each judged as today.
    pub(super) fn results(rounds: Vec<Round>) -> Results {
        let judged = rounds.into_iter().map(|round| {
            let RoundFindings { broken, hazards, unchecked } = judge(round.promise, &round.seen);
            Round { broken, hazards, unchecked, ..round }
        });
        Results::of(vec![StoredRun { name: "one.json".to_owned(), report: report(judged.collect()) }], &[])
    }

    pub(super) fn with(faults: Vec<FaultRecord>, audit: Audit) -> Round {
        Round { seen: RoundSeen::example(faults, Audit { sold: 40, ..audit }), ..round("pg-merge", 7) }
    }

    #[test]
    fn a_round_that_today_is_judged_otherwise_is_named() {
        assert!(results(vec![with(Vec::new(), Audit::default())]).changed.is_empty());
        let then = with(Vec::new(), Audit { double_sales: 1, ..Audit::default() });
        let run = StoredRun { name: "one.json".to_owned(), report: report(vec![then]) };
        let found = Results::of(vec![run], &[]);
        assert_eq!(found.changed.len(), 1);
        assert!(found.changed[0].ends_with("BROKEN: units sold twice: 1"), "{:?}", found.changed);
        assert!(found.markdown().contains("Judged otherwise than before:\n\n* one.json, pg-merge"));
    }

    #[test]
    fn a_recovery_is_marked_from_twice_its_floor() {
        let cell = |times: &[f64]| {
            let faults = times.iter().map(|time| struck("postgres-frozen", *time)).collect();
            results(vec![with(faults, Audit::default())])
                .recoveries(struck("postgres-frozen", 0.0).fault, Technique::Postgres)
                .cell()
        };
        assert_eq!(cell(&[]), UNTRIED);
        assert_eq!(cell(&[20.0]), "0.02 (0.01)");
        assert_eq!(cell(&[10.0, 269.0, 900.0]), "0.27 – 0.90 (0.01)");
        assert_eq!(cell(&[280.0, 290.0]), "**0.28 – 0.29** (0.01)");
        let never = FaultRecord { next_sale_ms: None, ..struck("postgres-frozen", 0.0) };
        let found = results(vec![with(vec![never], Audit::default())]);
        assert_eq!(found.recoveries(never_fault(), Technique::Postgres).cell(), "1 never");
    }

    fn never_fault() -> Fault {
        struck("postgres-frozen", 0.0).fault
    }

    #[test]
    fn a_sale_of_another_instance_is_told_apart() {
        let there = FaultRecord { next_sale_there_ms: Some(30.0), ..struck("instance-frozen", 10.0) };
        let cell = |record: FaultRecord| {
            let frozen = record.fault;
            results(vec![with(vec![record], Audit::default())]).recoveries(frozen, Technique::Postgres).cell()
        };
        assert_eq!(cell(there), "0.03 (0.02)");
        assert_eq!(cell(struck("instance-frozen", 10.0)), "0.01\\* (0.02)");
    }
}
