//! Decides which strategy serves a purchase. A sale has one guard: the family of strategies that may write it.
//! Strategies of all other families are refused. This code is pure: the known sales go in, and a strategy or a
//! refusal comes out.

use super::entry::{Entry, Mechanism};
use super::registry;
use crate::failure::{self, Failure};
use crate::sale::{Goods, Purchase};

/// How a purchase is served.
#[derive(Debug, Clone, Copy)]
pub enum Admission {
    /// By this strategy.
    Serve(&'static Entry),
    /// By this strategy, once it has become the guard of the sales that have none.
    Claim(&'static Entry),
}

/// The strategies that one instance offers.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The strategies that requests may name, in the order of the registry.
    pub strategies: Vec<&'static Entry>,
    /// The strategy that claims sales without a guard.
    pub default: &'static Entry,
    /// Whether the instance has a Redis.
    pub has_redis: bool,
}

impl Offer {
    /// Returns the strategy of that name.
    ///
    /// # Errors
    /// [`UNKNOWN_STRATEGY`](failure::UNKNOWN_STRATEGY).
    pub fn find(&self, name: &str) -> Result<&'static Entry, Failure> {
        self.strategies.iter().find(|entry| entry.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = self.strategies.iter().map(|entry| entry.name).collect();
            let lacks = match registry::find(name) {
                Some(entry) if entry.mechanism == Mechanism::Redis && !self.has_redis => {
                    " here, because the instance has no Redis: set its REDIS_URL, or"
                }
                _ => ";",
            };
            let detail = format!("no strategy {name:?} is offered{lacks} choose one of {}", names.join(", "));
            Failure::new(&failure::UNKNOWN_STRATEGY, detail)
        })
    }

    /// Decides which strategy serves a purchase of these goods. `named` is the strategy that the buyer named, if any.
    ///
    /// # Errors
    /// [`GUARD_MISMATCH`](failure::GUARD_MISMATCH) if the named strategy is of another family than the guard of a
    /// sale, if the sales have guards of several families, or if the strategy may not claim a sale without a guard;
    /// [`ONE_AT_A_TIME`](failure::ONE_AT_A_TIME) if there are several goods and the strategy sells one SKU at a time;
    /// [`UNKNOWN_STRATEGY`](failure::UNKNOWN_STRATEGY) if the strategy of the sale is not offered here.
    pub fn admit(&self, named: Option<&'static Entry>, goods: &[Goods]) -> Result<Admission, Failure> {
        let guarded = goods.iter().filter_map(|goods| Some((goods.goods_no, goods.guard.as_ref()?)));
        let first = guarded.clone().next();
        let family = match (named, first) {
            (Some(entry), _) => entry.family,
            (None, Some((_, guard))) => &guard.family,
            (None, None) => self.default.family,
        };
        if let Some((goods_no, guard)) = guarded.clone().find(|(_, guard)| guard.family != family) {
            let by = named.map_or(family, |entry| entry.name);
            let detail = format!(
                "SKU {goods_no} is guarded by {}, and {by} is of another family: name none, or one of GET /strategies with \
                 that family; nothing was locked or written",
                guard.family
            );
            return Err(Failure::new(&failure::GUARD_MISMATCH, detail));
        }
        let own = match (named, first) {
            (Some(entry), _) => entry,
            (None, Some((_, guard))) => self.find(&guard.strategy)?,
            (None, None) => self.default,
        };
        let entry = if goods.len() > 1 { self.for_cart(own, named.is_some())? } else { own };
        match goods.iter().find(|goods| goods.guard.is_none()) {
            None => Ok(Admission::Serve(entry)),
            // A buyer must not weaken the promise of a sale.
            Some(_) if entry.may_claim() && entry.promise >= self.default.promise => Ok(Admission::Claim(entry)),
            Some(Goods { goods_no, .. }) => {
                let name = entry.name;
                let default = self.default.name;
                let detail = format!(
                    "SKU {goods_no} has no guard, and a purchase cannot make {name} its guard, only {default} or one \
                     that promises as much: PUT /admin/goods/{goods_no} with that strategy first; nothing was locked or written"
                );
                Err(Failure::new(&failure::GUARD_MISMATCH, detail))
            }
        }
    }

    /// Returns the strategy for a cart of several SKUs. If `entry` sells no carts and the buyer named no strategy,
    /// another strategy of its family may serve the cart.
    fn for_cart(&self, entry: &'static Entry, is_named: bool) -> Result<&'static Entry, Failure> {
        if entry.carts {
            return Ok(entry);
        }
        let mut others = self.strategies.iter().filter(|other| other.carts && other.family == entry.family);
        others.next().filter(|_| !is_named).copied().ok_or_else(|| {
            let name = entry.name;
            let detail = format!("{name} sells one SKU at a time; GET /strategies tells which strategies sell carts");
            Failure::new(&failure::ONE_AT_A_TIME, detail)
        })
    }
}

/// Refuses a purchase that says no buyer although one of its sales has a limit per buyer, or that alone is beyond the limit.
///
/// # Errors
/// [`BUYER_UNCLEAR`](failure::BUYER_UNCLEAR) or [`OVER_LIMIT`](failure::OVER_LIMIT).
pub fn check_buyer(purchase: &Purchase, sales: &[Goods]) -> Result<(), Failure> {
    for line in purchase.cart.lines() {
        let of_line = sales.iter().find(|goods| goods.goods_no == line.goods_no);
        let Some(per_buyer) = of_line.and_then(|goods| goods.per_buyer) else { continue };
        if purchase.buyer.is_none() {
            let units = per_buyer.get();
            let goods_no = line.goods_no;
            let detail = format!(
                "one buyer may have at most {units} of SKU {goods_no} in this sale: say who buys, by the header Buyer-Id or the \
                 member buyer"
            );
            return Err(Failure::new(&failure::BUYER_UNCLEAR, detail));
        }
        if line.quantity.get() > per_buyer.get() {
            return Err(Failure::over_limit(line.goods_no));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::registry::STRATEGIES;
    use super::*;
    use crate::sale::Guard;

    fn offer() -> Offer {
        Offer { strategies: STRATEGIES.iter().collect(), default: entry("zk-mutex"), has_redis: true }
    }

    fn entry(name: &str) -> &'static Entry {
        registry::find(name).unwrap()
    }

    fn guarded(goods_no: i64, strategy: &str) -> Goods {
        let guard = Guard { family: entry(strategy).family.to_owned(), strategy: strategy.to_owned() };
        Goods { guard: Some(guard), ..unguarded(goods_no) }
    }

    fn unguarded(goods_no: i64) -> Goods {
        Goods {
            goods_no: goods_no.try_into().unwrap(),
            sale: 1,
            stock_initial: 5,
            on_hand: 5,
            guard: None,
            per_buyer: None,
        }
    }

    fn admitted(named: Option<&str>, goods: &[Goods]) -> Result<String, &'static str> {
        match offer().admit(named.map(entry), goods) {
            Ok(Admission::Serve(entry)) => Ok(entry.name.to_owned()),
            Ok(Admission::Claim(entry)) => Ok(format!("claim {}", entry.name)),
            Err(failure) => Err(failure.kind().slug()),
        }
    }

    // S2
    #[test]
    fn a_sale_is_served_by_a_strategy_of_its_family() {
        let sale = [guarded(1, "zk-handoff")];
        assert_eq!(admitted(None, &sale).as_deref(), Ok("zk-handoff"));
        assert_eq!(admitted(Some("zk-cohort"), &sale).as_deref(), Ok("zk-cohort"));
        assert_eq!(admitted(Some("pg-conditional"), &sale), Err("guard-mismatch"));
        assert_eq!(admitted(Some("zk-mutex-fenced"), &sale), Err("guard-mismatch"));
        assert_eq!(admitted(Some("unguarded"), &[guarded(1, "unguarded")]).as_deref(), Ok("unguarded"));
    }

    // S3
    #[test]
    fn a_sale_without_a_guard_is_claimed_but_never_by_a_control() {
        let sale = [unguarded(1)];
        assert_eq!(admitted(None, &sale).as_deref(), Ok("claim zk-mutex"));
        assert_eq!(admitted(Some("pg-advisory"), &sale).as_deref(), Ok("claim pg-advisory"));
        for control in ["unguarded", "local-mutex", "zk-mutex-early-release"] {
            assert_eq!(admitted(Some(control), &sale), Err("guard-mismatch"), "{control}");
        }
    }

    // S4
    #[test]
    fn a_cart_has_one_family_and_a_strategy_that_sells_carts() {
        let queue = [guarded(1, "zk-handoff"), guarded(2, "zk-mutex")];
        assert_eq!(admitted(None, &queue).as_deref(), Ok("zk-multi"));
        assert_eq!(admitted(Some("zk-multi"), &queue).as_deref(), Ok("zk-multi"));
        assert_eq!(admitted(Some("zk-mutex"), &queue), Err("one-at-a-time"));
        assert_eq!(admitted(None, &[guarded(1, "zk-naive"), guarded(2, "zk-naive")]), Err("one-at-a-time"));
        assert_eq!(admitted(None, &[guarded(1, "zk-mutex"), guarded(2, "pg-row-lock")]), Err("guard-mismatch"));
        let half = [unguarded(1), guarded(2, "pg-row-lock")];
        assert_eq!(admitted(None, &half).as_deref(), Ok("claim pg-row-lock"));
        assert_eq!(admitted(Some("zk-multi"), &half), Err("guard-mismatch"));
    }

    #[test]
    fn a_strategy_that_is_not_offered_serves_nobody() {
        let offer = Offer { strategies: vec![entry("zk-mutex")], default: entry("zk-mutex"), has_redis: true };
        let refused = offer.admit(None, &[guarded(1, "zk-cohort")]).unwrap_err();
        assert!(refused.is(&failure::UNKNOWN_STRATEGY) && refused.detail().contains("zk-mutex"), "{refused}");
    }
}
