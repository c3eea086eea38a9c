//! `redis-gate` and `redis-gate-confirmed`: what they promise, and what becomes of a promise when something is lost.

use std::time::Duration;

use crate::lab::{Answer, CONDITION_WITHIN, Shop};

/// The strategy that answers before there is an order.
const GATE: &str = "redis-gate";

impl Shop {
    /// Waits until an order that was promised is written or refused.
    pub(crate) async fn until_written(&self, answer: &Answer) {
        if !answer.status.is_success() || answer.body["strategy"] != GATE {
            return;
        }
        let path = format!("/orders/{}", answer.body["order_id"]);
        // As long as nothing is decided, the order is unknown.
        let decided = async {
            while !self.get(&path).await.is_decided_order() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(CONDITION_WITHIN, decided).await.expect("a promised order should be written or refused");
    }
}

impl Answer {
    fn is_decided_order(&self) -> bool {
        self.status.is_success() || self.body["detail"].as_str().is_some_and(|detail| detail.contains("refused"))
    }
}
