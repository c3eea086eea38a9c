//! Mistakes in the batch queue. Most of them do harm only in some orders of its steps.

use planting::{Mistake, change};

/// Returns all mistakes.
pub fn all() -> impl Iterator<Item = &'static Mistake> {
    MISTAKES.iter()
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "a commit is sent although its buyer has given up",
        changes: &[change("commit.rs", "is_waiting().then_some(what)", "Some(what)")],
    },
    Mistake {
        name: "a buyer looks at its commit before it gives up",
        changes: &[change(
            "buyer.rs",
            "self.decided.close();
        match self.decided.try_recv() {
            Ok(decision) => WaitEnd::Decided(decision),
            Err(_) => WaitEnd::GaveUp(self.commit.sent()),
        }",
            "let sent = self.commit.sent();
        self.decided.close();
        match self.decided.try_recv() {
            Ok(decision) => WaitEnd::Decided(decision),
            Err(_) => WaitEnd::GaveUp(sent),
        }",
        )],
    },
    Mistake {
        name: "the commits of a batch are noted after the commit",
        changes: &[change(
            "sell.rs",
            "!sold().all(|(buyer, sent)| buyer.note_sent(sent.clone()))",
            "{
                let committed = transaction.commit().await;
                sold().for_each(|(buyer, sent)| {
                    let _ = buyer.note_sent(sent.clone());
                });
                return match committed {
                    Err(refusal) if !refusal.leaves_unknown() => Err(refusal),
                    committed => Ok(transaction.decisions(batch, committed)),
                };
            }",
        )],
    },
    Mistake {
        name: "a batch that is rolled back leaves its commits noted",
        changes: &[change(
            "sell.rs",
            "sold().for_each(|(buyer, _)| buyer.note_rollback());
        transaction.roll_back().await;
        return Err(C::Refusal::client_gone());",
            "transaction.roll_back().await;
        return Err(C::Refusal::client_gone());",
        )],
    },
    Mistake {
        name: "a refused commit stays noted",
        changes: &[change(
            "sell.rs",
            "sold().for_each(|(buyer, _)| buyer.note_rollback());
        return Err(refusal.clone());",
            "return Err(refusal.clone());",
        )],
    },
    Mistake {
        name: "a commit without an answer is sold again",
        changes: &[change("sell.rs", "!refusal.leaves_unknown()", "true")],
    },
    Mistake {
        name: "a batch is committed if one of its buyers still waits",
        changes: &[change(
            "sell.rs",
            "!sold().all(|(buyer, sent)| buyer.note_sent(sent.clone()))",
            "!sold().fold(false, |is_any, (buyer, sent)| buyer.note_sent(sent.clone()) || is_any)",
        )],
    },
    Mistake {
        name: "a refused batch is answered before it is divided",
        changes: &[change("sell.rs", "batch.len() == 1 || refusal.concerns_all()", "true")],
    },
    Mistake {
        name: "all that stops a batch puts it back",
        changes: &[change(
            "sell.rs",
            "refusal.is_lock_timeout() && earliest(&batch) <= C::now()",
            "!refusal.leaves_unknown() && batch.len() > 1",
        )],
    },
    Mistake {
        name: "a buyer that finds an empty queue starts a worker",
        changes: &[change(
            "queue.rs",
            "!self.by_sku.contains_key(&sku)",
            "self.by_sku.get(&sku).is_none_or(|queue| queue.buyers.is_empty())",
        )],
    },
    Mistake {
        name: "a worker ends although a buyer has just come",
        changes: &[change(
            "queue.rs",
            "if latest.is_none() {
            waiting.by_sku.remove(&sku);
        }",
            "drop(waiting);
        if latest.is_none() {
            self.0.lock().by_sku.remove(&sku);
        }",
        )],
    },
    Mistake {
        name: "a worker that has ended leaves its queue behind",
        changes: &[change(
            "queue.rs",
            "if latest.is_none() {
            waiting.by_sku.remove(&sku);
        }",
            "",
        )],
    },
    Mistake {
        name: "a worker that dies leaves its buyers behind",
        changes: &[change("worker.rs", "!self.has_ended", "false")],
    },
    Mistake {
        name: "a worker that has ended drops the buyers of the next one",
        changes: &[change("worker.rs", "!self.has_ended", "true")],
    },
    Mistake {
        name: "a number is used again",
        changes: &[change("queue.rs", "self.arrived += 1;", "self.arrived = buyers.len() as u64 + 1;")],
    },
    Mistake {
        name: "a buyer leaves although the worker has taken it",
        changes: &[change("queue.rs", "queue.buyers.remove(&number).is_some()", "$right || true")],
    },
    Mistake {
        name: "a buyer that wants to leave stays in the queue",
        changes: &[change(
            "buyer.rs",
            "if self.leave() {
                    return WaitEnd::Left(reason);
                }",
            "drop(reason);",
        )],
    },
    Mistake {
        name: "a batch takes buyers of a later sale",
        changes: &[change(
            "queue.rs",
            "taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.sale() <= sale).take(BATCH_MAX))",
            "taken(queue.buyers.extract_if(.., |_, _| true).take(BATCH_MAX))",
        )],
    },
    Mistake {
        name: "a batch is in the reverse order of arrival",
        changes: &[change(
            "queue.rs",
            "buyers.map(tell).collect()",
            "{ let mut batch: Vec<_> = $right; batch.reverse(); batch }",
        )],
    },
    Mistake {
        name: "a full batch takes the latest buyers",
        changes: &[change(
            "queue.rs",
            "taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.sale() <= sale).take(BATCH_MAX))",
            "{
                let skipped = queue.buyers.len().saturating_sub(BATCH_MAX);
                let from = queue.buyers.keys().nth(skipped).copied().unwrap_or_default();
                taken(queue.buyers.extract_if(from.., |_, buyer| buyer.request.sale() <= sale).take(BATCH_MAX))
            }",
        )],
    },
    Mistake {
        name: "a buyer that is taken still counts as waiting",
        changes: &[change("queue.rs", "buyer.request.taken();", "")],
    },
    Mistake {
        name: "a buyer that comes back goes to the end of the queue",
        changes: &[change("queue.rs", "queue.buyers.insert(buyer.number, buyer);", "buyer.number += 1000; $right")],
    },
    Mistake {
        name: "a buyer comes back with its commit noted",
        changes: &[change("worker.rs", "back.iter().for_each(Buyer::note_rollback);", "")],
    },
    Mistake {
        name: "all that wait are refused with the late",
        changes: &[change("queue.rs", "buyer.request.until() <= now", "true")],
    },
    Mistake {
        name: "parts are served before the buyers that come back",
        changes: &[change("worker.rs", "is_any_back && !self.parts.is_empty()", "false")],
    },
    Mistake {
        name: "the parts are served after the queue",
        changes: &[change(
            "worker.rs",
            "self.parts.pop().unwrap_or_else(|| self.queues.take(self.sku, self.sale))",
            "Some(self.queues.take(self.sku, self.sale)).filter(|batch| !batch.is_empty()).or_else(|| self.parts.pop()).unwrap_or_default()",
        )],
    },
    Mistake {
        name: "purchases of another instance stay in the parts while the worker is away",
        changes: &[change("worker.rs", "gone.extend(part.extract_if(.., |buyer| buyer.request.is_handed()));", "")],
    },
    Mistake {
        name: "the later half of a divided batch is lost",
        changes: &[change(
            "worker.rs",
            "[later, batch].into_iter()",
            "{ drop(later); [Vec::new(), batch] }.into_iter()",
        )],
    },
    Mistake {
        name: "the halves of a divided batch are served backwards",
        changes: &[change("worker.rs", "[later, batch].into_iter()", "[batch, later].into_iter()")],
    },
    Mistake {
        name: "purchases of another instance are refused for a reason that lies here",
        changes: &[change("buyer.rs", "buyer.request.is_handed() && refusal.lies_here()", "false")],
    },
    Mistake {
        name: "a purchase is handed over although its buyer has given up",
        changes: &[change(
            "handed_over.rs",
            "buyer.note_sent(sent.clone())",
            "{ let _ = buyer.note_sent(sent.clone()); true }",
        )],
    },
    Mistake {
        name: "a purchase is handed over without a note",
        changes: &[change("handed_over.rs", "buyer.note_sent(sent.clone())", "buyer.is_waiting()")],
    },
    Mistake {
        name: "a purchase that was sent back is forgotten",
        changes: &[change(
            "handed_over.rs",
            "buyer.note_rollback();
                self.undecided.push(buyer);",
            "drop(buyer);",
        )],
    },
    Mistake {
        name: "a purchase that was sent back stays noted until its batch ends",
        changes: &[change(
            "handed_over.rs",
            "buyer.note_rollback();
                self.undecided.push(buyer);",
            "self.undecided.push(buyer);",
        )],
    },
    Mistake {
        name: "purchases on a broken link are sold again",
        changes: &[change(
            "handed_over.rs",
            "buyer.answer(Err(unknown.clone()))",
            "{ let _ = unknown; self.undecided.push(buyer) }",
        )],
    },
    Mistake {
        name: "two instances wait for each other",
        changes: &[change("queue.rs", "waiting.by_sku.get(&sku).is_some_and(|queue| queue.is_away)", "false")],
    },
    Mistake {
        name: "purchases of another instance stay in the queue while the worker is away",
        changes: &[change(
            "queue.rs",
            "taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.is_handed()))",
            "Vec::new()",
        )],
    },
    Mistake {
        name: "a batch frees all its slots with the first reply",
        changes: &[change("slots.rs", "self.0.split(1)", "self.0.split(self.0.num_permits())")],
    },
    Mistake {
        name: "a batch takes one purchase more than there are slots",
        changes: &[change("slots.rs", "self.0.num_permits()", "{ $right + 1 }")],
    },
    Mistake {
        name: "a slot is free as soon as it is taken",
        changes: &[change(
            "slots.rs",
            "Some(Slot { _permit: Arc::new(permit) })",
            "Some(Slot { _permit: Arc::new(Arc::new(Semaphore::new(1)).try_acquire_owned().ok()?) })",
        )],
    },
];
