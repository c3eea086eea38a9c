//! Runs and kept rounds, as an earlier run or a user's edit has left them.

use serde_json::Value;

use super::*;
use crate::judge::round::judge_kept;
use crate::report::torture::results::{Results, StoredRun};

impl Stored {
    fn value(&self) -> Value {
        match self {
            Stored::Run(report) => serde_json::to_value(report).unwrap(),
            Stored::Round(kept) => serde_json::to_value(kept).unwrap(),
        }
    }

    /// Returns what judging it again shows.
    fn judged(&self) -> String {
        match self {
            Stored::Run(report) => {
                let run = StoredRun { name: "torture.json".to_owned(), report: (**report).clone() };
                Results::of(vec![run], &[]).markdown()
            }
            Stored::Round(kept) => judge_kept(kept).lines().map(|line| line + "\n").collect(),
        }
    }
}

// C57
#[test]
fn a_stored_run_or_round_is_judged_alike_each_time_it_is_read() {
    fuzz::any_text("torture-files", |text| {
        let stored = match parse(text) {
            Ok(stored) => stored,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        let written = stored.value();
        let again = parse(&written.to_string()).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(again.value(), written);
        assert_eq!(again.judged(), stored.judged());
    });
}
