//! Failures of purchases of which it is not known whether they have sold.

use std::borrow::Cow;

use super::{Failure, OUTCOME_UNKNOWN};

impl Failure {
    /// Makes the failure of a purchase whose COMMIT was sent and not answered.
    pub fn outcome_unknown(order_id: Option<i64>) -> Self {
        let detail = match order_id {
            Some(order_id) => Cow::from(format!(
                "the commit of order {order_id} was sent and its answer was not seen. GET /orders/{order_id} shows the \
                 order if it was committed, and the commit may still be under way. If the database has crashed, that \
                 number may be another buyer's order. An idempotency key tells in any case: send the same request again \
                 with the same key"
            )),
            None => Cow::from(
                "the commit was sent and its answer was not seen: it may have happened, and may happen yet; look before \
                 you send the request again",
            ),
        };
        Self { order_id, ..Self::new(&OUTCOME_UNKNOWN, detail) }
    }

    /// Makes the failure of a purchase that another instance was to decide, and whose reply was not seen.
    pub fn outcome_unknown_elsewhere() -> Self {
        let detail = "the instance that owns this SKU was asked to decide the purchase, and its answer was not seen. It may have \
                      sold, and may sell yet. Look before you send the request again. Under an idempotency key, send the same \
                      request again with the same key";
        Self::new(&OUTCOME_UNKNOWN, detail)
    }

    /// Makes the failure of a purchase that a gate in Redis may have promised, and that nobody has confirmed in time.
    pub fn outcome_unknown_at_gate(order_id: Option<i64>) -> Self {
        let detail = match order_id {
            Some(order_id) => format!(
                "order {order_id} was promised, and is not written yet: GET /orders/{order_id} shows it as soon as it is, and \
                 tells if it is refused. Under an idempotency key, send the same request again with the same key"
            ),
            None => "Redis was asked to promise the order, and its answer was not seen: the order may be promised, and may be yet. \
                     Look before you send the request again. Under an idempotency key, send the same request again with the same key"
                .to_owned(),
        };
        Self { order_id, ..Self::new(&OUTCOME_UNKNOWN, detail) }
    }
}
