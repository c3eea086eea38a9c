//! Rounds and tables, as an earlier campaign or a user's edit has left them.

use super::*;
use crate::history::{History, Operation, Rule};

/// Tells whether two were told that they hold a path together, by a look at each pair.
fn are_together(history: &History, path: &String) -> bool {
    let of_path = history.operations.iter().filter(|operation| operation.paths.contains(path));
    let told: Vec<_> = of_path.filter_map(Operation::told).collect();
    let mut pairs = (0..told.len()).flat_map(|index| told[..index].iter().map(move |other| (index, other)));
    pairs.any(|(index, other)| told[index].0 < other.1 && other.0 < told[index].1)
}

// T15
#[test]
fn a_stored_round_is_judged_alike_each_time_it_is_read() {
    fuzz::any_text("lock-rounds", |text| {
        let round = match round_of(text) {
            Ok(round) => round,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        let again = round_of(&serde_json::to_string(&round).unwrap()).unwrap();
        assert_eq!(again, round);
        let findings = round.findings();
        assert_eq!(again.findings(), findings);
        let History { rules, .. } = &round.history;
        if rules.values().all(|rule| *rule == Rule::Exclusive) {
            let is_together = rules.keys().any(|path| are_together(&round.history, path));
            assert_eq!(!findings.two_holders.is_empty(), is_together);
        }
    });
}

// T15
#[test]
fn a_stored_table_has_its_faults_on_the_page() {
    fuzz::any_text("lock-tables", |text| {
        let stored = match table_of(text) {
            Ok(stored) => stored,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        let written = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::to_string(&table_of(&written).unwrap()).unwrap(), written);
        let mut cells = Cells::new();
        add(&mut cells, stored.cells.clone());
        add(&mut cells, stored.cells);
        let page = table(&cells);
        for fault in cells.keys() {
            assert!(page.contains(&format!("\n| `{fault}` | ")), "{page}");
        }
    });
}
