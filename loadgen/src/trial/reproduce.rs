//! The smallest number of buyers at which a shop sells wrongly.

use buyers::model::LoadModel;
use stats::figures::things;

use crate::audit::shop::Evidence;
use crate::audit::trial::Audit;
use crate::error::Error;
use crate::shop::{self, Crowd};
use crate::trial::any::{ShopOnTrial, trial};
use crate::trial::record::{Reproduction, Trial};
use crate::trial::run::Conditions;
use crate::trial::schedule::{ScheduledTrial, Subject};

/// Tries with each number of buyers. Two buyers do not meet every time.
const TRIES: u32 = 4;

/// What a search for a reproduction ends with.
pub(crate) enum Sought {
    Found(Reproduction),
    /// What was tried, in a sentence.
    Nothing(String),
}

/// Looks for the fewest buyers that make a shop sell wrongly, up to those of a trial in which it did. First each number is a
/// quarter larger than the one before, then the gap is halved. Nothing is found if the shop sold right in every try.
pub(crate) async fn reproduce(tried: &ShopOnTrial, conditions: &Conditions, bad: &Trial) -> Result<Sought, Error> {
    let purchases = conditions.model.requests_per_buyer();
    let model = LoadModel::Burst { requests_per_buyer: u32::try_from(purchases).unwrap_or(u32::MAX) };
    let conditions = Conditions { model, goose_reports: None, log_max: 0, ..conditions.clone() };
    let is_beyond_limit =
        bad.audit == (Audit { sold: bad.audit.sold, over_limit: bad.audit.over_limit, ..Audit::default() });
    if is_beyond_limit && purchases == 1 {
        let why = "the fault needs buyers that buy again, and each buyer of a script buys once";
        return Ok(Sought::Nothing(format!("no reproduction of {}: {why}", tried.name())));
    }
    let fewest = if is_beyond_limit { 1 } else { fewest(bad, tried.shop.stock) };
    let mut right = fewest.saturating_sub(1);
    let mut found = None;
    for buyers in numbers(fewest, bad.users) {
        let wrong = wrong_tries(tried, &conditions, buyers).await?;
        if wrong > 0 {
            found = Some((buyers, wrong));
            break;
        }
        right = buyers;
    }
    let Some((mut buyers, mut wrong)) = found else {
        return Ok(Sought::Nothing(nothing(tried.name(), fewest, bad.users)));
    };
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
    let crowd = Crowd { buyers: usize::try_from(buyers).unwrap_or(usize::MAX), purchases };
    let script = shop::reproduction(&tried.shop, crowd, &seen);
    let shop = tried.name().to_owned();
    Ok(Sought::Found(Reproduction { shop, buyers, crowd: crowd.describe(), wrong, tries: TRIES, script }))
}

/// Says that a search found nothing, and what it tried.
fn nothing(shop: &str, fewest: u32, users: u32) -> String {
    let range = if fewest < users { format!("{fewest} to ") } else { String::new() };
    let bursts = format!("{range}{}", things(users, "buyer"));
    format!("no reproduction of {shop} was found: bursts of {bursts}, {TRIES} tries each, did not show it")
}

/// Tries with this number of buyers, and counts the tries in which the shop sold wrongly.
async fn wrong_tries(tried: &ShopOnTrial, conditions: &Conditions, buyers: u32) -> Result<u32, Error> {
    let subject = Subject { strategy: tried.name().to_owned(), users: buyers, build: None, hazard: None };
    let mut wrong = 0;
    for block in 0..TRIES as usize {
        let scheduled = ScheduledTrial { block, warm_up: false, subject: &subject };
        wrong += u32::from(trial(tried, conditions, scheduled).await?.trial.is_bad());
    }
    Ok(wrong)
}

/// Returns the fewest buyers that can show the fault of a trial. If the answers alone tell of too many units, it takes more buyers
/// than units.
fn fewest(bad: &Trial, stock: u32) -> u32 {
    let only_oversold = Audit { sold: bad.audit.sold, oversold: bad.audit.oversold, ..Audit::default() };
    let needs_all = bad.evidence == Some(Evidence::Answers) && bad.audit == only_oversold;
    if needs_all { stock.saturating_add(1).min(bad.users) } else { 2.min(bad.users) }
}

/// Returns the numbers of buyers that are tried.
fn numbers(fewest: u32, users: u32) -> impl Iterator<Item = u32> {
    let next = |number: &u32| Some(number + number.div_ceil(4));
    let fewer = std::iter::successors(Some(fewest), next).take_while(move |number| *number < users);
    fewer.chain([users])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shop_fixture;

    #[test]
    fn a_fault_of_answers_alone_needs_more_buyers_than_units() {
        let oversold = shop_fixture::shop_trial("shop", 0, 130);
        let by_answers = |change: fn(&mut Trial)| {
            let audit = Audit { sold: 130, oversold: 30, ..Audit::default() };
            let mut trial = Trial { evidence: Some(Evidence::Answers), audit, ..oversold.clone() };
            change(&mut trial);
            fewest(&trial, 100)
        };
        assert_eq!(by_answers(|_| {}), 101);
        assert_eq!(by_answers(|trial| trial.users = 50), 50);
        assert_eq!(by_answers(|trial| trial.audit.confirmations_repeated = 1), 2);
        assert_eq!(fewest(&oversold, 100), 2);
    }

    #[test]
    fn a_search_that_finds_nothing_says_what_it_tried() {
        let expected = "no reproduction of a shop was found: bursts of 2 to 130 buyers, 4 tries each, did not show it";
        assert_eq!(nothing("a shop", 2, 130), expected);
        assert!(nothing("a shop", 1, 1).ends_with("was found: bursts of 1 buyer, 4 tries each, did not show it"));
    }

    #[test]
    fn few_numbers_lead_from_two_buyers_to_all() {
        assert_eq!(numbers(2, 12).collect::<Vec<_>>(), [2, 3, 4, 5, 7, 9, 12]);
        assert_eq!(numbers(2, 2).collect::<Vec<_>>(), [2]);
        assert_eq!(numbers(2, 1).collect::<Vec<_>>(), [1]);
        assert!(numbers(2, 20_000).count() < 45);
        assert_eq!(numbers(101, 130).collect::<Vec<_>>(), [101, 127, 130]);
    }
}
