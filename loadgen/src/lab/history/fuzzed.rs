//! Pages of the history, as any service may answer them.

use super::*;
use crate::audit::history::{HistoryAudit, handovers_ns};

/// Returns the most sections of one SKU at one instant, by a look at each instant of an entry.
fn inside_max(sections: &[Section]) -> u64 {
    let is_inside = |section: &Section, at: &Section| {
        section.goods_no == at.goods_no && section.entered_ns <= at.entered_ns && section.left_ns > at.entered_ns
    };
    let inside = |at: &Section| sections.iter().filter(|section| is_inside(section, at)).count() as u64;
    sections.iter().map(inside).max().unwrap_or(0)
}

// C57
#[test]
fn an_audit_counts_the_sections_of_any_history() {
    fuzz::any_bytes("histories", |body| {
        let Ok(page) = serde_json::from_slice::<HistoryPage>(body) else { return };
        let count = page.records.len();
        let mut since = HistorySince::default();
        since.add(page.records);
        assert_eq!(since.sections.values().map(Vec::len).sum::<usize>(), count);
        for (strategy, sections) in &since.sections {
            let audit = HistoryAudit::of(sections, Some(1), 0);
            let mut turned = sections.clone();
            turned.reverse();
            assert_eq!(HistoryAudit::of(&turned, None, 0).inside_max, audit.inside_max, "the order does not count");
            assert!(since.arrivals(strategy).len() <= sections.len());
            assert!(handovers_ns(sections).len() < sections.len());
            assert!(audit.fifo_inversions.is_none_or(|inversions| inversions <= audit.pairs));
            // No visitor leaves before it enters, and a visit takes time.
            if sections.iter().all(|section| section.left_ns > section.entered_ns) {
                assert_eq!(audit.inside_max, inside_max(sections), "{sections:?}");
                assert_eq!(audit.overlaps.is_some_and(|overlaps| overlaps > 0), audit.inside_max > 1);
            }
        }
    });
}
