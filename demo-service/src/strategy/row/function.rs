//! `pg-function`: the whole purchase is one statement, the function `sell` of the database. It takes the units if enough are
//! left, writes the order and its key, and commits: one round trip.
//!
//! The row is locked from the update to the commit, without a message in between. So the next buyer waits for the
//! server only, and never for the network. As under `pg-conditional`, the business is done first.

use std::pin::pin;

use crate::failure::Failure;
use crate::sale::{LockSequence, Order, OrderLine};
use crate::store::{SaleOutcome, SellArguments};
use crate::strategy::attempt::{do_business_first, restarted};
use crate::strategy::call::{Call, Sent};
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};

/// Sells by one statement.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let Context { strategy, family, shared, .. } = context;
        let instance = &*shared.instance;
        let business = do_business_first(context, call).await?;
        let until = context.lock_until(call) + business;
        let cart = &call.purchase.cart;
        let lines = cart.in_order(LockSequence::Canonical);
        let lines: Vec<_> = lines.into_iter().map(|line| (line, call.sale_of(line.goods_no))).collect();
        let key = call.purchase.key.as_ref();
        let buyer = call.purchase.buyer.as_ref();
        let limits: Vec<_> = lines.iter().map(|(line, _)| call.per_buyer_of(line.goods_no)).collect();
        let limits = &limits;
        let arguments = SellArguments { guard: family, strategy, instance, key, cart, buyer, lines: &lines, limits };
        // A buyer may leave until the statement is sent. After that nobody could say what became of the purchase.
        call.still_wanted()?;
        let sent = || call.commit.note(Sent::Statement);
        let mut sold = pin!(shared.store.sell(arguments, until, sent));
        let sold = tokio::select! {
            biased;
            sold = &mut sold => sold,
            reason = context.leaving(call, until) => {
                if !call.is_committing() {
                    return Err(reason);
                }
                sold.await
            }
        };
        call.answered(&sold);
        match sold? {
            SaleOutcome::Sold { order_id, remaining } => {
                let lines = lines.iter().zip(remaining).map(|((line, sale), remaining)| OrderLine {
                    goods_no: line.goods_no.get(),
                    sale: *sale,
                    quantity: line.quantity.get(),
                    remaining: Some(remaining),
                    token: None,
                });
                let strategy = (*strategy).to_owned();
                Ok(Order { order_id, strategy, instance: instance.to_owned(), lines: lines.collect() })
            }
            SaleOutcome::SoldOut(goods_no) => Err(Failure::sold_out(goods_no)),
            SaleOutcome::OverLimit(goods_no) => Err(Failure::over_limit(goods_no)),
            SaleOutcome::Restarted(goods_no) => Err(restarted(call, goods_no)),
            SaleOutcome::Repeated => Err(Failure::repeated()),
        }
    })
}
