//! What a long run of all faults must have reached. Without it, the run proves less than its rounds promise.

use std::collections::BTreeSet;

use weather::{Fault, Site};

use crate::lab::storm::SITES;
use crate::trial::round::{FaultRecord, Round};

/// Returns what the rounds have not reached, one line each.
///
/// Each kind of harm and each site but Redis must have been struck, not each kind of fault: those of Redis strike in few rounds. A late write
/// that a fence refuses is not asked for: as a rule, the holder has noticed before that its hold is lost.
pub(crate) fn unreached(rounds: &[Round]) -> Vec<String> {
    let struck = || rounds.iter().flat_map(|round| &round.seen.faults).filter(|fault| fault.failed.is_none());
    let any = |reached: fn(&Round) -> bool| rounds.iter().any(reached);
    let any_fault = |reached: fn(&FaultRecord) -> bool| struck().any(reached);
    let sights = [
        ("a session that ended while its instance ran", any(|round| round.seen.toll.sessions_ended > 0)),
        ("a hold that was lost", any(|round| round.seen.toll.holds_lost > 0)),
        ("an outcome that stayed unknown", any(|round| round.seen.answers.failed() > 0)),
        ("a request that was repeated under its key", any(|round| round.seen.repeated > 0)),
        ("a buyer who was told that nothing was left", any(|round| round.seen.answers.sold_out > 0)),
        ("a buyer who had as many units as one may have", any(|round| round.seen.answers.over_limit > 0)),
        ("a hazard that a promise leaves open", any(|round| !round.hazards.is_empty())),
        ("a fault that struck alone", any_fault(|fault| fault.is_alone)),
        ("two faults at the same time", any_fault(|fault| !fault.is_alone)),
        ("a next sale after a fault", any_fault(|fault| fault.next_sale_ms.is_some())),
    ];
    let missed = sights.into_iter().filter(|(_, is_reached)| !is_reached).map(|(sight, _)| sight.to_owned());
    let kinds = |faults: &mut dyn Iterator<Item = Fault>| -> BTreeSet<String> {
        let named =
            |fault: Fault| [format!("a fault at {}", fault.site.name()), format!("a fault …-{}", fault.harm.name())];
        faults.flat_map(named).collect()
    };
    let struck = kinds(&mut struck().map(|fault| fault.fault));
    let wanted = kinds(&mut Fault::at(&SITES).filter(|fault| fault.site != Site::Redis));
    missed.chain(&wanted - &struck).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::torture::tests::round;
    use crate::trial::round::RoundSeen;

    #[test]
    fn a_run_has_reached_what_one_of_its_rounds_has() {
        let nothing = unreached(&[round("pg-merge", 7)]);
        let faults = Fault::at(&SITES).map(|fault| FaultRecord { fault, ..FaultRecord::example(1.0) });
        let seen = RoundSeen { repeated: 1, faults: faults.collect(), ..round("pg-merge", 8).seen };
        let some = unreached(&[round("pg-merge", 7), Round { seen, ..round("pg-merge", 8) }]);
        let is_of_fault = |line: &&String| line.starts_with("a fault at ") || line.starts_with("a fault …-");
        assert!(
            nothing.iter().filter(is_of_fault).count() >= SITES.len() && !some.iter().any(|line| is_of_fault(&line))
        );
        for reached in ["a request that was repeated under its key", "a fault that struck alone"] {
            assert!(nothing.iter().any(|line| line == reached) && !some.iter().any(|line| line == reached), "{some:?}");
        }
        assert!(some.iter().any(|line| line == "a hold that was lost"), "{some:?}");
    }
}
