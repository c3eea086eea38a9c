//! How buyers pay at a strategy that sells in two steps.

use buyers::habits::PaymentHabits;
use clap::Args;
use confique::Config;

use super::values::{parse_share, share};
use crate::error::Error;

/// The argument of the service that says how long a reservation holds its units.
const RESERVATION_TTL: &str = "--reservation-ttl";

/// How long it does if some buyers do not pay and nobody says how long. Longer than a payment waits in a crowd, and short enough to
/// wait for after each trial.
const SHORT_TTL: &str = "2s";

/// What the table `[payers]` of a plan may set. Only a strategy that sells in two steps has payers.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, Clone, Args)))]
#[config(layer_attr(serde(deny_unknown_fields, rename_all = "kebab-case")))]
pub(crate) struct PayersPlan {
    /// Share of the buyers that reserve and never pay, for a strategy with reservations; their units sell again [default: 0%]
    #[config(default = "0%", deserialize_with = share)]
    #[config(layer_attr(arg(long, value_name = "PERCENT", value_parser = parse_share)))]
    abandon: f64,
    /// Share of the buyers that pay when the time of their reservation is over [default: 0%]
    #[config(default = "0%", deserialize_with = share)]
    #[config(layer_attr(arg(long, value_name = "PERCENT", value_parser = parse_share)))]
    pay_late: f64,
    /// Share of the buyers that pay their reservation twice [default: 0%]
    #[config(default = "0%", deserialize_with = share)]
    #[config(layer_attr(arg(long, value_name = "PERCENT", value_parser = parse_share)))]
    pay_twice: f64,
}

impl PayersPlan {
    /// Returns the habits of the buyers.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the shares are more than all buyers.
    pub(super) fn habits(&self) -> Result<PaymentHabits, Error> {
        let PayersPlan { abandon, pay_late, pay_twice } = *self;
        if abandon + pay_late + pay_twice > 1.0 {
            let text = "the shares of abandon, pay-late and pay-twice add up to more than 100%; lower one of them";
            return Err(Error::Usage(text.to_owned()));
        }
        Ok(PaymentHabits { abandon, pay_late, pay_twice })
    }
}

/// Lets reservations expire soon in a service that is started for buyers with these habits, unless its arguments say when.
pub(super) fn shorten_reservations(habits: &PaymentHabits, service_args: &mut Vec<String>) {
    let is_set = service_args.iter().any(|arg| arg.split('=').next() == Some(RESERVATION_TTL));
    if !habits.are_good() && !is_set {
        service_args.extend([RESERVATION_TTL, SHORT_TTL].map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_short_only_if_somebody_does_not_pay() {
        let args = |habits: PaymentHabits, given: &[&str]| {
            let mut args: Vec<String> = given.iter().map(|arg| (*arg).to_owned()).collect();
            shorten_reservations(&habits, &mut args);
            args.join(" ")
        };
        let abandon = PaymentHabits { abandon: 0.3, ..PaymentHabits::default() };
        assert_eq!(args(PaymentHabits::default(), &[]), "");
        assert_eq!(args(abandon, &["--permits", "8"]), "--permits 8 --reservation-ttl 2s");
        assert_eq!(args(abandon, &["--reservation-ttl=1s"]), "--reservation-ttl=1s");
    }

    #[test]
    fn more_than_all_buyers_are_refused() {
        let shares = |abandon, pay_late, pay_twice| PayersPlan { abandon, pay_late, pay_twice }.habits();
        assert!(shares(0.3, 0.3, 0.4).is_ok());
        let refused = shares(0.5, 0.5, 0.1).unwrap_err().to_string();
        assert!(refused.contains("more than 100%; lower one"), "{refused}");
    }
}
