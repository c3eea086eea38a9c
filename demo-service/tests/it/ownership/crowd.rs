//! Buyers of `zk-owner`, and what they heard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use reqwest::Method;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::STRATEGY;
use crate::lab::{Answer, Lab, Shop};

/// Buyers of SKU 1 who buy again and again through one instance.
pub(super) struct Crowd {
    buyers: Vec<JoinHandle<Heard>>,
    stop: CancellationToken,
}

/// What buyers have heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The numbers of their orders.
    pub(super) confirmed: Vec<i64>,
    /// The refusals.
    pub(super) refused: BTreeMap<String, usize>,
    /// The purchases that may have sold.
    pub(super) unknown: usize,
}

impl Heard {
    pub(super) fn note(&mut self, answer: &Answer) {
        match answer.problem() {
            None => self.confirmed.push(answer.body["order_id"].as_i64().unwrap()),
            Some("outcome-unknown") => self.unknown += 1,
            Some(problem) => *self.refused.entry(problem.to_owned()).or_default() += 1,
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.confirmed.extend(other.confirmed);
        for (problem, count) in other.refused {
            *self.refused.entry(problem).or_default() += count;
        }
        self.unknown += other.unknown;
        self
    }

    /// Asserts that every confirmed order is there, and that all other orders are of purchases of unknown outcome. No unit was
    /// sold twice, and no owner has sold after a later one.
    pub(super) async fn assert_sold_once(&self, lab: &Lab) {
        let confirmed: BTreeSet<i64> = self.confirmed.iter().copied().collect();
        assert_eq!(confirmed.len(), self.confirmed.len(), "two buyers got one order");
        let mut connection = lab.connect().await;
        let sql = "select order_id from orders";
        let ordered: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
        let ordered: BTreeSet<i64> = ordered.into_iter().collect();
        let lost: Vec<_> = confirmed.difference(&ordered).collect();
        assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
        let unconfirmed = ordered.len() - confirmed.len();
        assert!(unconfirmed <= self.unknown, "{unconfirmed} orders, and {} unknown outcomes", self.unknown);
        lab.assert_adds_up(1, STRATEGY).await;
        let sql = "select count(*) - count(distinct remaining), bool_and(is_in_order) from (
                       select remaining, token >= coalesce(lag(token) over (order by remaining desc), 0) as is_in_order
                       from order_lines where goods_no = 1) as line";
        let (repeated, is_in_order): (i64, bool) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
        assert_eq!((repeated, is_in_order), (0, true), "units sold twice, and owners in order");
    }
}

impl Crowd {
    pub(super) fn through(shop: &Shop) -> Self {
        let shop = Arc::new(Shop::at(shop.address));
        let stop = CancellationToken::new();
        let buyer = |_| {
            let shop = Arc::clone(&shop);
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut bought = Heard::default();
                while !stop.is_cancelled() {
                    let path = format!("/goods-stock/1?strategy={STRATEGY}");
                    let Ok(response) = shop.request(Method::GET, &path).send().await else {
                        // The instance was killed.
                        bought.unknown += 1;
                        break;
                    };
                    bought.note(&Answer::of(response).await);
                }
                bought
            })
        };
        Self { buyers: (0..8).map(buyer).collect(), stop }
    }

    /// Stops the buyers, and waits for their last answers.
    pub(super) async fn stop(self) -> Heard {
        self.stop.cancel();
        join_all(self.buyers).await.into_iter().map(Result::unwrap).fold(Heard::default(), Heard::and)
    }
}
