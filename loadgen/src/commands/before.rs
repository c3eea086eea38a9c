//! The mistakes that can be found before a server starts. No later check finds what can be found here.
//!
//! | wrong | found by |
//! |---|---|
//! | a flag, a plan, settings that contradict each other | `config` |
//! | a folder that cannot be written, or that another `loadgen` writes into | `report::files` |
//! | a port in use, a missing program, an argument that the service refuses | [`offered`] |
//! | a log of requests that cannot be written | `report::files` |
//! | too few open files for the users | [`ensure_users_fit`] |
//! | a strategy that the service does not offer | `lab::strategy` |
//! | a strategy that only one of two builds offers | [`chosen`] |
//! | hazards that can strike nothing, or strategies that none can strike | [`under_hazards`] |
//! | a comparison of nothing, a threshold that nothing can meet or measure | [`subjects`] |

use program::did_you_mean;
use stats::figures::{count, things};

use crate::config::load::at_once;
use crate::config::settings::{CompareSettings, LoadSettings};
use crate::error::Error;
use crate::judge::metrics::{Nature, SoldNeeded};
use crate::judge::thresholds::Threshold;
use crate::lab::hazard::Hazard;
use crate::lab::service_program;
use crate::lab::source::{ServiceSettings, Source};
use crate::lab::stack::{ensure_files_suffice, ensure_ports_are_free};
use crate::lab::strategy::{ExpectedFault, Strategy, select};
use crate::trial::schedule::Subject;

/// Lists the strategies that a service with these settings would offer, build by build.
pub(super) async fn offered(service: &ServiceSettings) -> Result<Vec<Strategy>, Error> {
    ensure_ports_are_free(service)?;
    listed(service).await
}

/// Lists the strategies of each program of the service.
pub(super) async fn listed(service: &ServiceSettings) -> Result<Vec<Strategy>, Error> {
    let mut strategies = Vec::new();
    for program in &service.programs {
        strategies.extend(service_program::strategies(service, program).await?);
    }
    Ok(strategies)
}

/// Chooses among the strategies that are offered. The two builds of a strategy stand side by side. If no strategy is named,
/// the headline of the first build is chosen.
pub(super) fn chosen(offered: &[Strategy], named: Option<&[String]>) -> Result<Vec<Strategy>, Error> {
    let builds: Vec<&[Strategy]> = offered.chunk_by(|one, next| one.build == next.build).collect();
    let mut known = builds.first().copied().unwrap_or_default().to_vec();
    if named.is_some() {
        let is_new = |strategy: &&Strategy| known.iter().all(|other| other.name != strategy.name);
        let new: Vec<Strategy> = offered.iter().filter(is_new).cloned().collect();
        known.extend(new);
    }
    let selected = select(&known, named)?;
    let of_build = |build: &[Strategy], name: &str| build.iter().find(|strategy| strategy.name == name).cloned();
    for build in &builds {
        let lacking = selected.iter().filter(|strategy| of_build(build, &strategy.name).is_none());
        let lacking: Vec<&str> = lacking.map(|strategy| strategy.name.as_str()).collect();
        if let (false, Some(name)) = (lacking.is_empty(), &build[0].build) {
            let lacking = lacking.join(", ");
            let remedy = "name with --strategies only what both builds offer";
            return Err(Error::Usage(format!("the build {name} does not offer {lacking}; {remedy}")));
        }
    }
    Ok(selected
        .iter()
        .flat_map(|strategy| builds.iter().filter_map(move |build| of_build(build, &strategy.name)))
        .collect())
}

/// Lets each hazard strike each strategy that it can.
pub(super) fn under_hazards(settings: &CompareSettings, strategies: Vec<Strategy>) -> Result<Vec<Strategy>, Error> {
    let hazards = &settings.load.hazards;
    if hazards.is_empty() {
        return Ok(strategies);
    }
    let refused = |why: String| Err(Error::Usage(why));
    let Source::Start(service) = &settings.source else {
        return refused(
            "hazards strike servers that this program has started; remove --hazards, or --target".to_owned(),
        );
    };
    if service.programs.len() > 1 {
        return refused("hazards are compared on one build; remove --hazards, or a --demo-service".to_owned());
    }
    if settings.load.model.is_one_shot() {
        let why = "a burst is over before a hazard can strike; give a --rate or a --duration, or remove --hazards";
        return refused(why.to_owned());
    }
    let struck_by = |hazard: Hazard| strategies.iter().any(|strategy| strategy.is_exposed_to(hazard));
    if let Some(idle) = hazards.iter().find(|hazard| !struck_by(**hazard)) {
        return refused(format!("the hazard {} can strike no strategy that is compared; remove it", idle.name()));
    }
    let mut pairs = Vec::new();
    for strategy in &strategies {
        if strategy.promise.is_of_control() {
            return refused(format!("{} sells wrongly without any hazard; remove it, or --hazards", strategy.name));
        }
        let own = hazards.iter().filter(|hazard| strategy.is_exposed_to(**hazard));
        let before = pairs.len();
        pairs.extend(own.map(|hazard| Strategy { hazard: Some(*hazard), ..strategy.clone() }));
        if pairs.len() == before {
            return refused(format!("none of these hazards can strike {}; add instance-killed", strategy.name));
        }
    }
    Ok(pairs)
}

/// Pairs every strategy with every number of users that `users-max` allows it.
pub(super) fn subjects(settings: &CompareSettings, strategies: &[Strategy]) -> Result<Vec<Subject>, Error> {
    let load = &settings.load;
    let mut subjects = Vec::new();
    for builds in strategies.chunk_by(|one, next| one.name == next.name && one.hazard == next.hazard) {
        for users in load.users.iter().filter(|users| load.allows(&builds[0].name, **users)) {
            subjects.extend(builds.iter().map(|strategy| Subject::of(strategy, *users)));
        }
    }
    if subjects.is_empty() {
        let text = "users-max of the plan or the preset leaves no strategy to compare; give fewer --users, or another \
                    users-max in the plan";
        return Err(Error::Usage(text.to_owned()));
    }
    ensure_they_have_payers(load, strategies)?;
    for threshold in &load.thresholds {
        ensure_it_can_be_checked(threshold, settings, strategies, &subjects)?;
    }
    Ok(subjects)
}

/// Makes sure that every strategy sells in two steps, if some buyers are not to pay at once.
pub(super) fn ensure_they_have_payers(load: &LoadSettings, strategies: &[Strategy]) -> Result<(), Error> {
    let others = strategies.iter().filter(|strategy| !strategy.two_steps).map(|strategy| strategy.name.as_str());
    let others = list(others);
    if load.habits.are_good() || others.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "abandon, pay-late and pay-twice are about reservations, which {others} does not have; give --strategies pg-reserve, or \
         remove them"
    )))
}

/// Makes sure that the system grants the files for the connections of all users. Users that do not begin together may share
/// some.
pub(super) fn ensure_users_fit(settings: &CompareSettings, subjects: &[Subject]) -> Result<(), Error> {
    let is_together = settings.load.model.starts_together();
    let users = subjects.iter().map(|subject| subject.users).max().filter(|_| is_together);
    ensure_files_suffice(&settings.source, at_once(&settings.load.model, users.unwrap_or(0)))
}

fn ensure_it_can_be_checked(
    threshold: &Threshold,
    settings: &CompareSettings,
    strategies: &[Strategy],
    subjects: &[Subject],
) -> Result<(), Error> {
    let of = |subject: &Subject| strategies.iter().find(|strategy| Subject::of(strategy, subject.users) == *subject);
    let named: Vec<&Subject> =
        subjects.iter().filter(|subject| threshold.is_about(&subject.strategy, subject.users)).collect();
    if named.is_empty() {
        return Err(idle(threshold, &settings.load.users, strategies.iter().map(|strategy| strategy.name.as_str())));
    }
    let instances = settings.source.instances();
    // A strategy that oversells may sell more than the stock.
    let sells_more = |strategy: &Strategy| strategy.promise.expects(instances, false) == ExpectedFault::Oversold;
    let mut has_figure = named.iter().filter_map(|subject| Some((*subject, of(subject)?))).filter(|(_, strategy)| {
        let Strategy { mechanism, permits, .. } = **strategy;
        let oversells = sells_more(strategy);
        threshold.metric().is_had_by(Nature { mechanism, permits, oversells })
    });
    let Some(first) = has_figure.next() else {
        let rule = threshold.rule();
        let names = list(named.iter().map(|subject| subject.strategy.as_str()));
        return Err(Error::Usage(format!("the threshold {rule:?} is about a figure that {names} cannot have")));
    };
    let most =
        |(subject, strategy): (&Subject, &Strategy)| sold_most(&settings.load, subject.users, sells_more(strategy));
    let fewest = std::iter::once(first).chain(has_figure).map(most).min().unwrap_or(u64::MAX);
    ensure_enough_is_sold(threshold, settings.trials, fewest, "more --stock")
}

/// Refuses a rule about a figure that needs more sold units than these trials can have. `of_trial` is the most that a trial can sell.
///
/// # Errors
///
/// [`Error::Usage`] with both numbers, and `more_stock` as a remedy.
pub(super) fn ensure_enough_is_sold(
    threshold: &Threshold,
    trials: u32,
    of_trial: u64,
    more_stock: &str,
) -> Result<(), Error> {
    let Some(needed) = threshold.metric().sold_needed() else { return Ok(()) };
    let (needed, trials, other) = match needed {
        SoldNeeded::InAll(needed) => (needed, trials, "--trials"),
        SoldNeeded::InEach(needed) => (needed, 1, "--users"),
    };
    let most = of_trial.saturating_mul(u64::from(trials));
    if most >= needed {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the threshold {:?} needs the times of {} sold units, and {} can sell {}; give {more_stock} or more {other}",
        threshold.rule(),
        count(needed),
        things(trials, "trial"),
        count(most)
    )))
}

/// Returns the most units that a trial with this number of users can sell.
fn sold_most(load: &LoadSettings, users: u32, oversells: bool) -> u64 {
    let stock = if oversells { u64::MAX } else { u64::from(load.stock) * u64::from(load.goods) };
    let of_buyer = load.model.requests_per_buyer() as u64;
    let of_buyer = load.per_buyer.map_or(of_buyer, |limit| of_buyer.min(limit.into()));
    let wanted = if load.model.is_one_shot() { u64::from(users) * of_buyer } else { u64::MAX };
    stock.min(wanted)
}

/// Explains that a threshold is about nothing that is compared.
pub(super) fn idle<'a>(threshold: &Threshold, users: &[u32], names: impl Iterator<Item = &'a str> + Clone) -> Error {
    let users: Vec<String> = users.iter().map(u32::to_string).collect();
    let meant = did_you_mean(&threshold.parts().strategies, names.clone());
    Error::Usage(format!(
        "the threshold {:?} is about nothing that is compared: {} with {} users{meant}",
        threshold.rule(),
        list(names),
        users.join(", ")
    ))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
}
