//! The recipe of the lock that COMMAND runs under. The parsing is pure.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use zk_recipes::{
    AnyLock, CohortMutex, Error, HandoffMutex, LeaderLatch, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex,
    Session,
};

/// The values of `--recipe`.
pub(crate) const KNOWN: &str = "mutex, handoff, cohort, read, write, semaphore-mutex, semaphore=N, naive, leader";

/// A recipe, as `--recipe` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    Handoff,
    Cohort,
    Read,
    Write,
    SemaphoreMutex,
    Semaphore { permits: NonZeroU32 },
    Naive,
    Leader,
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mutex" => Ok(Self::Mutex),
            "handoff" => Ok(Self::Handoff),
            "cohort" => Ok(Self::Cohort),
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "semaphore-mutex" => Ok(Self::SemaphoreMutex),
            "naive" => Ok(Self::Naive),
            "leader" => Ok(Self::Leader),
            _ => match text.strip_prefix("semaphore=").map(str::parse) {
                Some(Ok(permits)) => Ok(Self::Semaphore { permits }),
                Some(Err(_)) => Err("give the number of permits, from 1 on, as in semaphore=4".to_owned()),
                None => Err(format!("no such recipe; known are {KNOWN}")),
            },
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("mutex"),
            Self::Handoff => f.write_str("handoff"),
            Self::Cohort => f.write_str("cohort"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::SemaphoreMutex => f.write_str("semaphore-mutex"),
            Self::Semaphore { permits } => write!(f, "semaphore={permits}"),
            Self::Naive => f.write_str("naive"),
            Self::Leader => f.write_str("leader"),
        }
    }
}

impl Recipe {
    /// Returns the number of permits on which all contenders must agree. `None` for locks without permits.
    pub(crate) fn permits(self) -> Option<NonZeroU32> {
        match self {
            Self::Semaphore { permits } => Some(permits),
            Self::SemaphoreMutex => Some(NonZeroU32::MIN),
            _ => None,
        }
    }

    /// Makes the lock of this recipe at `path`. Its nodes have `node_data`, if the recipe leaves room for it.
    pub(crate) fn lock(self, session: &Session, path: &str, node_data: String) -> Result<AnyLock, Error> {
        Ok(match self {
            Self::Mutex => Mutex::new(session, path)?.with_node_data(node_data)?.into(),
            Self::Handoff => HandoffMutex::new(session, path)?.with_node_data(node_data)?.into(),
            Self::Cohort => CohortMutex::from(Mutex::new(session, path)?.with_node_data(node_data)?).into(),
            Self::Read => RwLock::new(session, path)?.with_node_data(node_data)?.read_lock().into(),
            Self::Write => RwLock::new(session, path)?.with_node_data(node_data)?.write_lock().into(),
            Self::SemaphoreMutex => SemaphoreMutex::new(session, path)?.with_node_data(node_data)?.into(),
            Self::Semaphore { permits } => {
                Semaphore::new(session, path, permits.get())?.with_node_data(node_data)?.into()
            }
            Self::Naive => NaiveLock::new(session, path)?.into(),
            Self::Leader => LeaderLatch::new(session, path)?.with_id(node_data)?.into(),
        })
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_recipe_is_read_and_written_alike() {
        for name in KNOWN.replace("=N", "=7").split(", ") {
            assert_eq!(name.parse::<Recipe>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_semaphore_has_at_least_one_permit() {
        assert_eq!("semaphore=1".parse(), Ok(Recipe::Semaphore { permits: NonZeroU32::MIN }));
        assert_eq!("semaphore=4294967295".parse(), Ok(Recipe::Semaphore { permits: NonZeroU32::MAX }));
        for text in ["semaphore=0", "semaphore=", "semaphore=-1", "semaphore=4294967296", "semaphore=two"] {
            let error = text.parse::<Recipe>().unwrap_err();
            assert_eq!(error, "give the number of permits, from 1 on, as in semaphore=4", "{text:?}");
        }
    }

    #[test]
    fn an_unknown_recipe_is_answered_with_the_known_ones() {
        for text in ["", "Mutex", "mutex ", "semaphore", "hand-off"] {
            assert_eq!(text.parse::<Recipe>().unwrap_err(), format!("no such recipe; known are {KNOWN}"), "{text:?}");
        }
    }
}
