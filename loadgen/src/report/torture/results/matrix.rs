//! The matrix: what was seen of each fault, at strategies of a kind and at each strategy.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weather::Fault;

use super::Results;
use crate::judge::round::leaves_open;
use crate::lab::storm::SITES;
use crate::lab::technique::Technique;
use crate::report::torture::cells::{StruckCell, is_alone};
use crate::trial::round::Round;

impl Results {
    /// Says which kinds of faults the runs have.
    pub(super) fn write_struck(&self, text: &mut String) {
        let faults = self.rounds().flat_map(|(_, round)| &round.seen.faults).filter(|fault| fault.failed.is_none());
        let struck: BTreeSet<Fault> = faults.map(|record| record.fault).collect();
        let never: Vec<String> =
            Fault::at(&SITES).filter(|fault| !struck.contains(fault)).map(|fault| format!("`{fault}`")).collect();
        let _ = writeln!(text, "\n{} of {} kinds of faults have struck.", struck.len(), Fault::at(&SITES).count());
        if !never.is_empty() {
            let _ = writeln!(text, "These never have: {}.", never.join(", "));
        }
    }

    /// Writes what was seen at strategies of each kind.
    pub(super) fn write_matrix(&self, text: &mut String) {
        *text += "## Faults and strategies\n\n\
                  A cell has the number of times that the fault struck such strategies alone. A number by itself means that nothing was found.\n\
                  Otherwise it says how many of these strikes were in rounds with findings: **broken** is against the promise, a hazard is left\n\
                  open by the promise, and unchecked means that evidence was missing. A round has other faults at other times, so one of these\n\
                  may be the cause. `†`: the promise of one of these strategies leaves a hazard open after this fault alone, so it is expected.\n\
                  Elsewhere nothing is expected but overlapping sections, where the row refuses what a late holder writes. `–` is untried. An\n\
                  empty cell cannot be tried, as there is no Redis.\n\n";
        let kinds = Technique::ALL.map(|kind| kind.to_string());
        write_head(text, &kinds);
        for fault in Fault::at(&SITES) {
            let cells = Technique::ALL.map(|kind| match fault.site.needs_redis() && !kind.needs_redis() {
                true => String::new(),
                false => self.strikes(fault, |round| round.kind == kind).cell(),
            });
            let _ = writeln!(text, "| `{fault}` | {} |", cells.join(" | "));
        }
        text.push('\n');
    }

    /// Writes what was seen at each strategy.
    pub(super) fn write_each_strategy(&self, text: &mut String) {
        *text += "## Faults and each strategy\n\n\
                  The same for each strategy, without the faults that struck none of them alone.\n\n";
        for kind in Technique::ALL {
            let of_kind = self.rounds().filter(|(_, round)| round.kind == kind);
            let strategies: BTreeSet<&str> = of_kind.map(|(_, round)| &*round.strategy).collect();
            let rows: Vec<String> = Fault::at(&SITES).filter_map(|fault| self.row(fault, &strategies)).collect();
            if !rows.is_empty() {
                let _ = writeln!(text, "### {kind}\n");
                write_head(text, &strategies.iter().map(|strategy| format!("`{strategy}`")).collect::<Vec<_>>());
                *text += &rows.concat();
                text.push('\n');
            }
        }
    }

    /// Returns the row of a fault, if it has struck one of these strategies alone.
    fn row(&self, fault: Fault, strategies: &BTreeSet<&str>) -> Option<String> {
        let of = |strategy: &&str| self.strikes(fault, |round| round.strategy == *strategy);
        let cells: Vec<StruckCell> = strategies.iter().map(of).collect();
        let written: Vec<String> = cells.iter().map(StruckCell::cell).collect();
        cells.iter().any(|cell| cell.alone > 0).then(|| format!("| `{fault}` | {} |\n", written.join(" | ")))
    }

    /// Counts how often a fault struck alone in such rounds, and what was seen in these.
    fn strikes(&self, fault: Fault, is_meant: impl Fn(&Round) -> bool) -> StruckCell {
        let mut strikes = StruckCell::default();
        for (_, round) in self.rounds().filter(|(_, round)| is_meant(round)) {
            let struck = round.seen.faults.iter().filter(|record| record.fault == fault && is_alone(record)).count();
            strikes.alone += struck;
            strikes.is_open |= struck > 0 && leaves_open(round.promise, fault);
            strikes.broken += if round.broken.is_empty() { 0 } else { struck };
            strikes.hazards += if round.hazards.is_empty() { 0 } else { struck };
            strikes.unchecked += if round.unchecked.is_empty() { 0 } else { struck };
        }
        strikes
    }
}

fn write_head(text: &mut String, columns: &[String]) {
    let _ = writeln!(text, "| fault | {} |\n|---|{}", columns.join(" | "), "--:|".repeat(columns.len()));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{results, struck, with};
    use super::*;
    use crate::audit::trial::Audit;
    use crate::report::torture::cells::UNTRIED;
    use crate::trial::round::{FaultRecord, RoundSeen};

    #[test]
    fn a_cell_that_was_never_tried_does_not_pass() {
        let faults = vec![
            struck("postgres-frozen", 5.0),
            FaultRecord { is_alone: false, ..struck("postgres-crashed", 5.0) },
            FaultRecord { failed: Some("no".to_owned()), ..struck("instance-killed", 5.0) },
        ];
        let results = results(vec![with(faults, Audit::default())]);
        let cell = |fault: &str, kind| results.strikes(struck(fault, 0.0).fault, |round| round.kind == kind).cell();
        assert_eq!(cell("postgres-frozen", Technique::Postgres), "1");
        assert_eq!(cell("postgres-frozen", Technique::ZookeeperLock), UNTRIED);
        assert_eq!(cell("postgres-crashed", Technique::Postgres), UNTRIED, "it never struck alone");
        assert_eq!(cell("instance-killed", Technique::Postgres), UNTRIED, "it could not be made");
    }

    #[test]
    fn a_cell_says_what_was_seen_in_its_rounds() {
        let round = |audit| with(vec![struck("postgres-frozen", 5.0)], audit);
        let oversold = Audit { oversold: 1, ..Audit::default() };
        let frozen = struck("postgres-frozen", 0.0).fault;
        let found = results(vec![round(Audit::default()), round(oversold)]);
        assert_eq!(found.strikes(frozen, |_| true).cell(), "2: **1 broken**");
        let nothing =
            Round { seen: RoundSeen { gaps: vec!["a gap".to_owned()], ..round(oversold).seen }, ..round(oversold) };
        assert_eq!(results(vec![nothing]).strikes(frozen, |_| true).cell(), "1: **1 broken**, 1 unchecked");
    }

    #[test]
    fn faults_that_never_struck_are_named() {
        let text = results(vec![with(vec![struck("postgres-frozen", 5.0)], Audit::default())]).markdown();
        let kinds = Fault::at(&SITES).count();
        assert!(text.contains(&format!("1 of {kinds} kinds of faults have struck.\nThese never have: ")), "{text}");
        assert!(
            text.contains("### Postgres\n\n| fault | `pg-merge` |\n|---|--:|\n| `postgres-frozen` | 1 |\n"),
            "{text}"
        );
    }
}
