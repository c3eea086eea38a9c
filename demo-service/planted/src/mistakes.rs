//! Mistakes in the service. Most of them do harm only when something fails.

use planting::{Mistake, SourceChange, change};

/// A mistake in the service, and what may find it.
pub(crate) struct PlantedMistake {
    pub(crate) mistake: Mistake,
    /// The strategies that have it.
    pub(crate) strategies: &'static str,
    /// The faults that may show it.
    pub(crate) faults: &'static str,
}

const fn planted(
    name: &'static str,
    strategies: &'static str,
    faults: &'static str,
    changes: &'static [SourceChange],
) -> PlantedMistake {
    PlantedMistake { mistake: Mistake { name, changes }, strategies, faults }
}

/// All mistakes.
pub(crate) static MISTAKES: [PlantedMistake; 11] = [
    planted(
        "a purchase takes no lock",
        "pg-advisory",
        "buyers-link-slow",
        &[change(
            "strategy/attempt.rs",
            "locked(self.context, self.call, self.locks_until, lock).await?;",
            "drop(lock);",
        )],
    ),
    planted(
        "units are sold although too few are left",
        "pg-conditional",
        "buyers-link-slow",
        &[change(
            "strategy/attempt.rs",
            "return Err(self.why_not_written(at, Failure::sold_out(line.goods_no)).await)",
            "sold.push(self.sold(line, sale, 0))",
        )],
    ),
    planted(
        "a write does not check that the row is unchanged",
        "pg-optimistic",
        "buyers-link-slow",
        &[change(
            "strategy/attempt.rs",
            "self.transaction.overwrite_version(line, self.context.family, level.version).await?",
            "{ let _ = level; self.transaction.overwrite(line, self.context.family).await? }",
        )],
    ),
    planted(
        "the last unit is never sold",
        "pg-row-lock",
        "buyers-link-slow",
        &[change("sale/decision.rs", "(on_hand >= quantity.get())", "(on_hand > quantity.get())")],
    ),
    planted(
        "a write checks neither its hold nor its fence",
        "zk-mutex-fenced,zk-handoff-fenced",
        "instance-frozen",
        &[
            change(
                "strategy/lock/held.rs",
                "self.hold.run(call.in_time(purchase)).await",
                "Ok::<Decision, H::Error>(call.in_time(purchase).await)",
            ),
            change(
                "strategy/attempt.rs",
                "self.transaction.overwrite_fenced(line, self.context.family, fence).await?",
                "{ let _ = fence; self.transaction.overwrite(line, self.context.family).await? }",
            ),
        ],
    ),
    planted(
        "a commit without an answer is told as a refusal",
        "pg-conditional,pg-row-lock",
        "postgres-link-replies-lost,postgres-crashed",
        &[change(
            "store/transaction.rs",
            "Failure::of_commit(error, order_id)",
            "{ let _ = order_id; Failure::of_database(error) }",
        )],
    ),
    planted(
        "a commit without an answer is told as a sale",
        "pg-conditional,pg-row-lock",
        "postgres-link-unreachable,postgres-crashed,postgres-connections-ended",
        &[change(
            "strategy/attempt.rs",
            "committed.map(|()| order)",
            "if committed.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) { Ok(order) } else { $right }",
        )],
    ),
    planted(
        "a lock is released before its commit is over",
        "zk-mutex,zk-handoff",
        "postgres-link-requests-held",
        &[change(
            "strategy/lock/held.rs",
            "if call.is_committing() {
                settle(self.context, call).await;
            }",
            "let _ = settle;",
        )],
    ),
    planted(
        "a promised order is acknowledged although its commit failed",
        "redis-gate,redis-gate-confirmed",
        "postgres-*",
        &[change(
            "strategy/gate/consumer.rs",
            "transaction.commit(None).await.map(|()| written).map_err(NothingWritten::ForAll)",
            "{ transaction.commit(None).await.ok(); Ok(written) }",
        )],
    ),
    planted(
        "purchases that another owner may have sold are sold again",
        "zk-owner",
        "instance-frozen,instance-killed",
        &[change(
            "strategy/owner/hand_over.rs",
            "Some(Failure::outcome_unknown_elsewhere().caused_by(unknown))",
            "{ drop(unknown); None }",
        )],
    ),
    planted(
        "a batch is told as sold although its commit failed",
        "pg-merge,zk-merge",
        "postgres-crashed,postgres-link-replies-lost,postgres-connections-ended",
        &[change(
            "strategy/batch/sell.rs",
            "commit.unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))",
            "{ let _ = commit; Ok(()) }",
        )],
    ),
];
