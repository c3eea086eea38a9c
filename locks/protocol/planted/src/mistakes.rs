//! Mistakes in the protocol. Other libraries have made them, or an earlier version of this one.

// The build script includes this file, too, and would look for the module elsewhere.
#[path = "mistakes/cohort.rs"]
mod cohort;

use planting::{Mistake, change};

const NEAREST: &str = "nearest.filter(|nearest| own.is_barred_by(nearest))";

const SEARCH: &str = "match &mut self.contender(id).phase {
            Phase::Leaving(leaving) => leaving.phase = LeavingPhase::Finding(finding),
            _ => self.enter_phase(id, Phase::Finding(finding)),
        }
        self.ask(Ask::Find(id));";

/// Returns all mistakes.
pub fn all() -> impl Iterator<Item = &'static Mistake> {
    MISTAKES.iter().chain(cohort::MISTAKES)
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "a contender that joined without a look holds unless it knows its predecessor",
        changes: &[change(
            "session_queue/joining.rs",
            "self.directly_ahead(id)",
            // Only `grant_proof.rs` can make a proof. So this forges an answer of the server that it takes for one.
            "match $right {
                None => {
                    let own = self.contender(id).node().made.czxid;
                    let alone = crate::stat::Stat { pzxid: own, num_children: 1, ..Default::default() };
                    return self.see_noted(id, crate::release_note::ParentState::new(&[], &alone));
                }
                ahead => ahead,
            }",
        )],
    },
    Mistake {
        name: "a waiter watches the last in the queue",
        changes: &[change(
            "queue.rs",
            NEAREST,
            "$right.and(self.contenders.iter().rfind(|other| other.name.as_ref() != own.name.as_ref()))",
        )],
    },
    Mistake {
        name: "a reader watches the reader directly ahead",
        changes: &[change(
            "queue.rs",
            NEAREST,
            "$right.and_then(|_| self.contenders[..self.contenders.partition_point(is_smaller)].last())",
        )],
    },
    Mistake {
        name: "a contender holds although its node is not listed",
        changes: &[change(
            "session_queue/ask.rs",
            "self.own.as_deref().is_some_and(|own| queue.has(own))",
            "self.own.is_some()",
        )],
    },
    Mistake {
        name: "a listing without the own node is a proof",
        changes: &[change("session_queue/grant_proof.rs", "listed.is_own_present && listed.parent.0 < own", "true")],
    },
    Mistake {
        name: "a create is repeated without a search",
        changes: &[change(
            "session_queue/joining.rs",
            SEARCH,
            "if matches!(self.contender(id).phase, Phase::Finding(_)) {
                return self.create(id, FirstLook::None, Creating::default());
            }
            $right",
        )],
    },
    Mistake {
        name: "a waiter reads the note and not its own node",
        changes: &[change(
            "session_queue/waiting.rs",
            "self.ask(Ask::ReadNoteBeside(id))",
            "self.ask(Ask::ReadNote(id))",
        )],
    },
    Mistake {
        name: "a contender takes any only child for its own",
        changes: &[change("release_note.rs", "self.changed == czxid && self.children == 1", "self.children == 1")],
    },
    Mistake {
        name: "a predecessor that gave up is taken for one that released",
        changes: &[change("session_queue/grant_proof.rs", "state.proves_nobody_ahead(gone, own, czxid)", "true")],
    },
    Mistake {
        name: "a contender that never held leaves a note",
        changes: &[change(
            "session_queue/leaving.rs",
            "self.contender(id).wish.naming",
            "self.prepare_note(id); self.contender(id).wish.naming",
        )],
    },
    Mistake {
        name: "a number counts although the numbers have begun anew",
        changes: &[change(
            "session_queue/local_queue.rs",
            "self.watched = None;
        self.number_proof.disturbed();",
            "",
        )],
    },
    Mistake {
        name: "a predecessor counts as gone while it holds",
        changes: &[change("number_proof.rs", "self.last.filter(|_| self.is_released)", "self.last")],
    },
    Mistake {
        name: "a contender checks after its creation whether its predecessor has released",
        changes: &[
            change("number_proof.rs", "(self.expected(), watched)", "(self.last.map(Expected), watched)"),
            change(
                "session_queue/local_queue.rs",
                "GrantProof::by_number(expected, own, self.watched)",
                "$right.filter(|_| self.number_proof.expected() == Some(expected))",
            ),
        ],
    },
    Mistake {
        name: "a hold is handed over to a contender that may have no node",
        changes: &[change(
            "session_queue/leaving.rs",
            "DeleteCondition::Beside(successor.made.name.clone())",
            "DeleteCondition::None",
        )],
    },
    Mistake {
        name: "a search takes the node of another kind of lock",
        changes: &[change("names.rs", "name == format!(\"{marker}{sequence}\")", "true")],
    },
    Mistake {
        name: "a search takes the node of another contender",
        changes: &[change(
            "session_queue/taken_nodes.rs",
            "!self.adopted.contains(&czxid) && self.owned.insert(czxid)",
            "self.owned.insert(czxid); true",
        )],
    },
    Mistake {
        name: "a contender accepts the last number",
        changes: &[change("session_queue/joining.rs", "sequence.supply()", "Supply::Ample")],
    },
    Mistake {
        name: "a note of another lock's node counts",
        changes: &[change("release_note.rs", "of_node == self.parent && self.parent.0 < czxid", "true")],
    },
    Mistake {
        name: "a listing counts although it is older than the node",
        changes: &[change("session_queue/joining.rs", "listed.changed >= czxid", "true")],
    },
    Mistake {
        name: "a search takes an overwritten node before it has read all",
        changes: &[change(
            "session_queue/joining.rs",
            "let is_taken = self.take(id, made.czxid);
                self.end_search(id, is_taken.then_some(made));",
            "if self.finding(id).is_some_and(|finding| !finding.candidates.is_empty()) {
                return self.take_next(id);
            }
            $right",
        )],
    },
    Mistake {
        name: "a contender whose node was adopted creates another without a search",
        changes: &[change(
            "session_queue/joining.rs",
            SEARCH,
            "if matches!(self.contender(id).phase, Phase::Creating(_)) {
                return self.create(id, FirstLook::None, Creating::default());
            }
            $right",
        )],
    },
    Mistake {
        name: "an adopted node is freed",
        changes: &[change("session_queue/taken_nodes.rs", "self.adopted.insert(czxid);", "")],
    },
    Mistake {
        name: "a search does not check the node that it adopts",
        changes: &[change(
            "session_queue/joining.rs",
            "self.ask(Ask::Identify(id, made.name.clone()));
                if let Some(finding) = self.finding(id) {
                    finding.adopting = Some(Box::new(made));
                }
                return;",
            "self.queue.taken_nodes.adopt(made.czxid);
            return self.end_search(id, Some(made));",
        )],
    },
    Mistake {
        name: "searches of a session overlap",
        changes: &[change(
            "session_queue/joining.rs",
            "self.finding(id).is_some_and(|finding| finding.adoptions != adoptions)",
            "false",
        )],
    },
    Mistake {
        name: "a waiter that gives up deletes a node of its name without a check",
        changes: &[change("session_queue/leaving.rs", "naming == Naming::Numbered && node.is_doubtful", "false")],
    },
    Mistake {
        name: "a contender goes on waiting although the last number was given twice",
        changes: &[change(
            "session_queue/joining.rs",
            "self.fail_to_create(id, !creating.is_repeated, Outcome::NumbersExhausted(Sequence::LAST))",
            "()",
        )],
    },
    Mistake {
        name: "a throttled create is not repeated",
        changes: &[change("session_queue/joining.rs", "self.ask(Ask::Pause(id, Pause::Throttled))", "()")],
    },
    Mistake {
        name: "a throttled deletion counts as done",
        changes: &[change(
            "session_queue/leaving.rs",
            "self.pause(id, Pause::Throttled)",
            "self.end_as(id, Outcome::Gone)",
        )],
    },
    Mistake {
        name: "permits are taken without a lease lock",
        changes: &[change(
            "permits.rs",
            "if is_try { AttemptPhase::Trying } else { AttemptPhase::TakingLeaseLock }",
            "AttemptPhase::Creating",
        )],
    },
    Mistake {
        name: "a permit is granted although its lease is missing",
        changes: &[change(
            "leases.rs",
            "self.names.iter().filter(|name| own.contains(*name)).count() < own.len()",
            "false",
        )],
    },
    Mistake {
        name: "one more lease holds than there are permits",
        changes: &[change(
            "leases.rs",
            "self.names.len() - newer <= permits",
            "self.names.len() - newer <= permits + 1",
        )],
    },
    Mistake {
        name: "permits are granted although their number was lowered",
        changes: &[change(
            "permits.rs",
            "if self.leases.len() < self.wanted { AttemptPhase::Creating } else { AttemptPhase::Listing }",
            "if self.phase == AttemptPhase::Proving { AttemptPhase::LeavingLeaseLock }
             else if self.leases.len() < self.wanted { AttemptPhase::Creating } else { AttemptPhase::Listing }",
        )],
    },
    Mistake {
        name: "leases are created again without a search",
        changes: &[change(
            "permits.rs",
            "self.phase = AttemptPhase::Finding",
            "self.has_unnamed = false; self.create()",
        )],
    },
    Mistake {
        name: "an attempt that gives up deletes only the leases that it knows",
        changes: &[change(
            "permits.rs",
            "self.end(AttemptOutcome::Left)",
            "{ self.has_unnamed = false; self.end(AttemptOutcome::Left) }",
        )],
    },
    Mistake {
        name: "a waiter waits by the listing before its watch",
        changes: &[change("permits.rs", "self.phase == AttemptPhase::Watching", "true")],
    },
    Mistake {
        name: "permits are granted although their creates were throttled",
        changes: &[change(
            "permits.rs",
            "self.leases.extend(made);",
            "if is_to_repeat && !has_unnamed { self.wanted = self.leases.len() + made.len(); } $right",
        )],
    },
    Mistake {
        name: "a naive contender whose create was throttled holds",
        changes: &[change(
            "naive.rs",
            "self.phase = NaivePhase::Pausing",
            "self.phase = if failure == Failure::Throttled { NaivePhase::Proving } else { NaivePhase::Pausing }",
        )],
    },
    Mistake {
        name: "a node of the session is taken for the contender's own",
        changes: &[change("naive.rs", "found.may_be_own && taken.take(found.czxid)", "true")],
    },
    Mistake { name: "a node is taken twice", changes: &[change("naive.rs", "self.0 < czxid", "true")] },
    Mistake {
        name: "the doubt of a lost reply ends with the next answer",
        changes: &[change(
            "naive.rs",
            "self.phase = NaivePhase::Waiting",
            "(self.is_doubtful, self.phase) = (false, NaivePhase::Waiting)",
        )],
    },
    Mistake {
        name: "an existing node counts as another contender's, even after a lost reply",
        changes: &[change("naive.rs", "self.is_doubtful && self.recognise(found, taken)", "false")],
    },
    Mistake {
        name: "a contender that gives up deletes any node at the path",
        changes: &[change(
            "naive.rs",
            "self.claim = if is_own { NaiveClaim::Certain } else { NaiveClaim::Nothing };",
            "self.claim = if is_own || found.is_some() { NaiveClaim::Certain } else { NaiveClaim::Nothing };",
        )],
    },
    Mistake {
        name: "a deletion without an answer is repeated without a look",
        changes: &[change(
            "naive.rs",
            "self.claim = NaiveClaim::Perhaps;
                Ask::Delete",
            "Ask::Delete",
        )],
    },
    Mistake {
        name: "a contender that had a node looks for no other",
        changes: &[change(
            "naive.rs",
            "if self.is_doubtful { NaiveClaim::Perhaps } else { NaiveClaim::Nothing }",
            "NaiveClaim::Nothing",
        )],
    },
    Mistake {
        name: "a refused contender looks for no node, even after a lost reply",
        changes: &[change("naive.rs", "is_certain && !self.is_doubtful", "is_certain")],
    },
];
