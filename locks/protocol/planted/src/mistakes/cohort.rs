//! Mistakes of the cohort.

use super::{Mistake, change};

const FIRED: &str = "self.watched_by = None;
            self.give_up_lingering(asks);";

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "a member that leaves keeps the turn",
        changes: &[change("cohort.rs", "self.pass(phase, asks)", "self.turn = None")],
    },
    Mistake {
        name: "a useless place is given up together with the turn",
        changes: &[change(
            "cohort.rs",
            "asks.push(Ask::GiveUp);
        self.pass(TurnPhase::Begins, asks);",
            "asks.push(Ask::GiveUp);",
        )],
    },
    Mistake {
        name: "a useless place goes to the next member",
        changes: &[change(
            "cohort.rs",
            "asks.push(Ask::GiveUp);
        self.pass(TurnPhase::Begins, asks);",
            "let kept = self.turn.map_or(TurnPhase::Begins, |turn| turn.phase);
        self.pass(kept, asks);",
        )],
    },
    Mistake {
        name: "a cohort never looks for others",
        changes: &[change("cohort.rs", "tenure.handovers_unasked < bounds.max_handovers && is_in_time", "true")],
    },
    Mistake {
        name: "a holder ignores one other contender",
        changes: &[change("cohort.rs", "others == Others::Children(1)", "matches!(others, Others::Children(1 | 2))")],
    },
    Mistake {
        name: "a holder whose node is gone counts as alone",
        changes: &[change(
            "cohort.rs",
            "asks.push(Ask::Lose);
                self.let_go(turn.bounds, tenure, Reliance::Lost, now, asks);",
            "let tenure = Tenure { handovers_unasked: 0, unasked_since: now, ..tenure };
                self.let_go(turn.bounds, tenure, reliance, now, asks);",
        )],
    },
    Mistake {
        name: "tokens begin again with the next holder",
        changes: &[change("cohort.rs", "tenure.handovers + 1", "tenure.handovers")],
    },
    Mistake {
        name: "waiting members are not told that the session has ended",
        changes: &[change(
            "cohort.rs",
            "asks.extend(std::mem::take(&mut self.waiting).into_keys().map(Ask::Wake));",
            "self.waiting.clear();",
        )],
    },
    Mistake {
        name: "a try takes the turn of another member",
        changes: &[change("cohort.rs", "self.turn.is_none() || self.is_closed", "{ self.turn = None; true }")],
    },
    Mistake {
        name: "a member takes a hold without a look",
        changes: &[change(
            "cohort.rs",
            "self.look_at(tenure, reliance, asks)",
            "self.look_at(tenure, Reliance::Sure, asks)",
        )],
    },
    Mistake {
        name: "a lost hold is handed over",
        changes: &[change(
            "cohort.rs",
            "return self.let_go(turn.bounds, tenure, reliance, now, asks);",
            "return self.let_go(turn.bounds, tenure, Reliance::Sure, now, asks);",
        )],
    },
    Mistake {
        name: "a hold that lingers ignores other contenders for ever",
        changes: &[change("cohort.rs", FIRED, "")],
    },
    Mistake {
        name: "a watch that has fired counts as set",
        changes: &[change("cohort.rs", FIRED, "self.give_up_lingering(asks);")],
    },
    Mistake {
        name: "a hold lingers without a watch",
        changes: &[
            change("cohort.rs", "lingers && self.watched_by.is_none()", "false"),
            change("cohort.rs", "self.may_linger(bounds) && self.watched_by.is_some()", "self.may_linger(bounds)"),
        ],
    },
    Mistake {
        name: "a watch that was not set counts for the next hold",
        changes: &[change(
            "cohort.rs",
            "self.watched_by = None;
                self.go_on(TurnPhase::Holds(Tenure { handovers: 0, handovers_unasked: 0, unasked_since: now }));",
            "self.go_on(TurnPhase::Holds(Tenure { handovers: 0, handovers_unasked: 0, unasked_since: now }));",
        )],
    },
    Mistake {
        name: "a hold that lingers is taken without a look",
        changes: &[change("cohort.rs", "TurnPhase::Takes(lingering.tenure)", "TurnPhase::Holds(lingering.tenure)")],
    },
    Mistake {
        name: "a watch replaces the bound of hand-overs",
        changes: &[change("cohort.rs", "self.allows(turn.bounds, &tenure, now)", "lingers || $right")],
    },
    Mistake {
        name: "a hold lingers although somebody has asked for it",
        changes: &[change(
            "cohort.rs",
            "others == Others::Children(1)",
            "matches!(others, Others::Children(1) | Others::Revoked)",
        )],
    },
    Mistake {
        name: "the time of a hold that lingers never ends",
        changes: &[change("cohort.rs", "until <= now", "false")],
    },
];
