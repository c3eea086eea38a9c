//! The smallest number of buyers at which a shop sells wrongly.

use buyers::model::LoadModel;

use crate::error::Error;
use crate::shop;
use crate::trial::any::{ShopOnTrial, trial};
use crate::trial::record::Reproduction;
use crate::trial::run::Conditions;
use crate::trial::schedule::{ScheduledTrial, Subject};

/// Tries with each number of buyers. Two buyers do not meet every time.
const TRIES: u32 = 4;

/// Looks for the fewest buyers, from two on to the number with which the shop is known to sell wrongly. First each number is a
/// quarter larger than the one before, then the gap is halved. `None` if the shop sold right in every try.
pub(crate) async fn reproduce(
    tried: &ShopOnTrial,
    conditions: &Conditions,
    users: u32,
) -> Result<Option<Reproduction>, Error> {
    let conditions = Conditions { model: LoadModel::Burst, goose_reports: None, log_max: 0, ..conditions.clone() };
    let mut right = 1;
    let mut found = None;
    for buyers in numbers(users) {
        let wrong = wrong_tries(tried, &conditions, buyers).await?;
        if wrong > 0 {
            found = Some((buyers, wrong));
            break;
        }
        right = buyers;
    }
    let Some((mut buyers, mut wrong)) = found else { return Ok(None) };
    while buyers - right > 1 {
        let between = right + (buyers - right) / 2;
        match wrong_tries(tried, &conditions, between).await? {
            0 => right = between,
            fewer => {
                buyers = between;
                wrong = fewer;
            }
        }
    }
    let seen = format!("loadgen saw it sell wrongly in {wrong} of {TRIES} tries");
    let script = shop::reproduction(&tried.shop, usize::try_from(buyers).unwrap_or(usize::MAX), &seen);
    Ok(Some(Reproduction { shop: tried.name().to_owned(), buyers, wrong, tries: TRIES, script }))
}

/// Tries with this number of buyers, and counts the tries in which the shop sold wrongly.
async fn wrong_tries(tried: &ShopOnTrial, conditions: &Conditions, buyers: u32) -> Result<u32, Error> {
    let subject = Subject { strategy: tried.name().to_owned(), users: buyers, build: None };
    let mut wrong = 0;
    for block in 0..TRIES as usize {
        let scheduled = ScheduledTrial { block, warm_up: false, subject: &subject };
        wrong += u32::from(trial(tried, conditions, scheduled).await?.trial.is_bad());
    }
    Ok(wrong)
}

/// Returns the numbers of buyers that are tried.
fn numbers(users: u32) -> impl Iterator<Item = u32> {
    let next = |number: &u32| Some(number + number.div_ceil(4));
    let fewer = std::iter::successors(Some(2), next).take_while(move |number| *number < users);
    fewer.chain([users])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_lead_from_two_buyers_to_all() {
        assert_eq!(numbers(12).collect::<Vec<_>>(), [2, 3, 4, 5, 7, 9, 12]);
        assert_eq!(numbers(2).collect::<Vec<_>>(), [2]);
        assert_eq!(numbers(1).collect::<Vec<_>>(), [1]);
        assert!(numbers(20_000).count() < 45);
    }
}
