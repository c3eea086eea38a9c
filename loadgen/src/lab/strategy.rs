//! The strategies that the service lists, and the choice of those to compare.

use program::did_you_mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lab::hazard::Hazard;

/// A row of `GET /strategies`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Strategy {
    pub(crate) name: String,
    pub(crate) promise: Promise,
    pub(crate) mechanism: Mechanism,
    /// Strategies of one family exclude each other, so they may write one sale.
    pub(crate) family: String,
    pub(crate) wakes: Wakes,
    pub(crate) summary: String,
    /// When it answers a buyer. A service of an earlier version answers at the commit.
    #[serde(default)]
    pub(crate) answers: Answers,
    /// How many critical sections of one SKU may be inside at once; any number if absent.
    pub(crate) permits: Option<u32>,
    /// Whether it belongs to the headline: the strategies that are compared if none is named.
    #[serde(default, skip_serializing)]
    pub(crate) headline: bool,
    /// Whether it sells in two steps: a reservation, and its payment.
    #[serde(default, skip_serializing)]
    pub(crate) two_steps: bool,
    /// Name of the build that offers it, if two are compared.
    #[serde(skip)]
    pub(crate) build: Option<String>,
    /// The hazard that strikes it, if hazards are compared.
    #[serde(skip)]
    pub(crate) hazard: Option<Hazard>,
}

impl Strategy {
    /// Tells whether a script in Redis decides, and a stream carries the orders: it has no critical section.
    pub(crate) fn is_gate(&self) -> bool {
        self.mechanism == Mechanism::Redis && self.permits.is_none()
    }

    /// Tells whether a hazard can strike it.
    pub(crate) fn is_exposed_to(&self, hazard: Hazard) -> bool {
        match hazard {
            Hazard::InstanceKilled => true,
            Hazard::RedisKilled | Hazard::RedisRestored => self.mechanism == Mechanism::Redis,
            Hazard::DeliveredTwice | Hazard::StreamTrimmed | Hazard::OrdersRefused | Hazard::GateLoadedAgain => {
                self.is_gate()
            }
        }
    }
}

/// When a strategy answers a buyer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answers {
    /// When the order is committed.
    #[default]
    AtCommit,
    /// Before there is an order, with its number. The order is written later.
    BeforeOrder,
    /// Before there is an order, with a ticket to ask with.
    WithTicket,
}

/// What `GET /strategies` answers.
#[derive(Deserialize)]
pub(super) struct StrategyList {
    pub(super) strategies: Vec<Strategy>,
}

/// The word for all strategies in a list of names.
pub(crate) const ALL: &str = "all";

/// The promise of a strategy about the stock and the limit per buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Promise {
    /// Is expected to oversell: the control, which shows that the load can expose a broken strategy.
    Oversells,
    /// Is expected to oversell as soon as there are several instances.
    OversellsOnManyInstances,
    /// Sells exactly the stock, and is expected to sell a buyer more than the limit: the control for that limit.
    ExceedsLimit,
    /// Sells exactly the stock while Redis forgets no order. In a comparison it forgets none.
    MayPromiseWithoutOrder,
    /// Sells exactly the stock while Redis forgets no lock. In a comparison it forgets none.
    SafeWhileLockLives,
    /// Sells exactly the stock while no lock session is lost. A comparison loses none.
    SafeWhileSessionLives,
    /// Sells exactly the stock.
    NeverOversells,
}

impl Promise {
    /// Returns the promise as the service spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Promise::Oversells => "oversells",
            Promise::OversellsOnManyInstances => "oversells-on-many-instances",
            Promise::ExceedsLimit => "exceeds-limit",
            Promise::MayPromiseWithoutOrder => "may-promise-without-order",
            Promise::SafeWhileLockLives => "safe-while-lock-lives",
            Promise::SafeWhileSessionLives => "safe-while-session-lives",
            Promise::NeverOversells => "never-oversells",
        }
    }

    /// Returns what a strategy of this promise has to do wrong on `instances` instances for the load to prove anything. `tries_limit`:
    /// whether each buyer asks for more than the limit.
    pub(crate) fn expects(self, instances: usize, tries_limit: bool) -> ExpectedFault {
        match self {
            Promise::Oversells => ExpectedFault::Oversold,
            Promise::OversellsOnManyInstances if instances > 1 => ExpectedFault::Oversold,
            Promise::ExceedsLimit if tries_limit => ExpectedFault::OverLimit,
            Promise::OversellsOnManyInstances
            | Promise::ExceedsLimit
            | Promise::MayPromiseWithoutOrder
            | Promise::SafeWhileLockLives
            | Promise::SafeWhileSessionLives
            | Promise::NeverOversells => ExpectedFault::Nothing,
        }
    }

    /// Tells whether a control has this promise.
    pub(crate) fn is_of_control(self) -> bool {
        matches!(self, Promise::Oversells | Promise::OversellsOnManyInstances | Promise::ExceedsLimit)
    }
}

/// What a control has to do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedFault {
    /// Nothing: it is no control, or there is nothing to show.
    Nothing,
    /// It has to oversell.
    Oversold,
    /// It has to sell a buyer more than the limit.
    OverLimit,
}

/// The mechanism that keeps the deductions of one SKU apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mechanism {
    /// Nothing.
    None,
    /// A mutex in the memory of one instance.
    Process,
    /// A lock in ZooKeeper.
    Zookeeper,
    /// A lock in Redis.
    Redis,
    /// The database itself.
    Postgres,
}

/// The waiters that one release wakes through ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wakes {
    /// None: nobody waits in ZooKeeper.
    None,
    /// The next in line.
    One,
    /// All waiters: the herd.
    All,
}

/// Makes a strategy a part of a file name, with its build or its hazard if several are compared. The name comes from the service, so it
/// must not lead out of the folder.
pub(crate) fn as_file_name(strategy: &str, build: Option<&str>, hazard: Option<Hazard>) -> String {
    let mut name = strategy.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    for part in build.map(str::to_owned).into_iter().chain(hazard.map(Hazard::name)) {
        name += &format!(".{part}");
    }
    name
}

/// Selects the named strategies, in the service's order. If none is named, it selects the service's headline. It selects all
/// strategies for `all`, or if the service has no headline.
pub(crate) fn select(known: &[Strategy], named: Option<&[String]>) -> Result<Vec<Strategy>, Error> {
    let Some(named) = named else {
        let headline: Vec<_> = known.iter().filter(|strategy| strategy.headline).cloned().collect();
        return Ok(if headline.is_empty() { known.to_vec() } else { headline });
    };
    if named == [ALL] {
        return Ok(known.to_vec());
    }
    let names = || known.iter().map(|strategy| strategy.name.as_str()).collect::<Vec<_>>();
    if named.is_empty() {
        return Err(Error::Usage(format!("no strategy is named at all; the service knows {}", names().join(", "))));
    }
    let is_known = |name: &&String| known.iter().any(|strategy| strategy.name == **name);
    if let Some(unknown) = named.iter().find(|name| !is_known(name)) {
        let meant = did_you_mean(unknown, names());
        let known = names().join(", ");
        return Err(Error::Usage(format!("no strategy is named {unknown:?}; the service knows {known}{meant}")));
    }
    Ok(known.iter().filter(|strategy| named.contains(&strategy.name)).cloned().collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn strategy(name: &str, promise: Promise, mechanism: Mechanism, wakes: Wakes) -> Strategy {
        let permits = (mechanism == Mechanism::Zookeeper).then_some(1);
        let name = name.to_owned();
        let family = name.to_owned();
        let summary = format!("what {name} does");
        Strategy {
            name,
            promise,
            mechanism,
            family,
            wakes,
            summary,
            answers: Answers::AtCommit,
            permits,
            headline: false,
            two_steps: false,
            build: None,
            hazard: None,
        }
    }

    fn known() -> Vec<Strategy> {
        vec![
            strategy("unguarded", Promise::Oversells, Mechanism::None, Wakes::None),
            strategy("zk-mutex", Promise::SafeWhileSessionLives, Mechanism::Zookeeper, Wakes::One),
            strategy("pg-conditional", Promise::NeverOversells, Mechanism::Postgres, Wakes::None),
        ]
    }

    #[test]
    fn a_row_is_read_as_the_service_writes_it() {
        let json = concat!(
            r#"{"name":"zk-naive","promise":"safe-while-session-lives","#,
            r#""mechanism":"zookeeper","family":"zk-naive","wakes":"all","summary":"s","answers":"at-commit","permits":1}"#
        );
        let row: Strategy = serde_json::from_str(json).unwrap();
        let expected = (Promise::SafeWhileSessionLives, Mechanism::Zookeeper, "zk-naive", Wakes::All);
        assert_eq!((row.promise, row.mechanism, row.family.as_str(), row.wakes), expected);
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
    }

    #[test]
    fn a_promise_is_spelled_as_the_service_spells_it() {
        for promise in [
            Promise::Oversells,
            Promise::OversellsOnManyInstances,
            Promise::MayPromiseWithoutOrder,
            Promise::SafeWhileLockLives,
            Promise::SafeWhileSessionLives,
            Promise::NeverOversells,
        ] {
            assert_eq!(serde_json::to_value(promise).unwrap(), promise.as_str());
        }
    }

    #[test]
    fn the_headline_is_compared_when_none_is_named() {
        let mut known = known();
        assert_eq!(select(&known, None).unwrap(), known, "without a headline, all");
        known[1].headline = true;
        assert_eq!(select(&known, None).unwrap(), known[1..2]);
        assert_eq!(select(&known, Some(&["all".to_owned()])).unwrap(), known);
    }

    #[test]
    fn named_strategies_keep_the_order_of_the_service() {
        let named = ["pg-conditional".to_owned(), "unguarded".to_owned(), "pg-conditional".to_owned()];
        let names: Vec<String> = select(&known(), Some(&named)).unwrap().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["unguarded", "pg-conditional"]);
    }

    #[test]
    fn an_unknown_strategy_is_refused_with_the_list_of_the_known() {
        let refused = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            select(&known(), Some(&names)).unwrap_err().to_string()
        };
        let known = "the service knows unguarded, zk-mutex, pg-conditional";
        assert_eq!(refused(&["zk-nope"]), format!("no strategy is named \"zk-nope\"; {known}"));
        let meant = format!("no strategy is named \"zk-mutx\"; {known}; did you mean zk-mutex?");
        assert_eq!(refused(&["unguarded", "zk-mutx"]), meant);
        assert_eq!(refused(&[]), format!("no strategy is named at all; {known}"));
    }
}
