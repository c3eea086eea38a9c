//! The mistakes. Most of them do harm only when something fails, or when two things meet.

use planting::{Mistake, SourceChange, change};

/// A mistake, and what may find it.
pub(crate) struct PlantedMistake {
    pub(crate) mistake: Mistake,
    pub(crate) means: Means,
    /// What it is expected to break: a text of the finding. Another finding does not count.
    pub(crate) breaks: &'static str,
}

/// What may find a mistake.
pub(crate) enum Means {
    /// Rounds of faults, while these strategies sell in turn. `rate` is in buyers a second, and no fault begins after `seconds`.
    Faults {
        strategies: &'static [&'static str],
        faults: &'static str,
        rate: u32,
        seconds: u32,
        /// The business time of a purchase, between its read and its write.
        business_time: &'static str,
    },
    /// A test against real servers. What buyers do in the rounds shows no harm, or too seldom.
    Test { package: &'static str, name: &'static str },
}

const fn planted(
    name: &'static str,
    means: Means,
    breaks: &'static str,
    changes: &'static [SourceChange],
) -> PlantedMistake {
    PlantedMistake { mistake: Mistake { name, changes }, means, breaks }
}

const fn faults(strategies: &'static [&'static str], faults: &'static str) -> Means {
    Means::Faults { strategies, faults, rate: 100, seconds: 20, business_time: "2ms" }
}

/// So few buyers that the stock is sold out on a busy machine, too.
const fn few_buyers(strategies: &'static [&'static str], faults: &'static str) -> Means {
    Means::Faults { strategies, faults, rate: 10, seconds: 20, business_time: "2ms" }
}

/// Purchases that are under way most of the time. A fault that has to last long is likely to meet one of them.
const fn slow_purchases(strategies: &'static [&'static str], faults: &'static str) -> Means {
    Means::Faults { strategies, faults, rate: 20, seconds: 60, business_time: "200ms" }
}

const fn test(package: &'static str, name: &'static str) -> Means {
    Means::Test { package, name }
}

const ATTEMPT: &str = "demo-service/src/strategy/attempt.rs";
const BATCH: &str = "demo-service/src/strategy/batch/sell.rs";
const HELD: &str = "demo-service/src/strategy/lock/held.rs";

/// All mistakes.
pub(crate) static MISTAKES: [PlantedMistake; 17] = [
    planted(
        "a purchase takes no lock",
        faults(&["pg-advisory"], "buyers-link-slow"),
        "whose deduction was overwritten",
        &[change(ATTEMPT, "locked(self.context, self.call, self.locks_until, lock).await?;", "drop(lock);")],
    ),
    planted(
        "units are sold although too few are left",
        few_buyers(&["pg-conditional"], "buyers-link-slow"),
        "units sold beyond the stock",
        &[change(
            ATTEMPT,
            "return Err(self.why_not_written(at, Failure::sold_out(line.goods_no)).await)",
            "sold.push(self.sold(line, sale, 0))",
        )],
    ),
    planted(
        "a write does not check that the row is unchanged",
        faults(&["pg-optimistic"], "buyers-link-slow"),
        "whose deduction was overwritten",
        &[change(
            ATTEMPT,
            "self.transaction.overwrite_version(line, self.context.family, level.version).await?",
            "{ let _ = level; self.transaction.overwrite(line, self.context.family).await? }",
        )],
    ),
    planted(
        "the last unit is never sold",
        few_buyers(&["pg-row-lock"], "buyers-link-slow"),
        "units left although a buyer was told that nothing was",
        &[change("demo-service/src/sale/decision.rs", "(on_hand >= quantity.get())", "(on_hand > quantity.get())")],
    ),
    planted(
        "a write checks neither its hold nor its fence",
        slow_purchases(&["zk-mutex-fenced", "zk-handoff-fenced"], "instance-frozen"),
        "whose deduction was overwritten",
        &[
            change(
                HELD,
                "self.hold.run(call.in_time(purchase)).await",
                "Ok::<Decision, H::Error>(call.in_time(purchase).await)",
            ),
            change(
                ATTEMPT,
                "self.transaction.overwrite_fenced(line, self.context.family, fence).await?",
                "{ let _ = fence; self.transaction.overwrite(line, self.context.family).await? }",
            ),
        ],
    ),
    planted(
        "a commit without an answer is told as a refusal",
        faults(&["pg-conditional", "pg-row-lock"], "postgres-link-replies-lost,postgres-crashed"),
        "their own buyer had another answer",
        &[change(
            "demo-service/src/store/transaction.rs",
            "Failure::of_commit(error, order_id)",
            "{ let _ = order_id; Failure::of_database(error) }",
        )],
    ),
    planted(
        "a commit without an answer is told as a sale",
        faults(
            &["pg-conditional", "pg-row-lock"],
            "postgres-link-unreachable,postgres-crashed,postgres-connections-ended",
        ),
        "buyers told \"sold\" without an order",
        &[change(
            ATTEMPT,
            "committed.map(|()| order)",
            "if committed.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) { Ok(order) } else { $right }",
        )],
    ),
    planted(
        "a lock is released before its commit is over",
        faults(&["zk-mutex", "pg-advisory"], "postgres-commits-held"),
        "whose deduction was overwritten",
        &[change(
            HELD,
            "if call.is_committing() {
                settle(self.context, call).await;
            }",
            "let _ = settle;",
        )],
    ),
    planted(
        "a promised order is acknowledged although its commit failed",
        faults(&["redis-gate", "redis-gate-confirmed"], "postgres-*"),
        "buyers told \"sold\" without an order",
        &[change(
            "demo-service/src/strategy/gate/consumer.rs",
            "transaction.commit(None).await.map(|()| written).map_err(NothingWritten::ForAll)",
            "{ transaction.commit(None).await.ok(); Ok(written) }",
        )],
    ),
    planted(
        "purchases that another owner may have sold are sold again",
        faults(&["zk-owner"], "instance-killed,instance-frozen,zookeeper-link-silent"),
        "their own buyer had another answer",
        &[change(
            "demo-service/src/strategy/owner/hand_over.rs",
            "Some(Failure::outcome_unknown_elsewhere().caused_by(unknown))",
            "{ drop(unknown); None }",
        )],
    ),
    planted(
        "a batch is told as sold although its commit failed",
        faults(&["pg-merge", "zk-merge"], "postgres-crashed,postgres-link-replies-lost,postgres-connections-ended"),
        "buyers told \"sold\" without an order",
        &[change(
            BATCH,
            "commit.unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))",
            "{ let _ = commit; Ok(()) }",
        )],
    ),
    planted(
        "the buyers at the end of a batch get no orders",
        faults(&["pg-merge", "zk-merge"], "postgres-link-slow"),
        "buyers told the same order as another buyer",
        &[
            change(BATCH, "sold.collect()", "sold.take(2).collect()"),
            change(
                BATCH,
                "orders.into_iter()",
                "{
                    let mut orders = orders;
                    orders.extend(orders.last().cloned().into_iter().cycle().take(batch.len()).collect::<Vec<_>>());
                    orders.into_iter()
                }",
            ),
        ],
    ),
    planted(
        "a release in Redis deletes the lock of any holder",
        faults(&["redis-lock"], "redis-link-requests-held,redis-link-silent,redis-link-slow"),
        "whose deduction was overwritten",
        &[change(
            "demo-service/src/redis_store/locks.rs",
            "RELEASE.key(&key.0)",
            "{
                static ANY: LazyLock<Script> = LazyLock::new(|| Script::new(\"return redis.call('del', KEYS[1])\"));
                ANY.key(&key.0)
            }",
        )],
    ),
    planted(
        "an order is written without its key",
        faults(&["pg-conditional", "pg-row-lock"], "buyers-link-slow"),
        "their own buyer had another answer",
        &[change(
            "demo-service/src/store/orders.rs",
            "order.key.map(IdempotencyKey::as_str)",
            "{ let _ = $right; None::<&str> }",
        )],
    ),
    planted(
        "a reservation that the sweeper has ended is paid",
        test("demo-service", "reservations::races::each_of_many_reservations_ends_exactly_once"),
        "is confirmed, order Some(",
        &[change(
            "demo-service/src/store/schema.rs",
            "MIGRATIONS.run(connection).await.map_err(|error| refusal(error, address(options)))",
            r##"{
                MIGRATIONS.run(&mut *connection).await.map_err(|error| refusal(error, address(options)))?;
                let unchecked = r#"do $do$ begin
                    execute replace(replace(pg_get_functiondef('confirm_reservation'::regproc),
                        'if held.state <> ''held'' then', 'if held.state in (''confirmed'', ''cancelled'') then'),
                        'if held.expires_at <= clock_timestamp() then', 'if false then');
                end $do$"#;
                sqlx::raw_sql(unchecked).execute(connection).await.map(drop).map_err(|source| unusable(options, source))
            }"##,
        )],
    ),
    planted(
        "the token of a hold is the number of its node",
        test("zk-recipes", "contract::tokens_grow_in_grant_order_even_if_the_parent_was_deleted"),
        "left: 0",
        &[change(
            "locks/recipes/src/hold.rs",
            "FencingToken::new(grant.czxid)",
            "FencingToken::new(claim.path().get(claim.path().len().saturating_sub(10)..).and_then(|number| number.parse().ok()).unwrap_or(grant.czxid))",
        )],
    ),
    planted(
        "a waiter watches the parent of its node",
        test("zk-recipes", "traffic::a_release_notifies_one_waiter_of_a_queue"),
        "Mutex",
        &[change(
            "locks/recipes/src/engine/requests.rs",
            "retry_lost_reply(|| self.remote.wire().watch(&path)).await",
            "match retry_lost_reply(|| self.remote.wire().watch_children(&self.parent)).await {
                Ok((_, children)) => $right.map(|(data, stat, _)| (data, stat, children)),
                Err(error) => Err(error),
            }",
        )],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mistake_breaks_is_what_rounds_can_find() {
        let judge = include_str!("../../../loadgen/src/judge/round.rs").replace("\\\"", "\"");
        for planted in MISTAKES.iter().filter(|planted| matches!(planted.means, Means::Faults { .. })) {
            assert!(judge.contains(planted.breaks), "{}: {}", planted.mistake.name, planted.breaks);
        }
    }
}
